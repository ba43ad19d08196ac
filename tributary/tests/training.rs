//! Whole trainings through the library's public face, with an all-reduce between threads.

use std::convert::Infallible;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use tributary::demo::{AllReduce, NoReduce, Stagger, TrainConfig, TrainError, TrainOutcome, train};

/// Sums in memory, as fixed-point integers: the order of arrival does not matter.
#[derive(Clone)]
struct Threads {
    sums: Arc<Mutex<Vec<i64>>>,
    barrier: Arc<Barrier>,
}

/// Fraction bits, about as many as a chunk's exponent leaves on the wire.
const SCALE: f64 = (1 << 26) as f64;

impl Threads {
    fn new(world: usize) -> Self {
        Self {
            sums: Arc::default(),
            barrier: Arc::new(Barrier::new(world)),
        }
    }
}

impl AllReduce for Threads {
    type Error = Infallible;

    fn sum(&mut self, gradient: &mut [f32]) -> Result<(), Infallible> {
        {
            let mut sums = self.sums.lock().unwrap();
            sums.resize(gradient.len(), 0);
            for (sum, value) in sums.iter_mut().zip(gradient.iter()) {
                *sum += (f64::from(*value) * SCALE).round() as i64;
            }
        }
        self.barrier.wait();
        for (value, sum) in gradient.iter_mut().zip(self.sums.lock().unwrap().iter()) {
            *value = (*sum as f64 / SCALE) as f32;
        }
        // All have read before one clears, and it is clear before any adds again.
        if self.barrier.wait().is_leader() {
            self.sums.lock().unwrap().fill(0);
        }
        self.barrier.wait();
        Ok(())
    }
}

fn alone(config: &TrainConfig) -> TrainOutcome {
    train(config, 0, 1, &mut NoReduce, |_| {}).unwrap()
}

fn together(config: &TrainConfig, world: usize) -> Vec<TrainOutcome> {
    let threads = Threads::new(world);
    thread::scope(|scope| {
        let worker = |rank| {
            let mut threads = threads.clone();
            scope.spawn(move || train(config, rank, world, &mut threads, |_| {}).unwrap())
        };
        let workers: Vec<_> = (0..world).map(worker).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).collect()
    })
}

fn epochs(epochs: usize) -> TrainConfig {
    TrainConfig {
        epochs,
        ..TrainConfig::default()
    }
}

#[test]
fn one_process_learns_and_repeats_to_the_bit() {
    let mut seen = Vec::new();
    let first = train(&epochs(6), 0, 1, &mut NoReduce, |record| seen.push(*record)).unwrap();
    let last = first.epochs[5];
    assert!(last.accuracy >= 0.95, "accuracy {}", last.accuracy);
    assert!(last.loss < 0.3 * first.epochs[0].loss);
    assert_eq!(seen, first.epochs);
    assert_eq!(first.steps.len(), 6 * 1437usize.div_ceil(96));
    assert_eq!(alone(&epochs(6)).digest, first.digest);
    assert_ne!(
        alone(&TrainConfig { seed: 2, ..epochs(1) }).digest,
        alone(&epochs(1)).digest
    );
}

#[test]
fn three_workers_agree_to_the_bit_in_any_arrival_order() {
    let config = epochs(3);
    let workers = together(&config, 3);
    let stagger = Stagger {
        longest: Duration::from_millis(1),
        seed: 9,
    };
    let staggered = together(
        &TrainConfig {
            stagger: Some(stagger),
            ..config.clone()
        },
        3,
    );
    for worker in workers.iter().chain(&staggered) {
        assert_eq!(worker.digest, workers[0].digest);
        assert_eq!(worker.epochs, workers[0].epochs);
    }
    for (epoch, single) in workers[0].epochs.iter().zip(&alone(&config).epochs) {
        assert!(
            (epoch.loss - single.loss).abs() < 1e-3,
            "{epoch:?} and {single:?}"
        );
    }
}

#[test]
fn more_workers_than_images_still_train() {
    let config = TrainConfig {
        global_batch: 10,
        ..epochs(1)
    };
    let workers = together(&config, 13);
    assert!(workers.iter().all(|worker| worker.digest == workers[0].digest));
    assert!((workers[0].epochs[0].loss - alone(&config).epochs[0].loss).abs() < 1e-2);
}

#[test]
fn bad_settings_and_divergence_say_what_to_do() {
    let attempt = |config: TrainConfig, rank, world| {
        train(&config, rank, world, &mut NoReduce, |_| {})
            .unwrap_err()
            .to_string()
    };
    assert!(attempt(epochs(0), 0, 1).contains("must be at least 1"));
    assert!(
        attempt(
            TrainConfig {
                global_batch: 0,
                ..epochs(1)
            },
            0,
            1
        )
        .contains("must be at least 1")
    );
    assert!(attempt(epochs(1), 4, 4).contains("rank 4 of 4"));
    let wild = TrainConfig {
        learning_rate: 1e6,
        ..epochs(3)
    };
    assert!(attempt(wild, 0, 1).contains("smaller learning rate"));
}

#[test]
fn a_failed_sum_names_its_step() {
    struct Fails(u64);
    impl AllReduce for Fails {
        type Error = &'static str;
        fn sum(&mut self, _: &mut [f32]) -> Result<(), &'static str> {
            self.0 += 1;
            if self.0 == 3 {
                Err("rank 2 is gone")
            } else {
                Ok(())
            }
        }
    }
    let error = train(&epochs(1), 0, 2, &mut Fails(0), |_| {}).unwrap_err();
    assert!(
        matches!(
            error,
            TrainError::AllReduce {
                step: 2,
                source: "rank 2 is gone"
            }
        ),
        "{error:?}"
    );
}
