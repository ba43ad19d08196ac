//! Ranks that are killed: the others go on without them (R-REFORM-3).

use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use agg_worker::{Communicator, Config, Error, OnLost, Policy};
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};

use crate::server::Server;
use crate::work::{Bits, LANES, OPERATIONS, Work, run_ranks};
use crate::{config, seeds};

/// What a victim is told: seed, ranks, its rank, the aggregator, and the quorum or 0.
const VICTIM: &str = "TRIBUTARY_FAILOVER_VICTIM";

/// Operations after the last loss.
const AFTER: usize = 10;

/// `quorum` is 0 where all are waited for.
fn shrinking(work: Work, rank: u32, server: &str, quorum: u8) -> Config {
    let grace = Duration::from_millis(5);
    let history_bytes = 1 << 20;
    Config {
        aggregators: vec![server.to_owned()],
        on_lost: OnLost::Shrink,
        policy: match quorum {
            0 => Policy::All,
            members => Policy::Quorum {
                members,
                grace,
                history_bytes,
            },
        },
        ..config("shrink", work, rank, &[])
    }
}

/// A rank in a process of its own.
fn start_victim(work: Work, rank: u32, server: &Server, quorum: u8) -> Child {
    let told = format!("{} {} {rank} {} {quorum}", work.seed, work.ranks, server.control);
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "lost_ranks::victim", "--ignored"])
        .env(VICTIM, told)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// SIGKILL.
fn kill(mut victim: Child) {
    victim.kill().unwrap();
    victim.wait().unwrap();
}

