//! `cargo xtask compare`: Tributary, Gloo and Open MPI side by side, in one run, in network namespaces with limited links.
//!
//! Each rank has a namespace; its link has the given rate in both directions. The aggregator has a namespace with an
//! unlimited link: in-network aggregation presumes that the network's core is not the bottleneck; `--tree` is the case
//! where it is; `--memif` does without a network. The sides take turns, so that a machine whose speed drifts harms all alike.

mod loss;
mod memif;
mod side;
mod training;
mod tree;
mod xdp;

use std::process::ExitCode;

use testnet::{Host, Link};

use crate::field::Field;
use crate::running::median;
use crate::sides::{bench, build, exit, gloo, number, root, serve};
use side::{Peer, Side};

/// What to compare.
#[derive(clap::Args)]
pub(crate) struct Compare {
    /// Ranks, each on a host of its own.
    #[arg(long, default_value_t = 4)]
    ranks: usize,
    /// Rate of each rank's link, in tc's notation; `none` for unlimited.
    #[arg(long, default_value = "1gbit")]
    rate: String,
    /// Bytes of the tensor, a multiple of 4.
    #[arg(long, default_value_t = 100 << 20)]
    bytes: u64,
    /// Turns of each side; a turn measures 3 iterations.
    #[arg(long, default_value_t = 3)]
    turns: usize,
    /// What else is measured, in turns with Tributary. A missing Open MPI is left out.
    #[arg(long, value_delimiter = ',', default_value = "gloo,openmpi", conflicts_with_all = ["tree", "xdp", "memif", "training"])]
    peers: Vec<Peer>,
    /// Shares of packets that every host loses on arrival, the peers' as ours, like 0.1%,1%: each side without and with each of them.
    /// Packets are single then, which costs the machine several times as much: take a rate that it reaches, like 200mbit.
    #[arg(long, value_delimiter = ',', conflicts_with_all = ["tree", "xdp", "training"])]
    loss: Vec<loss::Loss>,
    /// Bits of an element on Tributary's wire: 32, 16 or 8. The peers' have 32.
    #[arg(long, default_value_t = 32)]
    wire: u32,
    /// Two racks with a leaf aggregator each, whose links to the root are slower: a tree, the root alone, and Gloo.
    #[arg(long)]
    tree: bool,
    /// Rate of each rack's link to the root, with --tree.
    #[arg(long, default_value = "250mbit", requires = "tree")]
    rack_rate: String,
    /// The aggregator as an XDP program beside that as a process, instead of Gloo.
    #[arg(long, conflicts_with = "tree")]
    xdp: bool,
    /// Two ranks and the aggregator of DPDK as processes with shared memory between them, those of the kernel, and Gloo over loopback.
    #[arg(long, conflicts_with_all = ["tree", "xdp", "ranks", "rate", "loss"])]
    memif: bool,
    /// A step of training with PyTorch, instead of a single all-reduce; the interpreter must have the package tributary, too.
    #[arg(long, conflicts_with_all = ["tree", "xdp"])]
    training: bool,
    /// A Python interpreter that has torch, for Gloo.
    #[arg(long, default_value = "python3")]
    python: String,
}

const ITERATIONS: usize = 3;

/// Builds, measures and prints; the exit status says whether all sides ran.
pub(crate) fn run(compare: &Compare) -> ExitCode {
    let measured = prepare(compare).and_then(|()| {
        if compare.xdp {
            xdp::measure(compare)
        } else if compare.memif {
            memif::measure(compare)
        } else if compare.tree {
            tree::measure(compare)
        } else if compare.training {
            training::measure(compare)
        } else if !compare.loss.is_empty() {
            loss::measure(compare)
        } else {
            measure(compare)
        }
    });
    exit("compare", measured)
}

/// Builds our side, and sees whether there is what the others need.
fn prepare(compare: &Compare) -> Result<(), String> {
    root()?;
    if !compare.xdp && compare.peers.contains(&Peer::Gloo) {
        gloo::check(&compare.python)?;
    }
    build()
}

fn measure(compare: &Compare) -> Result<(), String> {
    let field = compare.field("trib-cmp", Link::default())?;
    let sides = Side::all(compare, &field)?;
    let mut times = vec![Vec::new(); sides.len()];
    for turn in 0..compare.turns {
        let _serve = serve(&field.aggregator, &[])?;
        for (side, times) in sides.iter().zip(&mut times) {
            times.push(side.turn(compare, &field, turn)?);
        }
    }
    let times: Vec<f64> = times.into_iter().map(median).collect::<Result<_, _>>()?;
    compare.about();
    for (side, &seconds) in sides.iter().zip(&times) {
        compare.row(side.name(), seconds);
    }
    let ring = 2.0 * (compare.ranks as f64 - 1.0) / compare.ranks as f64;
    for (side, seconds) in sides.iter().zip(&times).skip(1) {
        println!(
            "  {} / tributary {:.2} (a ring moves {ring:.2} times the bytes)",
            side.name(),
            seconds / times[0]
        );
    }
    Ok(())
}

impl Compare {
    /// A network for both sides.
    fn field(&self, name: &str, aggregator: Link) -> Result<Field, String> {
        Field::new(name, aggregator, (0..self.ranks).map(|_| self.link()))
    }

    /// A rank's.
    fn link(&self) -> Link {
        match self.rate.as_str() {
            "none" => Link::default(),
            rate => Link::with_rate(rate),
        }
    }

    /// Median seconds of one turn.
    fn tributary(&self, ranks: &[Host], aggregator: impl Fn(usize) -> String) -> Result<f64, String> {
        let options = format!(
            "--bytes {} --iterations {ITERATIONS} --wire {}",
            self.bytes, self.wire
        );
        let figures = bench(ranks, aggregator, |_| {
            options.split(' ').map(str::to_owned).collect()
        })?;
        number(&figures, "median_seconds")
    }

    fn about(&self) {
        println!(
            "{} ranks, {} a link, {} bytes of f32, {} bits on the wire: medians of {} turns' medians of {ITERATIONS} iterations",
            self.ranks, self.rate, self.bytes, self.wire, self.turns
        );
    }

    fn row(&self, side: &str, seconds: f64) {
        println!(
            "  {side:<10} {seconds:.4} s  {:.4} GB/s",
            self.bytes as f64 / seconds / 1e9
        );
    }
}
