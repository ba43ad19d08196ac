//! Deletes namespaces, also those that a crash left behind.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

use crate::{Error, iproute};

/// Deletes what begins with `prefix` and was made by a process that is gone.
pub(crate) fn cleanup(prefix: &str) -> Result<Vec<String>, Error> {
    let listing = iproute::ip("netns list")?;
    let mut deleted = Vec::new();
    // A line is a name, and for some an id behind it.
    for namespace in listing.lines().filter_map(|line| line.split_whitespace().next()) {
        let stale = namespace.starts_with(prefix) && maker(namespace).is_some_and(|process| !runs(process));
        if stale {
            delete(namespace)?;
            deleted.push(namespace.to_owned());
        }
    }
    Ok(deleted)
}

/// Kills what runs inside a namespace and deletes it.
pub(crate) fn delete(namespace: &str) -> Result<(), Error> {
    let processes = iproute::ip(&format!("netns pids {namespace}"))?;
    for process in processes.lines().filter_map(|line| line.trim().parse().ok()) {
        // Our own threads may have entered the namespace; a process that ended meanwhile is no failure.
        if let Some(pid) = Pid::from_raw(process).filter(|_| process as u32 != std::process::id()) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
    iproute::ip(&format!("netns delete {namespace}")).map(drop)
}

/// The process that made a namespace: the third part from the end of `<prefix>-<process>-<serial>-<host>`.
///
/// A host's name may hold `-` too, so the first two numbers in a row are taken.
fn maker(namespace: &str) -> Option<u32> {
    let parts: Vec<&str> = namespace.split('-').collect();
    parts.windows(2).find_map(|pair| {
        let process = pair[0].parse().ok()?;
        pair[1].parse::<u32>().ok().map(|_serial| process)
    })
}

/// Whether a process is alive; a zombie is not.
fn runs(process: u32) -> bool {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    status
        .lines()
        .any(|line| line.starts_with("State:") && !line.contains("zombie"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespaces_name_tells_its_maker() {
        assert_eq!(maker("trib-demo-4711-0-w0"), Some(4711));
        assert_eq!(maker("trib-4711-12-worker-3"), Some(4711));
        assert_eq!(maker("trib-demo"), None);
    }

    #[test]
    fn this_process_runs_and_none_has_the_number_zero() {
        assert!(runs(std::process::id()));
        assert!(!runs(0));
    }
}
