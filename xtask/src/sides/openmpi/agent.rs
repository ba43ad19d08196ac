//! What Open MPI's launcher starts its daemons by, instead of ssh.

use std::fmt::Write;

use testnet::Host;

/// A shell script: its first argument is a host's address, the others are a command line to run there.
///
/// The command has the host's name, by which Open MPI tells hosts apart.
pub(super) fn script(hosts: &[Host]) -> String {
    let mut cases = String::new();
    for host in hosts {
        // Into a string nothing fails.
        let _ = writeln!(cases, "{}) host={} ;;", host.address(), host.namespace());
    }
    format!(
        r#"address=$1
shift
case "$address" in
{cases}*) echo "no host has the address $address" >&2; exit 1 ;;
esac
exec ip netns exec "$host" unshare --uts sh -c "hostname $host && $*"
"#
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use testnet::{Link, Net};

    use super::script;
    use crate::running::one;

    fn agent(script: &str, address: &str, line: &str) -> Result<String, String> {
        let mut command = Command::new("sh");
        command
            .args(["-c", script, "agent", address])
            .args(line.split(' '));
        one(command).map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    }

    #[test]
    fn an_address_that_no_host_has_is_an_error() {
        let error = agent(&script(&[]), "10.77.0.9", "true").unwrap_err();
        assert!(error.contains("no host has the address 10.77.0.9"), "{error}");
    }

    #[test]
    #[ignore = "needs root"]
    fn netns_a_command_line_runs_on_the_host_that_has_the_address() {
        let mut net = Net::new("trib-agent").unwrap();
        let hosts = ["r0", "r1"].map(|name| net.add_host(name, Link::default()).unwrap());
        let script = script(&hosts);
        for host in &hosts {
            let address = host.address().to_string();
            let said = agent(&script, &address, r#"hostname ; ip -o address ; echo "a b""#).unwrap();
            assert!(said.starts_with(host.namespace()), "{said}");
            assert!(said.contains(&format!(" {address}/24 ")), "{said}");
            assert!(said.ends_with("\na b\n"), "{said}");
        }
    }
}
