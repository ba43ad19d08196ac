//! Whole worlds on loopback: an aggregator in this process, a thread a rank.

use std::time::Duration;

use agg_worker::{Buffer, Communicator, Config, Error};
use fixed::types::I16F16;
use udp_host::{HostConfig, UdpHost};
use udp_io::FaultConfig;

/// Runs `body` on every rank of a world and returns what each gave.
fn world<T: Send>(
    host: &UdpHost,
    name: &str,
    size: u32,
    configure: impl Fn(Config) -> Config + Sync,
    body: impl Fn(Communicator) -> T + Sync,
) -> Vec<T> {
    let address = host.control_addr().to_string();
    std::thread::scope(|scope| {
        let ranks: Vec<_> = (0..size)
            .map(|rank| {
                let config = configure(Config::new(name, rank, size).with_aggregator(address.clone()));
                let body = &body;
                scope.spawn(move || body(Communicator::connect(config).unwrap()))
            })
            .collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn values(rank: u32, len: usize) -> Vec<f32> {
    (0..len)
        .map(|index| ((index * 37 + rank as usize * 101) % 1009) as f32 / 64.0 - 7.0)
        .collect()
}

fn host(shards: u16) -> UdpHost {
    UdpHost::start(&HostConfig {
        shards,
        ..HostConfig::loopback()
    })
    .unwrap()
}

#[test]
fn floats_of_every_size_are_summed_alike_on_every_rank() {
    let host = host(1);
    let sums = world(
        &host,
        "sizes",
        3,
        |config| config,
        |mut rank| {
            let mut sums = Vec::new();
            for len in [0, 1, 7, 8192, 8193, 100_001] {
                let mut tensor = values(rank.rank(), len);
                rank.all_reduce(&mut tensor).unwrap();
                for (index, value) in tensor.iter().enumerate() {
                    let exact: f32 = (0..3).map(|rank| values(rank, len)[index]).sum();
                    assert!(
                        (value - exact).abs() < 1e-5,
                        "element {index} of {len}: {value} for {exact}"
                    );
                    if len > 1000 && index > 100 {
                        break;
                    }
                }
                sums.push(tensor.iter().map(|value| value.to_bits()).collect::<Vec<_>>());
            }
            rank.close().unwrap();
            sums
        },
    );
    assert!(sums.iter().all(|sum| *sum == sums[0]));
}

#[test]
fn loss_duplication_and_reordering_change_no_bit() {
    let run = |name: &str, faults: FaultConfig, lanes, shards| {
        let host = host(shards);
        let configure = |config: Config| Config {
            faults,
            lanes: Some(lanes),
            ..config
        };
        world(&host, name, 4, configure, |mut rank| {
            let mut tensor = values(rank.rank(), 300_000);
            rank.all_reduce(&mut tensor).unwrap();
            let stats = rank.stats();
            rank.close().unwrap();
            assert!(stats.resends > 0 || faults.is_none(), "{stats:?}");
            tensor.iter().map(|value| value.to_bits()).collect::<Vec<_>>()
        })
    };
    let calm = run("calm", FaultConfig::default(), 352, 1);
    let foul = FaultConfig {
        loss: "1%".parse().unwrap(),
        duplicate: "1%".parse().unwrap(),
        reorder: "2%".parse().unwrap(),
        seed: 7,
        ..FaultConfig::default()
    };
    assert!(calm.iter().all(|bits| *bits == calm[0]));
    for shards in [1, 3] {
        let bits = run("foul", foul, 352, shards);
        assert!(bits.iter().all(|bits| *bits == calm[0]), "{shards} shards");
    }
}

#[test]
fn integers_fixed_point_barriers_and_broadcasts() {
    let host = host(2);
    world(
        &host,
        "kinds",
        2,
        |config| config,
        |mut rank| {
            let mut integers = vec![i32::MAX, rank.rank() as i32, -5];
            rank.all_reduce(&mut integers).unwrap();
            assert_eq!(integers, [-2, 1, -10]);
            let mut fixed = vec![I16F16::from_num(1.5); 3];
            rank.all_reduce(&mut fixed).unwrap();
            assert_eq!(fixed, [3; 3]);
            rank.barrier().unwrap();
            let mut copied = vec![f32::NAN, -0.0, f32::from_bits(0x7f80_1234), rank.rank() as f32];
            rank.broadcast(1, &mut copied).unwrap();
            let bits: Vec<_> = copied.iter().map(|value| value.to_bits()).collect();
            assert_eq!(bits, [f32::NAN.to_bits(), 1 << 31, 0x7f80_1234, 1_f32.to_bits()]);
            assert!(matches!(
                rank.broadcast(2, &mut copied),
                Err(Error::Root { root: 2, .. })
            ));
            rank.close().unwrap();
        },
    );
}

#[test]
fn submitted_operations_keep_their_order_among_blocking_ones() {
    let host = host(1);
    world(
        &host,
        "async",
        2,
        |config| config,
        |mut rank| {
            let pending: Vec<_> = (1..=8).map(|value| rank.submit(vec![value; 5000])).collect();
            let mut blocking = vec![100; 10];
            rank.all_reduce(&mut blocking).unwrap();
            assert_eq!(blocking, [200; 10]);
            for (index, pending) in pending.into_iter().enumerate() {
                // All were before the blocking one: they have ended.
                let Ok(done) = pending.wait_timeout(Duration::from_secs(1)) else {
                    panic!("{index} is not done")
                };
                assert_eq!(done.unwrap(), vec![2 * (index as i32 + 1); 5000]);
            }
            rank.close().unwrap();
        },
    );
}

#[test]
fn a_rank_that_stays_away_is_named_by_all_others() {
    let host = host(1);
    let configure = |config: Config| Config {
        timeout: Duration::from_secs(1),
        ..config
    };
    let errors = world(&host, "absent", 3, configure, |mut rank| {
        if rank.rank() == 1 {
            std::thread::sleep(Duration::from_secs(3));
            return String::new();
        }
        rank.all_reduce(&mut [1.0_f32; 100]).unwrap_err().to_string()
    });
    for rank in [0, 2] {
        assert!(
            errors[rank].contains("rank 1 did not contribute within 1.0 s"),
            "{}",
            errors[rank]
        );
    }
}

#[test]
fn ranks_that_disagree_are_told_what_the_others_called() {
    let host = host(1);
    let configure = |config: Config| Config {
        timeout: Duration::from_secs(5),
        ..config
    };
    let errors = world(&host, "differ", 2, configure, |mut rank| {
        let mut tensor = vec![1.0_f32; if rank.rank() == 0 { 1000 } else { 1001 }];
        rank.all_reduce(&mut tensor).unwrap_err().to_string()
    });
    let about = |error: &String| {
        error.contains("disagree") && (error.contains("1000 f32") || error.contains("1001 f32"))
    };
    assert!(errors.iter().all(about), "{errors:?}");
}

/// A buffer whose owner is broken.
struct Broken;

impl Buffer for Broken {
    type Element = i32;

    fn elements(&mut self) -> &mut [i32] {
        panic!("this test's buffer is broken");
    }
}

#[test]
fn a_panic_in_a_buffer_is_an_error_for_every_rank_and_hangs_nobody() {
    let host = host(1);
    let errors = world(
        &host,
        "panic",
        2,
        |config| Config {
            timeout: Duration::from_secs(5),
            ..config
        },
        |mut rank| {
            if rank.rank() == 1 {
                return rank.all_reduce(&mut [1_i32; 100]).unwrap_err().to_string();
            }
            let broken = rank.submit(Broken);
            let after = rank.submit(vec![1_i32; 100]);
            let blocking = rank.all_reduce(&mut [1_i32; 100]).unwrap_err();
            for error in [
                broken.wait().map(|_| ()).unwrap_err(),
                after.wait().map(|_| ()).unwrap_err(),
                blocking,
            ] {
                assert!(matches!(error, Error::BufferPanicked { rank: 0, .. }), "{error}");
            }
            String::new()
        },
    );
    assert!(
        errors[1].contains("rank 0") && errors[1].contains("panicked"),
        "{}",
        errors[1]
    );
}

#[test]
fn the_first_error_is_that_of_everything_submitted() {
    let host = host(1);
    let configure = |config: Config| Config {
        timeout: Duration::from_secs(1),
        ..config
    };
    let started = std::time::Instant::now();
    world(&host, "queue", 2, configure, |mut rank| {
        if rank.rank() == 1 {
            std::thread::sleep(Duration::from_secs(3));
            return;
        }
        let pending: Vec<_> = (0..20).map(|_| rank.submit(vec![1_i32; 100])).collect();
        for pending in pending {
            let error = pending.wait().unwrap_err();
            assert!(
                error
                    .to_string()
                    .contains("rank 1 did not contribute within 1.0 s"),
                "{error}"
            );
        }
    });
    // One deadline, not twenty.
    assert!(
        started.elapsed() < Duration::from_secs(15),
        "{:?}",
        started.elapsed()
    );
}

/// Who polls before it sleeps gets the same sums, also where it is longer than anything takes, and goes on to sleep where it is
/// shorter: a rank that comes late is waited for.
#[test]
fn ranks_and_shards_that_poll_before_they_sleep_sum_alike() {
    for micros in [20, 200_000] {
        let host = UdpHost::start(&HostConfig {
            busy_poll_us: micros,
            ..HostConfig::loopback()
        })
        .unwrap();
        let polls = |config| Config {
            busy_poll: Duration::from_micros(micros.into()),
            ..config
        };
        let sums = world(&host, "polling", 3, polls, |mut rank| {
            let mut sum = 0.0;
            for operation in 0..20 {
                if rank.rank() == 2 && operation % 5 == 0 {
                    std::thread::sleep(Duration::from_millis(60));
                }
                let mut tensor = values(rank.rank(), 1000);
                rank.all_reduce(&mut tensor).unwrap();
                sum += f64::from(tensor[7]);
            }
            rank.close().unwrap();
            sum
        });
        let exact: f64 = (0..3).map(|rank| f64::from(values(rank, 1000)[7]) * 20.0).sum();
        assert!(
            sums.iter().all(|sum| (sum - exact).abs() < 1e-3),
            "{sums:?} for {exact}"
        );
    }
    let refused = UdpHost::start(&HostConfig {
        busy_poll_us: 1_000_001,
        ..HostConfig::loopback()
    });
    assert!(refused.unwrap_err().to_string().contains("busy_poll_us"));
}

/// R-PROBE-3: over loopback every chunk size comes back, so the largest that is wanted is taken; and that is looked at, not
/// believed.
#[test]
fn probe_3_a_rank_looks_which_chunks_get_to_its_aggregator() {
    let host = host(1);
    for (wanted, found) in [(None, 2048), (Some(8192), 8192)] {
        let by_udp = |config| Config {
            shared_memory: false,
            lanes: wanted,
            ..config
        };
        let lanes = world(&host, "probing", 2, by_udp, |rank| rank.stats().lanes);
        assert_eq!(lanes, [found; 2]);
    }
    let answered = |name| {
        let counters = host.counters();
        let values = counters[0].values.iter();
        values
            .filter(|(counter, _)| counter == name)
            .map(|(_, count)| count)
            .sum::<u64>()
    };
    // Each rank had its answer to the largest at least.
    assert!(answered("probes_answered") >= 4);
}
