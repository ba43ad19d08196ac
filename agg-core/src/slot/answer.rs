//! What is to be sent when a packet has come, and to whom.

use super::{Head, Outcome};
use crate::wire::{Header, Refusal};
use crate::{Counter, Job};

/// To whom an answer goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum To {
    /// To where the packet came from.
    Sender = 0,
    /// To every member of the job.
    Members = 1,
    /// To the job's parent.
    Parent = 2,
}

/// What is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// To whom.
    pub to: To,
    /// Its header.
    pub header: Header,
    /// Whether the slot's values follow.
    pub values: bool,
}

impl Answer {
    #[inline(always)]
    const fn bare(to: To, header: Header) -> Option<Self> {
        Some(Self {
            to,
            header,
            values: false,
        })
    }
}

impl Head {
    /// What an outcome of this slot counts as, and what it asks to send; `arrival` is what came.
    #[inline(always)]
    pub fn answer(&self, outcome: Outcome, job: &Job, arrival: &Header) -> (Counter, Option<Answer>) {
        let (key, epoch, slot) = (arrival.key, job.epoch, arrival.slot);
        let chunk = |to, header| {
            Some(Answer {
                to,
                header,
                values: self.has_values(),
            })
        };
        match outcome {
            Outcome::Quiet(counter) => (counter, None),
            Outcome::Release(counter) => {
                let result = self.released(counter, epoch, arrival);
                (counter, chunk(To::Members, result))
            }
            Outcome::Replay => (
                Counter::Replayed,
                chunk(To::Sender, self.replayed(key, epoch, slot)),
            ),
            Outcome::Want => (
                Counter::Wanted,
                Answer::bare(To::Members, self.want(key, epoch, slot)),
            ),
            Outcome::Recall => (Counter::Merged, None),
            Outcome::HeldBack => (
                Counter::HeldBack,
                Answer::bare(To::Sender, self.held_back(arrival, epoch)),
            ),
            Outcome::Refuse(refusal) => (
                refusal.counter(),
                Answer::bare(To::Sender, self.refusal(key, epoch, slot, refusal)),
            ),
            Outcome::RefuseAll(refusal) => (
                refusal.counter(),
                Answer::bare(To::Members, self.refusal(key, epoch, slot, refusal)),
            ),
            Outcome::Forward(counter) => {
                let again = counter as u8 == Counter::ForwardedAgain as u8;
                let up = job.parent.as_ref();
                let up = up.map(|parent| self.contribution(key, parent, slot, again));
                (counter, up.and_then(|up| chunk(To::Parent, up)))
            }
            Outcome::ForwardResult => {
                let up = job
                    .parent
                    .as_ref()
                    .map(|parent| self.result_up(key, parent, slot));
                (Counter::ResultsForwarded, up.and_then(|up| chunk(To::Parent, up)))
            }
        }
    }
}

impl Refusal {
    /// What a refusal that is sent counts as.
    #[inline(always)]
    pub const fn counter(self) -> Counter {
        match self {
            Self::Operation => Counter::RefusedOperation,
            Self::Scale => Counter::RefusedScale,
            Self::Epoch => Counter::RefusedEpoch,
            Self::LostMember | Self::MemberFailed | Self::Ended => Counter::RefusedAborted,
            Self::Reform => Counter::RefusedReforming,
            Self::Excluded => Counter::RefusedExcluded,
        }
    }
}
