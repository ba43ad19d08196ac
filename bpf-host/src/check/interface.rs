//! What an interface can do.

use std::net::Ipv4Addr;

use bpf_layout::{LANES, mtu};

use crate::explain;
use crate::load::{Programs, load};
use crate::memory::Memory;
use crate::neighbours::Interface;
use crate::{HostError, Mode};
use agg_core::Epoch;
use agg_host::Finding;

/// Slot memory for the trial: the least that there is.
const TRIAL_BYTES: u64 = 1 << 20;

/// A port for the trial that no packet comes to.
const TRIAL_PORT: u16 = 0;

pub(super) fn about(interface: &Interface) -> Finding {
    let driver = match interface.driver.as_str() {
        "" => "a driver that does not say its name",
        driver => driver,
    };
    Finding::good(format!(
        "interface {}: up, driver {driver}, MTU {}",
        interface.name, interface.mtu
    ))
}

/// Which chunk sizes fit.
pub(super) fn chunks(has: u32) -> Vec<Finding> {
    let fits = |lanes: usize| mtu(lanes) <= has as usize;
    LANES
        .map(|lanes| match (fits(lanes), lanes == LANES[0]) {
            (true, _) => Finding::good(format!(
                "chunks of {lanes} lanes fit: they need an MTU of {}",
                mtu(lanes)
            )),
            (false, false) => Finding::note(format!(
                "chunks of {lanes} lanes do not fit: raise the MTU to {} at all ranks, switches and here",
                mtu(lanes)
            )),
            (false, true) => Finding::bad(format!(
                "not even chunks of {lanes} lanes fit: raise the MTU to {} at least",
                mtu(lanes)
            )),
        })
        .to_vec()
}

/// Loads the program, and attaches it in either mode.
pub(super) fn attach(interface: &Interface) -> Vec<Finding> {
    let memory = Memory::of(TRIAL_BYTES);
    let mut programs = match load(&memory, Ipv4Addr::UNSPECIFIED, TRIAL_PORT, Epoch(0), false) {
        Ok((programs, _)) => programs,
        Err(error) => return vec![Finding::bad(error.to_string())],
    };
    let mut findings = vec![Finding::good("the kernel loads the program")];
    let native = try_mode(&mut programs, interface, Mode::Native);
    let generic = try_mode(&mut programs, interface, Mode::Generic);
    findings.extend(modes(interface, &native, &generic));
    findings
}

/// Attaches and detaches.
fn try_mode(programs: &mut Programs, interface: &Interface, mode: Mode) -> Result<(), String> {
    match programs.attach(interface, mode) {
        Ok(_attachment) => Ok(()),
        Err(HostError::Attach { reason, .. }) => Err(reason),
        Err(other) => Err(other.to_string()),
    }
}

/// What came of trying both modes.
fn modes(interface: &Interface, native: &Result<(), String>, generic: &Result<(), String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    match (native, generic) {
        (Ok(()), _) => {
            findings.push(Finding::good(
                "native mode works: the program runs in the driver (--mode native)",
            ));
        }
        (Err(reason), Ok(())) => findings.push(Finding::note(format!("native mode does not work: {reason}"))),
        (Err(reason), Err(_)) => findings.push(Finding::bad(format!("native mode does not work: {reason}"))),
    }
    match (generic, native) {
        (Ok(()), Ok(())) => {}
        (Ok(()), Err(_)) => findings.push(Finding::good(
            "generic mode works, slower (--mode generic, or auto)",
        )),
        (Err(reason), Ok(())) => {
            findings.push(Finding::note(format!("generic mode does not work: {reason}")))
        }
        (Err(reason), Err(_)) => findings.push(Finding::bad(format!("generic mode does not work: {reason}"))),
    }
    let works = [(native, Mode::Native), (generic, Mode::Generic)];
    let advice = works.into_iter().filter(|(tried, _)| tried.is_ok());
    findings.extend(advice.filter_map(|(_, mode)| {
        let advice = explain::advice(interface, mode)?;
        Some(Finding::note(format!("in {mode} mode {advice}")))
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn chunk_sizes_are_those_that_the_mtu_carries() {
        let marks = |has| {
            let marks = chunks(has)
                .into_iter()
                .map(|finding| finding.to_string()[..4].trim().to_owned());
            marks.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(marks(9000), "ok ok ok");
        assert_eq!(marks(3476), "ok ok ok");
        assert_eq!(marks(3475), "ok ok note");
        assert_eq!(marks(1500), "ok ok note");
        assert_eq!(marks(1491), "ok note note");
        assert_eq!(marks(1107), "NO note note");
        assert_eq!(
            lines(&chunks(1500))[2],
            "note  chunks of 848 lanes do not fit: raise the MTU to 3476 at all ranks, switches and here"
        );
    }

    #[test]
    fn one_mode_that_works_is_enough() {
        let interface = Interface {
            name: "eth0".to_owned(),
            index: 2,
            mac: Some([2; 6]),
            mtu: 1500,
            up: true,
            driver: "veth".to_owned(),
            ring: 256,
        };
        let marks = |native: Result<(), &str>, generic: Result<(), &str>| {
            let findings = modes(
                &interface,
                &native.map_err(str::to_owned),
                &generic.map_err(str::to_owned),
            );
            let marks = lines(&findings)
                .into_iter()
                .map(|line| line[..4].trim().to_owned());
            marks.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(marks(Ok(()), Ok(())), "ok note note", "what a veth needs");
        assert_eq!(marks(Err("a"), Ok(())), "note ok note");
        assert_eq!(marks(Err("a"), Err("b")), "NO NO");
    }
}
