//! Networks of namespaces really carry packets, at the rate and MTU asked for, and leave nothing behind.

use std::process::{Command, Stdio};

use testnet::{Link, Net};

fn namespaces() -> String {
    let output = Command::new("ip")
        .args(["netns", "list"])
        .output()
        .expect("ip runs");
    String::from_utf8(output.stdout).expect("names are ASCII")
}

/// Sends one datagram of `bytes` bytes from one host to another; bash is on every Debian, ping is not.
fn send(from: &testnet::Host, to: &testnet::Host, bytes: usize) {
    let script = format!(
        "head -c {bytes} /dev/zero | dd bs={bytes} iflag=fullblock status=none > /dev/udp/{}/9",
        to.address()
    );
    let status = from
        .command("bash")
        .args(["-c", &script])
        .status()
        .expect("bash runs");
    assert!(
        status.success(),
        "sending {bytes} bytes to {}: {status}",
        to.address()
    );
}

#[test]
#[ignore = "needs root"]
fn netns_hosts_reach_each_other_and_count_bytes() {
    let mut net = Net::new("trib-count").expect("a network");
    let a = net.add_host("a", Link::default()).expect("host a");
    let b = net.add_host("b", Link::with_rate("1gbit")).expect("host b");
    assert_eq!(b.address().to_string(), "10.77.0.2");
    let queue = b
        .command("tc")
        .args(["qdisc", "show", "dev", "eth0"])
        .output()
        .expect("tc runs");
    assert!(
        String::from_utf8_lossy(&queue.stdout).contains("tbf"),
        "{queue:?}"
    );

    let before = b.counters().expect("counters");
    send(&a, &b, 1400);
    // The first packet waits for ARP in the kernel.
    let arrived = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        b.counters().expect("counters").rx_bytes >= before.rx_bytes + 1400
    });
    assert!(arrived, "1400 bytes sent, {before:?} became {:?}", b.counters());
}

#[test]
#[ignore = "needs root"]
fn netns_what_is_below_a_switch_shares_its_link() {
    let mut net = Net::new("trib-rack").expect("a network");
    let root = net.add_host("root", Link::default()).expect("the root");
    let rack = net
        .add_switch("rack", Link::with_rate("100mbit"))
        .expect("a switch");
    let below = net
        .add_switch_at(&rack, "below", Link::default())
        .expect("a switch");
    let hosts = [(&rack, "w0"), (&below, "w1")]
        .map(|(switch, name)| net.add_host_at(switch, name, Link::default()).expect("a host"));
    let sent = |switch: &testnet::Switch| switch.counters().expect("counters").tx_bytes;
    let before = [sent(&rack), sent(&below)];
    for (from, to) in [
        (&hosts[0], &root),
        (&hosts[1], &root),
        (&hosts[0], &rack),
        (&hosts[1], &hosts[0]),
    ] {
        send(from, to, 1400);
    }
    // Two of the four went up from the rack, two from the switch below.
    let carried = || [sent(&rack) - before[0], sent(&below) - before[1]].map(|bytes| bytes / 1400);
    let arrived = (0..100).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        carried() == [2, 2]
    });
    assert!(arrived, "{:?}", carried());
}

#[test]
#[ignore = "needs root"]
fn netns_link_takes_its_mtu() {
    let mut net = Net::new("trib-mtu").expect("a network");
    for (name, mtu) in [("small", 1500), ("jumbo", 9000)] {
        let host = net
            .add_host(
                name,
                Link {
                    mtu,
                    ..Link::default()
                },
            )
            .expect("a host");
        let read = host
            .command("cat")
            .arg("/sys/class/net/eth0/mtu")
            .output()
            .expect("cat runs");
        assert_eq!(String::from_utf8_lossy(&read.stdout).trim(), mtu.to_string());
    }
}

#[test]
#[ignore = "needs root"]
fn netns_drop_ends_processes_and_deletes_namespaces() {
    let mut net = Net::new("trib-drop").expect("a network");
    let host = net.add_host("a", Link::default()).expect("a host");
    let mut sleeper = host.command("sleep").arg("600").spawn().expect("sleep runs");
    // Wait until `ip netns exec` has entered the namespace.
    let entered = || {
        let pids = Command::new("ip")
            .args(["netns", "pids", host.namespace()])
            .output()
            .expect("ip runs");
        !pids.stdout.is_empty()
    };
    while !entered() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    drop(net);
    assert!(!sleeper.wait().expect("sleep ends").success());
    assert!(
        !namespaces().contains(host.namespace()),
        "{} is still there",
        host.namespace()
    );
}

#[test]
#[ignore = "needs root"]
fn netns_cleanup_deletes_only_what_a_dead_process_left() {
    let net = Net::new("trib-stale").expect("a network");
    let mut dead = Command::new("true")
        .stdin(Stdio::null())
        .spawn()
        .expect("true runs");
    dead.wait().expect("true ends");
    let left = format!("trib-stale-{}-0-bridge", dead.id());
    assert!(
        Command::new("ip")
            .args(["netns", "add", &left])
            .status()
            .expect("ip runs")
            .success()
    );

    let deleted = Net::cleanup_stale("trib-stale").expect("cleanup");
    assert_eq!(deleted, [left]);
    assert!(namespaces().contains(&format!("trib-stale-{}", std::process::id())));
    drop(net);
}

#[test]
fn a_name_that_ip_could_misread_is_refused() {
    let error = Net::new("trib bad").expect_err("a blank");
    assert!(error.to_string().contains("trib bad"), "{error}");
}

#[test]
#[ignore = "needs root"]
fn netns_hosts_reach_each_other_over_ipv6() {
    let mut net = Net::new("trib-v6").expect("a network");
    let [a, b] = ["a", "b"].map(|name| {
        let host = net.add_host(name, Link::default()).expect("a host");
        host.over_ipv6().expect("an address")
    });
    assert_eq!(b.address().to_string(), "fd77::2");
    let ping = a.command("ping").args(["-c", "1", "-W", "5", "fd77::2"]).output();
    let ping = ping.expect("ping starts");
    assert!(ping.status.success(), "{ping:?}");
}
