//! Trees with the kernel's aggregator as leaf, as root and as both.

use testjob::{Process, Rank, Server, Work, counters, sums, sums_after};
use testnet::{Host, Link, Net};

use crate::cluster::{WINDOW, generic, native, udp, xdp_link};

const RANKS: u32 = 4;

/// Restarts of a root, one of which must come at the right moment.
const ROUNDS: usize = 20;

/// A root, two leaves, and two ranks for each; all at one switch: which is below which, only registration says.
struct Tree {
    root: Host,
    leaves: [Host; 2],
    workers: Vec<Host>,
    // Dropped after the handles: it ends what still runs inside.
    _net: Net,
}

impl Tree {
    fn new(prefix: &str) -> Self {
        let mut net = Net::new(prefix).expect("a network");
        let mut aggregator = |name| net.add_host(name, xdp_link(1500)).expect("an aggregator's host");
        let (root, leaves) = (aggregator("root"), ["leaf0", "leaf1"].map(&mut aggregator));
        let worker = |rank| {
            net.add_host(&format!("w{rank}"), Link::default())
                .expect("a host")
        };
        Self {
            workers: (0..RANKS).map(worker).collect(),
            root,
            leaves,
            _net: net,
        }
    }

    fn serve(&self, root: &Server, leaf: &Server) -> (Process, [Process; 2]) {
        let root = root.start(&self.root, None);
        let leaves = self
            .leaves
            .each_ref()
            .map(|host| leaf.start(host, Some(&self.root)));
        (root, leaves)
    }

    /// Starts all ranks; `aggregator` says which one those of a half of them know.
    fn start<'a>(&'a self, work: &Work, aggregator: impl Fn(usize) -> &'a Host) -> Vec<Rank> {
        let half = RANKS as usize / 2;
        let ranks = (0..).zip(&self.workers);
        let start = |(rank, host)| Rank::start(work.command(rank, host, &[aggregator(rank as usize / half)]));
        ranks.map(start).collect()
    }

    fn start_tree(&self, work: &Work) -> Vec<Rank> {
        self.start(work, |half| &self.leaves[half])
    }

    /// What the work gives at a root in user space, without leaves.
    fn flat(&self, work: &Work) -> Vec<String> {
        let _root = udp().start(&self.root, None);
        sums(work, &self.start(work, |_| &self.root))
    }
}

fn work() -> Work {
    Work {
        window: Some(WINDOW),
        ..Work::new("tree", RANKS).of(12, &[1, 1000, 22_531, 0, 300_007, 352 * 64])
    }
}

fn same_bits(prefix: &str, root: &Server, leaf: &Server) {
    let tree = Tree::new(prefix);
    let flat = tree.flat(&work());
    let _aggregators = tree.serve(root, leaf);
    for loss in [0, 1] {
        let work = work().with_loss(loss);
        assert_eq!(
            sums(&work, &tree.start_tree(&work)),
            flat,
            "{loss} % of packets lost"
        );
    }
    for leaf in &tree.leaves {
        let counted = counters(leaf);
        assert!(counted["contributions_forwarded"] > 0, "{counted:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn netns_leaves_in_the_kernel_under_a_root_in_user_space_give_the_bits_of_a_flat_run() {
    same_bits("trib-xdp-leaf", &udp(), &native());
}

#[test]
#[ignore = "needs root"]
fn netns_a_root_in_the_kernel_above_leaves_in_user_space_gives_the_bits_of_a_flat_run() {
    same_bits("trib-xdp-root", &native(), &udp());
}

#[test]
#[ignore = "needs root"]
fn netns_a_tree_in_kernels_gives_the_bits_of_a_flat_run() {
    same_bits("trib-xdp-tree", &native(), &native());
}

#[test]
#[ignore = "needs root"]
fn netns_a_tree_in_generic_mode_gives_the_bits_of_a_flat_run() {
    same_bits("trib-xdp-skb-tree", &generic(), &generic());
}

/// A root that lost its memory asks its leaves for what they have: the answer is longer than the question.
fn refills(prefix: &str, root: &Server, leaf: &Server) {
    let tree = Tree::new(prefix);
    let work = Work {
        window: Some(WINDOW),
        ..Work::new("refill", RANKS).of(20, &[1000, 300_000])
    };
    let flat = tree.flat(&work);
    let (mut serving, _leaves) = tree.serve(root, leaf);
    let relayed = || {
        let relayed = |leaf| counters(leaf)["xdp_relayed_to_user_space"];
        tree.leaves.iter().map(relayed).sum::<u64>()
    };
    let mut since = 0;
    for (round, loss) in [0, 1].into_iter().cycle().enumerate() {
        // Who has a result at that moment is a matter of chance.
        if round >= 2 && since > 0 {
            return;
        }
        assert!(
            round < ROUNDS,
            "nothing that the root has asked for has needed user space"
        );
        let work = work.clone().with_loss(loss);
        let ranks = tree.start_tree(&work);
        let mut before = 0;
        let results = sums_after(&work, &ranks, || {
            serving.kill();
            before = relayed();
            serving = root.start(&tree.root, None);
        });
        assert_eq!(results, flat, "{loss} % of packets lost");
        since += relayed() - before;
    }
}

#[test]
#[ignore = "needs root"]
fn netns_leaves_in_the_kernel_refill_a_root_that_was_restarted() {
    refills("trib-xdp-refill", &udp().patient(), &native().patient());
}

#[test]
#[ignore = "needs root"]
fn netns_a_root_in_the_kernel_that_was_restarted_is_refilled() {
    refills("trib-xdp-refilled", &native().patient(), &native().patient());
}
