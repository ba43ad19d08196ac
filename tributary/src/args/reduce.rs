//! How tensors are reduced.

use agg_worker::{ElementType, Error, ReduceOp, ReduceOptions, Width};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

/// What becomes of the elements of all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OpArg {
    /// Their sum
    #[default]
    Sum,
    /// Their sum over the number of ranks
    Avg,
    /// The smallest
    Min,
    /// The largest
    Max,
}

/// Bits of an element on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize)]
pub enum WireArg {
    /// All that there are
    #[default]
    #[value(name = "32")]
    Bits32,
    /// Half the bytes
    #[value(name = "16")]
    Bits16,
    /// A quarter of the bytes
    #[value(name = "8")]
    Bits8,
}

impl WireArg {
    /// The communicator's.
    pub fn width(self) -> Width {
        match self {
            Self::Bits32 => Width::Bits32,
            Self::Bits16 => Width::Bits16,
            Self::Bits8 => Width::Bits8,
        }
    }
}

/// How tensors are reduced; the same for all ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Args, Serialize, Deserialize)]
pub struct ReduceArgs {
    /// What becomes of the elements of all ranks
    #[arg(long, value_enum, value_name = "OP", default_value_t)]
    pub op: OpArg,
    /// Bits of an element on the wire, for sums and averages of floats
    #[arg(long, value_enum, value_name = "BITS", default_value_t)]
    pub wire: WireArg,
}

impl ReduceArgs {
    /// The same for the communicator.
    pub fn options(self) -> ReduceOptions {
        let op = match self.op {
            OpArg::Sum => ReduceOp::Sum,
            OpArg::Avg => ReduceOp::Avg,
            OpArg::Min => ReduceOp::Min,
            OpArg::Max => ReduceOp::Max,
        };
        ReduceOptions::new(op).with_width(self.wire.width())
    }

    /// Whether there is that for such elements and so many ranks.
    pub fn check(self, element: ElementType, ranks: u32) -> Result<(), Error> {
        self.options().check(element, ranks)
    }
}
