//! Packets through memory that this process shares with an aggregator on the same machine.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agg_control::{Capabilities, attached_address, datagram_bytes};
use agg_core::wire::Ecn;
use shm_io::{Line, PacketBuffer, Receiver, Sender, connect, wait_any};

use crate::Config;
use crate::transport::{Link, LinkCounts, Ports};

/// How long each step of attaching may take: the aggregator has a thread for it.
const PATIENCE: Duration = Duration::from_millis(500);

/// Bytes of a ring that holds the packets of a window that nobody asked for
/// ([`agg_control::CHOSEN_BYTES_IN_FLIGHT`]), and Wants besides.
const RING: usize = 1 << 20;

/// What a ring needs for each packet besides its bytes, at most.
const BESIDE: usize = 72;

/// The rings of a rank at an aggregator, a pair for each stream.
pub(crate) struct Rings {
    /// What the aggregator calls its door: a random name of that process.
    door: String,
    addresses: Vec<SocketAddr>,
    /// Where the aggregator's shards receive datagrams: by that they are known here, too.
    shards: Vec<SocketAddr>,
    lines: Vec<Arc<Line>>,
    /// Until whoever runs a stream takes them.
    ends: Vec<Mutex<Option<(Sender, Receiver)>>>,
}

impl Rings {
    /// Attaches this rank to an aggregator whose first shard receives at `data_addr`.
    ///
    /// # Errors
    /// It is not on this machine, nor in this network namespace, or does not want to.
    pub(crate) fn attach(
        config: &Config,
        host: &Capabilities,
        data_addr: SocketAddr,
        streams: u16,
    ) -> io::Result<Self> {
        let ring = ring_size(config);
        let lines = (0..streams).map(|stream| connect(&host.shared_memory, stream.into(), ring, PATIENCE));
        let lines = lines.collect::<io::Result<Vec<_>>>()?;
        let shard = |stream| SocketAddr::new(data_addr.ip(), data_addr.port().wrapping_add(stream));
        let addresses = lines.iter().map(|line| attached_address(line.name())).collect();
        let ends: Vec<_> = lines.into_iter().map(Line::split).collect();
        Ok(Self {
            door: host.shared_memory.clone(),
            addresses,
            shards: (0..streams).map(shard).collect(),
            lines: ends.iter().map(|(send, _)| Arc::clone(send.line())).collect(),
            ends: ends.into_iter().map(|ends| Mutex::new(Some(ends))).collect(),
        })
    }

    /// Whether they lead to this aggregator, and it is still there.
    pub(crate) fn lead_to(&self, host: &Capabilities) -> bool {
        self.door == host.shared_memory && !self.lines.iter().any(|line| line.has_hung_up())
    }
}

/// Bytes of each ring: the window is settled later, but a large one was asked for by somebody.
fn ring_size(config: &Config) -> usize {
    let Some(window) = config.window else {
        return RING;
    };
    let packet = datagram_bytes(config.most_lanes(true)) as usize + BESIDE;
    // One does not fit before the ring's end, some are Wants.
    (window as usize)
        .saturating_mul(packet)
        .saturating_add(2 * packet)
        .max(RING)
}

impl Ports for Rings {
    fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    fn receive_buffer(&self) -> u64 {
        // They hold a window.
        0
    }

    fn link(&self, stream: usize, max_packet: usize) -> Box<dyn Link> {
        let ends = self.ends[stream]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        Box::new(RingLink {
            ends,
            shard: self.shards[stream],
            packet: PacketBuffer::new(max_packet),
            max_packet,
            is_full: false,
            counts: LinkCounts::default(),
        })
    }

    fn wait(&self, limit: Duration) -> io::Result<()> {
        let lines: Vec<&Line> = self.lines.iter().map(AsRef::as_ref).collect();
        wait_any(&lines, false, limit).map(|_| ())
    }
}

/// The rings of a stream.
struct RingLink {
    /// None where somebody else had them first.
    ends: Option<(Sender, Receiver)>,
    shard: SocketAddr,
    packet: PacketBuffer,
    max_packet: usize,
    /// There was no room: it is waited for.
    is_full: bool,
    counts: LinkCounts,
}

impl Link for RingLink {
    fn room(&mut self) -> Option<&mut [u8]> {
        let Some((send, _)) = &mut self.ends else {
            self.counts.unsent += 1;
            return None;
        };
        if send.line().has_hung_up() || send.check().is_err() {
            self.counts.unsent += 1;
            return None;
        }
        let room = send.room(self.max_packet);
        self.is_full = room.is_none();
        room
    }

    fn send(&mut self, len: usize, _: SocketAddr) -> io::Result<()> {
        if let Some((send, _)) = &mut self.ends {
            send.commit(len);
            self.counts.sent += 1;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        if let Some((send, _)) = &mut self.ends {
            send.publish();
        }
        Ok(())
    }

    fn receive(&mut self, each: &mut dyn FnMut(SocketAddr, &[u8], Ecn)) -> io::Result<()> {
        let Some((_, receive)) = &mut self.ends else {
            return Ok(());
        };
        loop {
            let received = receive.receive(&mut self.packet);
            self.counts.too_long = receive.oversized();
            match received {
                Ok(Some(packet)) => each(self.shard, packet, Ecn::Clear),
                Ok(None) => return Ok(()),
                Err(error) => {
                    tracing::warn!(aggregator = %self.shard, "{error}");
                    self.ends = None;
                    return Ok(());
                }
            }
        }
    }

    fn wait(&mut self, limit: Duration) -> io::Result<()> {
        match &self.ends {
            Some((send, _)) => wait_any(&[send.line()], self.is_full, limit).map(|_| ()),
            None => {
                // The deadlines of operations go on, and the aggregator's silence is seen.
                std::thread::sleep(limit);
                Ok(())
            }
        }
    }

    fn counts(&self) -> LinkCounts {
        self.counts
    }

    fn last_error(&self) -> Option<io::Error> {
        Some(io::Error::new(
            io::ErrorKind::BrokenPipe,
            "the aggregator has let go of the memory that was shared with it",
        ))
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use agg_control::HostKind;
    use shm_io::Door;

    use super::*;

    /// Longer than anything takes, unless it hangs.
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn what_is_longer_than_the_job_s_packets_is_counted() {
        let name = format!("agg-worker-rings-{}", std::process::id());
        let door = Door::open(&name).unwrap();
        let host = Capabilities {
            kind: HostKind::Udp,
            version: String::new(),
            epoch: 1,
            data_ip: None,
            base_port: 4601,
            shards: 1,
            lanes: vec![256],
            memory_per_shard: 0,
            receive_buffer: 0,
            receive_ring: 0,
            answers_probes: false,
            shared_memory: name,
        };
        let shard = "127.0.0.1:4601".parse().unwrap();
        let config = Config::new("rings", 0, 1);
        let (rings, line) = std::thread::scope(|scope| {
            let rank = scope.spawn(|| Rings::attach(&config, &host, shard, 1).unwrap());
            let call = door.accept(LONG).unwrap().unwrap();
            let line = call.answer(64, Ok).unwrap();
            (rank.join().unwrap(), line)
        });
        let (mut send, _receive) = line.split();
        for packet in [&[1; 100][..], &[2; 101], &[3; 9]] {
            assert!(send.push(packet));
        }
        send.publish();
        let mut link = rings.link(0, 100);
        let mut came = Vec::new();
        link.receive(&mut |_, packet, _| came.push(packet.to_vec()))
            .unwrap();
        assert_eq!(came, [vec![1; 100], vec![3; 9]]);
        assert_eq!(link.counts().too_long, 1);
    }
}
