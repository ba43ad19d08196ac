//! What the ranks of a world do.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use testnet::Host;

use crate::process::unread;
use crate::rank::{TOLD, Told};
use crate::server::CONTROL_PORT;

/// What the ranks of a world do: sums of f32 and of i32 by turns, of these lengths, and a barrier after each two.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// The world's name.
    pub world: String,
    /// Ranks in the world.
    pub ranks: u32,
    /// Elements; each length is used for one sum of either type, then the next.
    pub lengths: Vec<usize>,
    /// Sums.
    pub operations: usize,
    /// Per cent of packets lost, each way.
    pub loss: u32,
    /// Chunk size in lanes; `None`: what fits.
    pub lanes: Option<u32>,
    /// Chunks in flight; `None`: what fits.
    pub window: Option<u32>,
    /// So many ranks are enough for a sum of f32, some ms after the first.
    pub quorum: Option<u8>,
    /// Whether the others go on when a rank is lost.
    pub shrinks: bool,
    /// A rank that the test kills: under a quorum, where nobody is told, sums of integers may lack it.
    pub doomed: Option<u32>,
    /// A rank that pauses for so many ms before each operation.
    pub slow: Option<(u32, u64)>,
}

impl Work {
    /// One small sum, without anything in its way.
    pub fn new(world: &str, ranks: u32) -> Self {
        Self {
            world: world.to_owned(),
            ranks,
            lengths: vec![1000],
            operations: 1,
            loss: 0,
            lanes: None,
            window: None,
            quorum: None,
            shrinks: false,
            doomed: None,
            slow: None,
        }
    }

    /// The same with so many sums of these lengths.
    #[must_use]
    pub fn of(mut self, operations: usize, lengths: &[usize]) -> Self {
        self.operations = operations;
        lengths.clone_into(&mut self.lengths);
        self
    }

    /// The same with so many per cent of packets lost, each way.
    #[must_use]
    pub fn with_loss(mut self, loss: u32) -> Self {
        self.loss = loss;
        self
    }

    /// The command of a rank that knows these aggregators.
    pub fn command(&self, rank: u32, host: &Host, aggregators: &[&Host]) -> Command {
        let address = |host: &&Host| SocketAddr::new(host.address(), CONTROL_PORT).to_string();
        let told = Told {
            work: self.clone(),
            rank,
            aggregators: aggregators.iter().map(address).collect(),
        };
        let mut command = host.command(std::env::current_exe().expect("this program"));
        command
            .args(["--exact", "rank", "--ignored", "--nocapture"])
            .env(TOLD, serde_json::to_string(&told).expect("JSON"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(unread());
        command
    }
}
