//! An aggregator over mutant slots: the checks before a slot, and the packets it sends.

use agg_core::wire::{Flags, HEADER_LEN, Header, Kind, NO_MEMBER, Refusal};
use agg_core::{Exponent, Job, MemberSet, Verdict};

use super::slot::{Answer, Generation};
use crate::member::KEY;
use crate::network::Packet;
use crate::values::LANES;

/// How the aggregator is broken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AggregatorMutation {
    /// Not at all: the second writing of the rules itself is checked by this.
    Faithful,
    /// R-SLOT-0: a generation takes its next round only, and begins with its first.
    RefuseTooFarAhead,
    /// R-SLOT-0: an older round recycles as a newer one does.
    RecycleByOlder,
    /// R-SLOT-0: the round of an arrival is not looked at.
    IgnoreRound,
    /// R-CHUNK-2: one generation a slot.
    OneGeneration,
    /// R-SLOT-1: contributions merge into complete generations, whose values go out again.
    MergeIntoComplete,
    /// R-SLOT-1: a complete generation answers nothing.
    SilentWhenComplete,
    /// R-WIRE-4: whoever sends from a member's address is answered, whatever the direction of the packet.
    AnswerAllDirections,
    /// R-SLOT-2: results from members are not taken.
    DropResults,
    /// R-SLOT-2: results are taken without a Want.
    TakeUnaskedResults,
    /// R-SLOT-4: duplicates merge again.
    MergeDuplicates,
    /// R-SLOT-4: no Want.
    NeverWant,
    /// R-SLOT-4: one Want a generation, for ever.
    WantOnce,
    /// R-SLOT-4: a Want goes to who sent again, not to every member.
    WantToSender,
    /// R-SLOT-7: complete with all members but one.
    CompleteEarly,
    /// R-OP-6: lanes add, whatever the kind of operation.
    AlwaysAdd,
    /// R-NUM-3: `next` is that of the last arrival, not the maximum.
    NextOfLast,
    /// R-OP-4: operations are not compared.
    IgnoreOperation,
    /// R-LEAF-1: a leaf goes up with all members but one.
    ForwardEarly,
    /// R-LEAF-2: a full leaf merges what comes again.
    MergeWhenFull,
    /// R-LEAF-2: a full leaf goes up once.
    ForwardOnce,
    /// R-LEAF-3: a leaf drops the parent's results.
    DropParentResults,
    /// R-LEAF-3: a leaf that has the result sends it up when the parent sends it again.
    AnswerParent,
    /// R-LEAF-4: a leaf passes no Want on.
    KeepWants,
    /// R-LEAF-4: a leaf that has the result does not send it up when the parent wants it.
    KeepResults,
    /// R-LEAF-5: a leaf drops the parent's refusals.
    KeepRefusals,
    /// R-QUORUM-1: one member less is enough.
    SmallQuorum,
    /// R-QUORUM-1: every kind of operation goes with a quorum.
    QuorumForAll,
    /// R-QUORUM-2: a contribution proves that its sender is past its own round, too.
    PastOwnRound,
    /// R-QUORUM-2: a contribution proves that its sender is past every other round, later ones too.
    PastLaterRounds,
    /// R-QUORUM-3: a newer round recycles at once.
    RecycleWithoutPast,
    /// R-QUORUM-4: the set of a complete generation grows by who comes late.
    CountLate,
    /// R-QUORUM-5: generations wait for members that were removed.
    ExpectRemoved,
    /// R-VALID-6: an old epoch is dropped, not refused.
    DropOldEpoch,
    /// R-VALID-6: the epoch is not looked at; answers carry that of the arrival.
    IgnoreEpoch,
}

