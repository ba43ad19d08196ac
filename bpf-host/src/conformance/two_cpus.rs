//! Two CPUs that merge into the same slots at once: no lane is wrong, and no bit is lost.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use agg_core::wire::{Flags, HEADER_LEN, Header, Kind};
use agg_core::{
    Counter, Endpoint, Epoch, Exponent, JobConfig, Lanes, MAX_MEMBERS, Member, MemberSet, OpKind, Operation,
    Policy, Round,
};
use agg_model::harness::random::Random;
use aya::programs::xdp::Xdp;
use bpf_layout::FRAMING;

use super::frames;
use super::kernel::Kernel;
use super::programs::{self, XDP_DROP, XDP_REDIRECT, XDP_TX};

const KEY: u64 = 0x7e57;
const EPOCH: Epoch = Epoch(3);
const SLOTS: u16 = 2;
/// So that rounds wrap around on the way.
const FIRST_ROUND: u32 = u32::MAX - 500;
/// How often each slot is filled.
const ROUNDS: u32 = 2000;

/// What the two CPUs send of each round.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Share {
    /// Each has every other member.
    Halves,
    /// Each has all: every contribution comes twice, and counts once.
    Twice,
}

/// The values that members send, and where the CPUs are.
struct Scene {
    lanes: usize,
    share: Share,
    /// By member, in the first round; later ones are multiples.
    values: Vec<Vec<i32>>,
    sum: Vec<i32>,
    /// How many arrivals at the meeting there were.
    meetings: AtomicU32,
    /// By CPU, the slot that it works on; above all others while it does not.
    at: [AtomicU64; 2],
    /// How often a CPU came to a slot that the other was at.
    met: AtomicU64,
}

const NOWHERE: u64 = u64::MAX;

impl Scene {
    fn new(lanes: usize, share: Share) -> Self {
        let values: Vec<Vec<i32>> = (0..MAX_MEMBERS as u64)
            .map(|member| Random::new(member + 1).integers(lanes))
            .collect();
        let add = |sum: Vec<i32>, values: &Vec<i32>| -> Vec<i32> {
            sum.iter()
                .zip(values)
                .map(|(sum, value)| sum.wrapping_add(*value))
                .collect()
        };
        Self {
            lanes,
            share,
            sum: values.iter().fold(vec![0; lanes], add),
            values,
            meetings: AtomicU32::new(0),
            at: [AtomicU64::new(NOWHERE), AtomicU64::new(NOWHERE)],
            met: AtomicU64::new(0),
        }
    }

    fn factor(round: u32, slot: u16) -> i32 {
        (round.wrapping_mul(2) + u32::from(slot))
            .wrapping_mul(2)
            .wrapping_add(1) as i32
    }

    /// What a slot must hold in the end: multiples of sums are sums of multiples, also where they wrap.
    fn expected(&self, round: u32, slot: u16) -> Vec<i32> {
        let factor = Self::factor(round, slot);
        self.sum.iter().map(|sum| sum.wrapping_mul(factor)).collect()
    }

    /// Waits until both CPUs are here.
    fn meet(&self) {
        let arrived = self.meetings.fetch_add(1, Ordering::AcqRel) + 1;
        let both = arrived.next_multiple_of(2);
        let mut spins = 0_u32;
        while self.meetings.load(Ordering::Acquire) < both {
            spins += 1;
            if spins.is_multiple_of(1000) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }

    /// Sends what a CPU has of a round; how many results it got to send to all.
    fn send(&self, cpu: usize, program: &Xdp, frames: &mut [Vec<u8>], round: u32) -> [u32; SLOTS as usize] {
        let mut results = [0; SLOTS as usize];
        for (member, frame) in frames.iter_mut().enumerate() {
            if self.share == Share::Halves && member % 2 != cpu {
                continue;
            }
            for slot in 0..SLOTS {
                self.contribute(frame, member, round, slot);
                self.at[cpu].store(slot.into(), Ordering::SeqCst);
                if self.at[1 - cpu].load(Ordering::SeqCst) == u64::from(slot) {
                    self.met.fetch_add(1, Ordering::Relaxed);
                }
                let run = programs::run(program, frame);
                self.at[cpu].store(NOWHERE, Ordering::SeqCst);
                match run.verdict {
                    XDP_DROP => {}
                    XDP_REDIRECT => {
                        self.check(&run.frame, round, slot);
                        results[usize::from(slot)] += 1;
                    }
                    XDP_TX if self.share == Share::Twice => self.check(&run.frame, round, slot),
                    other => panic!("verdict {other}"),
                }
            }
        }
        results
    }

    fn contribute(&self, frame: &mut [u8], member: usize, round: u32, slot: u16) {
        let header = Header {
            kind: Kind::Data,
            flags: Flags::UP,
            member: member as u8,
            slot,
            key: KEY,
            epoch: EPOCH,
            round: Round(round),
            set: MemberSet::single(member as u8),
            workers: 1,
            scale: Exponent(4),
            next: Exponent(-(member as i16)),
            op: Operation {
                kind: OpKind::SumF32,
                elements: self.lanes as u64,
            }
            .tag(),
            op_seq: 1,
        };
        let packet = &mut frame[FRAMING..];
        packet[..HEADER_LEN].copy_from_slice(&header.emit());
        let factor = Self::factor(round, slot);
        let lanes = packet[HEADER_LEN..].as_chunks_mut::<4>().0;
        for (lane, value) in lanes.iter_mut().zip(&self.values[member]) {
            *lane = value.wrapping_mul(factor).to_le_bytes();
        }
    }

    /// A result must be whole.
    fn check(&self, frame: &[u8], round: u32, slot: u16) {
        let (header, rest) = Header::split(&frame[FRAMING..]).expect("a packet");
        assert!(header.flags.has(Flags::RESULT));
        assert_eq!(
            (header.round, header.slot, header.workers),
            (Round(round), slot, 64)
        );
        assert_eq!((header.set, header.next), (MemberSet(u64::MAX), Exponent(0)));
        let lanes = rest
            .as_chunks::<4>()
            .0
            .iter()
            .map(|lane| i32::from_le_bytes(*lane));
        assert!(lanes.eq(self.expected(round, slot)), "a result has wrong lanes");
    }
}

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

/// The CPUs that this process may run on.
fn cpus() -> Vec<usize> {
    // SAFETY: a set of bits, which the call fills.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &raw mut set), 0);
        set
    };
    // SAFETY: within the set.
    let has = |cpu: &usize| unsafe { libc::CPU_ISSET(*cpu, &set) };
    (0..libc::CPU_SETSIZE as usize).filter(has).collect()
}

/// Keeps this thread on a CPU.
fn stay_on(cpu: usize) {
    // SAFETY: a set of bits, of which one is set.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &raw const set), 0);
    }
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
    // This one has started when the other waits for it.
    let program = kernel.program();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
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
    let met = scene.met.load(Ordering::Relaxed);
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
