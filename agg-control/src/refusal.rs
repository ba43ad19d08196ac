//! Why the control service says no. Each message says what failed, with which values, and what to do.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use thiserror::Error;

use crate::plane::AdmitError;

/// Longest name of a world, in bytes.
pub const LONGEST_NAME: usize = 128;

/// Most members of a world at one aggregator: workers, and child aggregators that stand for several.
pub const MOST_MEMBERS: usize = 64;

/// Most ranks of a world: an aggregator with as many children as it can have, each with as many workers.
pub const MOST_RANKS: u32 = 4096;

/// Largest weight of a world.
pub const HEAVIEST: u16 = 1000;

/// Most ranks that a message lists: it travels in a header, which is bounded.
const MOST_LISTED: usize = 32;

/// A request that the control service refuses.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // each variant's message says what its fields are
pub enum Refusal {
    #[error("the world has no name: give it one of 1 to {LONGEST_NAME} bytes")]
    NameEmpty,
    #[error("the world's name has {bytes} bytes: at most {LONGEST_NAME} are possible")]
    NameTooLong { bytes: usize },
    #[error("the world's name {name:?} has control characters: use printable ones only")]
    NameUnprintable { name: String },
    #[error("the world '{world}' has {size} ranks: 1 to {MOST_RANKS} are possible")]
    SizeImpossible { world: String, size: u32 },
    #[error("rank {rank} is outside of the world '{world}' of {size}: ranks are 0 to {}", size - 1)]
    RankOutOfRange { world: String, size: u32, rank: u32 },
    #[error(
        "a registration for the world '{world}' has {ranks} ranks: {}",
        if *child { "a child aggregator registers one or more, in ascending order and each once" } else { "a worker registers just its own" }
    )]
    RanksImpossible {
        world: String,
        ranks: usize,
        child: bool,
    },
    #[error("rank {rank} registered without a nonce: send a random number that is not 0, one per process")]
    NonceMissing { rank: u32 },
    #[error(
        "rank {rank} says the world '{world}' has {size} ranks, rank {other} registered it with {other_size}: \
         start all ranks with the same world size"
    )]
    SizesDisagree {
        world: String,
        rank: u32,
        size: u32,
        other: u32,
        other_size: u32,
    },
    #[error(
        "rank {rank} asks for {what} = {asked}, rank {other} of the world '{world}' for {what} = {other_asked}: ask \
         for the same on all ranks"
    )]
    RequestsDisagree {
        world: String,
        what: &'static str,
        rank: u32,
        asked: String,
        other: u32,
        other_asked: String,
    },
    #[error(
        "rank {rank} has {streams} data addresses, rank {other} registered the world '{world}' with \
         {other_streams} streams: use the same number of streams on all ranks"
    )]
    StreamsDisagree {
        world: String,
        rank: u32,
        streams: usize,
        other: u32,
        other_streams: usize,
    },
    #[error(
        "rank {rank} has {streams} data addresses, one per stream: this aggregator serves 1 to {shards} streams"
    )]
    StreamsImpossible { rank: u32, streams: usize, shards: u16 },
    #[error(
        "rank {rank} of the world '{world}' is already registered by another process ({holder}): if this is a \
         second world, give it another name"
    )]
    RankTaken {
        world: String,
        rank: u32,
        holder: SocketAddr,
    },
    #[error(
        "the world '{world}' is already running ({ranks} ranks, of which {left} have left, for {:.1} s): wait for \
         its end or use another name",
        age.as_secs_f64()
    )]
    WorldRunning {
        world: String,
        ranks: usize,
        left: usize,
        age: Duration,
    },
    #[error(
        "rank {rank} has the data address {address} but registers from {peer}: bind its sockets to the address it \
         registers from, or set allow_any_address on the aggregator"
    )]
    AddressForeign {
        rank: u32,
        address: SocketAddr,
        peer: IpAddr,
    },
    #[error(
        "rank {rank} has the data address {address}, to which nothing can be sent: bind its sockets first"
    )]
    AddressUnusable { rank: u32, address: SocketAddr },
    #[error(
        "rank {rank} has the data address {address}, which is rank {other}'s: use a socket per rank and stream"
    )]
    AddressTaken {
        rank: u32,
        address: SocketAddr,
        other: u32,
    },
    #[error("rank {rank} asks for weight = {weight}: 1 to {HEAVIEST} are possible")]
    WeightImpossible { rank: u32, weight: u16 },
    #[error("rank {rank} asks for a quorum of {members} of {size} ranks: ask for 1 to {size}")]
    QuorumImpossible { rank: u32, members: u8, size: u32 },
    #[error(
        "the world '{world}' asks for a quorum below a parent aggregator, where only policy = all works: register it \
         at an aggregator without parent and children"
    )]
    QuorumInTree { world: String },
    #[error(
        "a job under a quorum cannot move to another aggregator or to a restarted one: start the world '{world}' again"
    )]
    QuorumResumed { world: String },
    #[error("rank {rank} cannot resume the job of the world '{world}' here: {what}; start the world again")]
    ResumeImpossible { world: String, rank: u32, what: String },
    #[error(
        "rank {rank} and rank {other} of the world '{world}' do not resume the same job: end the processes that are \
         left of an earlier start"
    )]
    ResumesDisagree { world: String, rank: u32, other: u32 },
    #[error("the job of the world '{world}' has ended: {reason}")]
    JobEnded { world: String, reason: String },
    #[error(
        "the world '{world}' goes on without this registration of rank {rank}: it was lost before, has left, or \
         registered elsewhere later"
    )]
    LeftOut { world: String, rank: u32 },
    #[error(
        "rank {rank} of the world '{world}' of {size} finds {MOST_MEMBERS} members here already, the most that are \
         possible: spread the ranks over child aggregators"
    )]
    TooManyMembers { world: String, rank: u32, size: u32 },
    #[error("{message} (said the parent aggregator at {parent})")]
    ParentRefused {
        parent: String,
        message: String,
        /// Its word was that ranks are missing.
        missing: bool,
    },
    #[error(
        "the parent aggregator at {parent} does not answer ({detail}): is `tributary serve` running there?"
    )]
    ParentSilent { parent: String, detail: String },
    #[error(
        "the world '{world}' of priority {priority} waited behind '{ahead}', which waits for memory: wait for other \
         jobs to end or register with a higher priority"
    )]
    Queued {
        world: String,
        priority: u8,
        ahead: String,
    },
    #[error("{lanes} lanes are not possible: this aggregator has {}", List(supported))]
    LanesUnsupported { lanes: u32, supported: Vec<u16> },
    #[error(
        "rank {rank} can send {max_datagram} bytes a datagram, {lanes} lanes need {needed}: {}",
        if *requested { "request fewer lanes or raise the path's MTU" } else { "raise the path's MTU" }
    )]
    DatagramTooSmall {
        rank: u32,
        max_datagram: u32,
        lanes: u16,
        needed: u32,
        requested: bool,
    },
    #[error("a window of {window} chunks is not possible: ask for at most {largest}")]
    WindowTooLarge { window: u32, largest: u16 },
    #[error(
        "the world '{world}' needs {needed} bytes per shard (lanes {lanes}, window {window}), {free} are free{}: {}",
        AtChild(*child),
        if *requested { "request a smaller window or wait for other jobs to end" } else { "wait for other jobs to end" }
    )]
    DoesNotFit {
        world: String,
        needed: u64,
        free: u64,
        lanes: u16,
        window: u16,
        requested: bool,
        child: Option<u32>,
    },
    #[error("the world '{world}' was not admitted: {error}")]
    NotAdmitted { world: String, error: AdmitError },
    #[error(
        "{limit} worlds already wait for ranks: try again when they are complete, or raise max_waiting_worlds"
    )]
    TooManyWaiting { limit: usize },
    #[error("{limit} jobs already run: wait for one to end, or raise max_jobs on the aggregator")]
    TooManyJobs { limit: usize },
    #[error("the aggregator is draining and takes no new worlds: use another aggregator")]
    Draining,
    #[error("the aggregator is shutting down: use another aggregator or try again after its restart")]
    ShuttingDown,
    #[error(
        "this registration of rank {rank} for the world '{world}' was replaced by a later one of the same process"
    )]
    Superseded { world: String, rank: u32 },
    #[error(
        "world '{world}' of {size}: {} did not register within {} s{}{}",
        Ranks(missing),
        Seconds(*waited),
        GaveUp(gave_up),
        TurnedAway(turned_away)
    )]
    RanksMissing {
        world: String,
        size: u32,
        missing: Vec<u32>,
        gave_up: Vec<u32>,
        turned_away: Option<(u32, String)>,
        waited: Duration,
    },
    #[error(
        "world '{world}' of {size}: {} did not register again within {} s, and only {seated} did: the others may go on \
         elsewhere, so more than half must be here to go on without them",
        Ranks(missing),
        Seconds(*waited)
    )]
    Minority {
        world: String,
        size: u32,
        missing: Vec<u32>,
        seated: usize,
        waited: Duration,
    },
    #[error("there is no job with this key: it has ended, or the aggregator has restarted; register again")]
    UnknownJob,
    #[error(
        "rank {rank} did not register for this job in this process: use the key, rank and nonce of its registration"
    )]
    NotAMember { rank: u32 },
    #[error("the request cannot be read ({what}): use a client of the same version as the aggregator")]
    Malformed { what: String },
}

