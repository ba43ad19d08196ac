//! What two CPUs send, and what must come of it.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use agg_core::wire::{Flags, HEADER_LEN, Header, Kind};
use agg_core::{Exponent, MAX_MEMBERS, MemberSet, OpKind, Operation, Round};
use agg_model::harness::random::Random;
use aya::programs::xdp::Xdp;
use bpf_layout::FRAMING;

use super::super::programs::{self, XDP_DROP, XDP_REDIRECT, XDP_TX};
use super::{EPOCH, KEY, SLOTS};

/// What the two CPUs send of each round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Share {
    /// Each has every other member.
    Halves,
    /// Each has all: every contribution comes twice, and counts once.
    Twice,
}

/// The values that members send, and where the CPUs are.
pub(super) struct Scene {
    pub(super) lanes: usize,
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
    /// One of the CPUs' threads has panicked, and the other is not to wait for it.
    broken: AtomicBool,
}

const NOWHERE: u64 = u64::MAX;

impl Scene {
    pub(super) fn new(lanes: usize, share: Share) -> Self {
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
            broken: AtomicBool::new(false),
        }
    }

    /// Held by each thread, tells the other if it panics.
    pub(super) fn attend(&self) -> Attendance<'_> {
        Attendance(&self.broken)
    }

    /// How often a CPU came to a slot that the other was at.
    pub(super) fn met(&self) -> u64 {
        self.met.load(Ordering::Relaxed)
    }

    fn factor(round: u32, slot: u16) -> i32 {
        (round.wrapping_mul(2) + u32::from(slot))
            .wrapping_mul(2)
            .wrapping_add(1) as i32
    }

    /// What a slot must hold in the end: multiples of sums are sums of multiples, also where they wrap.
    pub(super) fn expected(&self, round: u32, slot: u16) -> Vec<i32> {
        let factor = Self::factor(round, slot);
        self.sum.iter().map(|sum| sum.wrapping_mul(factor)).collect()
    }

    /// Waits until both CPUs are here.
    pub(super) fn meet(&self) {
        let arrived = self.meetings.fetch_add(1, Ordering::AcqRel) + 1;
        let both = arrived.next_multiple_of(2);
        let mut spins = 0_u32;
        while self.meetings.load(Ordering::Acquire) < both {
            assert!(
                !self.broken.load(Ordering::Relaxed),
                "the other CPU's thread has panicked"
            );
            spins += 1;
            if spins.is_multiple_of(1000) {
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }

    /// Sends what a CPU has of a round; how many results it got to send to all.
    pub(super) fn send(
        &self,
        cpu: usize,
        program: &Xdp,
        frames: &mut [Vec<u8>],
        round: u32,
    ) -> [u32; SLOTS as usize] {
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
                kind: OpKind::SUM_F32,
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

/// That a thread takes part.
pub(super) struct Attendance<'s>(&'s AtomicBool);

impl Drop for Attendance<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}
