//! The exponents that small operations are predicted to need, from those agreed for the last like them (R-NUM-11).
//!
//! What is predicted follows from results alone, which are the same at every member: so all predict the same, or nothing.

use crate::{Exponent, OpKind, Operation, Width};

/// Blocks of the largest operation whose exponents are remembered.
const MOST_BLOCKS: usize = 16;

/// Its elements: 16 KiB of `f32`. Above that the values take longer than the round trip that a prediction saves, and must go
/// again where it fails.
const MOST_ELEMENTS: u64 = 4096;

/// Operations that are remembered.
const MOST_OPERATIONS: usize = 16;

/// The exponent that is needed may be so much below the predicted one: the bits of precision that a sum may lose.
const SLACK: i32 = 2;

/// What is remembered of the operations of one kind and size.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Remembered {
    tag: u64,
    predicted: [Exponent; MOST_BLOCKS],
    /// What was predicted, or would have been, was right the last time.
    trusted: bool,
}

/// The operations that are remembered; of more, the latest that were new.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Predictions {
    remembered: [Option<Remembered>; MOST_OPERATIONS],
    /// The place of the next that is new.
    next: usize,
}

/// Where the prediction for an operation is; it stays there until that has ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Prediction(usize);

impl Predictions {
    /// Whether exponents are remembered of operations with so many elements, and as many blocks, on this stream: of few, all
    /// of which are announced at once, and with the precision to lose some.
    pub(super) fn suit(kind: OpKind, elements: u64, blocks: u64, window: u64) -> bool {
        let is_small = elements <= MOST_ELEMENTS && blocks <= window.min(MOST_BLOCKS as u64);
        kind.is_scaled() && kind.width() == Width::Bits32 && is_small
    }

    fn place(&self, tag: u64) -> Option<usize> {
        let is_of = |remembered: &Option<Remembered>| remembered.is_some_and(|of| of.tag == tag);
        self.remembered.iter().position(is_of)
    }

    /// The prediction for an operation, if there is one that can be trusted.
    pub(super) fn of(&self, operation: Operation) -> Option<Prediction> {
        let place = self.place(operation.tag())?;
        let is_trusted = self.remembered[place].is_some_and(|remembered| remembered.trusted);
        is_trusted.then_some(Prediction(place))
    }

    /// The exponent that a block is predicted to need.
    pub(super) fn exponent(&self, prediction: Prediction, block: u64) -> Exponent {
        let remembered = self.remembered.get(prediction.0).copied().flatten();
        let predicted = remembered.map(|remembered| remembered.predicted);
        let at = |predicted: &[Exponent; MOST_BLOCKS]| predicted.get(usize::try_from(block).ok()?).copied();
        predicted.as_ref().and_then(at).unwrap_or(Exponent::NONE)
    }

    /// Takes note of the exponents that were agreed for the blocks of an operation which has ended, in their order.
    pub(super) fn learn(&mut self, operation: Operation, agreed: impl Iterator<Item = Exponent>) {
        let tag = operation.tag();
        let place = self.place(tag).unwrap_or_else(|| {
            let place = self.next;
            self.remembered[place] = None;
            self.next = (place + 1) % MOST_OPERATIONS;
            place
        });
        let before = self.remembered[place];
        let mut after = before.unwrap_or(Remembered {
            tag,
            predicted: [Exponent::NONE; MOST_BLOCKS],
            trusted: true,
        });
        let mut were_right = true;
        for (predicted, agreed) in after.predicted.iter_mut().zip(agreed) {
            were_right &= is_covered(agreed, *predicted);
            *predicted = predicted_after(agreed, *predicted);
        }
        after.trusted = before.is_none() || were_right;
        self.remembered[place] = Some(after);
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// What is predicted next. What was right stays, so that values like the last ones get the same bits, and so that of
/// exponents that go up and down the highest is predicted.
fn predicted_after(agreed: Exponent, predicted: Exponent) -> Exponent {
    if is_covered(agreed, predicted) {
        predicted
    } else if agreed > predicted {
        agreed
    } else {
        // They have become smaller; the next may be a bit larger again. No overflow: `predicted` is above.
        Exponent(agreed.0 + 1)
    }
}

/// Whether values that need the exponent `agreed` are exact enough, and none of them clamped, when scaled with `predicted`.
pub(super) fn is_covered(agreed: Exponent, predicted: Exponent) -> bool {
    let above = i32::from(predicted.0) - i32::from(agreed.0);
    // With no exponent all values are zeros, which any scale has.
    agreed == Exponent::NONE || predicted != Exponent::NONE && (0..=SLACK).contains(&above)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(elements: u64) -> Operation {
        let kind = OpKind::SUM_F32;
        Operation { kind, elements }
    }

    fn predicted(predictions: &Predictions, elements: u64) -> Option<Exponent> {
        let prediction = predictions.of(operation(elements))?;
        Some(predictions.exponent(prediction, 0))
    }

    #[test]
    fn num_11_what_was_wrong_once_must_have_been_right_before_it_is_trusted_again() {
        let mut predictions = Predictions::default();
        // What is agreed, and by what the next operation then goes.
        for (agreed, expected) in [
            (4, Some(4)),
            (2, Some(4)),
            (4, Some(4)),
            (5, None),
            (20, None),
            (19, Some(20)),
            (18, Some(20)),
            (17, None),
            (18, Some(18)),
        ] {
            predictions.learn(operation(1), [Exponent(agreed)].into_iter());
            assert_eq!(
                predicted(&predictions, 1),
                expected.map(Exponent),
                "after {agreed}"
            );
        }
    }

    #[test]
    fn num_11_zeros_fit_every_prediction_and_change_none() {
        let mut predictions = Predictions::default();
        for agreed in [Exponent(3), Exponent::NONE, Exponent::NONE] {
            predictions.learn(operation(1), [agreed].into_iter());
            assert_eq!(predicted(&predictions, 1), Some(Exponent(3)));
        }
        predictions.learn(operation(2), [Exponent::NONE].into_iter());
        assert_eq!(predicted(&predictions, 2), Some(Exponent::NONE));
        predictions.learn(operation(2), [Exponent(0)].into_iter());
        assert_eq!(predicted(&predictions, 2), None, "no values were predicted");
    }

    #[test]
    fn num_11_of_many_operations_the_latest_new_ones_are_remembered() {
        let mut predictions = Predictions::default();
        let most = MOST_OPERATIONS as u64;
        for elements in (0..=most).chain([1]) {
            predictions.learn(operation(elements), [Exponent(0)].into_iter());
        }
        assert_eq!(predicted(&predictions, 0), None);
        for elements in 1..=most {
            assert_eq!(predicted(&predictions, elements), Some(Exponent(0)));
        }
        predictions.clear();
        assert_eq!(predicted(&predictions, 1), None);
    }

    #[test]
    fn num_11_no_exponent_is_out_of_range() {
        let mut predictions = Predictions::default();
        for agreed in [i16::MAX, i16::MIN + 1, 128, i16::MAX, i16::MAX - 3] {
            predictions.learn(operation(1), [Exponent(agreed)].into_iter());
        }
        assert!(!is_covered(Exponent(i16::MAX), Exponent(i16::MIN + 1)));
    }
}
