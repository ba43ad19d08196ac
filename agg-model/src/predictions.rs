//! What exponents small operations are predicted to need (docs/protocol.md, R-NUM-11).

use crate::kind::ModelKind;

/// Of an operation, the blocks' exponents; none where a block needs none.
pub type Exponents = Vec<Option<i16>>;

/// What a worker remembers of operations.
#[derive(Clone, Debug, Default)]
pub struct ModelPredictions {
    /// By `op`, the prediction and whether it is trusted; in the order in which they were new.
    remembered: Vec<(u64, Exponents, bool)>,
}

impl ModelPredictions {
    /// Whether an operation is one of those that are remembered.
    pub fn suit(kind: ModelKind, elements: usize, lanes: usize, window: u64) -> bool {
        let blocks = elements.div_ceil(kind.elements_of(lanes));
        let few = elements <= 4096 && blocks <= 16 && blocks as u64 <= window;
        kind.is_scaled() && kind.bits() == 32 && few
    }

    /// What the next operation with this `op` goes by.
    pub fn of(&self, op: u64) -> Option<Exponents> {
        let (_, exponents, trusted) = self.remembered.iter().find(|(of, ..)| *of == op)?;
        trusted.then(|| exponents.clone())
    }

    /// Whether a sum that was scaled with the predicted exponent is taken.
    pub fn holds(predicted: Option<i16>, agreed: Option<i16>) -> bool {
        match (predicted, agreed) {
            (_, None) => true,
            (None, Some(_)) => false,
            (Some(predicted), Some(agreed)) => {
                let [predicted, agreed] = [predicted, agreed].map(i32::from);
                agreed <= predicted && predicted <= agreed + 2
            }
        }
    }

    /// Whether all blocks' sums are.
    pub fn all_hold(predicted: &[Option<i16>], agreed: &[Option<i16>]) -> bool {
        predicted.iter().zip(agreed).all(|(p, a)| Self::holds(*p, *a))
    }

    /// An operation has ended, for which this was agreed.
    pub fn learn(&mut self, op: u64, agreed: &[Option<i16>]) {
        match self.remembered.iter_mut().find(|(of, ..)| *of == op) {
            Some((_, predicted, trusted)) => {
                *trusted = Self::all_hold(predicted, agreed);
                for (predicted, agreed) in predicted.iter_mut().zip(agreed) {
                    *predicted = match (*predicted, *agreed) {
                        (predicted, agreed) if Self::holds(predicted, agreed) => predicted,
                        (Some(predicted), Some(agreed)) if predicted > agreed => Some(agreed + 1),
                        (_, agreed) => agreed,
                    };
                }
            }
            None => {
                self.remembered.push((op, agreed.to_vec(), true));
                if self.remembered.len() > 16 {
                    self.remembered.remove(0);
                }
            }
        }
    }
}
