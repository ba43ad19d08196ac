//! Sums that do not wait for everybody, and what becomes of what was late (R-QUORUM).

use std::time::Duration;

use agg_worker::{Communicator, Config, Contribution, Error, Feedback, Policy};
use udp_host::{HostConfig, UdpHost};

const LEN: usize = 5000;

fn world<T: Send>(name: &str, size: u32, policy: Policy, body: impl Fn(Communicator) -> T + Sync) -> Vec<T> {
    let host = UdpHost::start(&HostConfig::loopback()).unwrap();
    let address = host.control_addr().to_string();
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let config = Config {
                    policy,
                    lanes: Some(256),
                    ..Config::new(name, rank, size).with_aggregator(address.clone())
                };
                let body = &body;
                scope.spawn(move || body(Communicator::connect(config).unwrap()))
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn quorum(members: u8, grace: Duration) -> Policy {
    Policy::Quorum {
        members,
        grace,
        history_bytes: 16 << 20,
    }
}

fn gradient(index: usize) -> f32 {
    1.0 + (index % 97) as f32 / 16.0
}

/// Rank 3 has something to say, but comes late with it; the others have zeros. Called again with zeros as long as it is
/// behind, it has contributed everything in the end.
#[test]
fn quorum_4_a_straggler_catches_up_with_zeros_and_loses_nothing() {
    const OPERATIONS: usize = 200;
    let outcomes = world(
        "straggler",
        4,
        quorum(3, Duration::from_millis(20)),
        |mut world| {
            let mut feedback = Feedback::new(LEN);
            let mut total = vec![0.0_f64; LEN];
            let mut contributions = Vec::new();
            for operation in 0..OPERATIONS {
                if operation == OPERATIONS - 10 {
                    // It waits for all, so that the last ones are in time.
                    world.barrier().unwrap();
                }
                let is_behind = contributions.last().is_some_and(Contribution::was_late);
                let computes = world.rank() == 3 && operation < 3 && !is_behind;
                if computes {
                    std::thread::sleep(Duration::from_millis(200));
                } else if world.rank() != 3 {
                    std::thread::sleep(Duration::from_millis(2));
                }
                let mut values: Vec<f32> = (0..LEN)
                    .map(|index| if computes { gradient(index) } else { 0.0 })
                    .collect();
                let contribution = world
                    .all_reduce_with_feedback(&mut values, &mut feedback)
                    .unwrap();
                assert_eq!(contribution.chunks, LEN.div_ceil(256) as u64);
                contributions.push(contribution);
                for (total, value) in total.iter_mut().zip(values) {
                    *total += f64::from(value);
                }
            }
            let late = world.stats().late;
            world.close().unwrap();
            (contributions, total, feedback, late)
        },
    );
    let (contributions, _, feedback, late) = &outcomes[3];
    assert!(
        contributions.iter().any(Contribution::was_late) && *late > 0,
        "rank 3 was never late"
    );
    let last = contributions.last().unwrap();
    assert!(last.is_complete(), "{last:?}");
    assert!(
        feedback.residual().iter().all(|value| value.abs() < 1e-6),
        "something is left over"
    );
    let computed = 1 + contributions[..2].iter().filter(|one| !one.was_late()).count();
    for (index, total) in outcomes[0].1.iter().enumerate() {
        // A sum that lacks one of the others, too, is scaled up to four thirds.
        let share = total / (computed as f64 * f64::from(gradient(index)));
        assert!((0.99..1.35).contains(&share), "element {index}: {share}");
    }
    for (_, total, _, _) in &outcomes[1..] {
        assert_eq!(*total, outcomes[0].1);
    }
}

#[test]
fn quorum_1_sums_without_feedback_integers_and_barriers_work() {
    world("plain", 3, quorum(2, Duration::from_millis(50)), |mut world| {
        for _ in 0..20 {
            let mut values = vec![1.5_f32; LEN];
            world.all_reduce(&mut values).unwrap();
            assert!(values.iter().all(|value| (value - 4.5).abs() < 1e-5));
            let mut integers = vec![7; 300];
            world.all_reduce(&mut integers).unwrap();
            assert_eq!(integers, [21; 300]);
            world.barrier().unwrap();
        }
        world.close().unwrap();
    });
}

#[test]
fn feedback_holds_what_rounding_took_where_all_are_summed() {
    let outcomes = world("rounding", 2, Policy::All, |mut world| {
        let mut feedback = Feedback::new(LEN);
        // Next to 2^20 the small ones are below a unit.
        let mut values: Vec<f32> = (0..LEN)
            .map(|index| if index % 2 == 0 { 1_048_576.0 } else { 1e-5 })
            .collect();
        let contribution = world
            .all_reduce_with_feedback(&mut values, &mut feedback)
            .unwrap();
        assert!(contribution.is_complete() && !contribution.was_late());
        assert!(
            feedback
                .residual()
                .iter()
                .skip(1)
                .step_by(2)
                .all(|rest| *rest == 1e-5)
        );
        let (zeros, feedback, contribution) = world
            .submit_with_feedback(vec![0.0; LEN], feedback)
            .wait()
            .unwrap();
        assert!(contribution.is_complete());
        assert!(
            zeros
                .iter()
                .skip(1)
                .step_by(2)
                .all(|sum| (sum - 2e-5).abs() < 1e-9)
        );
        assert!(feedback.residual().iter().all(|rest| rest.abs() < 1e-9));
        let error = world
            .all_reduce_with_feedback(&mut [0.0; 3], &mut Feedback::new(4))
            .unwrap_err();
        assert!(
            matches!(
                error,
                Error::FeedbackLength {
                    feedback: 4,
                    values: 3
                }
            ),
            "{error}"
        );
        world.close().unwrap();
        zeros
    });
    assert_eq!(outcomes[0], outcomes[1]);
}
