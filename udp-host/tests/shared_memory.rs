//! What a process that attaches itself by shared memory can do to a host, and cannot.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use agg_control::ControlClient;
use shm_io::{SMALLEST_RING, connect, wait_any};
use udp_host::{HostConfig, UdpHost};

/// Longer than anything takes, unless it hangs.
const LONG: Duration = Duration::from_secs(20);

fn door(host: &UdpHost) -> String {
    let control = ControlClient::connect(&host.control_addr().to_string(), None, LONG).unwrap();
    control.describe().unwrap().host.shared_memory
}

fn counted(host: &UdpHost, name: &str) -> u64 {
    let counters = host.counters();
    let values = counters.iter().flat_map(|shard| &shard.values);
    let found = values.filter(|(known, _)| known == name);
    found.map(|(_, count)| *count).sum()
}

fn wait_for(host: &UdpHost, name: &str, count: u64) {
    let began = Instant::now();
    while counted(host, name) < count {
        assert!(began.elapsed() < LONG, "{name}: {}", counted(host, name));
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(counted(host, name), count);
}

#[test]
fn whoever_has_no_job_is_heard_and_its_packets_are_counted() {
    let host = UdpHost::start(&HostConfig::loopback()).unwrap();
    let door = door(&host);
    let (mut send, mut receive) = connect(&door, 0, SMALLEST_RING, LONG).unwrap().split();
    // The last is longer than what the host reads it into.
    for packet in [&[0; 56][..], &[7; 1000], b"TR", &[0; 40_000]] {
        assert!(send.push(packet));
    }
    send.publish();
    wait_for(&host, "dropped_not_tributary", 2);
    wait_for(&host, "dropped_bad_length", 2);
    let mut packet = shm_io::PacketBuffer::new(100);
    assert_eq!(receive.receive(&mut packet), Ok(None));

    // More than the ring holds, while the host takes it out.
    let mut sent = 2;
    while sent < 1000 {
        if send.push(&[0; 4096]) {
            sent += 1;
        } else {
            send.publish();
            assert!(shm_io::wait_any(&[send.line()], true, LONG).unwrap());
            send.line().answer();
        }
    }
    send.publish();
    wait_for(&host, "dropped_not_tributary", 1000);
}

#[test]
fn a_shard_that_is_not_there_and_a_host_that_is_gone_are_said() {
    let host = UdpHost::start(&HostConfig::loopback()).unwrap();
    let door = door(&host);
    for shard in [1, 1 << 40] {
        let error = connect(&door, shard, SMALLEST_RING, LONG)
            .map(|_| ())
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "the other side does not want a line, or has ended"
        );
    }
    let line = connect(&door, 0, SMALLEST_RING, LONG).unwrap();
    drop(host);
    assert!(wait_any(&[&line], false, LONG).unwrap());
    line.answer();
    assert!(line.has_hung_up());
    assert!(connect(&door, 0, SMALLEST_RING, LONG).is_err());
}

#[test]
fn those_without_a_job_are_bounded_in_number_until_some_have_gone() {
    let host = UdpHost::start(&HostConfig::loopback()).unwrap();
    let door = door(&host);
    let call = || connect(&door, 0, SMALLEST_RING, LONG);
    let mut lines: Vec<_> = (0..64).map(|_| call().unwrap()).collect();
    assert!(call().is_err());
    lines.pop();
    let began = Instant::now();
    while call().is_err() {
        assert!(began.elapsed() < LONG);
        std::thread::sleep(Duration::from_millis(20));
    }
}
