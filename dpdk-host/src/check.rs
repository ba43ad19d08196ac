//! `dpdk-host check`: what this machine has and lacks, in plain words.

use std::fmt;
use std::fs;
use std::path::Path;

use agg_host::{Finding, Findings};

use crate::dpdk::{Device, DpdkError, Eal, PortInfo};
use crate::{HostConfig, lcore};

/// All that was looked at; shown, a line a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report(Findings);

impl Report {
    /// Whether the host can run.
    ///
    /// # Errors
    /// It cannot: how many findings say so.
    pub fn verdict(&self) -> Result<(), String> {
        let bad = self.0.bad();
        if bad == 0 {
            return Ok(());
        }
        Err(format!(
            "dpdk-host cannot serve here: see the {bad} marked NO above"
        ))
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Looks at this machine, and starts DPDK with these arguments; with settings also whether they have the ports and cores that they
/// name. Not in a process that serves.
pub fn check(eal: &[String], settings: Option<&HostConfig>) -> Report {
    let mut findings = vec![
        Finding::good(Eal::version()),
        huge_pages(Path::new("/sys/kernel/mm/hugepages")),
        vfio(Path::new("/dev/vfio/vfio")),
    ];
    match Eal::start(eal) {
        Ok(eal) => {
            findings.push(Finding::good("DPDK starts with these arguments"));
            findings.extend(ports(&eal));
            findings.extend(settings.into_iter().flat_map(|settings| lacks(&eal, settings)));
        }
        Err(error) => findings.push(Finding::bad(error.to_string())),
    }
    Report(Findings(findings))
}

/// What is reserved, in a folder like `/sys/kernel/mm/hugepages`.
fn huge_pages(folder: &Path) -> Finding {
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let sizes = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<String> = sizes
        .filter_map(|size| {
            let free = number(&size.path().join("free_hugepages")).filter(|free| *free > 0)?;
            let name = size.file_name().into_string().ok()?;
            Some(format!("{free} of {}", name.strip_prefix("hugepages-")?))
        })
        .collect();
    found.sort();
    if found.is_empty() {
        return Finding::note(
            "no huge pages are free: network cards need them (`echo 512 > \
             /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages` as root); virtual devices work with --no-huge",
        );
    }
    Finding::good(format!("huge pages are free: {}", found.join(", ")))
}

/// Whether network cards can be handed to a process, by `/dev/vfio/vfio`.
fn vfio(device: &Path) -> Finding {
    if device.exists() {
        return Finding::good("VFIO is loaded: network cards can be bound to vfio-pci");
    }
    Finding::note(
        "VFIO is not loaded: `modprobe vfio-pci`, with an IOMMU switched on in the firmware; Mellanox cards and virtual \
         devices need neither",
    )
}

fn ports(eal: &Eal) -> Vec<Finding> {
    let names = Device::names(eal);
    if names.is_empty() {
        return vec![Finding::bad(DpdkError::NoPort.to_string())];
    }
    let describe = |name: &String| match Device::find(eal, name).and_then(|device| device.info()) {
        Ok(info) => Finding::good(port(name, &info)),
        Err(error) => Finding::bad(error.to_string()),
    };
    names.iter().map(describe).collect()
}

/// What settings ask for and DPDK does not have.
fn lacks(eal: &Eal, settings: &HostConfig) -> Vec<Finding> {
    let cores = lcore::workers(eal, settings).err();
    let ports = if Device::names(eal).is_empty() {
        // That has been said.
        None
    } else {
        lcore::devices(eal, &settings.ports).err()
    };
    let errors = cores.into_iter().chain(ports);
    errors.map(|error| Finding::bad(error.to_string())).collect()
}

fn port(name: &str, info: &PortInfo) -> String {
    let mac = info.mac.map(|byte| format!("{byte:02x}")).join(":");
    let node = info
        .node
        .map_or("any NUMA node".to_owned(), |node| format!("NUMA node {node}"));
    let checksums = if info.has_checksums {
        "it writes checksums"
    } else {
        "UDP goes without checksums"
    };
    format!(
        "port {name}: {}, {mac}, MTU {}, {} queues, {node}, {checksums}",
        info.driver, info.mtu, info.max_queues
    )
}

#[cfg(test)]
mod tests {
    use agg_host::Weight;

    use super::*;

    #[test]
    fn what_is_missing_is_said_with_what_to_do() {
        let folder = std::env::temp_dir().join(format!("trib-dpdk-check-{}", std::process::id()));
        assert_eq!(huge_pages(&folder).weight, Weight::Note);
        let pages = folder.join("hugepages-2048kB");
        fs::create_dir_all(&pages).unwrap();
        for (free, weight) in [("0\n", Weight::Note), ("512\n", Weight::Good)] {
            fs::write(pages.join("free_hugepages"), free).unwrap();
            assert_eq!(huge_pages(&folder).weight, weight);
        }
        assert_eq!(huge_pages(&folder).text, "huge pages are free: 512 of 2048kB");
        assert_eq!(vfio(&folder).weight, Weight::Good);
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(vfio(&folder).weight, Weight::Note);
    }

    #[test]
    fn one_no_is_enough() {
        let (good, note, bad) = (Finding::good("text"), Finding::note("text"), Finding::bad("text"));
        assert!(Report(Findings(vec![good, note.clone()])).verdict().is_ok());
        let report = Report(Findings(vec![note, bad]));
        assert_eq!(report.to_string(), "note  text\nNO    text");
        assert!(report.verdict().unwrap_err().contains("the 1 marked NO"));
    }
}
