//! The specification of Tributary as naive, obviously right code.
//!
//! The first half is written from `docs/protocol.md` alone and shares nothing with `agg-core`: its own [`packet`]
//! reader by byte offsets, its own [`checksum`], an [`aggregator`] of maps and sets, and [`sum`], which says bit for
//! bit what an operation must give. It is slow and allocates wherever that is simpler.
//!
//! What it says of chosen packets is written down in `docs/vectors`, by [`vectors`]: other implementations, in any
//! language, are held to those files.
//!
//! The second half, [`harness`], drives the real core and the model in lock step; property tests and fuzz targets
//! share it.
#![forbid(unsafe_code)]

pub mod aggregator;
pub mod checksum;
pub mod generation;
pub mod harness;
pub mod job;
pub mod kind;
pub mod leaf;
pub mod packet;
pub mod pool;
pub mod predictions;
pub mod probe;
pub mod quorum;
pub mod round;
pub mod spill;
pub mod sum;
pub mod valid;
pub mod vectors;
pub mod verdict;

pub use aggregator::ModelAggregator;
pub use job::{ModelJob, ModelMember, ModelParent, ModelQuorum, Source};
pub use kind::ModelKind;
pub use packet::{ModelPacket, Unreadable};
pub use predictions::ModelPredictions;
pub use spill::ModelRequest;
pub use sum::{ModelScale, ModelSum};
pub use verdict::{ModelSend, ModelVerdict, To};
