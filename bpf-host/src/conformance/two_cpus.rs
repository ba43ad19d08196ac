//! Two CPUs that merge into the same slots at once: no lane is wrong, and no bit is lost.

mod affinity;
mod scene;

use agg_core::wire::HEADER_LEN;
use agg_core::{Counter, Endpoint, Epoch, JobConfig, Lanes, MAX_MEMBERS, Member, MemberSet, Policy, Round};

use self::affinity::{cpus, stay_on};
use self::scene::{Scene, Share};
use super::frames;
use super::kernel::Kernel;

const KEY: u64 = 0x7e57;
const EPOCH: Epoch = Epoch(3);
const SLOTS: u16 = 2;
/// So that rounds wrap around on the way.
const FIRST_ROUND: u32 = u32::MAX - 500;
/// How often each slot is filled.
const ROUNDS: u32 = 2000;

fn job(lanes: Lanes, policy: Policy, generations: u16) -> JobConfig {
    let member = |number: usize| Member {
        source: Endpoint::from(std::net::SocketAddr::from(source(number))),
        set: MemberSet::single(number as u8),
        workers: 1,
    };
    JobConfig {
        key: KEY,
        epoch: EPOCH,
        members: (0..MAX_MEMBERS).map(member).collect(),
        lanes,
        window: SLOTS,
        generations,
        policy,
        parent: None,
        frames: None,
    }
}

fn source(member: usize) -> std::net::SocketAddrV4 {
    frames::address(frames::v4(([0xfd; 16], 2000 + member as u16)))
}

fn run(config: &JobConfig, share: Share) {
    let cpus = cpus();
    assert!(
        cpus.len() >= 2,
        "this test is about two CPUs, and may use {cpus:?} only"
    );
    let mut kernel = Kernel::load(1 << 20);
    kernel.admit(config);
    kernel.set_clock(1_000_000_000);
    let lanes = config.lanes.count();
    let scene = Scene::new(lanes, share);
    let frames = || -> Vec<Vec<u8>> {
        let empty = vec![0; HEADER_LEN + 4 * lanes];
        (0..MAX_MEMBERS)
            .map(|member| frames::padded(source(member), &empty))
            .collect()
    };
    let program = kernel.program();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let _attendance = scene.attend();
            stay_on(cpus[1]);
            let mut frames = frames();
            let mut results = Vec::new();
            for number in 0..ROUNDS {
                scene.meet();
                results.push(scene.send(1, program, &mut frames, FIRST_ROUND.wrapping_add(number)));
                scene.meet();
                // The other looks at the slots.
                scene.meet();
            }
            results
        });
        let _attendance = scene.attend();
        stay_on(cpus[0]);
        let mut frames = frames();
        let mut results = Vec::new();
        for number in 0..ROUNDS {
            let round = FIRST_ROUND.wrapping_add(number);
            scene.meet();
            results.push(scene.send(0, program, &mut frames, round));
            scene.meet();
            look(&kernel, &scene, config, round);
            scene.meet();
        }
        let other = other.join().expect("the other CPU's thread");
        for (mine, other) in results.iter().zip(&other) {
            for slot in 0..usize::from(SLOTS) {
                assert_eq!(mine[slot] + other[slot], 1, "results of a slot's round");
            }
        }
    });
    let filled = u64::from(ROUNDS) * u64::from(SLOTS);
    let members = MAX_MEMBERS as u64;
    let counted = kernel.counted();
    assert_eq!(counted.of(Counter::Merged), filled * (members - 1));
    assert_eq!(counted.of(Counter::Completed), filled);
    let again = counted.of(Counter::Duplicate) + counted.of(Counter::Replayed);
    assert_eq!(
        again,
        if share == Share::Twice {
            filled * members
        } else {
            0
        }
    );
    let met = scene.met();
    println!(
        "{filled} results of {members} members in chunks of {lanes} lanes; the CPUs met in a slot {met} times"
    );
    assert!(met > filled, "they hardly met: nothing was shown");
}

/// What the maps hold when a round is over.
fn look(kernel: &Kernel, scene: &Scene, config: &JobConfig, round: u32) {
    let (heads, values) = (kernel.heads(KEY), kernel.values(KEY));
    for slot in 0..SLOTS {
        let generations = config.generations;
        let index = usize::from(slot * generations) + Round(round).generation(generations);
        let result = heads[index].result(KEY, EPOCH, slot);
        assert_eq!(
            (result.round, result.set, result.workers),
            (Round(round), MemberSet(u64::MAX), 64)
        );
        let chunk = &values[index * scene.lanes..(index + 1) * scene.lanes];
        assert!(chunk == scene.expected(round, slot), "a slot has wrong lanes");
    }
}

#[test]
#[ignore = "needs root"]
fn two_cpus_that_fill_the_same_slots_lose_nothing() {
    run(&job(Lanes::L352, Policy::All, 2), Share::Halves);
}

#[test]
#[ignore = "needs root"]
fn two_cpus_that_send_the_same_contributions_count_each_once() {
    run(&job(Lanes::L848, Policy::All, 2), Share::Twice);
}

/// The members that have moved on, too, are bits that two CPUs set: one that is lost would hold a round back for ever.
#[test]
#[ignore = "needs root"]
fn two_cpus_under_a_quorum_lose_nobody_who_has_moved_on() {
    let policy = Policy::Quorum {
        members: MAX_MEMBERS as u8,
        grace: 1,
    };
    run(&job(Lanes::L256, policy, 4), Share::Halves);
}
