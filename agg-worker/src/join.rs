//! Joining a world: find the aggregator, register, wait for the others.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agg_control::{MOST_RANKS, Member, OnLost, Policy, Registered, fresh_nonce};
use agg_core::wire::packet_len;
use agg_core::worker::SlotState;
use agg_core::{Epoch, Lanes, Worker, WorkerConfig};

use crate::arrival::{Arrival, arrive};
use crate::keeper::CALL;
use crate::moves::Moves;
use crate::place::Place;
use crate::shared::{JobTerms, Shared, lock};
use crate::simd::StreamWorker;
use crate::stream::Stream;
use crate::{Config, Error};

/// Where rank 0 starts the aggregator of a world on one machine.
#[cfg(feature = "embedded")]
const EMBEDDED_PORT: u16 = udp_host::DEFAULT_CONTROL_PORT;

#[cfg(feature = "embedded")]
#[derive(Debug, Default)]
pub(crate) struct Embedded {
    /// The leaf of the ranks on this machine.
    leaf: Option<crate::leaf::Leaf>,
    /// The aggregator of a world on this machine.
    _host: Option<udp_host::UdpHost>,
}
#[cfg(not(feature = "embedded"))]
#[derive(Debug, Default)]
pub(crate) struct Embedded;

impl Embedded {
    /// The world is complete.
    fn joined(&mut self) {
        #[cfg(feature = "embedded")]
        if let Some(leaf) = &mut self.leaf {
            leaf.joined();
        }
    }
}

pub(crate) struct Joined {
    pub(crate) shared: Shared,
    pub(crate) embedded: Embedded,
}

pub(crate) fn join(config: Config) -> Result<Joined, Error> {
    let (world, rank) = (config.world.clone(), config.rank);
    join_inner(config).map_err(|reason| Error::Join { world, rank, reason })
}

fn join_inner(config: Config) -> Result<Joined, String> {
    check(&config)?;
    let (addresses, mut embedded) = aggregators(&config)?;
    let (index, mut arrival) = first_that_answers(&config, &addresses)?;
    arrival.prepare_to_go_on_at(&config, &addresses);
    let nonce = fresh_nonce();
    let registration = arrival.registration(&config, nonce, config.wait, None);
    let registered = arrival.control.register(&registration);
    let registered = registered.map_err(|error| error.to_string())?;
    embedded.joined();
    let lanes = Lanes::from_count(registered.lanes).ok_or_else(|| {
        format!(
            "the aggregator chose {} lanes, which this version does not know",
            registered.lanes
        )
    })?;
    let member = Member {
        key: registered.key,
        rank: config.rank,
        nonce,
    };
    let terms = JobTerms {
        lanes: registered.lanes,
        window: registered.window,
        generations: registered.generations,
        streams: registered.streams,
        lost_after: registered.lost_after,
    };
    let timeout = match config.on_lost {
        OnLost::Abort => config.timeout,
        // A lost rank is given up before the operations that wait for it.
        OnLost::Shrink => config.timeout.max(2 * registered.lost_after + CALL),
    };
    let streams = arrival.ports.addresses().iter();
    let workers = streams.map(|_| worker(&registered, lanes, timeout));
    let workers = workers.collect::<Result<Vec<_>, String>>()?;
    let place = Place::new(0, index, arrival, registered);
    let moves = Arc::new(Moves::new(place, Instant::now()));
    let (failover_after, busy_poll) = (config.failover_after.min(timeout / 3), config.busy_poll);
    let len = packet_len(lanes.count());
    let streams = workers.into_iter().enumerate().map(|(stream, worker)| {
        Mutex::new(Stream::new(
            stream,
            worker,
            &moves,
            len,
            timeout,
            failover_after,
            busy_poll,
        ))
    });
    let streams = streams.collect();
    let shared = Shared::new(config, addresses, member, terms, timeout, moves, streams);
    if shared.has_stand_by() {
        for stream in &shared.streams {
            lock(stream).worker.set_stand_by();
        }
    }
    Ok(Joined { shared, embedded })
}

