//! Values on the command line that need more than a number.

mod bytes;
mod seconds;

pub use bytes::{TensorSize, human};
pub use seconds::seconds;

/// How many workers a world can have, for clap.
pub fn world_size() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=64)
}
