//! Ranks that are killed: the others go on without them (R-REFORM-3).

use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use agg_worker::{Communicator, Config, Error, OnLost};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::server::Server;
use crate::work::{Bits, OPERATIONS, Work, run_ranks};
use crate::{config, seeds};

const VICTIM: &str = "TRIBUTARY_FAILOVER_VICTIM";

fn shrinking(work: Work, rank: u32, server: &Server) -> Config {
    Config {
        on_lost: OnLost::Shrink,
        ..config("shrink", work, rank, &[server])
    }
}

/// Not a test: the process of the rank that is killed.
#[test]
#[ignore = "a rank of another test"]
fn victim() {
    let Ok(told) = std::env::var(VICTIM) else { return };
    let told: Vec<&str> = told.split(' ').collect();
    let [seed, ranks, rank, control] = told[..] else {
        panic!("{told:?}")
    };
    let work = Work {
        seed: seed.parse().unwrap(),
        ranks: ranks.parse().unwrap(),
    };
    let configuration = Config {
        aggregators: vec![control.to_owned()],
        on_lost: OnLost::Shrink,
        ..config("shrink", work, rank.parse().unwrap(), &[])
    };
    let mut world = Communicator::connect(configuration).unwrap();
    for operation in 0.. {
        work.reduce(&mut world, operation % OPERATIONS).unwrap();
    }
}

/// What a survivor saw: which operation ended with the lost rank, and the results after it.
#[derive(Debug, PartialEq)]
struct Survival {
    lost_at: usize,
    lost: Vec<u32>,
    left: u32,
    after: Vec<Bits>,
}

fn survive(work: Work, mut world: Communicator) -> Survival {
    let mut random = SmallRng::seed_from_u64(u64::from(world.rank()));
    let mut survival = None;
    for operation in 0.. {
        if random.random_ratio(1, 16) {
            thread::sleep(Duration::from_millis(random.random_range(0..20)));
        }
        match work.reduce(&mut world, operation % OPERATIONS) {
            Ok(bits) => {
                let after = survival.as_mut().map(|survival: &mut Survival| {
                    survival.after.push(bits);
                    survival.after.len()
                });
                if after == Some(10) {
                    break;
                }
            }
            Err(error) => {
                let text = error.to_string();
                let Error::RanksLost { lost, left, .. } = error else {
                    panic!("seed {}, operation {operation}: {text}", work.seed)
                };
                assert!(!text.contains('\n') && text.contains("undefined"), "{text}");
                assert_eq!(world.size(), left);
                assert!(survival.is_none(), "lost twice: {text}");
                survival = Some(Survival {
                    lost_at: operation,
                    lost,
                    left,
                    after: Vec::new(),
                });
            }
        }
    }
    world.close().unwrap();
    survival.unwrap()
}

#[test]
fn reform_3_survivors_of_a_killed_rank_go_on_from_the_same_operation() {
    for seed in seeds(2) {
        let work = Work {
            seed,
            ranks: 3 + (seed % 2) as u32,
        };
        let lost = (seed % u64::from(work.ranks)) as u32;
        let server = Server::start(1 + (seed % 2) as u16);
        let mut victim = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "lost_ranks::victim", "--ignored"])
            .env(VICTIM, format!("{seed} {} {lost} {}", work.ranks, server.control))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let killer = thread::spawn(move || {
            thread::sleep(Duration::from_millis(
                800 + SmallRng::seed_from_u64(seed).random_range(0..500),
            ));
            victim.kill().unwrap();
            victim.wait().unwrap();
        });
        let survivors: Vec<u32> = (0..work.ranks).filter(|rank| *rank != lost).collect();
        let configs = survivors.iter().map(|rank| shrinking(work, *rank, &server));
        let survivals = run_ranks(configs.collect(), move |world| survive(work, world));
        killer.join().unwrap();
        let first = &survivals[0];
        eprintln!("seed {seed}: rank {lost} was lost in operation {}", first.lost_at);
        assert!(
            survivals.iter().all(|survival| survival == first),
            "seed {seed}: {:?}",
            survivals
                .iter()
                .map(|survival| survival.lost_at)
                .collect::<Vec<_>>()
        );
        assert_eq!((first.lost.as_slice(), first.left), (&[lost][..], work.ranks - 1));
        for (index, bits) in first.after.iter().enumerate() {
            let operation = (first.lost_at + 1 + index) % OPERATIONS;
            if !work.is_float(operation) {
                let sum = work.sum(operation, survivors.iter().copied());
                assert!(*bits == sum, "seed {seed}, operation {operation}");
            }
        }
    }
}
