//! The one statistics type of all hosts: a counter for each thing that can happen to a packet.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*) => {
        /// Something an aggregator counts.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Counter { $($(#[$doc])* $name,)* }

        impl Counter {
            /// Every counter, in the order of [`Counters::iter`].
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The counter's name, as every status page and metric shows it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }
        }

        const COUNT: usize = Counter::ALL.len();
    };
}

counters! {
    /// Contributions taken into a slot.
    Merged = "contributions_merged",
    /// Slots completed, each a result to every member.
    Completed = "slots_completed",
    /// Results sent again to a member that asked.
    Replayed = "results_replayed",
    /// Resends that made the aggregator ask for what is missing.
    Wanted = "wants_sent",
    /// Slots completed by a result that a member still had.
    Restored = "slots_restored",
    /// Local sets that were full, sent to the parent.
    Forwarded = "contributions_forwarded",
    /// Local sets sent to the parent again.
    ForwardedAgain = "contributions_forwarded_again",
    /// Results that the parent sent.
    ResultsTaken = "results_from_parent",
    /// Results sent to the parent, which asked.
    ResultsForwarded = "results_sent_to_parent",
    /// Contributions that wait until slower members have moved on.
    HeldBack = "contributions_held_back",
    /// Sums that wait, put into the store.
    Spilled = "sums_put_into_store",
    /// Sums asked back from the store.
    Recalled = "sums_recalled_from_store",
    /// Results that were forgotten for the memory they took: who lacks one gets it from another member.
    Evicted = "results_forgotten",
    /// Contributions already held, nothing to do.
    Duplicate = "duplicates",
    /// Contributions that took the place of part of what they hold.
    Replaced = "contributions_replaced",
    /// Contributions that took the place of a set they only overlap.
    Overlapped = "contributions_overlapping",
    /// Probes answered: of ranks that look which packets get here and back.
    ProbesAnswered = "probes_answered",
    /// Packets refused since the ranks disagree on the operation.
    RefusedOperation = "refused_operation_differs",
    /// Packets refused since the scale differs: a defect in a worker.
    RefusedScale = "refused_scale_differs",
    /// Packets refused since their epoch is an older one.
    RefusedEpoch = "refused_old_epoch",
    /// Packets refused since their job is aborted.
    RefusedAborted = "refused_job_aborted",
    /// Packets refused since their job's members are to register again.
    RefusedReforming = "refused_job_reforming",
    /// Packets refused since their member was removed from the job.
    RefusedExcluded = "refused_member_removed",
    /// Refusals that the parent sent.
    RefusedByParent = "refused_by_parent",
    /// Packets dropped: their epoch is not this aggregator's.
    DroppedEpoch = "dropped_wrong_epoch",
    /// Packets dropped: an older round of their slot.
    DroppedStale = "dropped_stale_round",
    /// Packets dropped: too short, too long, or values missing.
    DroppedLength = "dropped_bad_length",
    /// Packets dropped: not of this protocol or version.
    DroppedForeign = "dropped_not_tributary",
    /// Packets dropped: the header was corrupted on the way.
    DroppedChecksum = "dropped_bad_checksum",
    /// Packets dropped: no job has this key.
    DroppedKey = "dropped_unknown_job",
    /// Packets dropped: not from the address that the member registered.
    DroppedSource = "dropped_wrong_source",
    /// Packets dropped: not a kind or direction that a member sends.
    DroppedDirection = "dropped_wrong_direction",
    /// Packets dropped: a set that this member must not send, or a result nobody asked for.
    DroppedSet = "dropped_forbidden_set",
    /// Contributions dropped: no memory was free for them at that moment.
    DroppedMemory = "dropped_no_free_frame",
    /// Packets dropped: a slot outside the job's window.
    DroppedSlot = "dropped_bad_slot",
    /// Packets dropped: of a kind of operation that this version does not know.
    DroppedOperation = "dropped_unknown_operation",
}

/// What an aggregator has counted since it started.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Counters([u64; COUNT]);

impl Default for Counters {
    fn default() -> Self {
        Self([0; COUNT])
    }
}

impl Counters {
    /// Adds one.
    #[inline(always)]
    pub fn add(&mut self, counter: Counter) {
        if let Some(count) = self.0.get_mut(counter as usize) {
            *count = count.wrapping_add(1);
        }
    }

    /// One counter's value.
    pub fn get(&self, counter: Counter) -> u64 {
        self.0.get(counter as usize).copied().unwrap_or(0)
    }

    /// Every counter with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        Counter::ALL.iter().map(|counter| (*counter, self.get(*counter)))
    }

    /// Adds another shard's counts.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.wrapping_add(theirs);
        }
    }
}
