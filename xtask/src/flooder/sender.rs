//! A sender that floods an aggregator as fast as one thread can.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use agg_core::wire::{Flags, HEADER_LEN, Header, Kind};
use agg_core::{Epoch, Exponent, MemberSet, Round};
use udp_io::{Port, PortConfig, SendBatch, UdpPort};

/// Bytes of a packet of 256 lanes.
const LENGTH: usize = HEADER_LEN + 4 * 256;

/// What is sent.
#[derive(Clone, Copy)]
pub(super) enum Packets {
    /// Bytes that do not begin like a packet.
    Malformed,
    /// Contributions of one job that does not exist: they come into one receive queue, as those of a neighbour would.
    OneKey,
    /// Contributions that are right in everything but the key, each of another job that does not exist: they come into all
    /// receive queues.
    RandomKeys,
}

/// A flood that flows.
pub(super) struct Flood {
    over: Arc<AtomicBool>,
    thread: JoinHandle<Result<u64, String>>,
    begun: Instant,
}

impl Flood {
    /// Starts to flood the aggregator with this data address.
    pub(super) fn start(data: &str, packets: Packets) -> Result<Self, String> {
        let to: SocketAddr = data
            .parse()
            .map_err(|error| format!("the data address {data}: {error}"))?;
        let over = Arc::new(AtomicBool::new(false));
        let ended = over.clone();
        let thread = std::thread::spawn(move || {
            send(to, packets, || ended.load(Ordering::Relaxed)).map_err(|error| error.to_string())
        });
        Ok(Self {
            over,
            thread,
            begun: Instant::now(),
        })
    }

    /// Packets a second that were sent.
    pub(super) fn stop(self) -> Result<f64, String> {
        self.over.store(true, Ordering::Relaxed);
        let sent = self.thread.join().map_err(|_| "the flood panicked")??;
        Ok(sent as f64 / self.begun.elapsed().as_secs_f64())
    }
}

fn send(
    to: SocketAddr,
    packets: Packets,
    over: impl Fn() -> bool,
) -> Result<u64, Box<dyn std::error::Error>> {
    let port = UdpPort::bind((Ipv4Addr::LOCALHOST, 0).into(), &PortConfig::default())?;
    let mut batch = SendBatch::new(LENGTH, 1);
    let mut packet = [0xff; LENGTH];
    // Another one in each process and flood.
    let mut key = RandomState::new().build_hasher().finish();
    if let Packets::OneKey = packets {
        packet[..HEADER_LEN].copy_from_slice(&contribution(key).emit());
    }
    while !over() {
        for _ in 0..1024 {
            if let Packets::RandomKeys = packets {
                // One of Weyl's sequences: all bits change.
                key = key.wrapping_add(0x9e37_79b9_7f4a_7c15);
                packet[..HEADER_LEN].copy_from_slice(&contribution(key).emit());
            }
            port.send(&mut batch, to, &packet)?;
        }
        port.flush(&mut batch)?;
    }
    Ok(batch.counts().sent)
}

fn contribution(key: u64) -> Header {
    Header {
        kind: Kind::Data,
        flags: Flags::UP,
        member: 0,
        slot: 0,
        key,
        epoch: Epoch(1),
        round: Round(0),
        set: MemberSet(1),
        workers: 1,
        scale: Exponent(0),
        next: Exponent(0),
        op: 0,
        op_seq: 0,
    }
}
