//! The worker: one stream of one member (docs/protocol.md, "Worker").
//!
//! Sans-IO: the host hands packets to [`Worker::handle`], sends what [`Worker::transmit`] writes until it has no
//! more, and calls [`Worker::handle_timeout`] when [`Worker::next_timeout`] has come. Its memory is the window:
//! a [`SlotState`] and one chunk's lanes a slot, provided by the host; tensors stay the caller's, in place.

mod congestion;
mod failure;
mod membership;
mod naming;
mod pacing;
mod plan;
mod predictions;
mod protocol_state;
mod receive;
mod reordering;
mod rtt;
mod send;
mod tensor;
mod timers;
mod window;

pub use failure::Failure;
pub use membership::{Boundary, Membership, Position};
pub use protocol_state::ProtocolState;
pub use tensor::{Count, Tensor};
pub use window::SlotState;

use congestion::Congestion;
use pacing::Pacing;
use plan::Plan;
use predictions::Predictions;
use reordering::Reordering;
use rtt::Rtt;
use window::List;

use crate::wire::packet_len;
use crate::{Epoch, Exponent, Lanes, Nanos, Operation, Policy, Round};

/// What a worker is told when it joins a job.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WorkerConfig {
    /// The job's key.
    pub key: u64,
    /// The aggregator's epoch.
    pub epoch: Epoch,
    /// This member's number.
    pub member: u8,
    /// Members of the aggregator that this worker talks to.
    pub members: u8,
    /// Workers of the whole job: the headroom of sums, and what a result must hold.
    pub workers: u32,
    /// The chunk size.
    pub lanes: Lanes,
    /// Chunks in flight, a power of two.
    pub window: u16,
    /// When the aggregator's slots are complete.
    pub policy: Policy,
    /// An operation fails when no result came for this long.
    pub timeout: Nanos,
    /// The number of the job's first chunk: 0 but in tests of the wrap-around.
    pub first_chunk: u64,
}

/// The memory handed to a worker does not fit its window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongMemory {
    /// Slots needed.
    pub slots: usize,
    /// Lanes needed.
    pub lanes: usize,
}

/// What a worker has counted since it joined.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct WorkerStats {
    /// Contributions sent, resends not counted.
    pub sent: u64,
    /// Contributions sent again since the timer fired.
    pub resent_timeout: u64,
    /// Contributions sent again since later ones were answered before.
    pub resent_overtaken: u64,
    /// Contributions sent again since the aggregator said that it lacks them.
    pub resent_wanted: u64,
    /// Contributions sent again to a new epoch.
    pub resent_epoch: u64,
    /// Results taken.
    pub results: u64,
    /// Of those: with values, but without this member's (R-QUORUM-4).
    pub late: u64,
    /// Operations that took one round trip, by a prediction of their exponents (R-NUM-11).
    pub predicted: u64,
    /// Operations whose prediction was wrong.
    pub mispredicted: u64,
    /// Results sent to the aggregator since it asked.
    pub answered: u64,
    /// Results that the network has marked, or a contribution in them (R-ECN).
    pub marked: u64,
    /// How often the congestion window was made smaller.
    pub decreases: u64,
    /// Packets that had nothing new: results again, or of another epoch.
    pub stale: u64,
    /// Packets that are not of this job, or damaged.
    pub invalid: u64,
}

impl WorkerStats {
    /// Contributions sent again, for whatever reason.
    pub fn resent(&self) -> u64 {
        self.resent_timeout + self.resent_overtaken + self.resent_wanted + self.resent_epoch
    }
}

/// A new operation cannot start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StartError {
    /// The last one has not ended.
    Busy,
    /// The worker failed before.
    Failed(Failure),
    /// A member was lost, and this is the operation that ends with it everywhere (R-REFORM-3). The next one can start.
    Abandoned,
}

/// One stream of one member: `S` holds the slots' states, `V` the lanes of their last results.
#[derive(Clone, Debug)]
pub struct Worker<S, V> {
    config: WorkerConfig,
    epoch: Epoch,
    slots: S,
    kept: V,
    to_send: List,
    in_flight: List,
    plan: Option<Plan>,
    predictions: Predictions,
    /// Chunks of the operation that have their result.
    done: u64,
    next_chunk: u64,
    next_op: u32,
    /// The number of the first chunk of the last operation that was started.
    begun_at: u64,
    rtt: Rtt,
    /// Contributions sent so far; orders them.
    sends: u64,
    /// The latest send that was answered.
    answered_order: u64,
    reordering: Reordering,
    /// The sends before this one were in flight when nothing came for as long as the timer is; and when a result came again.
    silent_order: u64,
    resumed_at: Option<Nanos>,
    congestion: Congestion,
    pacing: Pacing,
    /// No chunk before this one waits for its result.
    oldest: u64,
    /// A slot may have something to send whatever the congestion window.
    urgent: bool,
    /// When an operation started or a result last came.
    progress_at: Nanos,
    heard_at: Nanos,
    /// The aggregator wants the members to register again.
    reform: bool,
    /// The members know another aggregator.
    has_stand_by: bool,
    /// This one ends, and the members go there.
    departs: bool,
    /// An operation that was not started yet, and ends when it is, as do those from `ends_from` on.
    boundary: Option<Boundary>,
    ends_from: u32,
    abandoned: bool,
    failure: Option<Failure>,
    stats: WorkerStats,
}

