//! An aggregator over mutant slots: the checks before a slot, and the packets it sends.

use agg_core::round::GENERATIONS;
use agg_core::wire::{Flags, Header, Kind, NO_MEMBER, Refusal};
use agg_core::{Epoch, Exponent, MemberSet, Verdict};

use super::slot::{Answer, Generation};
use crate::member::KEY;
use crate::scenario::Scenario;
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
    /// R-NUM-3: `next` is that of the last arrival, not the maximum.
    NextOfLast,
    /// R-OP-4: operations are not compared.
    IgnoreOperation,
    /// R-VALID-6: an old epoch is dropped, not refused.
    DropOldEpoch,
    /// R-VALID-6: the epoch is not looked at; answers carry that of the arrival.
    IgnoreEpoch,
}

impl AggregatorMutation {
    /// As [`agg_core::Aggregator::handle`].
    pub fn handle(
        self,
        generations: &mut [Generation],
        epoch: Epoch,
        scenario: &Scenario,
        bytes: &[u8],
        from: usize,
        out: &mut [u8],
    ) -> Verdict {
        let Ok((header, rest)) = Header::split(bytes) else {
            return Verdict::Quiet;
        };
        if let Some(verdict) = self.check(&header, epoch, scenario, from, out) {
            return verdict;
        }
        let generation = match self {
            Self::OneGeneration => 0,
            _ => header.round.generation(GENERATIONS),
        };
        let generation = &mut generations[usize::from(header.slot) * 2 + generation];
        let mut values = [0; LANES];
        for (value, lane) in values.iter_mut().zip(rest.as_chunks::<4>().0) {
            *value = i32::from_le_bytes(*lane);
        }
        let expected = MemberSet::first(scenario.members as u8);
        let answer = generation.accept(&header, &values, expected, self);
        let (kind, flags, scale) = match answer {
            Answer::None => return Verdict::Quiet,
            Answer::ResultToSender | Answer::ResultToAll => {
                (Kind::Data, generation.flags().with(Flags::RESULT), None)
            }
            Answer::Want => (Kind::Want, Flags::NONE, None),
            Answer::RefusalToSender(refusal) | Answer::RefusalToAll(refusal) => {
                (Kind::Refusal, Flags::NONE, Some(Exponent(refusal.to_wire())))
            }
        };
        let epoch = if self == Self::IgnoreEpoch {
            header.epoch
        } else {
            epoch
        };
        let mut reply = generation.header(&header, kind, flags, epoch);
        reply.scale = scale.unwrap_or(reply.scale);
        out[..56].copy_from_slice(&reply.emit());
        let mut len = 56;
        if kind == Kind::Data && !flags.has(Flags::HEADER_ONLY) {
            for value in generation.values() {
                out[len..len + 4].copy_from_slice(&value.to_le_bytes());
                len += 4;
            }
        }
        match answer {
            Answer::ResultToAll | Answer::RefusalToAll(_) => Verdict::Broadcast { key: KEY, len },
            Answer::Want if self != Self::WantToSender => Verdict::Broadcast { key: KEY, len },
            _ => Verdict::Reply { len },
        }
    }

    /// R-VALID, as far as packets of the model can fail it; what to do where one fails.
    fn check(
        self,
        header: &Header,
        epoch: Epoch,
        scenario: &Scenario,
        from: usize,
        out: &mut [u8],
    ) -> Option<Verdict> {
        let up = header.kind == Kind::Data && header.flags.has(Flags::UP);
        let sender = usize::from(header.member) == from;
        if self != Self::AnswerAllDirections && !(up && sender) || header.slot >= scenario.window {
            return Some(Verdict::Quiet);
        }
        if header.epoch == epoch || self == Self::IgnoreEpoch {
            return None;
        }
        if header.epoch > epoch || self == Self::DropOldEpoch {
            return Some(Verdict::Quiet);
        }
        let scale = Exponent(Refusal::Epoch.to_wire());
        let refusal = Header {
            kind: Kind::Refusal,
            flags: Flags::NONE,
            member: NO_MEMBER,
            epoch,
            scale,
            ..*header
        };
        out[..56].copy_from_slice(&refusal.emit());
        Some(Verdict::Reply { len: 56 })
    }
}
