//! What a rank is told at its start.

use std::sync::Arc;
use std::time::Duration;

use agg_control::{ClientTls, OnLost, Policy, Registration};
use agg_core::Lanes;
use udp_io::FaultConfig;

use crate::{LocalGroup, Transport};

/// The largest chunk size that is proposed unasked through shared memory: with fewer lanes large tensors take longer.
const UNASKED_SHARED: Lanes = Lanes::L8192;

/// The same of datagrams, and of whoever asks for a window, which counts chunks: over loopback larger ones take longer.
const UNASKED: Lanes = Lanes::L2048;

/// What a rank is told at its start. Every rank of a world must be given the same `world` and `size`.
#[derive(Debug, Clone)]
pub struct Config {
    /// The world's name; two worlds of one aggregator need two names.
    pub world: String,
    /// This rank, from 0.
    pub rank: u32,
    /// Ranks in the world, 1 to 4096; an aggregator has at most 64 members, a tree of two levels 64 times as many.
    pub size: u32,
    /// Control addresses, `host:port`, of the aggregator and of those that take over when it is lost, in this order; the
    /// ranks of one aggregator all name the same. Empty: this machine only, rank 0 starts an aggregator.
    pub aggregators: Vec<String>,
    /// Whether the job goes on at another aggregator, or at the same one restarted, when its own is lost. Not so where the
    /// aggregator is in a rank's process, and ends with it: the other ranks learn that soon then, and not at `timeout`.
    pub fail_over: bool,
    /// An aggregator that says nothing for this long while something is in flight is asked whether it is there, and if not,
    /// left for the next. At most a third of `timeout`.
    pub failover_after: Duration,
    /// An operation fails when no part of its result came for this long.
    pub timeout: Duration,
    /// How long to wait, at the start, for the aggregator to answer.
    pub connect_timeout: Duration,
    /// How long to wait, at the start, for the other ranks.
    pub wait: Duration,
    /// How long [`crate::Communicator::close`] waits for the other ranks, answering an aggregator that restarts.
    pub linger: Duration,
    /// Chunk size in 32-bit lanes (256, 352, 848, 2048 or 8192). `None`: the largest up to 2048 that every rank's
    /// path carries, to stand-bys too; 8192 where all share memory with the aggregator, and have not asked for a window. A sum
    /// of f32 depends on it in its last bits.
    pub lanes: Option<u32>,
    /// Chunks in flight on each stream. `None`: what the buffers of host and ranks hold.
    pub window: Option<u32>,
    /// Streams, each a port here and a shard there. `None`: as many as the aggregator has shards.
    pub streams: Option<u16>,
    /// When a sum is complete; every rank must ask for the same. A job under a quorum moves to no other aggregator.
    pub policy: Policy,
    /// What becomes of the job when a rank is lost; every rank must ask for the same. So that the aggregator can give a rank up
    /// before operations fail that wait for it, their timeout is then more than twice the aggregator's `lost_after`, at least.
    pub on_lost: OnLost,
    /// Share of the aggregator's memory and time, 1 to 1000, against that of other worlds; every rank must ask for the same.
    pub weight: u16,
    /// Worlds that wait for memory are admitted in the order of this, highest first; every rank must ask for the same.
    pub priority: u8,
    /// Receive buffer of each socket of the kernel, in bytes; it may grant less.
    pub receive_buffer: usize,
    /// How long a stream that waits for results looks for them again and again before it sleeps; to the microsecond it is asked
    /// of the kernel too (`SO_BUSY_POLL`, where the rank may). It saves the time to wake up, for a core that does nothing else. At most 50 ms count.
    pub busy_poll: Duration,
    /// Certificates, where the aggregator demands them.
    pub tls: Option<ClientTls>,
    /// Faults to inject into this rank's packets, both ways. For tests and demonstrations, with sockets of the kernel.
    pub faults: FaultConfig,
    /// The ranks of this world on this machine. Where they are several, and the aggregator is on another one, they send one
    /// stream: the first of them starts a leaf, at which all register; if that is lost they go on at `aggregators`. Only
    /// with shared memory, and not under a quorum, with TLS, injected faults or another transport. Either all ranks of a
    /// machine are given it, or none.
    pub local: Option<LocalGroup>,
    /// Whether packets go through shared memory where the aggregator is on this machine, a process of the same user, and
    /// offers it. Not with injected faults, nor with another transport.
    pub shared_memory: bool,
    /// What carries packets. `None`: shared memory or sockets of the kernel.
    pub transport: Option<Arc<dyn Transport>>,
}

impl Config {
    /// The defaults, for one rank of a world on this machine.
    pub fn new(world: impl Into<String>, rank: u32, size: u32) -> Self {
        Self {
            world: world.into(),
            rank,
            size,
            aggregators: Vec::new(),
            fail_over: true,
            failover_after: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            wait: Duration::from_secs(60),
            linger: Duration::from_secs(5),
            lanes: None,
            window: None,
            streams: None,
            policy: Policy::All,
            on_lost: OnLost::Abort,
            weight: Registration::WEIGHT,
            priority: 0,
            receive_buffer: 8 << 20,
            busy_poll: Duration::ZERO,
            tls: None,
            faults: FaultConfig::default(),
            local: None,
            shared_memory: true,
            transport: None,
        }
    }

    /// Whether packets may go through memory that is shared with an aggregator on this machine.
    pub(crate) fn shares_memory(&self) -> bool {
        self.shared_memory && self.transport.is_none() && self.faults.is_none()
    }

    /// Why a job moves to no other aggregator, if it does not.
    pub(crate) fn immovable(&self) -> Option<&'static str> {
        if self.aggregators.is_empty() || !self.fail_over {
            Some("its only aggregator was in a rank's process")
        } else if self.policy == Policy::All {
            None
        } else {
            Some("a job under a quorum cannot move to another aggregator: start it again")
        }
    }

    /// The most lanes that a chunk can have, through shared memory or else in datagrams.
    pub(crate) fn most_lanes(&self, is_shared: bool) -> u16 {
        let asked = self.lanes.and_then(|lanes| u16::try_from(lanes).ok());
        let unasked = match self.window {
            None if is_shared => UNASKED_SHARED,
            _ => UNASKED,
        };
        asked.unwrap_or(unasked.count() as u16)
    }

    /// The same, with an aggregator at `host:port`: the first one, or one that takes over.
    #[must_use]
    pub fn with_aggregator(mut self, address: impl Into<String>) -> Self {
        self.aggregators.push(address.into());
        self
    }
}
