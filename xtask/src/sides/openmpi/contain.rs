//! Programs that end with all that they started.

use std::process::Command;

use testnet::Host;

/// A command on a host whose program and arguments are added to it.
///
/// Killing it kills all that the program has started, on whatever host and in whatever session: it is the first process of a
/// process namespace, and they are in that. The namespace also has the host's name, by which Open MPI tells hosts apart.
pub(super) fn contained(host: &Host) -> Command {
    let mut command = host.command("unshare");
    command.args(["--uts", "--pid", "--fork", "--kill-child", "sh", "-c"]);
    command.args([r#"hostname "$0" && "$@"; exit $?"#, host.namespace()]);
    command
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::{Duration, Instant};

    use testnet::{Link, Net};

    use super::contained;
    use crate::running::start;

    fn processes(namespace: &str) -> usize {
        let mut pids = Command::new("ip");
        pids.args(["netns", "pids", namespace]).stdin(Stdio::null());
        let output = pids.output().unwrap();
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stdout).lines().count()
    }

    fn wait_until(what: &str, holds: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < deadline, "not after 60 s: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    #[ignore = "needs root"]
    fn netns_what_a_program_started_ends_with_it_also_on_other_hosts() {
        let mut net = Net::new("trib-contain").unwrap();
        let [here, other] = ["r0", "r1"].map(|name| net.add_host(name, Link::default()).unwrap());
        let script = format!(
            "setsid sleep 600 & setsid ip netns exec {} sleep 600 & exec sleep 600",
            other.namespace()
        );
        let mut command = contained(&here);
        command.args(["sh", "-c", &script]);
        let running = start(command).unwrap();
        wait_until("all have started", || {
            processes(here.namespace()) >= 3 && processes(other.namespace()) == 1
        });
        drop(running);
        wait_until("all have ended", || {
            processes(here.namespace()) + processes(other.namespace()) == 0
        });
    }
}