/// Not a test: the process of the rank that is killed.
#[test]
#[ignore = "a rank of another test"]
fn victim() {
    let Ok(told) = std::env::var(VICTIM) else { return };
    let told: Vec<&str> = told.split(' ').collect();
    let [seed, ranks, rank, control, quorum] = told[..] else {
        panic!("{told:?}")
    };
    let work = Work {
        seed: seed.parse().unwrap(),
        ranks: ranks.parse().unwrap(),
    };
    let (rank, quorum) = (rank.parse().unwrap(), quorum.parse().unwrap());
    let mut world = Communicator::connect(shrinking(work, rank, control, quorum)).unwrap();
    for operation in 0.. {
        // The second victim sees the first one lost.
        match work.reduce(&mut world, operation % OPERATIONS) {
            Ok(_) | Err(Error::RanksLost { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// What a survivor saw: the operations that ended with lost ranks, and the results after the last.
#[derive(Debug, Default, PartialEq)]
struct Survival {
    lost: Vec<(usize, Vec<u32>)>,
    after: Vec<Bits>,
}

/// Works until so many ranks are lost, and a little longer. Before each operation, `pause` is called.
fn survive(
    work: Work,
    mut world: Communicator,
    victims: usize,
    mut pause: impl FnMut(u32, usize),
) -> Survival {
    let mut survival = Survival::default();
    for operation in 0.. {
        pause(world.rank(), operation);
        match work.reduce(&mut world, operation % OPERATIONS) {
            Ok(bits) if survival.lost.len() == victims => survival.after.push(bits),
            Ok(_) => {}
            Err(error) => {
                let text = error.to_string();
                let Error::RanksLost { lost, left, .. } = error else {
                    panic!("seed {}, operation {operation}: {text}", work.seed)
                };
                assert!(!text.contains('\n') && text.contains("undefined"), "{text}");
                assert_eq!(world.ranks().len(), left as usize);
                assert!(world.ranks().iter().all(|rank| !lost.contains(rank)));
                survival.lost.push((operation, lost));
            }
        }
        if survival.after.len() == AFTER {
            break;
        }
    }
    world.close().unwrap();
    survival
}

/// All saw the same, and the sums of integers are those of the survivors.
fn check(work: Work, survivors: &[u32], survivals: &[Survival]) {
    let first = &survivals[0];
    let lost: Vec<_> = survivals.iter().map(|survival| &survival.lost).collect();
    assert!(
        survivals.iter().all(|survival| survival == first),
        "seed {}: {lost:?}",
        work.seed
    );
    let last = first.lost.last().unwrap().0;
    for (operation, bits) in (last + 1..).zip(&first.after) {
        let operation = operation % OPERATIONS;
        if !work.is_float(operation) {
            let sum = work.sum(operation, survivors.iter().copied());
            assert!(*bits == sum, "seed {}, operation {operation}", work.seed);
        }
    }
}

#[test]
fn reform_3_survivors_of_a_killed_rank_go_on_from_the_same_operation() {
    for seed in seeds(2) {
        let ranks = 3 + (seed % 2) as u32;
        let work = Work { seed, ranks };
        let lost = (seed % u64::from(ranks)) as u32;
        let server = Server::start(1 + (seed % 2) as u16);
        let victim = start_victim(work, lost, &server, 0);
        let killer = thread::spawn(move || {
            let random = SmallRng::seed_from_u64(seed).random_range(0..500);
            thread::sleep(Duration::from_millis(800 + random));
            kill(victim);
        });
        let survivors: Vec<u32> = (0..ranks).filter(|rank| *rank != lost).collect();
        let configs = survivors
            .iter()
            .map(|rank| shrinking(work, *rank, &server.control, 0));
        let survivals = run_ranks(configs.collect(), move |world| {
            let mut random = SmallRng::seed_from_u64(u64::from(world.rank()));
            survive(work, world, 1, |_, _| {
                if random.random_ratio(1, 16) {
                    thread::sleep(Duration::from_millis(random.random_range(0..20)));
                }
            })
        });
        killer.join().unwrap();
        eprintln!("seed {seed}: lost {:?}", survivals[0].lost);
        check(work, &survivors, &survivals);
        assert_eq!(survivals[0].lost[0].1, [lost]);
    }
}

/// Two ranks are lost one after the other while a third computes: it has not come to the first one's operation when the
/// others are past it.
#[test]
fn reform_3_a_rank_that_is_busy_meanwhile_gets_every_loss() {
    let work = Work { seed: 1, ranks: 4 };
    // The others have to wait for this one, and for the next.
    let has_elements = |operation| work.len(operation) > 0;
    let busy_in = (50..).find(|first| has_elements(*first) && has_elements(first + 1));
    let busy_in = busy_in.unwrap();
    let server = Server::start(2);
    let victims = [1, 2].map(|rank| start_victim(work, rank, &server, 0));
    let (busy, told) = channel();
    let killer = thread::spawn(move || {
        told.recv().unwrap();
        for victim in victims {
            thread::sleep(Duration::from_millis(500));
            kill(victim);
            // Longer than the aggregator's `lost_after`.
            thread::sleep(Duration::from_millis(4000));
        }
    });
    let survivors = [0, 3];
    let configs = survivors.map(|rank| shrinking(work, rank, &server.control, 0));
    let survivals = run_ranks(configs.into(), move |world| {
        survive(work, world, 2, |rank, operation| {
            if (rank, operation) == (3, busy_in) {
                busy.send(()).unwrap();
                thread::sleep(Duration::from_secs(10));
            }
        })
    });
    killer.join().unwrap();
    check(work, &survivors, &survivals);
    let lost = [(busy_in, vec![1]), (busy_in + 1, vec![2])];
    assert_eq!(survivals[0].lost, lost);
}

/// Sums of floats go on without it at once, others when it has been removed. The sum that was under way may hold it in the
/// chunks that were complete by then; every survivor gets the same.
#[test]
fn quorum_5_the_others_of_a_quorum_go_on_without_a_killed_rank() {
    let work = Work { seed: 2, ranks: 3 };
    let server = Server::start(1);
    let victim = start_victim(work, 1, &server, 2);
    let killer = thread::spawn(move || {
        thread::sleep(Duration::from_millis(1000));
        kill(victim);
    });
    let configs = [0, 2].map(|rank| shrinking(work, rank, &server.control, 2));
    let sums = run_ranks(configs.into(), move |mut world| {
        let mut without = 0;
        let mut sums = Vec::new();
        for operation in 0.. {
            let operation = operation % OPERATIONS;
            let bits = work.reduce(&mut world, operation).unwrap();
            if !work.is_float(operation) && !bits.is_empty() {
                let survivors = work.sum(operation, [0, 2].into_iter());
                let all = work.sum(operation, 0..3);
                let chunks = bits
                    .chunks(LANES)
                    .zip(survivors.chunks(LANES).zip(all.chunks(LANES)));
                for (chunk, (survivors, all)) in chunks {
                    assert!(
                        chunk == survivors || (without == 0 && chunk == all),
                        "operation {operation}"
                    );
                }
                without += usize::from(bits == survivors);
                sums.push(bits);
            }
            if without == AFTER {
                break;
            }
        }
        world.close().unwrap();
        sums
    });
    killer.join().unwrap();
    assert!(sums[0] == sums[1], "the survivors have different sums");
}