impl AggregatorMutation {
    /// As [`agg_core::Aggregator::handle`]; `sender` is the member whose address it comes from, if it does, and whether
    /// that is the parent's.
    pub fn handle(
        self,
        generations: &mut [Generation],
        job: &Job,
        packet: &Packet,
        sender: (Option<u8>, bool),
        out: &mut [u8],
    ) -> Verdict {
        let Ok((header, rest)) = Header::split(&packet.bytes) else {
            return Verdict::Quiet;
        };
        let down = job.parent.is_some() && !header.flags.has(Flags::UP);
        if let Some(verdict) = self.check(&header, job, sender, down, out) {
            return verdict;
        }
        let count = usize::from(job.generations);
        let slot = &mut generations[usize::from(header.slot) * count..][..count];
        if job.policy.keeps_history() {
            for generation in &mut *slot {
                generation.pass(header.round, header.member, self);
            }
        }
        let generation = match self {
            Self::OneGeneration => 0,
            _ => header.round.generation(job.generations),
        };
        let generation = &mut slot[generation];
        let mut values = [0; LANES];
        for (value, lane) in values.iter_mut().zip(rest.as_chunks::<4>().0) {
            *value = i32::from_le_bytes(*lane);
        }
        let expected = match self {
            Self::ExpectRemoved => job.expected.union(job.excluded),
            _ => job.expected,
        };
        let job = Job { expected, ..*job };
        let answer = if down {
            generation.accept_down(&header, &values, &job, self)
        } else {
            generation.accept(&header, &values, &job, self)
        };
        let Some(reply) = self.reply(answer, generation, &header, &job) else {
            return Verdict::Quiet;
        };
        out[..HEADER_LEN].copy_from_slice(&reply.emit());
        let mut len = HEADER_LEN;
        if reply.kind == Kind::Data && !reply.flags.has(Flags::HEADER_ONLY) {
            for value in generation.values() {
                out[len..len + 4].copy_from_slice(&value.to_le_bytes());
                len += 4;
            }
        }
        let key = KEY;
        match answer {
            Answer::ResultToAll | Answer::RefusalToAll(_) => Verdict::Broadcast { key, len },
            Answer::Want if self != Self::WantToSender => Verdict::Broadcast { key, len },
            Answer::Up { .. } | Answer::ResultUp => Verdict::Forward { key, len },
            _ => Verdict::Reply { len },
        }
    }

    /// The header of what is sent, if anything is.
    fn reply(self, answer: Answer, generation: &Generation, arrival: &Header, job: &Job) -> Option<Header> {
        let epoch = match self {
            Self::IgnoreEpoch => arrival.epoch,
            _ => job.epoch,
        };
        let result = generation.flags().with(Flags::RESULT);
        let about = |kind, flags, epoch| generation.header(arrival, kind, flags, epoch);
        let up = |flags: Flags| {
            let parent = job.parent?;
            Some(Header {
                member: parent.member,
                set: MemberSet::single(parent.member),
                ..about(Kind::Data, flags.with(Flags::UP), parent.epoch)
            })
        };
        match answer {
            Answer::None => None,
            Answer::ResultToSender | Answer::ResultToAll => Some(about(Kind::Data, result, epoch)),
            Answer::Want => Some(about(Kind::Want, Flags::NONE, epoch)),
            Answer::HeldBack => Some(Header {
                kind: Kind::Want,
                flags: Flags::NONE,
                member: NO_MEMBER,
                set: generation.past(),
                epoch,
                ..*arrival
            }),
            Answer::RefusalToSender(refusal) | Answer::RefusalToAll(refusal) => Some(Header {
                scale: Exponent(refusal.to_wire()),
                ..about(Kind::Refusal, Flags::NONE, epoch)
            }),
            Answer::Up { again } => up(generation.flags().with(Flags::RESEND.when(again))),
            Answer::ResultUp => up(result),
        }
    }

    /// R-VALID, as far as packets of the model can fail it; what to do where one fails.
    fn check(
        self,
        header: &Header,
        job: &Job,
        (member, from_parent): (Option<u8>, bool),
        down: bool,
        out: &mut [u8],
    ) -> Option<Verdict> {
        if down {
            let known = job.parent.is_some_and(|parent| parent.epoch == header.epoch);
            return (!(from_parent && known) || job.suspended).then_some(Verdict::Quiet);
        }
        let up = header.kind == Kind::Data && header.flags.has(Flags::UP);
        let known = member == Some(header.member);
        if self != Self::AnswerAllDirections && !(up && known) || header.slot >= job.window {
            return Some(Verdict::Quiet);
        }
        let refusal = if header.epoch != job.epoch && self != Self::IgnoreEpoch {
            if header.epoch > job.epoch || self == Self::DropOldEpoch {
                return Some(Verdict::Quiet);
            }
            Refusal::Epoch
        } else if job.suspended {
            Refusal::Reform
        } else if job.excluded.contains(header.member) {
            Refusal::Excluded
        } else {
            return None;
        };
        let refusal = Header {
            kind: Kind::Refusal,
            flags: Flags::NONE,
            member: NO_MEMBER,
            epoch: job.epoch,
            scale: Exponent(refusal.to_wire()),
            ..*header
        };
        out[..HEADER_LEN].copy_from_slice(&refusal.emit());
        Some(Verdict::Reply { len: HEADER_LEN })
    }
}
