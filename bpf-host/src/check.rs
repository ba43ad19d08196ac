//! `bpf-host check`: what this machine and an interface support, in plain words.

mod interface;
mod machine;

use std::fmt;

use agg_host::{Finding, Findings};

use crate::host;
use crate::neighbours::Interface;

/// All that was looked at; shown, a line a finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    interface: String,
    /// In the order in which they were looked at.
    pub findings: Findings,
}

impl Report {
    /// Whether the host can run there.
    ///
    /// # Errors
    /// It cannot: how many findings say so.
    pub fn verdict(&self) -> Result<(), String> {
        match self.findings.bad() {
            0 => Ok(()),
            1 => Err(format!(
                "it cannot run at {}: see the line marked NO",
                self.interface
            )),
            bad => Err(format!(
                "it cannot run at {}: see the {bad} lines marked NO",
                self.interface
            )),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.findings.fmt(f)
    }
}

/// Looks at this machine and an interface; loads, attaches and detaches the program where it can.
pub fn check(name: &str) -> Report {
    let mut findings = machine::findings();
    match host::interface(name) {
        Ok(found) => findings.extend(at(&found)),
        Err(error) => findings.push(Finding::bad(error.to_string())),
    }
    Report {
        interface: name.to_owned(),
        findings: Findings(findings),
    }
}

fn at(found: &Interface) -> Vec<Finding> {
    let mut findings = vec![interface::about(found)];
    findings.extend(interface::chunks(found.mtu));
    findings.extend(interface::attach(found));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_bad_finding_is_enough() {
        let report = |findings: &[Finding]| Report {
            interface: "eth0".to_owned(),
            findings: Findings(findings.to_vec()),
        };
        let (good, note, bad) = (Finding::good("a"), Finding::note("b"), Finding::bad("c"));
        assert_eq!(report(&[good.clone(), note.clone()]).verdict(), Ok(()));
        let report = report(&[good, bad, note]);
        assert_eq!(
            report.verdict().unwrap_err(),
            "it cannot run at eth0: see the line marked NO"
        );
        assert_eq!(report.to_string(), "ok    a\nNO    c\nnote  b");
    }

    #[test]
    fn an_interface_that_is_not_there_is_said_so() {
        let report = check("no-such-if");
        assert!(report.verdict().is_err());
        assert!(report.to_string().contains("interface no-such-if cannot be used"));
    }
}