impl Refusal {
    /// A stable word for programs.
    pub fn word(&self) -> &'static str {
        match self {
            Refusal::NameEmpty => "name-empty",
            Refusal::NameTooLong { .. } => "name-too-long",
            Refusal::NameUnprintable { .. } => "name-unprintable",
            Refusal::SizeImpossible { .. } => "size-impossible",
            Refusal::RankOutOfRange { .. } => "rank-out-of-range",
            Refusal::RanksImpossible { .. } => "ranks-impossible",
            Refusal::NonceMissing { .. } => "nonce-missing",
            Refusal::WeightImpossible { .. } => "weight-impossible",
            Refusal::QuorumImpossible { .. } => "quorum-impossible",
            Refusal::QuorumInTree { .. } => "quorum-in-tree",
            Refusal::QuorumResumed { .. } => "quorum-resumed",
            Refusal::ResumeImpossible { .. } => "resume-impossible",
            Refusal::ResumesDisagree { .. } => "resumes-disagree",
            Refusal::JobEnded { .. } => "job-ended",
            Refusal::LeftOut { .. } => "left-out",
            Refusal::TooManyMembers { .. } => "too-many-members",
            Refusal::ParentRefused { missing: true, .. } => RANKS_MISSING,
            Refusal::ParentRefused { .. } => "parent-refused",
            Refusal::ParentSilent { .. } => "parent-silent",
            Refusal::Queued { .. } => "queued",
            Refusal::SizesDisagree { .. } => "sizes-disagree",
            Refusal::RequestsDisagree { .. } => "requests-disagree",
            Refusal::StreamsDisagree { .. } => "streams-disagree",
            Refusal::StreamsImpossible { .. } => "streams-impossible",
            Refusal::RankTaken { .. } => "rank-taken",
            Refusal::WorldRunning { .. } => "world-running",
            Refusal::AddressForeign { .. } => "address-foreign",
            Refusal::AddressUnusable { .. } => "address-unusable",
            Refusal::AddressTaken { .. } => "address-taken",
            Refusal::LanesUnsupported { .. } => "lanes-unsupported",
            Refusal::DatagramTooSmall { .. } => "datagram-too-small",
            Refusal::WindowTooLarge { .. } => "window-too-large",
            Refusal::DoesNotFit { .. } => "does-not-fit",
            Refusal::NotAdmitted { .. } => "not-admitted",
            Refusal::TooManyWaiting { .. } => "too-many-waiting",
            Refusal::TooManyJobs { .. } => "too-many-jobs",
            Refusal::Draining => "draining",
            Refusal::ShuttingDown => "shutting-down",
            Refusal::Superseded { .. } => SUPERSEDED,
            Refusal::RanksMissing { .. } => RANKS_MISSING,
            // As for a world that never was complete: to try again may help.
            Refusal::Minority { .. } => RANKS_MISSING,
            Refusal::UnknownJob => UNKNOWN_JOB,
            Refusal::NotAMember { .. } => NOT_A_MEMBER,
            Refusal::Malformed { .. } => "malformed",
        }
    }
}

