//! Error feedback: what results do not hold is not lost, it is added to the next values (R-QUORUM-4).

/// What the results of one tensor have not held yet of this rank's values.
///
/// A rank keeps one for each tensor that it reduces again and again, as for each layer's gradient. Under a quorum it carries
/// what was late over to the next operation; under every policy also what rounding took. After an error it is as undefined
/// as the tensor: restore a copy of both, or [`reset`](Self::reset) it.
#[derive(Debug, Clone, PartialEq)]
pub struct Feedback {
    residual: Vec<f32>,
}

impl Feedback {
    /// For a tensor of `len` elements, of which nothing is left over yet.
    pub fn new(len: usize) -> Self {
        Self {
            residual: vec![0.0; len],
        }
    }

    /// Elements.
    pub fn len(&self) -> usize {
        self.residual.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.residual.is_empty()
    }

    /// What is left over of each element, in its unit.
    pub fn residual(&self) -> &[f32] {
        &self.residual
    }

    /// Forgets what is left over.
    pub fn reset(&mut self) {
        self.residual.fill(0.0);
    }

    /// Adds what is left over to values of the same length, and hands out where the new rest goes.
    pub(crate) fn apply(&mut self, values: &mut [f32]) -> &mut [f32] {
        for (value, residual) in values.iter_mut().zip(&self.residual) {
            *value += residual;
        }
        &mut self.residual
    }
}

/// What became of this rank's values in a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Contribution {
    /// Chunks of the tensor.
    pub chunks: u64,
    /// Those whose sum does not hold this rank's values: it was late for them.
    pub late: u64,
}

impl Contribution {
    /// All of the tensor was summed.
    pub fn is_complete(&self) -> bool {
        self.late == 0
    }

    /// Nothing of it was: this rank is behind the others.
    pub fn was_late(&self) -> bool {
        self.chunks > 0 && self.late == self.chunks
    }
}
