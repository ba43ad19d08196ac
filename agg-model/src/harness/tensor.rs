//! The elements of an operation under test.

use agg_core::{OpKind, Operation, Tensor};
use half::{bf16, f16};

use crate::kind::{ElementKind, ModelKind, Op};
use crate::predictions::Exponents;
use crate::{ModelScale, ModelSum};

/// The elements that one worker reduces, and how.
#[derive(Clone, Debug)]
pub struct Values {
    /// How.
    pub kind: ModelKind,
    /// The elements.
    pub data: Data,
}

/// Elements of a type.
#[derive(Clone, Debug)]
pub enum Data {
    /// Integers.
    I32(Vec<i32>),
    /// Floats.
    F32(Vec<f32>),
    /// The same, and beside it what results did not hold of them (R-QUORUM-4).
    Feedback(Vec<f32>, Vec<f32>),
    /// Floats of 16 bits.
    F16(Vec<f16>),
    /// Floats of 16 bits, 8 of them the exponent's.
    Bf16(Vec<bf16>),
    /// None: a barrier.
    Empty,
}

impl Values {
    /// A barrier.
    pub const BARRIER: Self = Self {
        kind: ModelKind::Barrier,
        data: Data::Empty,
    };

    /// A sum of integers.
    pub fn i32(values: Vec<i32>) -> Self {
        let (kind, data) = (ModelKind::SUM_I32, Data::I32(values));
        Self { kind, data }
    }

    /// A sum of floats.
    pub fn f32(values: Vec<f32>) -> Self {
        Self::floats_of(ModelKind::SUM_F32, values)
    }

    /// A sum of floats in so many bits, with error feedback.
    pub fn feedback(values: Vec<f32>, residual: Vec<f32>, bits: u32) -> Self {
        let kind = ModelKind::Reduce {
            op: Op::Sum,
            element: ElementKind::F32,
            bits,
        };
        let data = Data::Feedback(values, residual);
        Self { kind, data }
    }

    /// Floats that are reduced in this way, rounded to its type.
    pub fn floats_of(kind: ModelKind, values: Vec<f32>) -> Self {
        let data = match kind {
            ModelKind::Reduce {
                element: ElementKind::F16,
                ..
            } => Data::F16(values.into_iter().map(f16::from_f32).collect()),
            ModelKind::Reduce {
                element: ElementKind::Bf16,
                ..
            } => Data::Bf16(values.into_iter().map(bf16::from_f32).collect()),
            _ => Data::F32(values),
        };
        Self { kind, data }
    }