pub(crate) const RANKS_MISSING: &str = "ranks-missing";
pub(crate) const UNKNOWN_JOB: &str = "unknown-job";
pub(crate) const NOT_A_MEMBER: &str = "not-a-member";
pub(crate) const SUPERSEDED: &str = "superseded";

struct AtChild(Option<u32>);

impl fmt::Display for AtChild {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(rank) => write!(f, " at the child aggregator of rank {rank}"),
            None => Ok(()),
        }
    }
}

struct List<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for List<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, item) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{item}")?;
        }
        Ok(())
    }
}

/// Ranks in words: "rank 2" or "ranks 2, 3"; of many only the first.
#[derive(Debug, Clone, Copy)]
pub struct Ranks<'a>(pub &'a [u32]);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = &self.0[..self.0.len().min(MOST_LISTED)];
        let plural = if self.0.len() == 1 { "" } else { "s" };
        write!(f, "rank{plural} {}", List(listed))?;
        match self.0.len() - listed.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

struct Seconds(Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // "30 s", but "0.25 s": a deadline is shown as it was set.
        write!(f, "{}", self.0.as_millis() as f64 / 1000.0)
    }
}

/// Why a rank that is missing did come, but in vain.
struct TurnedAway<'a>(&'a Option<(u32, String)>);

impl fmt::Display for TurnedAway<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((rank, why)) => write!(f, "; rank {rank} came and was refused: {why}"),
            None => Ok(()),
        }
    }
}

struct GaveUp<'a>(&'a [u32]);

impl fmt::Display for GaveUp<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        write!(f, " ({} gave up waiting)", Ranks(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_ranks_are_named() {
        let missing = |missing: &[u32], gave_up: &[u32], turned_away: Option<(u32, &str)>| {
            Refusal::RanksMissing {
                world: "x".into(),
                size: 4,
                missing: missing.to_vec(),
                gave_up: gave_up.to_vec(),
                turned_away: turned_away.map(|(rank, why)| (rank, why.to_owned())),
                waited: Duration::from_secs(30),
            }
            .to_string()
        };
        assert_eq!(
            missing(&[2, 3], &[], None),
            "world 'x' of 4: ranks 2, 3 did not register within 30 s"
        );
        assert_eq!(
            missing(&[3], &[0], None),
            "world 'x' of 4: rank 3 did not register within 30 s (rank 0 gave up waiting)"
        );
        assert_eq!(
            missing(&[3], &[], Some((3, "it asks for lanes = 256"))),
            "world 'x' of 4: rank 3 did not register within 30 s; rank 3 came and was refused: it asks for lanes = 256"
        );
    }
}
