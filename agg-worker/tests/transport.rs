//! Ranks whose packets go another way than through sockets of `udp-io`: here one packet at a time through plain ones, which
//! have no room now and then, and begin with nonsense.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use agg_worker::transport::{Ecn, Link, LinkCounts, Ports, Transport, TransportError, Way};
use agg_worker::{Communicator, Config, Error, Stats};
use udp_host::{HostConfig, UdpHost};

/// Of so many times that there could be room, there is none once.
const NO_ROOM: u64 = 7;

/// Opens plain sockets of one machine.
#[derive(Debug, Default)]
struct Plain {
    opened: AtomicU64,
    without_room: Arc<AtomicU64>,
}

impl Transport for Plain {
    fn way(&self, aggregator: SocketAddr) -> Result<Way, TransportError> {
        if !aggregator.ip().is_loopback() {
            return Err(format!("{aggregator} is another machine's").into());
        }
        Ok(Way {
            aggregator,
            local_ip: aggregator.ip(),
            max_datagram: 1464,
        })
    }

    fn open(&self, way: &Way, streams: u16) -> Result<Arc<dyn Ports>, TransportError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let sockets = (0..streams).map(|_| UdpSocket::bind((way.local_ip, 0)));
        let sockets = sockets.collect::<io::Result<Vec<_>>>()?;
        let addresses = sockets.iter().map(UdpSocket::local_addr);
        Ok(Arc::new(PlainPorts {
            addresses: addresses.collect::<io::Result<_>>()?,
            sockets,
            without_room: Arc::clone(&self.without_room),
        }))
    }
}

struct PlainPorts {
    sockets: Vec<UdpSocket>,
    addresses: Vec<SocketAddr>,
    without_room: Arc<AtomicU64>,
}

impl Ports for PlainPorts {
    fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    fn receive_buffer(&self) -> u64 {
        // Less than the kernel's least.
        64 * 2304
    }

    fn link(&self, stream: usize, max_packet: usize) -> Box<dyn Link> {
        Box::new(PlainLink {
            socket: self.sockets[stream].try_clone().unwrap(),
            packet: vec![0; max_packet],
            asked: 0,
            has_come: false,
            without_room: Arc::clone(&self.without_room),
            counts: LinkCounts::default(),
        })
    }

    fn wait(&self, limit: Duration) -> io::Result<()> {
        std::thread::sleep(limit.min(Duration::from_millis(1)));
        Ok(())
    }
}

struct PlainLink {
    socket: UdpSocket,
    packet: Vec<u8>,
    asked: u64,
    has_come: bool,
    without_room: Arc<AtomicU64>,
    counts: LinkCounts,
}

impl Link for PlainLink {
    fn room(&mut self) -> Option<&mut [u8]> {
        self.asked += 1;
        if self.asked.is_multiple_of(NO_ROOM) {
            self.without_room.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(&mut self.packet)
    }

    fn send(&mut self, len: usize, to: SocketAddr) -> io::Result<()> {
        self.counts.sent += 1;
        self.socket.send_to(&self.packet[..len], to).map(|_| ())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, each: &mut dyn FnMut(SocketAddr, &[u8], Ecn)) -> io::Result<()> {
        let mut packet = [0; 2048];
        self.socket.set_nonblocking(true)?;
        while let Ok((len, source)) = self.socket.recv_from(&mut packet) {
            if !std::mem::replace(&mut self.has_come, true) {
                each(source, &[0; 80], Ecn::Clear);
                self.counts.too_long += 1;
            }
            each(source, &packet[..len], Ecn::Clear);
        }
        Ok(())
    }

    fn wait(&mut self, limit: Duration) -> io::Result<()> {
        self.socket.set_nonblocking(false)?;
        // Zero would be for ever. There may be packets to send that had no room.
        let limit = limit.clamp(Duration::from_micros(1), Duration::from_millis(1));
        self.socket.set_read_timeout(Some(limit))?;
        // That nothing has come is no error.
        let _ = self.socket.peek_from(&mut [0]);
        Ok(())
    }

    fn counts(&self) -> LinkCounts {
        self.counts
    }

    fn last_error(&self) -> Option<io::Error> {
        None
    }
}

/// Has no way to anywhere.
#[derive(Debug)]
struct Closed;

impl Transport for Closed {
    fn way(&self, _: SocketAddr) -> Result<Way, TransportError> {
        Err("the link is down: plug it in".into())
    }

