//! Workers that break a rule: the real worker behind a filter that changes what it hears or says.

use agg_core::wire::{Flags, HEADER_LEN, Header, Kind};
use agg_core::worker::{Boundary, Membership, Position};
use agg_core::{Epoch, Exponent, Round};

use crate::scenario::Scenario;

/// How the workers are broken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum WorkerMutation {
    /// R-CHUNK-3: chunk c is sent with the result of chunk c − 2·W, not of c − W.
    SendAhead,
    /// R-WANT-1: no Want is answered with a result.
    ForgetResults,
    /// R-KEEP-1: the last W results are kept, not the last of each slot.
    KeepLastReceived,
    /// R-KEEP-1: Wants are not answered between operations.
    DeafBetweenOperations,
    /// R-RESEND-1: nothing is sent twice.
    NeverResend,
    /// R-SLOT-4: what is sent again is not marked.
    UnmarkedResends,
    /// R-RESULT-1: a result is taken whatever its round.
    TakeAnyRound,
    /// R-EPOCH-2: results of any epoch are taken.
    TakeAnyEpoch,
    /// R-EPOCH-3: a refusal with a higher epoch is not followed.
    IgnoreRefusals,
    /// R-NUM-11: a sum is taken although the predicted exponent was too small.
    TakeClamped,
    /// R-NUM-11: whether the prediction was right each worker judges by its own exponent.
    JudgeAlone,
    /// R-NUM-5: what is sent again carries other bits.
    ChangeBits,
    /// R-REFORM-1: a worker takes results after it has said how far it is.
    GoOnWhenRegistered,
    /// R-REFORM-1: a worker does not say which chunks of the next operation went ahead.
    HideAhead,
    /// R-REFORM-2: a worker that has its new place keeps its epoch.
    KeepEpoch,
    /// R-REFORM-2: a worker that has its new place keeps its number.
    KeepNumber,
    /// R-REFORM-3: operation b + 1 ends without a result, not b.
    BoundaryTooLate,
    /// R-REFORM-3: operation b − 1 ends without a result, not b.
    BoundaryTooEarly,
    /// R-REFORM-3: operation b + 1 begins a chunk late, as the last member counts.
    NextChunkOff,
}

/// The filter between a worker and its host; without a mutation it changes nothing.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WorkerFilter {
    mutation: Option<WorkerMutation>,
    window: u16,
    /// Its first number.
    number: u8,
    /// The round that each slot was last sent in.
    sent: Vec<Option<Round>>,
    /// Slot and round of the last results that came, W of them.
    received: Vec<(u16, Round)>,
    /// The exponent that the last contribution with values announced.
    announced: Exponent,
}

impl WorkerFilter {
    /// The filter of a scenario.
    pub fn new(scenario: &Scenario, number: u8) -> Self {
        let mutation = scenario.mutation.and_then(|mutation| mutation.worker());
        let slots =
            usize::from(scenario.window) * usize::from(mutation == Some(WorkerMutation::TakeAnyRound));
        Self {
            mutation,
            window: scenario.window,
            number,
            sent: vec![None; slots],
            received: Vec::new(),
            announced: Exponent::NONE,
        }
    }

    /// Whether it takes packets although it has said how far it is.
    pub fn goes_on_when_registered(&self) -> bool {
        self.mutation == Some(WorkerMutation::GoOnWhenRegistered)
    }

    /// How far a worker says that it is; the operations that it has started have chunks before `started`.
    pub fn stated(&self, position: Position, started: u64) -> Position {
        match self.mutation {
            Some(WorkerMutation::HideAhead) => Position {
                next_chunk: position.next_chunk.min(started),
                ..position
            },
            _ => position,
        }
    }

    /// What a worker takes its new place to be.
    pub fn told(
        &self,
        place: Membership,
        boundary: Option<Boundary>,
        epoch: Epoch,
    ) -> (Membership, Option<Boundary>) {
        let boundary = boundary.map(|mut boundary| {
            match self.mutation {
                Some(WorkerMutation::BoundaryTooLate) => boundary.operation += 1,
                Some(WorkerMutation::BoundaryTooEarly) => {
                    boundary.operation = boundary.operation.saturating_sub(1)
                }
                Some(WorkerMutation::NextChunkOff) if place.member > 0 => boundary.next_chunk += 1,
                _ => {}
            }
            boundary
        });
        let place = match self.mutation {
            Some(WorkerMutation::KeepEpoch) => Membership { epoch, ..place },
            Some(WorkerMutation::KeepNumber) => Membership {
                member: self.number,
                ..place
            },
            _ => place,
        };
        (place, boundary)
    }

