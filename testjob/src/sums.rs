//! Ranks that run, and what they say.

use std::process::Command;
use std::sync::mpsc::Receiver;
use std::time::Instant;

use crate::process::{LIMIT, Output, Process};
use crate::work::Work;

/// A rank that runs.
pub struct Rank {
    process: Process,
    lines: Receiver<String>,
}

/// What a rank has said.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// The digest of each result.
    pub sums: Vec<String>,
    /// The operations that ended without one, since ranks were lost.
    pub lost: Vec<String>,
    /// Why it ended early.
    pub error: Option<String>,
}

impl Rank {
    /// Starts it: a [`Work::command`].
    pub fn start(mut command: Command) -> Self {
        let mut process = Process::start(&mut command);
        let lines = process.lines(Output::Standard);
        Self { process, lines }
    }

    /// SIGKILL.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// What it says until it has `sums` results, or ends.
    pub fn hear(&self, sums: usize) -> Said {
        let deadline = Instant::now() + LIMIT;
        let mut said = Said::default();
        while said.sums.len() < sums {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                assert!(Instant::now() < deadline, "a rank hangs after {said:?}");
                break;
            };
            if line.starts_with("sum ") {
                said.sums.push(line);
            } else if line.starts_with("lost ") {
                said.lost.push(line);
            } else if let Some(error) = line.strip_prefix("error ") {
                said.error = Some(error.to_owned());
            }
        }
        said
    }

    /// All that it says to its end.
    pub fn hear_all(&self) -> Said {
        self.hear(usize::MAX)
    }
}

/// The results, the same on every rank, after no error.
pub fn sums(work: &Work, ranks: &[Rank]) -> Vec<String> {
    let mut first = None;
    for (rank, said) in ranks.iter().map(Rank::hear_all).enumerate() {
        assert_eq!(said.error, None, "rank {rank}");
        assert_eq!(said.sums.len(), work.operations, "rank {rank} ended early");
        let sums = first.get_or_insert_with(|| said.sums.clone());
        assert_eq!(*sums, said.sums, "rank {rank} has other results");
    }
    first.expect("a rank")
}

/// The results of ranks to which `accident` happens when the first has some.
pub fn sums_after(work: &Work, ranks: &[Rank], accident: impl FnOnce()) -> Vec<String> {
    let mut all = ranks[0].hear(work.operations * 2 / 5).sums;
    accident();
    let mut late = ranks[0].hear_all();
    assert_eq!(late.error, None, "rank 0");
    all.append(&mut late.sums);
    assert_eq!(sums(work, &ranks[1..]), all, "rank 0 has other results");
    all
}
