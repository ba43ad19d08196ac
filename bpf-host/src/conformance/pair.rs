//! The kernel beside the core and the model: every packet goes to all three, and they must agree.

use agg_core::{Abort, AbortCause, Counter};
use agg_model::harness::lockstep::config;
use agg_model::harness::{Lockstep, Subject};
use agg_model::{ModelJob, ModelSend, ModelVerdict, Source, To};
use bpf_layout::{FRAMING, Tally};

use super::frames;
use super::kernel::Kernel;
use super::programs::{EPOCH, XDP_PASS};

/// Other jobs than the packet's are looked at after so many packets.
const ALL_JOBS_EVERY: u64 = 64;

/// The kernel and the core, which the model watches. Every method panics where they differ.
pub(super) struct Pair<'k> {
    kernel: &'k mut Kernel,
    lockstep: Lockstep,
    packets: u64,
    /// Packets since the last start whose answer had no room in their frame.
    relayed: u64,
    /// The same in earlier starts.
    relayed_earlier: u64,
}

impl<'k> Pair<'k> {
    /// Without jobs, but with room in user space for just these; the kernel has room for any.
    pub(super) fn new(kernel: &'k mut Kernel, jobs: &[ModelJob]) -> Self {
        kernel.reset();
        let heads = jobs.iter().map(ModelJob::heads).sum();
        let lanes = jobs.iter().map(ModelJob::values).sum();
        Self {
            kernel,
            lockstep: Lockstep::new(heads, lanes).answering_probes(EPOCH.into()),
            packets: 0,
            relayed: 0,
            relayed_earlier: 0,
        }
    }

    /// How many packets it has had.
    pub(super) fn packets(&self) -> u64 {
        self.packets
    }

    /// How often a counter was raised.
    pub(super) fn count(&self, counter: &'static str) -> u64 {
        self.lockstep.count(counter)
    }

    /// How many packets were passed on for want of room, and came again.
    pub(super) fn relayed(&self) -> u64 {
        self.relayed + self.relayed_earlier
    }

    /// Runs the program, again with room where the frame has too little, as the relay does.
    fn through_kernel(&mut self, packet: &[u8], source: Source, now: u64) -> Option<ModelSend> {
        let source = frames::address(source);
        self.kernel.set_clock(now);
        let mut run = if self.packets.is_multiple_of(3) {
            let frame = frames::bare(source, packet);
            let run = self.kernel.run(&frame);
            if run.verdict == XDP_PASS {
                assert_eq!(run.frame, frame, "what is passed on is as it came");
                self.relayed += 1;
            }
            run
        } else {
            self.kernel.run(&frames::padded(source, packet))
        };
        if run.verdict == XDP_PASS {
            run = self.kernel.run(&frames::padded(source, packet));
        }
        let sent = self.kernel.sent(source, &run);
        if let Some(ModelSend {
            to: To::Members(key), ..
        }) = sent
        {
            self.kernel.deliver(key, &run.frame);
        }
        sent
    }

    fn compare_counters(&self) {
        let (core, kernel) = (self.lockstep.core().counters(), self.kernel.counted());
        for counter in Counter::ALL {
            assert_eq!(
                kernel.of(*counter),
                core.get(*counter),
                "counter {}",
                counter.name()
            );
        }
        assert_eq!(kernel.tally(Tally::Relayed), self.relayed, "packets passed on");
        assert_eq!(kernel.tally(Tally::Unsent), 0, "packets that could not be sent");
    }

    fn compare_job(&self, key: u64) {
        let (Some((heads, values)), Some(job)) = (self.lockstep.slots(key), self.lockstep.core().job(key))
        else {
            return;
        };
        assert_eq!(self.kernel.heads(key), heads, "slots of job {key:#x}");
        assert!(self.kernel.values(key) == values, "values of job {key:#x} differ");
        assert_eq!(self.kernel.late(key), job.late.0, "who is late in job {key:#x}");
    }

    fn compare(&self, key: u64) {
        self.compare_counters();
        if self.packets.is_multiple_of(ALL_JOBS_EVERY) {
            self.lockstep.model().keys().for_each(|key| self.compare_job(key));
        } else {
            self.compare_job(key);
        }
    }
}

impl Subject for Pair<'_> {
    fn admit(&mut self, job: &ModelJob) {
        if self.lockstep.admit(job) {
            self.kernel.admit(&config(job));
            // Whatever was there before: the same here and there.
            let (_, values) = self.lockstep.slots(job.key).expect("it was admitted");
            self.kernel.set_values(job.key, values);
        }
    }

    fn abort(&mut self, key: u64, reason: i16, member: u8) {
        self.lockstep.abort(key, reason, member);
        let cause = match reason {
            4 => AbortCause::LostMember,
            5 => AbortCause::MemberFailed,
            _ => AbortCause::Ended,
        };
        self.kernel.abort(key, Abort { cause, member });
    }

    fn suspend(&mut self, key: u64) {
        self.lockstep.suspend(key);
        self.kernel.suspend(key);
    }

    fn exclude(&mut self, key: u64, member: u8) {
        self.lockstep.exclude(key, member);
        self.kernel.exclude(key, member);
    }

    fn release(&mut self, key: u64) {
        self.lockstep.release(key);
        self.kernel.release(key);
    }

    fn restart(&mut self) {
        self.relayed_earlier += std::mem::take(&mut self.relayed);
        self.lockstep.restart();
        self.kernel.reset();
    }

    fn newest_round(&self, key: u64, slot: u16) -> Option<u32> {
        self.lockstep.newest_round(key, slot)
    }

    fn handle(&mut self, packet: &[u8], source: Source, now: u64) -> ModelVerdict {
        let source = frames::v4(source);
        let packet = &packet[..packet.len().min(frames::LONGEST - FRAMING)];
        let sent = self.through_kernel(packet, source, now);
        let expected = self.lockstep.handle(packet, source, now);
        self.packets += 1;
        assert_eq!(
            sent, expected.send,
            "left: the kernel, right: the core, which counts {}",
            expected.counter
        );
        let key = packet
            .get(8..16)
            .map_or(0, |key| u64::from_le_bytes(key.try_into().expect("8 bytes")));
        self.compare(key);
        expected
    }
}