    /// The window that the worker believes in.
    pub fn window(&self, window: u16) -> u16 {
        if self.mutation == Some(WorkerMutation::SendAhead) {
            2 * window
        } else {
            window
        }
    }

    /// What the worker hears of a packet, if anything.
    pub fn incoming(&mut self, bytes: &[u8], epoch: Epoch) -> Option<Vec<u8>> {
        let (header, rest) = split(bytes);
        let is_result = header.kind == Kind::Data;
        let heard = match self.mutation {
            Some(WorkerMutation::SendAhead) => renumbered(header, self.window, 2 * self.window),
            Some(WorkerMutation::TakeAnyRound) if is_result => {
                let round = self.sent[usize::from(header.slot)].unwrap_or(header.round);
                Header { round, ..header }
            }
            Some(WorkerMutation::TakeAnyEpoch) if is_result => Header { epoch, ..header },
            Some(WorkerMutation::TakeClamped) if is_result && !rest.is_empty() => Header {
                next: header.next.min(header.scale),
                ..header
            },
            Some(WorkerMutation::JudgeAlone) if is_result && !rest.is_empty() => Header {
                next: self.announced,
                ..header
            },
            Some(WorkerMutation::IgnoreRefusals) if header.kind == Kind::Refusal => return None,
            _ => header,
        };
        Some(join(&heard, rest))
    }

    /// What the worker's host sends for a packet, if anything.
    pub fn outgoing(&mut self, bytes: &[u8], busy: bool) -> Option<Vec<u8>> {
        let (header, rest) = split(bytes);
        let is_answer = header.flags.has(Flags::RESULT);
        let is_resend = header.flags.has(Flags::RESEND);
        let said = match self.mutation {
            Some(WorkerMutation::SendAhead) => renumbered(header, 2 * self.window, self.window),
            Some(WorkerMutation::ForgetResults) if is_answer => return None,
            Some(WorkerMutation::DeafBetweenOperations) if is_answer && !busy => return None,
            Some(WorkerMutation::KeepLastReceived)
                if is_answer && !self.received.contains(&(header.slot, header.round)) =>
            {
                return None;
            }
            Some(WorkerMutation::NeverResend) if is_resend => return None,
            Some(WorkerMutation::UnmarkedResends) if is_resend => {
                let kept = header.flags.and(Flags::HEADER_ONLY.with(Flags::NONFINITE));
                Header {
                    flags: kept.with(Flags::UP),
                    ..header
                }
            }
            Some(WorkerMutation::ChangeBits) if is_resend && !rest.is_empty() => {
                let mut bytes = bytes.to_vec();
                bytes[HEADER_LEN] ^= 1;
                return Some(bytes);
            }
            Some(WorkerMutation::JudgeAlone) if !is_answer && !rest.is_empty() => {
                self.announced = header.next;
                header
            }
            Some(WorkerMutation::TakeAnyRound) if !is_answer => {
                self.sent[usize::from(header.slot)] = Some(header.round);
                header
            }
            _ => header,
        };
        Some(join(&said, rest))
    }

    /// The worker took this result.
    pub fn took(&mut self, bytes: &[u8]) {
        if self.mutation != Some(WorkerMutation::KeepLastReceived) {
            return;
        }
        let (header, _) = split(bytes);
        self.received.push((header.slot, header.round));
        if self.received.len() > usize::from(self.window) {
            self.received.remove(0);
        }
    }
}

/// The same chunk as it is numbered with another window.
fn renumbered(header: Header, from: u16, to: u16) -> Header {
    let chunk = u64::from(header.round.0) * u64::from(from) + u64::from(header.slot);
    let (slot, round) = (
        (chunk % u64::from(to)) as u16,
        Round((chunk / u64::from(to)) as u32),
    );
    Header {
        slot,
        round,
        ..header
    }
}

fn split(bytes: &[u8]) -> (Header, &[u8]) {
    Header::split(bytes).expect("packets are not damaged")
}

fn join(header: &Header, rest: &[u8]) -> Vec<u8> {
    [&header.emit(), rest].concat()
}
