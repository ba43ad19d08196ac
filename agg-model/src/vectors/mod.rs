//! Golden packet traces: packets, and what the specification says that an aggregator does with each.
//!
//! A [`Trace`] is a pcap file of what arrives and a file of JSON lines with the job's set-up and the expectations;
//! `docs/vectors/README.md` describes both. [`scenarios`] are written by hand and played to the model, which says
//! what is expected; the aggregators of this and other hosts are then held to the files.

pub mod frame;
pub mod lines;
pub mod pcap;
pub mod player;
pub mod scenarios;
pub mod text;
pub mod trace;

pub use lines::{
    Abort, Admit, Event, Exclude, Expectation, JobLine, MemberLine, ParentLine, QuorumLine, Recalled, Setup,
    StoreLost, Stored, Suspend, VerdictKind,
};
pub use player::Player;
pub use trace::{Datagram, Trace};
