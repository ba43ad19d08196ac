//! Broken ways of using a store: the real aggregator behind a filter of what it hears of its store, or says.

use agg_core::slot::Head;
use agg_core::{Counter, MemberSet, Verdict};

use crate::member::KEY;
use crate::network::Packet;
use crate::node::NodeEvent;

/// How an aggregator's use of its store is broken.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SpillMutation {
    /// R-SPILL-2: what the store says it keeps is taken for the sum of now, though something was added meanwhile; what it
    /// gives back, too.
    IgnoreSet,
    /// R-SPILL-3: what comes back from the store is added twice.
    AddTwice,
    /// R-SPILL-4: when the store is lost, generations keep their sets.
    KeepWhenLost,
    /// R-SPILL-1: who finds no frame asks nobody.
    AskNobody,
}

impl SpillMutation {
    /// What the aggregator hears of an event; nothing where it does not hear of it.
    pub fn hears<P>(self, event: NodeEvent<P>) -> Option<NodeEvent<P>> {
        (self != Self::KeepWhenLost || !matches!(event, NodeEvent::StoreLost)).then_some(event)
    }

    /// Of which members the aggregator takes the sum to be that its store speaks of.
    pub fn set(self, packet: &Packet, event: NodeEvent<&Packet>, head: &Head) -> MemberSet {
        let header = packet.header();
        let now = head.result(KEY, header.epoch, header.slot);
        match (self, event) {
            (Self::IgnoreSet, NodeEvent::Stored(_)) => now.set,
            (Self::IgnoreSet, _) => head.held_back(&now, header.epoch).set,
            _ => header.set,
        }
    }

    /// The values that it takes from its store.
    pub fn values(self, values: Vec<i32>) -> Vec<i32> {
        let times = if self == Self::AddTwice { 2 } else { 1 };
        values.into_iter().map(|value| value * times).collect()
    }

    /// What it sends, having counted this.
    pub fn says(self, verdict: Verdict, counters: &[Counter]) -> Verdict {
        match self {
            Self::AskNobody if counters.contains(&Counter::DroppedMemory) => Verdict::Quiet,
            _ => verdict,
        }
    }
}
