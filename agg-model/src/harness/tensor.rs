//! The elements of an operation under test.

use agg_core::{OpKind, Operation, Tensor};

use crate::ModelSum;

/// The elements that one worker reduces.
#[derive(Clone, Debug)]
pub enum Values {
    /// A sum of integers.
    I32(Vec<i32>),
    /// A sum of floats.
    F32(Vec<f32>),
    /// The same, and beside it what results did not hold of them (R-QUORUM-4).
    Feedback(Vec<f32>, Vec<f32>),
    /// A barrier.
    Barrier,
}

impl Values {
    /// As a worker takes them.
    pub fn tensor(&mut self) -> Tensor<'_> {
        match self {
            Self::I32(values) => Tensor::I32(values),
            Self::F32(values) => Tensor::F32(values),
            Self::Feedback(values, residual) => Tensor::F32Feedback { values, residual },
            Self::Barrier => Tensor::Empty,
        }
    }

    /// The operation that reduces them.
    pub fn operation(&self) -> Operation {
        match self {
            Self::I32(values) => Operation {
                kind: OpKind::SUM_I32,
                elements: values.len() as u64,
            },
            Self::F32(values) | Self::Feedback(values, _) => Operation {
                kind: OpKind::SUM_F32,
                elements: values.len() as u64,
            },
            Self::Barrier => Operation {
                kind: OpKind::Barrier,
                elements: 1,
            },
        }
    }

    /// The operation as it is on the wire: the kind in the top byte, the elements in the others.
    pub fn op(&self) -> u64 {
        match self {
            Self::I32(values) => 1 << 56 | values.len() as u64,
            Self::F32(values) | Self::Feedback(values, _) => 2 << 56 | values.len() as u64,
            Self::Barrier => 3 << 56 | 1,
        }
    }

    /// The bits, to compare: NaN equals NaN, and 0 is not −0.
    pub fn bits(&self) -> Vec<u32> {
        match self {
            Self::I32(values) => values.iter().map(|value| *value as u32).collect(),
            Self::F32(values) => values.iter().map(|value| value.to_bits()).collect(),
            Self::Feedback(values, residual) => values
                .iter()
                .chain(residual)
                .map(|value| value.to_bits())
                .collect(),
            Self::Barrier => Vec::new(),
        }
    }

    /// The floats, of a sum of floats.
    pub fn floats(&self) -> Option<&[f32]> {
        match self {
            Self::F32(values) | Self::Feedback(values, _) => Some(values),
            Self::I32(_) | Self::Barrier => None,
        }
    }

    /// Without what is kept beside the values: what every worker must have alike.
    pub fn without_feedback(&self) -> Self {
        match self {
            Self::Feedback(values, _) => Self::F32(values.clone()),
            _ => self.clone(),
        }
    }

    /// What every worker must have in the end, by the model.
    pub fn sum(inputs: &[Self], lanes: usize) -> Self {
        let mut ints = Vec::new();
        let mut floats = Vec::new();
        for input in inputs {
            match input {
                Self::I32(values) => ints.push(values.clone()),
                Self::F32(values) | Self::Feedback(values, _) => floats.push(values.clone()),
                Self::Barrier => {}
            }
        }
        match inputs[0] {
            Self::I32(_) => Self::I32(ModelSum::of_i32(&ints)),
            Self::F32(_) | Self::Feedback(..) => Self::F32(ModelSum::of_f32(&floats, lanes)),
            Self::Barrier => Self::Barrier,
        }
    }
}
