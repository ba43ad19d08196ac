//! Values on the command line that need more than a number.

mod bytes;
mod policy;
mod reduce;
mod seconds;
mod straggler;
mod terms;

pub use bytes::{TensorSize, byte_count, human};
pub use policy::PolicyArg;
pub use reduce::{OpArg, ReduceArgs, WireArg};
pub use seconds::seconds;
pub use straggler::Straggler;
pub use terms::{OnLostArg, Terms};

/// How many workers one aggregator can have, for clap.
pub fn world_size() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=64)
}

/// How many ranks a world can have behind a tree of aggregators, for clap.
pub fn tree_size() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=4096)
}