fn check(config: &Config) -> Result<(), String> {
    if !(1..=MOST_RANKS).contains(&config.size) {
        return Err(format!(
            "a world of {} ranks is not possible: give a size from 1 to {MOST_RANKS}",
            config.size
        ));
    }
    if config.rank >= config.size {
        return Err(format!(
            "a world of {} has ranks 0 to {}",
            config.size,
            config.size - 1
        ));
    }
    if config.transport.is_some() && !config.faults.is_none() {
        return Err(
            "faults are injected into sockets of the kernel only: leave them out, or the transport".into(),
        );
    }
    Ok(())
}

/// The configured aggregators, or the one of this machine, which rank 0 starts.
#[cfg(feature = "embedded")]
fn aggregators(config: &Config) -> Result<(Vec<String>, Embedded), String> {
    if let Some(group) = crate::leaf::group(config) {
        let (address, leaf) = crate::leaf::find(config, group)?;
        // Those that are configured take over from it.
        let addresses = address.into_iter().chain(config.aggregators.iter().cloned());
        let embedded = Embedded { leaf, _host: None };
        return Ok((addresses.collect(), embedded));
    }
    if !config.aggregators.is_empty() {
        return Ok((config.aggregators.clone(), Embedded::default()));
    }
    let control_addr = std::net::SocketAddr::from(([127, 0, 0, 1], EMBEDDED_PORT));
    let host = if config.rank == 0 {
        let host = udp_host::HostConfig {
            control_addr,
            busy_poll_us: config.busy_poll.as_micros().min(1_000_000) as u32,
            ..udp_host::HostConfig::loopback()
        };
        let host = udp_host::UdpHost::start(&host);
        Some(host.map_err(|error| format!("{error}; or name a running aggregator"))?)
    } else {
        None
    };
    let embedded = Embedded {
        leaf: None,
        _host: host,
    };
    Ok((vec![control_addr.to_string()], embedded))
}

#[cfg(not(feature = "embedded"))]
fn aggregators(config: &Config) -> Result<(Vec<String>, Embedded), String> {
    if config.aggregators.is_empty() {
        return Err("no aggregator is configured: give host:port".to_owned());
    }
    Ok((config.aggregators.clone(), Embedded))
}

/// The first aggregator has all the time to start; the others should be there when it does not come.
fn first_that_answers(config: &Config, addresses: &[String]) -> Result<(usize, Arrival), String> {
    let mut reasons = Vec::new();
    for (index, address) in addresses.iter().enumerate() {
        let patience = if index == 0 {
            config.connect_timeout
        } else {
            config.connect_timeout.min(CALL)
        };
        match arrive(config, address, None, config.lanes, patience) {
            Ok(arrival) => return Ok((index, arrival)),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(reasons.join("; "))
}

fn worker(registered: &Registered, lanes: Lanes, timeout: Duration) -> Result<StreamWorker, String> {
    let window = usize::from(registered.window);
    let worker = WorkerConfig {
        key: registered.key,
        epoch: Epoch(registered.epoch),
        member: registered.member,
        members: registered.members.len() as u8, // at most 64
        workers: registered.workers,
        lanes,
        window: registered.window,
        policy: policy(registered.policy),
        timeout: u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX),
        first_chunk: 0,
    };
    let slots = vec![SlotState::default(); window].into_boxed_slice();
    let kept = vec![0; window * lanes.count()].into_boxed_slice();
    Worker::new(worker, slots, kept)
        .map_err(|_| format!("the aggregator chose a window of {window}, which is no power of two"))
}

fn policy(policy: Policy) -> agg_core::Policy {
    match policy {
        Policy::All => agg_core::Policy::All,
        Policy::Quorum { members, grace, .. } => agg_core::Policy::Quorum {
            members,
            grace: u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX),
        },
    }
}
