//! The real core beside the model: every packet goes to both, and they must agree.
//!
//! [`Lockstep`] is an aggregator and its model; [`Script`] turns small, shrinkable [`Step`]s into packets for it.
//! [`Watch`] is a worker under the eyes of the worker's rules; [`Cluster`] joins both over a bad network. All of
//! them panic where core and model differ.

pub mod cluster;
pub mod feed;
pub mod forge;
pub mod lockstep;
pub mod random;
pub mod reading;
pub mod script;
pub mod step;
#[cfg(feature = "proptest")]
pub mod strategies;
pub mod tensor;
pub mod watch;

pub use cluster::{Cluster, Site, Tree, Weather};
pub use feed::{Feed, Guest, Meal};
pub use lockstep::Lockstep;
pub use script::{JobSetup, Kind, Script, Setup, Subject};
pub use step::{Oddity, Step};
pub use tensor::{Data, Values};
pub use watch::Watch;
