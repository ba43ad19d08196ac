//! Why a command fails, each in one line: what failed, with which values, what to do.

use std::io;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};

use thiserror::Error;

use crate::args::Straggler;

/// Why a command fails.
#[derive(Debug, Error)]
pub enum Failure {
    /// The aggregator does not start.
    #[error(transparent)]
    Host(#[from] udp_host::HostError),
    /// The aggregator would be its own parent.
    #[error("--parent {0} is this aggregator's own control address: give that of the aggregator above it")]
    OwnParent(String),
    /// The aggregator's control service cannot be asked.
    #[error(transparent)]
    Control(#[from] agg_control::ControlError),
    /// This rank cannot go on.
    #[error(transparent)]
    Rank(Box<agg_worker::Error>),
    /// Training stopped.
    #[error("{who}: {reason}")]
    Training {
        /// Whose training.
        who: String,
        /// Why.
        reason: String,
    },
    /// Ranks do not begin alike.
    #[error(
        "rank {rank} begins with other parameters than rank 0 (parameter {index} differs): give all the same seed and the \
         same version of tributary"
    )]
    OtherStart {
        /// This rank.
        rank: usize,
        /// The first parameter that differs.
        index: usize,
    },
    /// A sum is wrong.
    #[error(
        "rank {rank}, iteration {iteration} of {bytes} bytes: element {index} is {found}, but the sum is {expected}: a \
         defect, please report it"
    )]
    WrongSum {
        /// This rank.
        rank: u32,
        /// The iteration, warm-up included.
        iteration: u32,
        /// Size of the tensor.
        bytes: u64,
        /// The element.
        index: usize,
        /// What came back.
        found: String,
        /// What should have.
        expected: String,
    },
    /// A sum under a quorum is wrong.
    #[error(
        "rank {rank}, iteration {iteration} of {bytes} bytes: the chunk of elements {first} to {last} is no sum of at least \
         {least} of {ranks} ranks' gradients, each once and scaled to all: a defect, please report it"
    )]
    WrongQuorum {
        /// This rank.
        rank: u32,
        /// The iteration, warm-up included.
        iteration: u32,
        /// Size of the tensor.
        bytes: u64,
        /// The chunk's first element.
        first: usize,
        /// Its last.
        last: usize,
        /// Ranks that a sum must hold.
        least: u32,
        /// Ranks in all.
        ranks: u32,
    },
    /// Ranks received other bits.
    #[error(
        "tensors of {bytes} bytes: rank {rank} received other sums than rank {other}: a defect, please report it"
    )]
    SumsDiffer {
        /// Size of the tensor.
        bytes: u64,
        /// One rank.
        rank: u32,
        /// Another.
        other: u32,
    },
    /// There is no such rank.
    #[error("--straggler {straggler}: the ranks are 0 to {}", ranks - 1)]
    NoSuchStraggler {
        /// What was asked for.
        straggler: Straggler,
        /// Ranks in the world.
        ranks: u32,
    },
    /// Nothing says what is in such a sum of some ranks.
    #[error(
        "sums of some ranks can be checked of f32 in 32 bits only, not of {dtype} with these options: measure without --policy"
    )]
    QuorumOf {
        /// Type of the elements.
        dtype: String,
    },
    /// Sums that are submitted together under a policy or beside a straggler.
    #[error("--in-flight {sums} measures sums that wait for all ranks: leave out --policy and --straggler")]
    InFlight {
        /// Sums together.
        sums: u32,
    },
    /// Others cannot do the same.
    #[error(
        "--compare measures sums of f32 or i32, not {op} of {dtype}: leave it out, or give --op sum --type f32"
    )]
    NothingToCompare {
        /// The operation.
        op: String,
        /// The elements' type.
        dtype: String,
    },
    /// A tensor does not fit in memory.
    #[error(
        "no memory for a tensor of {bytes} bytes in each worker: give a smaller --bytes or fewer workers"
    )]
    Memory {
        /// Size of the tensor.
        bytes: u64,
    },
    /// A worker process said why it failed; its line names the rank.
    #[error("{0}")]
    Worker(String),
    /// A worker process ended without a word.
    #[error("worker {rank} (process {process}) ended early: {status}; {advice}")]
    WorkerDied {
        /// The rank.
        rank: usize,
        /// The process.
        process: u32,
        /// How it ended.
        status: ExitStatus,
        /// What to do.
        advice: &'static str,
    },
    /// A worker process ended well, but its result never came.
    #[error("worker {rank} ended without a report: a defect, please report it")]
    NoReport {
        /// The rank.
        rank: usize,
    },
    /// A worker process cannot be started.
    #[error("cannot start worker {rank}: {source}; is the limit on processes (ulimit -u) reached?")]
    Spawn {
        /// The rank.
        rank: usize,
        /// What the system says.
        source: io::Error,
    },
    /// A line between parent and worker is not what it should be.
    #[error("cannot read the line '{line}' between tributary and its worker: {reason}")]
    Protocol {
        /// The line.
        line: String,
        /// What is wrong.
        reason: serde_json::Error,
    },
    /// A worker command was started by hand.
    #[error(
        "this command is how tributary starts its workers: run `tributary demo` or `tributary bench` instead"
    )]
    NotForHands,
    /// Something cannot be written or read.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system says.
        source: io::Error,
    },
    /// A file or directory cannot be written.
    #[error("cannot write {}: {source}; choose another directory with --out", path.display())]
    Write {
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The curves cannot be drawn.
    #[error(transparent)]
    Plot(#[from] tributary::demo::PlotError),
    /// A demo does not show what it must.
    #[error("{failed} of {checks} checks failed: see the lines marked FAIL")]
    Checks {
        /// Checks that failed.
        failed: usize,
        /// All checks.
        checks: usize,
    },
    /// A thread has panicked.
    #[error("a thread has panicked, as said above: a defect, please report it")]
    Panicked,
    /// Ctrl-C, or a signal that asks the same.
    #[error("interrupted")]
    Interrupted,
}

impl From<agg_worker::Error> for Failure {
    fn from(error: agg_worker::Error) -> Self {
        Self::Rank(Box::new(error))
    }
}

impl Failure {
    /// The exit status that says so; an interrupt has the shells' customary one.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Interrupted => ExitCode::from(130),
            _ => ExitCode::FAILURE,
        }
    }

    /// An I/O error with what was tried.
    pub fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
