//! `bpf-host check` says in plain words what is there and what is not.

use std::process::Output;

use testnet::{Host, Net};

use crate::cluster::xdp_link;

const PROGRAM: &str = env!("CARGO_BIN_EXE_bpf-host");

fn check(host: &Host, before: &[&str], interface: &str) -> (Output, String) {
    let mut words = before.iter().copied().chain([PROGRAM, "check", interface]);
    let mut check = host.command(words.next().expect("a program"));
    let output = check.args(words).output().expect("it starts");
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8(said).expect("text");
    (output, said)
}

fn host(prefix: &str) -> (Net, Host) {
    let mut net = Net::new(prefix).expect("a network");
    let host = net.add_host("agg", xdp_link(1500)).expect("a host");
    (net, host)
}

#[test]
#[ignore = "needs root"]
fn netns_a_veth_is_found_fit() {
    let (_net, host) = host("trib-xdp-fit");
    let (output, said) = check(&host, &[], "eth0");
    assert!(output.status.success(), "{said}");
    for words in [
        "driver veth",
        "native mode works",
        "chunks of 352 lanes fit",
        "gro on",
    ] {
        assert!(said.contains(words), "{words:?} is not said: {said}");
    }
}

/// Each with a line of its own that begins with NO.
#[test]
#[ignore = "needs root"]
fn netns_what_is_not_fit_is_said_why() {
    let (_net, host) = host("trib-xdp-unfit");
    let without = ["setpriv", "--inh-caps=-all", "--bounding-set=-all"];
    let cases: [(&[&str], &str, &str); 3] = [
        (&[], "lo", "no Ethernet interface"),
        (&[], "eth7", "interface eth7 cannot be used"),
        (&without, "eth0", "run as root"),
    ];
    for (before, interface, words) in cases {
        let (output, said) = check(&host, before, interface);
        assert!(!output.status.success(), "{interface}: {said}");
        let no = said
            .lines()
            .find(|line| line.starts_with("NO ") && line.contains(words));
        assert!(no.is_some(), "{interface}: {words:?} is not said: {said}");
        assert!(said.contains("it cannot run at"), "{interface}: {said}");
    }
}
