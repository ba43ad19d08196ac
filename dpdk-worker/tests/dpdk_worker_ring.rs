//! The transport at a ring that gives back what is sent: the port is its own neighbour.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agg_worker::Transport;
use agg_worker::transport::{Link, LinkCounts, Ports};
use dpdk_host::Idle;
use dpdk_worker::{Dpdk, PortConfig};

const ADDRESS: &str = "10.77.0.2:4700";

/// More than a frame needs to come round.
const SOON: Duration = Duration::from_millis(100);

fn port(config: impl FnOnce(PortConfig) -> PortConfig) -> Dpdk {
    let eal = "--no-huge -m 64 --no-pci --no-shconf --no-telemetry --log-level 3 -l 0 --vdev net_ring0";
    let config = config(PortConfig {
        eal: eal.split(' ').map(str::to_owned).collect(),
        ..PortConfig::new(ADDRESS.parse().expect("an address"))
    });
    Dpdk::start(config).expect("DPDK starts")
}

/// Towards itself.
fn open(port: &Dpdk, streams: u16) -> Arc<dyn Ports> {
    let way = port.way(ADDRESS.parse().expect("an address")).expect("a way");
    port.open(&way, streams).expect("ports")
}

/// Sends a packet of some bytes.
fn send(link: &mut dyn Link, packet: &[u8], to: SocketAddr) {
    link.room().expect("room")[..packet.len()].copy_from_slice(packet);
    link.send(packet.len(), to).expect("it is sent");
}

/// The packets that come first; behind an answer to our own question, which is no packet.
fn received(link: &mut dyn Link) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut packets = Vec::new();
    for _ in 0..3 {
        link.wait(SOON).expect("a port");
        link.receive(&mut |from, packet, _| packets.push((from, packet.to_vec())))
            .expect("a port");
        if !packets.is_empty() {
            break;
        }
    }
    packets
}

#[test]
fn packets_come_to_the_stream_that_they_are_for_at_whichever_queue() {
    let port = port(|config| config);
    let ports = open(&port, 3);
    let addresses = ports.addresses().to_vec();
    let ends: Vec<String> = addresses.iter().map(SocketAddr::to_string).collect();
    assert_eq!(ends, ["10.77.0.2:4700", "10.77.0.2:4701", "10.77.0.2:4702"]);
    let mut links: Vec<Box<dyn Link>> = (0..3).map(|stream| ports.link(stream, 1464)).collect();
    for (number, to) in addresses.iter().enumerate() {
        send(&mut *links[0], &[number as u8; 100], *to);
    }
    links[0].flush().expect("a port");
    // There is one queue, and it is the first stream's: it sorts what comes.
    assert_eq!(received(&mut *links[0]), [(addresses[0], vec![0; 100])]);
    assert_eq!(received(&mut *links[2]), [(addresses[0], vec![2; 100])]);
    assert_eq!(received(&mut *links[1]), [(addresses[0], vec![1; 100])]);
    let sent = LinkCounts {
        sent: 3,
        ..LinkCounts::default()
    };
    assert_eq!(
        (links[0].counts(), links[1].counts()),
        (sent, LinkCounts::default())
    );

    // So does the thread that looks between operations.
    send(&mut *links[2], b"between", addresses[1]);
    links[2].flush().expect("a port");
    ports.wait(SOON).expect("a port");
    let mut packets = Vec::new();
    links[1]
        .receive(&mut |from, packet, _| packets.push((from, packet.to_vec())))
        .expect("a port");
    assert_eq!(packets, [(addresses[2], b"between".to_vec())]);
}

#[test]
fn a_port_is_for_one_rank_at_a_time() {
    let port = port(|config| config);
    let ports = open(&port, 1);
    let way = port.way(ports.addresses()[0]).expect("a way");
    assert_eq!(way.max_datagram, 1472);
    let error = port.open(&way, 1).err().expect("it is taken").to_string();
    assert!(
        error.contains("net_ring0 is in use by another communicator"),
        "{error}"
    );
    drop(ports);
    let mut link = open(&port, 2).link(1, 1464);
    send(&mut *link, b"again", ADDRESS.parse().expect("an address"));
    // A link keeps the port.
    assert!(port.open(&way, 1).is_err());
}

#[test]
fn without_mbufs_there_is_no_room_until_some_are_free() {
    // As many as the receive ring wants, and few more.
    let port = port(|config| PortConfig {
        ring: 16,
        mbufs: 63,
        ..config
    });
    let ports = open(&port, 1);
    let mut link = ports.link(0, 1464);
    let to = ports.addresses()[0];
    let mut written = 0_u64;
    while let Some(room) = link.room() {
        room[0] = written as u8;
        link.send(1, to).expect("it is sent");
        written += 1;
        assert!(written < 64);
    }
    link.wait(Duration::from_secs(3600))
        .expect("it does not wait for ever");
    link.flush().expect("a port");
    let mut numbers = Vec::new();
    while numbers.len() < written as usize {
        let packets = received(&mut *link);
        assert!(
            !packets.is_empty(),
            "{numbers:?} of {written}: {:?} {:?}",
            link.counts(),
            link.last_error()
        );
        numbers.extend(packets.into_iter().map(|(_, packet)| packet[0]));
    }
    assert!(numbers.into_iter().eq(0..written as u8), "in order");
    assert!(link.room().is_some());
}

#[test]
fn what_a_full_port_does_not_take_is_given_up_and_counted() {
    let port = port(|config| PortConfig {
        mbufs: 8191,
        idle: Idle::Yield,
        ..config
    });
    let ports = open(&port, 1);
    let mut link = ports.link(0, 1464);
    let to = ports.addresses()[0];
    // The ring holds fewer, and nobody takes them out.
    for _ in 0..3000 {
        send(&mut *link, b"packet", to);
    }
    link.flush().expect("a port");
    let counts = link.counts();
    assert_eq!(counts.sent + counts.unsent, 3000);
    assert!(counts.sent > 0 && counts.unsent > 0, "{counts:?}");
    let error = link.last_error().expect("a reason").to_string();
    assert!(error.contains("net_ring0 takes nothing"), "{error}");
}

#[test]
fn what_nobody_answers_for_is_not_sent() {
    let port = port(|config| config);
    let ports = open(&port, 1);
    let mut link = ports.link(0, 1464);
    send(
        &mut *link,
        b"packet",
        "10.77.0.99:4601".parse().expect("an address"),
    );
    assert_eq!(link.counts().unsent, 1);
    let error = link.last_error().expect("a reason").to_string();
    assert_eq!(
        error,
        "it is not known how 10.77.0.99 is reached from port net_ring0"
    );
}