    /// As a worker takes them.
    pub fn tensor(&mut self) -> Tensor<'_> {
        match &mut self.data {
            Data::I32(values) => Tensor::I32(values),
            Data::F32(values) => Tensor::F32(values),
            Data::Feedback(values, residual) => Tensor::F32Feedback { values, residual },
            Data::F16(values) => Tensor::F16(values),
            Data::Bf16(values) => Tensor::Bf16(values),
            Data::Empty => Tensor::Empty,
        }
    }

    /// How many elements the operation has; a barrier has one.
    pub fn elements(&self) -> usize {
        match &self.data {
            Data::I32(values) => values.len(),
            Data::F32(values) | Data::Feedback(values, _) => values.len(),
            Data::F16(values) => values.len(),
            Data::Bf16(values) => values.len(),
            Data::Empty => 1,
        }
    }

    /// The operation that reduces them.
    pub fn operation(&self) -> Operation {
        Operation {
            kind: OpKind::from_wire(self.kind.number()).expect("a kind that exists"),
            elements: self.elements() as u64,
        }
    }

    /// The operation as it is on the wire: the kind in the top byte, the elements in the others.
    pub fn op(&self) -> u64 {
        self.kind.tag(self.elements())
    }

    /// R-OP-2: its chunks without values in front, and those with values.
    pub fn chunks(&self, lanes: usize, window: u64) -> (u64, u64) {
        let blocks = self.elements().div_ceil(self.kind.elements_of(lanes)) as u64;
        match self.kind {
            ModelKind::Barrier => (1, 0),
            kind if kind.is_scaled() => (blocks.min(window), blocks),
            ModelKind::Reduce { .. } => (0, blocks),
        }
    }

    /// The bits, to compare: NaN equals NaN, and 0 is not −0.
    pub fn bits(&self) -> Vec<u32> {
        match &self.data {
            Data::I32(values) => values.iter().map(|value| *value as u32).collect(),
            Data::F32(values) => values.iter().map(|value| value.to_bits()).collect(),
            Data::Feedback(values, residual) => values
                .iter()
                .chain(residual)
                .map(|value| value.to_bits())
                .collect(),
            Data::F16(values) => values.iter().map(|value| value.to_bits().into()).collect(),
            Data::Bf16(values) => values.iter().map(|value| value.to_bits().into()).collect(),
            Data::Empty => Vec::new(),
        }
    }

    /// The floats as f32, of an operation on floats.
    pub fn floats(&self) -> Option<Vec<f32>> {
        match &self.data {
            Data::F32(values) | Data::Feedback(values, _) => Some(values.clone()),
            Data::F16(values) => Some(values.iter().map(|value| value.to_f32()).collect()),
            Data::Bf16(values) => Some(values.iter().map(|value| value.to_f32()).collect()),
            Data::I32(_) | Data::Empty => None,
        }
    }

    /// Block `index` of the floats.
    pub fn block(&self, index: u64, lanes: usize) -> Vec<f32> {
        let floats = self.floats().unwrap_or_default();
        let block = floats.chunks(self.kind.elements_of(lanes)).nth(index as usize);
        block.unwrap_or_default().to_vec()
    }

    /// How the values of a chunk are scaled in a job of so many workers.
    pub fn scale(&self, exponent: Option<i16>, workers: u32) -> ModelScale {
        ModelScale {
            exponent,
            workers,
            bits: self.kind.bits(),
        }
    }

    /// The lanes of block `index`, with which zeros are behind the end.
    pub fn lanes_of(&self, index: u64, lanes: usize, scale: ModelScale) -> Vec<i32> {
        let numbers = match &self.data {
            Data::I32(values) => values
                .chunks(lanes)
                .nth(index as usize)
                .unwrap_or_default()
                .to_vec(),
            _ => self
                .block(index, lanes)
                .iter()
                .map(|x| ModelSum::number(self.kind, *x, scale))
                .collect(),
        };
        ModelSum::pack(&numbers, lanes, self.kind.bits())
    }

    /// What a result for block `index` makes of the elements: lanes that stand for `summed` workers, among whose is this one
    /// if `held`.
    pub fn take(
        &mut self,
        index: u64,
        lanes: &[i32],
        scale: ModelScale,
        nonfinite: bool,
        (summed, held): (u32, bool),
    ) {
        let kind = self.kind;
        let start = index as usize * kind.elements_of(lanes.len());
        let numbers = ModelSum::unpack(lanes, kind.bits());
        let float = |number: i32| match nonfinite {
            true => f32::NAN,
            false => ModelSum::result(kind, number, scale, summed),
        };
        for (at, number) in (start..self.elements()).zip(numbers) {
            match &mut self.data {
                Data::I32(values) => values[at] = number,
                Data::F32(values) => values[at] = float(number),
                Data::F16(values) => values[at] = f16::from_f32(float(number)),
                Data::Bf16(values) => values[at] = bf16::from_f32(float(number)),
                Data::Feedback(values, residual) => {
                    residual[at] = match nonfinite {
                        true => 0.0,
                        false => scale.residual(values[at], held),
                    };
                    values[at] = float(number);
                }
                Data::Empty => {}
            }
        }
    }

    /// Without what is kept beside the values: what every worker must have alike.
    pub fn without_feedback(&self) -> Self {
        match &self.data {
            Data::Feedback(values, _) => Self {
                kind: self.kind,
                data: Data::F32(values.clone()),
            },
            _ => self.clone(),
        }
    }

    /// What every worker must have in the end, by the model.
    pub fn result(inputs: &[Self], lanes: usize) -> Self {
        Self::result_scaled(inputs, lanes, None)
    }

    /// R-NUM-3: what the blocks of floats need; none for other elements.
    pub fn agreed(inputs: &[Self], lanes: usize) -> Option<Exponents> {
        let floats = inputs.iter().map(Self::floats).collect::<Option<Vec<_>>>()?;
        Some(ModelSum::agreed(inputs[0].kind, &floats, lanes))
    }

    /// [`Self::result`], with blocks scaled as predicted.
    pub fn result_scaled(inputs: &[Self], lanes: usize, predicted: Option<&[Option<i16>]>) -> Self {
        let kind = inputs[0].kind;
        if let Some(floats) = inputs.iter().map(Self::floats).collect::<Option<Vec<_>>>() {
            let floats = match predicted {
                Some(predicted) => ModelSum::of_floats_scaled(kind, &floats, lanes, predicted),
                None => ModelSum::of_floats(kind, &floats, lanes),
            };
            return Self::floats_of(kind, floats);
        }
        let integers = inputs.iter().map(|input| match &input.data {
            Data::I32(values) => Some(values.clone()),
            _ => None,
        });
        match integers.collect::<Option<Vec<_>>>() {
            Some(integers) => Self {
                kind,
                data: Data::I32(ModelSum::of_i32(kind, &integers)),
            },
            None => Self::BARRIER,
        }
    }
}
