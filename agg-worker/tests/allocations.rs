//! What a chunk costs in allocations: none. Buffers are made when a world is joined, and an operation has a few of its own.
//!
//! A test binary of its own: it counts the allocations of all threads of this process, those of the aggregator and of its
//! control service included.

use std::alloc::System;
use std::time::Duration;

use agg_worker::{Communicator, Config};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use udp_host::{HostConfig, UdpHost};

#[global_allocator]
static COUNTED: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const RANKS: usize = 2;

/// So that there are many: 64 MiB are 65,536 data chunks.
const LANES: u32 = 256;

const SMALL: usize = 1 << 20;
const LARGE: usize = 64 << 20;

/// Allocations that may be the control service's, or a batch's that grows for the last time.
const ASIDE: usize = 500;

/// Allocations while every rank sums a tensor of so many bytes once.
fn allocations(ranks: &mut [Communicator], bytes: usize, streams: usize) -> usize {
    let mut tensors: Vec<_> = ranks.iter().map(|_| vec![1.0_f32; bytes / 4]).collect();
    let region = Region::new(COUNTED);
    std::thread::scope(|scope| {
        for (rank, tensor) in ranks.iter_mut().zip(&mut tensors) {
            scope.spawn(|| rank.all_reduce(tensor).unwrap());
        }
    });
    let counted = region.change().allocations;
    for tensor in &tensors {
        assert!(
            tensor.iter().all(|value| *value == RANKS as f32),
            "{streams} streams"
        );
    }
    counted
}

#[test]
fn a_chunk_costs_no_allocation() {
    for (streams, shared_memory) in [(1, false), (2, false), (1, true)] {
        let mut config = HostConfig {
            shards: streams,
            ..HostConfig::loopback()
        };
        // Heartbeats are no chunks.
        config.control.heartbeat = Duration::from_secs(30);
        config.control.lost_after = Duration::from_secs(100);
        let host = UdpHost::start(&config).unwrap();
        let address = host.control_addr().to_string();
        let mut ranks: Vec<_> = std::thread::scope(|scope| {
            let ranks: Vec<_> = (0..RANKS as u32)
                .map(|rank| {
                    let config = Config {
                        lanes: Some(LANES),
                        shared_memory,
                        ..Config::new("counted", rank, RANKS as u32).with_aggregator(address.clone())
                    };
                    scope.spawn(|| Communicator::connect(config).unwrap())
                })
                .collect();
            ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
        });
        // Buffers that grow as they are needed have done so then.
        allocations(&mut ranks, LARGE, streams.into());
        let small = allocations(&mut ranks, SMALL, streams.into());
        let large = allocations(&mut ranks, LARGE, streams.into());
        assert!(
            large <= small + ASIDE,
            "{streams} streams, shared memory {shared_memory}: {large} allocations for {LARGE} bytes, {small} for {SMALL}"
        );
    }
}
