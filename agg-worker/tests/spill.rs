//! Windows larger than the aggregator's slot memory: sums that wait for a late rank are kept in deeper memory, here or
//! lent (R-SPILL).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agg_worker::{Communicator, Config};
use udp_host::{HostConfig, Lender, UdpHost};

const RANKS: u32 = 3;
const ELEMENTS: usize = 400_000;

/// Ten sums with a late rank in a window of some 2 MiB and slot memory of 1 MiB. `interfere` is called by rank 0 after
/// each of them.
fn run(host: &UdpHost, interfere: impl Fn(u32) + Sync) {
    let address = host.control_addr().to_string();
    std::thread::scope(|scope| {
        for rank in 0..RANKS {
            let (address, interfere) = (&address, &interfere);
            scope.spawn(move || {
                let config = Config {
                    window: Some(1024),
                    lanes: Some(256),
                    ..Config::new("spill", rank, RANKS).with_aggregator(address)
                };
                let mut world = Communicator::connect(config).unwrap();
                for round in 0..10 {
                    if rank == RANKS - 1 {
                        std::thread::sleep(Duration::from_millis(40));
                    }
                    let value = |rank: u32, at: usize| (rank + 1) as i32 * (at as i32 + round as i32);
                    let mut values: Vec<i32> = (0..ELEMENTS).map(|at| value(rank, at)).collect();
                    world.all_reduce(&mut values).unwrap();
                    for (at, sum) in values.into_iter().enumerate() {
                        let expected = (0..RANKS).fold(0_i32, |sum, rank| sum.wrapping_add(value(rank, at)));
                        assert_eq!(sum, expected, "round {round}, element {at}");
                    }
                    if rank == 0 {
                        interfere(round);
                    }
                }
                world.close().unwrap();
            });
        }
    });
}

fn count(host: &UdpHost, name: &str) -> u64 {
    let counters = host.counters().into_iter().flat_map(|shard| shard.values);
    counters
        .filter(|(counter, _)| counter == name)
        .map(|(_, count)| count)
        .sum()
}

fn config() -> HostConfig {
    HostConfig {
        memory_mib: 1,
        store_mib: 16,
        ..HostConfig::loopback()
    }
}

#[test]
fn a_window_beyond_the_slot_memory_uses_deeper_memory() {
    let host = UdpHost::start(&config()).unwrap();
    run(&host, |_| {});
    let spilled = count(&host, "sums_put_into_store");
    assert!(spilled > 100, "{spilled}");
}

#[test]
fn a_lender_that_dies_loses_nothing_but_time() {
    let mut lender = Lender::bind("127.0.0.1:0".parse().unwrap(), 16 << 20).unwrap();
    let address = lender.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let lending = std::thread::spawn(move || lender.run(&stopped));
    let host = UdpHost::start(&HostConfig {
        lender: Some(address),
        ..config()
    })
    .unwrap();
    run(&host, |round| {
        if round == 4 {
            let recalled = count(&host, "sums_recalled_from_store");
            assert!(recalled > 50, "{recalled}");
            stop.store(true, Ordering::Relaxed);
        }
    });
    lending.join().unwrap().unwrap();
}
