//! A network with two hosts for aggregators and one for each rank.

use testjob::{Rank, Server, Work, sums};
use testnet::{Host, Link, Net};

/// Chunks in flight. A veth holds 256 frames, and what comes while it is full is lost.
pub const WINDOW: u32 = 32;

/// The aggregator in the kernel, in the driver.
pub fn native() -> Server {
    xdp("native")
}

/// In the network stack.
pub fn generic() -> Server {
    xdp("generic")
}

fn xdp(mode: &str) -> Server {
    Server::new(
        env!("CARGO_BIN_EXE_bpf-host"),
        &["serve", "--interface", "eth0", "--mode", mode],
    )
}

/// The aggregator in user space.
pub fn udp() -> Server {
    Server::new(testjob::tributary(), &["serve"])
}

/// An MTU with a link on which XDP programs can send.
pub fn xdp_link(mtu: u32) -> Link {
    Link {
        mtu,
        xdp: true,
        ..Link::default()
    }
}

/// Two hosts for aggregators, and the ranks'.
pub struct Cluster {
    pub aggregator: Host,
    /// For what the first is compared with, and what takes its place.
    pub other: Host,
    pub workers: Vec<Host>,
    // Dropped after the handles: it ends what still runs inside.
    net: Net,
}

impl Cluster {
    /// With Ethernet's MTU.
    pub fn new(prefix: &str, ranks: u32) -> Self {
        Self::with_mtu(prefix, ranks, 1500)
    }

    pub fn with_mtu(prefix: &str, ranks: u32, mtu: u32) -> Self {
        let mut net = Net::new(prefix).expect("a network");
        let mut aggregator = |name| net.add_host(name, xdp_link(mtu)).expect("an aggregator's host");
        let (aggregator, other) = (aggregator("agg"), aggregator("other"));
        let link = Link {
            mtu,
            ..Link::default()
        };
        let worker = |rank| net.add_host(&format!("w{rank}"), link.clone()).expect("a host");
        Self {
            workers: (0..ranks).map(worker).collect(),
            aggregator,
            other,
            net,
        }
    }

    /// The aggregator's host gets another interface in the place of its own.
    pub fn renew_aggregators_link(&self, mtu: u32) {
        let renewed = self.net.renew_link(&self.aggregator, &xdp_link(mtu));
        renewed.expect("another interface");
    }

    /// Starts all ranks of some work at these aggregators.
    pub fn start(&self, work: &Work, aggregators: &[&Host]) -> Vec<Rank> {
        let ranks = (0..).zip(&self.workers).take(work.ranks as usize);
        ranks
            .map(|(rank, host)| Rank::start(work.command(rank, host, aggregators)))
            .collect()
    }

    /// What the work gives at an aggregator that is started for it on a host.
    pub fn sums_at(&self, server: &Server, host: &Host, work: &Work) -> Vec<String> {
        let _aggregator = server.start(host, None);
        sums(work, &self.start(work, &[host]))
    }

    /// What the work gives in user space.
    pub fn flat(&self, work: &Work) -> Vec<String> {
        self.sums_at(&udp(), &self.other, &work.clone().with_loss(0))
    }
}
