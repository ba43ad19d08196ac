//! What must have come of a run, whatever the network did.

use std::collections::BTreeSet;

use agg_core::Failure;

use super::Cluster;
use crate::ModelPredictions;
use crate::harness::Values;
use crate::packet::{FROM_AGGREGATOR, ModelPacket};

/// What came of an operation at one worker.
#[derive(Clone, Debug)]
pub enum End {
    /// A sum.
    Reduced(Values),
    /// Nothing: a rank was lost (R-REFORM-3).
    Abandoned,
    /// An error.
    Failed(Failure),
}

impl End {
    /// What all workers must have alike.
    pub(super) fn bits(&self) -> Option<Vec<u32>> {
        match self {
            Self::Reduced(values) => Some(values.without_feedback().bits()),
            Self::Abandoned => None,
            Self::Failed(failure) => panic!("{failure}"),
        }
    }
}

impl Cluster {
    /// What came of each operation at a worker.
    pub fn ends(&self, rank: usize) -> &[End] {
        &self.parts[rank].ends
    }

    /// The result of each chunk that was taken, in the order of slots and rounds.
    pub fn results(&self) -> impl Iterator<Item = &ModelPacket> {
        self.results.values()
    }

    /// What a worker began to reduce, operation by operation.
    pub fn begun(&self, rank: usize) -> &[Values] {
        &self.parts[rank].begun
    }

    /// Ranks that are not lost.
    pub fn ranks(&self) -> Vec<usize> {
        self.homes.keys().copied().collect()
    }

    /// Whoever takes a chunk's result takes the same one. On what level of the tree, in what epoch and under what set of that
    /// level does not matter, nor what it says of its way there (R-SLOT-1, R-SLOT-7, R-ECN-2).
    pub(super) fn note_result(&mut self, mut result: ModelPacket) {
        result.epoch = 0;
        result.member = FROM_AGGREGATOR;
        (result.resend, result.congested) = (false, false);
        if self.site.quorum.is_none() {
            result.set = BTreeSet::new();
        }
        let chunk = (result.slot, result.round);
        let first = self.results.entry(chunk).or_insert_with(|| result.clone());
        assert_eq!(first, &result, "left: taken first, right: taken later");
    }

    /// Every worker has the same of every operation: the model's sum over all that were in the job when it began, or
    /// nothing.
    pub fn check_sums(&self) {
        let ranks = self.ranks();
        let operations = self.parts[ranks[0]].ends.len();
        let mut predictions = ModelPredictions::default();
        for operation in 0..operations {
            let inputs = self.participants(operation);
            let sum = self.sum(&inputs, &mut predictions).bits();
            if self.was_lost(operation) {
                predictions = ModelPredictions::default();
            }
            for rank in &ranks {
                let end = &self.parts[*rank].ends[operation];
                if self.was_lost(operation) {
                    assert!(
                        matches!(end, End::Abandoned),
                        "operation {operation}, worker {rank}"
                    );
                } else {
                    let bits = end.bits();
                    assert_eq!(bits.as_ref(), Some(&sum), "operation {operation}, worker {rank}");
                }
            }
        }
    }

    /// The model's sum, by what earlier operations let it predict (R-NUM-11).
    fn sum(&self, inputs: &[Values], predictions: &mut ModelPredictions) -> Values {
        let (lanes, window) = (self.site.lanes, u64::from(self.site.window));
        let (kind, elements, op) = (inputs[0].kind, inputs[0].elements(), inputs[0].op());
        if !ModelPredictions::suit(kind, elements, lanes, window) {
            return Values::result(inputs, lanes);
        }
        let agreed = Values::agreed(inputs, lanes).expect("floats");
        let right = |predicted: &Vec<_>| ModelPredictions::all_hold(predicted, &agreed);
        let predicted = predictions.of(op).filter(right);
        predictions.learn(op, &agreed);
        Values::result_scaled(inputs, lanes, predicted.as_deref())
    }
}
