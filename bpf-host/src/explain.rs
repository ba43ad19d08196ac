//! The kernel's errors in one line, with what to do.

use std::error::Error;
use std::io;

use aya::EbpfError;
use aya::programs::ProgramError;
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::Mode;
use crate::neighbours::Interface;

/// Largest MTU of a veth device in native mode: with it a packet, its head room and the kernel's notes fill a page of 4 KiB
/// (`veth_xdp_set` of drivers/net/veth.c).
pub(crate) const VETH_NATIVE_MTU: u32 = 3506;

/// An error and its causes on one line.
pub(crate) fn one_line(error: &dyn Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !line.contains(&more) {
            line = format!("{line}: {more}");
        }
        cause = error.source();
    }
    line.replace(char::is_control, " ")
}

/// What the system said, if that is among an error's causes.
fn system(error: &(dyn Error + 'static)) -> Option<i32> {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if let Some(code) = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return Some(code);
        }
        cause = error.source();
    }
    None
}

/// Why the object, or a program of it, is not loaded.
pub(crate) fn loading<E: Error + 'static>(error: &E) -> String {
    let error: &(dyn Error + 'static) = error;
    let what = verdict(error).unwrap_or_else(|| one_line(error));
    let advice = match system(error) {
        Some(libc::EPERM | libc::EACCES) if verdict(error).is_none() => {
            ": run as root, or with the capabilities CAP_BPF and CAP_NET_ADMIN"
        }
        Some(libc::ENOMEM) => ": give less with --memory",
        Some(libc::ENOSYS) => ": this kernel has no eBPF",
        _ => "",
    };
    format!("{what}{advice}")
}

/// The last word of the kernel's verifier, where it has spoken.
fn verdict(error: &(dyn Error + 'static)) -> Option<String> {
    let error = match error.downcast_ref::<EbpfError>() {
        Some(EbpfError::ProgramError(error)) => error,
        _ => error.downcast_ref::<ProgramError>()?,
    };
    let ProgramError::LoadError {
        io_error,
        verifier_log,
    } = error
    else {
        return None;
    };
    let log = verifier_log.to_string();
    let last = last_words(&log)?;
    Some(format!("{io_error}, since {last}"))
}

/// The last line of a verifier's log that is not about its effort.
fn last_words(log: &str) -> Option<String> {
    let about_effort = ["processed ", "verification time ", "stack depth "];
    let lines = log.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut spoken = lines.filter(|line| !about_effort.iter().any(|start| line.starts_with(start)));
    Some(spoken.next_back()?.replace(char::is_control, " "))
}

/// Why the program does not get to an interface.
pub(crate) fn attaching(error: &ProgramError, interface: &Interface, mode: Mode) -> String {
    let (name, mtu, driver) = (&interface.name, interface.mtu, &interface.driver);
    let native = mode != Mode::Generic;
    match system(error) {
        Some(libc::EBUSY | libc::EEXIST) => {
            format!(
                "another XDP program is there already: stop what put it there (another bpf-host?), or, if that has ended, \
                 `ip link set dev {name} xdp off`"
            )
        }
        Some(libc::EOPNOTSUPP) if native => {
            format!("its driver ({driver}) has no native XDP, or none with these settings: use generic mode")
        }
        Some(libc::ERANGE | libc::EINVAL) if native && driver == "veth" => format!(
            "its MTU or its peer's is too large ({mtu} here; native mode takes {VETH_NATIVE_MTU}): lower both, or use \
             generic mode"
        ),
        Some(libc::ERANGE | libc::EINVAL) if native => {
            format!(
                "its driver ({driver}) refuses, as many do where the MTU ({mtu}) does not fit a page: lower it, or use generic mode"
            )
        }
        Some(libc::EPERM) => "run as root, or with the capabilities CAP_BPF and CAP_NET_ADMIN".to_owned(),
        _ => one_line(error),
    }
}

/// What the other end of a virtual wire must do, which cannot be seen from this end; `None`: nothing.
pub(crate) fn advice(interface: &Interface, mode: Mode) -> Option<String> {
    if interface.driver != "veth" {
        return None;
    }
    Some(match mode {
        // drivers/net/veth.c: veth_xdp_xmit drops what nobody polls for, and counts it as sent.
        Mode::Native | Mode::Auto => format!(
            "a veth's peer must poll for what is sent, or all of it is lost without a word: turn GRO on there (`ethtool -K PEER \
             gro on`), or give it any XDP program; the MTU of both can be up to {VETH_NATIVE_MTU}"
        ),
        // Nothing cuts trains of packets into frames on a wire that is none; native mode turns them off by itself.
        Mode::Generic => "a veth's peer, and ranks on this machine behind it, must send single frames, not trains that the \
                          device would cut, or they are dropped for their length: `ethtool -K PEER tx-udp-segmentation off`"
            .to_owned(),
    })
}

/// Kernels before 5.11 count maps as locked memory, of which a process may have little.
pub(crate) fn lift_memory_limit() {
    let all = Rlimit {
        current: None,
        maximum: None,
    };
    // Where it is refused and needed, the kernel refuses the maps next, and that is said.
    let _ = setrlimit(Resource::Memlock, all);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifier_is_quoted_with_its_last_word() {
        let log = "0: (b7) r0 = 1\nR1 invalid mem access 'scalar'\nverification time 5 usec\nstack depth 0\nprocessed 3 insns (limit 1000000)\n";
        assert_eq!(last_words(log).as_deref(), Some("R1 invalid mem access 'scalar'"));
        assert_eq!(last_words(" \n"), None);
    }

    #[test]
    fn causes_are_said_once_and_on_one_line() {
        #[derive(Debug, thiserror::Error)]
        #[error("a map\nfailed")]
        struct Outer(#[source] io::Error);
        let error = Outer(io::Error::from_raw_os_error(libc::EPERM));
        assert_eq!(
            one_line(&error),
            "a map failed: Operation not permitted (os error 1)"
        );
        assert!(loading(&error).ends_with("CAP_BPF and CAP_NET_ADMIN"));
    }
}
