//! Workers that share a way: how many chunks they have in flight, and what that costs. Time is simulated.

mod common;

use agg_core::{OpKind, Operation};
use common::*;

/// 12 µs a packet: 1500 bytes at 1 Gbit/s.
const GAP: u64 = 12_000;
/// As deep as any.
const DEEP: u64 = 100_000;

const ELEMENTS: usize = 4000 * LANES;

fn numbers(member: usize) -> Vec<i32> {
    (0..ELEMENTS).map(|i| (i * 7 + member) as i32).collect()
}

/// Sums once, checks the sum, and returns how long it took, in ns.
fn sum(cluster: &mut Cluster) -> u64 {
    let members = cluster.workers.len();
    let mut values: Vec<_> = (0..members).map(|m| Some(Values::I32(numbers(m)))).collect();
    let operation = Operation {
        kind: OpKind::SUM_I32,
        elements: ELEMENTS as u64,
    };
    let began = cluster.now;
    cluster.run(operation, &mut values, |_| {}).unwrap();
    let expected: Vec<_> = (0..ELEMENTS)
        .map(|i| (0..members).map(|member| (i * 7 + member) as i32).sum::<i32>())
        .collect();
    for values in values {
        assert!(matches!(values, Some(Values::I32(values)) if values == expected));
    }
    cluster.now - began
}

fn cluster(members: usize, window: u16, weather: Weather, bottleneck: Option<Bottleneck>) -> Cluster {
    let mut cluster = Cluster::new(members, window, 0, weather, 7);
    cluster.bottleneck = bottleneck;
    cluster
}

/// Over all members.
fn total(cluster: &Cluster, count: impl Fn(&agg_core::worker::WorkerStats) -> u64) -> u64 {
    cluster.workers.iter().map(|worker| count(worker.stats())).sum()
}

/// The time that the bottleneck needs for what a number of members send.
fn least(members: usize) -> u64 {
    (ELEMENTS / LANES * members) as u64 * GAP
}

#[test]
fn cc_2_a_way_that_is_not_congested_is_used_whole() {
    let mut cluster = cluster(4, 256, Weather::FAIR, Some(Bottleneck::new(GAP, DEEP, DEEP)));
    sum(&mut cluster);
    let took = sum(&mut cluster);
    assert!(took < least(4) * 102 / 100, "{took}");
    let (sent, resent) = (total(&cluster, |s| s.sent), total(&cluster, |s| s.resent()));
    assert!(resent < sent / 50, "{resent} of {sent}");
}

/// Incast: four members, a switch with 50 packets for all of them. The job's window alone would have 1024 in flight.
#[test]
fn cc_5_a_shallow_queue_is_shared() {
    let mut cluster = cluster(4, 256, Weather::FAIR, Some(Bottleneck::new(GAP, 50, DEEP)));
    for _ in 0..3 {
        let took = sum(&mut cluster);
        assert!(took < 2 * least(4), "{took}");
    }
    let (sent, resent) = (total(&cluster, |s| s.sent), total(&cluster, |s| s.resent()));
    assert!(resent < sent / 3, "{resent} of {sent}");
    assert!(total(&cluster, |stats| stats.decreases) > 0);
}

#[test]
fn ecn_2_marks_keep_a_queue_short_without_loss() {
    let mut cluster = cluster(4, 256, Weather::FAIR, Some(Bottleneck::new(GAP, 200, 20)));
    sum(&mut cluster);
    let before = (cluster.bottleneck.unwrap().lost, total(&cluster, |s| s.resent()));
    let took = sum(&mut cluster);
    assert!(took < least(4) * 105 / 100, "{took}");
    let after = (cluster.bottleneck.unwrap().lost, total(&cluster, |s| s.resent()));
    assert_eq!(before, after, "nothing is lost once the window is found");
    for worker in &cluster.workers {
        assert!(worker.congestion_window() < 64, "{}", worker.congestion_window());
        assert!(worker.stats().marked > 0, "each member sees the marks of all");
    }
}

/// Four members at a fast aggregator, each way with random loss: what it costs is bounded.
#[test]
fn cc_5_random_loss_costs_little() {
    let lossy = |loss| {
        let weather = Weather {
            loss,
            duplicate: 0.0,
            jitter: 20_000,
        };
        let mut cluster = cluster(4, 256, weather, Some(Bottleneck::new(GAP, DEEP, DEEP)));
        sum(&mut cluster);
        (0..4).map(|_| sum(&mut cluster)).sum::<u64>()
    };
    let free = lossy(0.0);
    for (loss, part) in [(0.001, 0.9), (0.01, 0.7)] {
        let ratio = free as f64 / lossy(loss) as f64;
        assert!(ratio > part, "{loss}: {ratio}");
    }
}

/// Each result waits for the repair of somebody's loss. Were that taken for the round trip, each repair would make the next
/// one later, until all timers were at their longest: the sums below took hundreds of times as long.
#[test]
fn resend_1_repairs_do_not_put_off_repairs() {
    for (members, loss, most) in [(4, 0.1, 5), (16, 0.1, 20), (16, 0.19, 60)] {
        let summed = |loss| {
            let weather = Weather {
                loss,
                duplicate: 0.0,
                jitter: 50_000,
            };
            let mut cluster = cluster(members, 64, weather, Some(Bottleneck::new(GAP / 4, DEEP, DEEP)));
            sum(&mut cluster);
            (0..2).map(|_| sum(&mut cluster)).sum::<u64>()
        };
        let (free, lossy) = (summed(0.0), summed(loss));
        assert!(
            lossy < most * free,
            "{members} members, {loss}: {lossy} and {free} without"
        );
    }
}

/// Sixteen members at the same queue: their least windows alone overflow it.
#[test]
fn resend_2_incast_of_many_members_goes_on() {
    let mut cluster = cluster(16, 256, Weather::FAIR, Some(Bottleneck::new(GAP, 50, DEEP)));
    let took = (0..2).map(|_| sum(&mut cluster)).sum::<u64>();
    assert!(took < 8 * least(16), "{took}");
}

/// A member that is late now and then keeps the others waiting, which is no congestion.
#[test]
fn cc_4_a_straggler_does_not_shrink_the_windows() {
    let mut cluster = cluster(4, 64, Weather::FAIR, None);
    cluster.slow = Some((2, 30_000_000));
    sum(&mut cluster);
    for (member, worker) in cluster.workers.iter().enumerate() {
        assert_eq!(worker.stats().decreases, 0, "member {member}");
        assert_eq!(worker.congestion_window(), 64, "member {member}");
    }
}

/// Members that have results in different order have chunks in flight in different order, too: with windows that are full
/// each would wait for the other for ever, but for the oldest chunk (R-CC-1).
#[test]
fn cc_1_full_windows_do_not_wait_for_each_other() {
    for seed in 0..20 {
        let weather = Weather {
            loss: 0.4,
            duplicate: 0.0,
            jitter: 400_000,
        };
        let mut cluster = Cluster::new(2 + seed as usize % 3, 128, 0, weather, seed);
        cluster.bottleneck = Some(Bottleneck::new(GAP, 10, DEEP));
        sum(&mut cluster);
        assert!(
            cluster
                .workers
                .iter()
                .any(|worker| worker.congestion_window() < 16),
            "seed {seed}: windows are small"
        );
    }
}