    fn open(&self, _: &Way, _: u16) -> Result<Arc<dyn Ports>, TransportError> {
        unreachable!("there is no way")
    }
}

fn host() -> UdpHost {
    UdpHost::start(&HostConfig {
        shards: 2,
        ..HostConfig::loopback()
    })
    .expect("it starts")
}

/// The bits of sums of two ranks, and what they say of their packets.
fn sums(host: &UdpHost, name: &str, transport: Option<&Arc<Plain>>) -> Vec<(Vec<u32>, Stats)> {
    let address = host.control_addr().to_string();
    let rank = |rank: u32| {
        let mut config = Config::new(name, rank, 2).with_aggregator(address.clone());
        config.lanes = Some(256);
        config.transport = transport.map(|plain| Arc::clone(plain) as Arc<dyn Transport>);
        let mut world = Communicator::connect(config).expect("it joins");
        let mut bits = Vec::new();
        for len in [1, 1000, 100_003] {
            let value = |index: usize| (index as f32 * 0.37 + rank as f32).sin() * 1e3;
            let mut values: Vec<f32> = (0..len).map(value).collect();
            world.all_reduce(&mut values).expect("a sum");
            bits.extend(values.into_iter().map(f32::to_bits));
        }
        let stats = world.stats();
        world.close().expect("it leaves");
        (bits, stats)
    };
    std::thread::scope(|scope| {
        let ranks = [0, 1].map(|number| scope.spawn(move || rank(number)));
        ranks.map(|rank| rank.join().expect("a rank")).into()
    })
}

#[test]
fn packets_go_through_the_transport_and_sums_have_the_same_bits() {
    let host = host();
    let plain = Arc::new(Plain::default());
    let stats = |sums: &[(Vec<u32>, Stats)]| sums.iter().map(|(_, stats)| *stats).collect::<Vec<_>>();
    let through = sums(&host, "plain", Some(&plain));
    let without = sums(&host, "kernel", None);
    assert!(through.iter().all(|(bits, _)| *bits == without[0].0));
    // Once for each rank, of two streams each.
    assert_eq!(plain.opened.load(Ordering::Relaxed), 2);
    assert!(plain.without_room.load(Ordering::Relaxed) > 0);
    // 101 004 elements in chunks of 256.
    let (through, without) = (stats(&through), stats(&without));
    assert!(
        through.iter().all(|stats| stats.packets_sent >= 396),
        "{through:?}"
    );
    // For each of two streams what is nonsense, and what the link says was too long.
    assert!(
        through.iter().all(|stats| stats.packets_invalid == 4),
        "{through:?}"
    );
    assert!(
        without.iter().all(|stats| stats.packets_invalid == 0),
        "{without:?}"
    );
}

#[test]
fn why_there_is_no_way_is_said() {
    let host = host();
    let mut config = Config::new("closed", 0, 1).with_aggregator(host.control_addr().to_string());
    config.transport = Some(Arc::new(Closed));
    let error = Communicator::connect(config.clone()).expect_err("no way");
    assert!(matches!(&error, Error::Join { reason, .. } if reason == "the link is down: plug it in"));
    config.faults.loss = udp_io::Probability::new(0.5).expect("a share");
    let error = Communicator::connect(config).expect_err("faults have no socket");
    assert!(
        error.to_string().contains("sockets of the kernel only"),
        "{error}"
    );
}