impl<S, V> Worker<S, V>
where
    S: AsRef<[SlotState]> + AsMut<[SlotState]>,
    V: AsRef<[i32]> + AsMut<[i32]>,
{
    /// A worker that has just joined. `slots` must hold one state a slot, `kept` one chunk's lanes a slot.
    pub fn new(config: WorkerConfig, slots: S, kept: V) -> Result<Self, WrongMemory> {
        let needed = WrongMemory {
            slots: usize::from(config.window),
            lanes: usize::from(config.window) * config.lanes.count(),
        };
        let window = u64::from(config.window);
        let fits = slots.as_ref().len() == needed.slots && kept.as_ref().len() == needed.lanes;
        if !fits || !config.window.is_power_of_two() {
            return Err(needed);
        }
        Ok(Self {
            epoch: config.epoch,
            next_chunk: config.first_chunk,
            begun_at: config.first_chunk,
            slots,
            kept,
            to_send: List::to_send(),
            in_flight: List::in_flight(),
            plan: None,
            predictions: Predictions::default(),
            done: 0,
            next_op: 0,
            rtt: Rtt::default(),
            sends: 0,
            answered_order: 0,
            reordering: Reordering::new(window),
            silent_order: 0,
            resumed_at: None,
            congestion: Congestion::new(config.window),
            pacing: Pacing::new(packet_len(config.lanes.count())),
            oldest: config.first_chunk,
            urgent: false,
            progress_at: 0,
            heard_at: 0,
            reform: false,
            has_stand_by: false,
            departs: false,
            boundary: None,
            ends_from: 0,
            abandoned: false,
            failure: None,
            stats: WorkerStats::default(),
            config,
        })
    }

    /// Starts an operation of which this stream carries `elements` elements (for a barrier: 1 on one stream). Every
    /// member must start the same operations in the same order. Of narrow elements the job may have at most
    /// [`crate::Width::most_workers`]: sums of more can overflow.
    pub fn start(&mut self, operation: Operation, elements: u64, now: Nanos) -> Result<(), StartError> {
        if let Some(failure) = self.failure {
            return Err(StartError::Failed(failure));
        }
        if self.plan.is_some() {
            return Err(StartError::Busy);
        }
        self.abandoned = false;
        if self.ends_at_once() {
            return Err(StartError::Abandoned);
        }
        let mut plan = Plan::new(
            operation,
            self.next_op,
            self.next_chunk,
            elements,
            self.config.lanes.count(),
            u64::from(self.config.window),
            self.config.workers,
        );
        // Under a quorum members that are late have other values to send than they announced.
        plan.is_remembered &= !self.config.policy.keeps_history();
        if plan.is_remembered {
            plan.prediction = self.predictions.of(operation);
        }
        self.next_op = self.next_op.wrapping_add(1);
        self.begun_at = self.next_chunk;
        self.next_chunk += plan.total();
        self.progress_at = now;
        self.heard_at = now;
        self.done = 0;
        self.oldest = plan.base;
        self.congestion.rested(now);
        self.pacing
            .begin(now, self.congestion.window(), self.congestion.quickest());
        if plan.total() > 0 {
            self.plan = Some(plan);
            for index in 0..plan.initial() {
                self.begin(&plan, index);
            }
        }
        Ok(())
    }

    /// Whether an operation is under way.
    pub fn is_busy(&self) -> bool {
        self.plan.is_some() && self.failure.is_none()
    }

    /// Whether the operation has chunks left of which none may be sent before more results have come (R-CHUNK-3).
    pub fn is_stalled(&self) -> bool {
        self.plan.is_some_and(|plan| {
            let last = plan.base + plan.total() - 1; // a plan has a chunk
            self.to_send.first().is_none() && self.slots.as_ref()[usize::from(self.slot(last))].chunk != last
        })
    }

    /// Why the worker failed, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// What was counted.
    pub fn stats(&self) -> &WorkerStats {
        &self.stats
    }

    /// The smoothed round trip in nanoseconds; 0 before the first.
    pub fn rtt(&self) -> Nanos {
        self.rtt.smoothed()
    }

    /// How many chunks may be in flight now (R-CC).
    pub fn congestion_window(&self) -> u16 {
        self.congestion.window() as u16
    }

    /// The epoch that this worker contributes to.
    pub fn epoch(&self) -> Epoch {
        self.epoch
    }

    /// Makes a chunk of the operation the slot's current one and queues it.
    fn begin(&mut self, plan: &Plan, index: u64) {
        let chunk = plan.base + index;
        let slot = self.slot(chunk);
        let state = &mut self.slots.as_mut()[usize::from(slot)];
        state.chunk = chunk;
        state.outstanding = true;
        state.sends = 0;
        state.present = None;
        state.lost = false;
        state.urgent = false;
        self.to_send.push_back(self.slots.as_mut(), slot);
    }

    /// The exponent, agreed or predicted, that chunk `index` is scaled with; none for chunks without scaled values.
    fn scale_of(&self, plan: &Plan, index: u64) -> Exponent {
        if let Some(prediction) = plan.prediction {
            return self.predictions.exponent(prediction, index);
        }
        match plan.block(index) {
            Some(_) if plan.headers > 0 => self.slots.as_ref()[plan.exponent_place(index)].exponent,
            _ => Exponent::NONE,
        }
    }

    fn is_finished(&self, plan: &Plan, index: u64) -> bool {
        let chunk = plan.base + index;
        self.slots.as_ref()[usize::from(self.slot(chunk))].finished > chunk
    }

    fn slot(&self, chunk: u64) -> u16 {
        (chunk & (u64::from(self.config.window) - 1)) as u16
    }

    fn round(&self, chunk: u64) -> Round {
        Round((chunk >> self.config.window.trailing_zeros()) as u32)
    }
}
