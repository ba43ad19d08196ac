//! Trees of aggregators on hosts of their own: workers in network namespaces behind racks, a leaf in each rack, a root above.
//!
//! `cargo xtask test` runs these as root. No test here asserts a speed: `cargo xtask compare --tree` measures.
//! `TRIBUTARY_TEST_LOG=1` shows what all processes say.

use testjob::{Process, Rank, Server, Work, carried, sums, sums_after};
use testnet::{Host, Link, Net, Switch};

/// Two racks of four workers, and a root.
struct Cluster {
    root: Host,
    racks: Vec<Switch>,
    /// By rank: four in the first rack, four in the second.
    workers: Vec<Host>,
    // Dropped after the handles: it ends what still runs inside.
    _net: Net,
}

const RANKS: u32 = 8;

impl Cluster {
    fn new(prefix: &str) -> Self {
        let mut net = Net::new(prefix).expect("a network");
        let root = net.add_host("root", Link::default()).expect("the root's host");
        let racks = (0..2).map(|rack| {
            net.add_switch(&format!("leaf{rack}"), Link::default())
                .expect("a rack")
        });
        let racks: Vec<Switch> = racks.collect();
        let workers = (0..RANKS).map(|rank| {
            net.add_host_at(
                &racks[rank as usize / 4],
                &format!("w{rank}"),
                Link::with_rate("1gbit"),
            )
            .expect("a host")
        });
        Self {
            workers: workers.collect(),
            root,
            racks,
            _net: net,
        }
    }

    fn serve(&self) -> (Process, Vec<Process>) {
        let root = serve(&self.root, None);
        let leaves = self.racks.iter().map(|rack| serve(rack, Some(&self.root)));
        (root, leaves.collect())
    }

    /// Starts all ranks; `aggregators` says which ones a rank in this rack knows.
    fn start<'a>(&'a self, work: &Work, aggregators: impl Fn(usize) -> Vec<&'a Host>) -> Vec<Rank> {
        let start = |(rank, host)| {
            let aggregators = aggregators(rank as usize / 4);
            Rank::start(work.command(rank, host, &aggregators))
        };
        (0..).zip(&self.workers).map(start).collect()
    }

    fn start_flat(&self, work: &Work) -> Vec<Rank> {
        self.start(work, |_| vec![&self.root])
    }

    fn start_tree(&self, work: &Work) -> Vec<Rank> {
        self.start(work, |rack| vec![&*self.racks[rack]])
    }

    /// Bytes that each rack's link has carried up and down.
    fn carried(&self) -> Vec<[u64; 2]> {
        carried(self.racks.iter().map(|rack| &**rack))
    }
}

/// An aggregator in user space.
fn serve(host: &Host, parent: Option<&Host>) -> Process {
    Server::new(env!("CARGO_BIN_EXE_tributary"), &["serve"]).start(host, parent)
}

#[test]
#[ignore = "a rank of another test"]
fn rank() {
    testjob::run_if_rank();
}

#[test]
#[ignore = "needs root"]
fn netns_a_tree_gives_the_bits_of_a_flat_run() {
    let cluster = Cluster::new("trib-bits");
    let _aggregators = cluster.serve();
    let work = Work::new("bits", RANKS).of(10, &[1, 1000, 352 * 64, 1_000_000, 0]);
    let flat = sums(&work, &cluster.start_flat(&work));
    for loss in [0, 1] {
        let work = work.clone().with_loss(loss);
        assert_eq!(
            sums(&work, &cluster.start_tree(&work)),
            flat,
            "{loss} % of packets lost"
        );
    }
}

#[test]
#[ignore = "needs root"]
fn netns_a_leafs_link_carries_one_tensor_each_way() {
    const ELEMENTS: usize = 4 << 20;
    const BYTES: u64 = 4 * ELEMENTS as u64;
    let cluster = Cluster::new("trib-rack");
    let _aggregators = cluster.serve();
    let work = Work::new("once", RANKS).of(2, &[ELEMENTS]);
    for (tensors, flat) in [(1, false), (4, true)] {
        let before = cluster.carried();
        let ranks = if flat {
            cluster.start_flat(&work)
        } else {
            cluster.start_tree(&work)
        };
        sums(&work, &ranks);
        let least = tensors * BYTES * work.operations as u64;
        // Headers, the chunks that carry exponents only, and control: within 10 %.
        let expected = least..least * 110 / 100;
        for (before, after) in before.iter().zip(cluster.carried()) {
            let carried = [after[0] - before[0], after[1] - before[1]];
            assert!(
                carried.iter().all(|bytes| expected.contains(bytes)),
                "up and down {carried:?}, expected {expected:?}"
            );
        }
    }
}

/// Long enough to be interrupted in the middle.
fn twenty() -> Work {
    Work::new("twenty", RANKS).of(20, &[1000, 300_000])
}

#[test]
#[ignore = "needs root"]
fn netns_a_killed_leafs_workers_go_on_elsewhere_with_the_same_bits() {
    let cluster = Cluster::new("trib-leaf");
    let (_root, mut leaves) = cluster.serve();
    let twenty = twenty();
    let calm = sums(&twenty, &cluster.start_tree(&twenty));
    for to_root in [true, false] {
        let ranks = cluster.start(&twenty, |rack| {
            let other = if to_root {
                &cluster.root
            } else {
                &cluster.racks[1 - rack]
            };
            vec![&*cluster.racks[rack], other]
        });
        let results = sums_after(&twenty, &ranks, || leaves[0].kill());
        assert_eq!(results, calm, "to the root: {to_root}");
        leaves[0] = serve(&cluster.racks[0], Some(&cluster.root));
    }
}

#[test]
#[ignore = "needs root"]
fn netns_an_aggregator_of_a_tree_restarted_in_place_gives_the_same_bits() {
    let cluster = Cluster::new("trib-again");
    let (mut root, mut leaves) = cluster.serve();
    let twenty = twenty();
    let calm = sums(&twenty, &cluster.start_tree(&twenty));
    let ranks = cluster.start_tree(&twenty);
    let results = sums_after(&twenty, &ranks, || {
        leaves[1].kill();
        leaves[1] = serve(&cluster.racks[1], Some(&cluster.root));
    });
    assert_eq!(results, calm, "a leaf");
    let ranks = cluster.start_tree(&twenty);
    let results = sums_after(&twenty, &ranks, || {
        root.kill();
        root = serve(&cluster.root, None);
    });
    assert_eq!(results, calm, "the root");
}

#[test]
#[ignore = "needs root"]
fn netns_a_killed_rank_is_named_everywhere_in_the_tree() {
    let cluster = Cluster::new("trib-lost");
    let _aggregators = cluster.serve();
    let work = Work::new("lost", RANKS).of(10_000, &[300_000]);
    let mut ranks = cluster.start_tree(&work);
    ranks[7].hear(4);
    ranks[7].kill();
    ranks.pop();
    for (rank, said) in ranks.iter().map(Rank::hear_all).enumerate() {
        let error = said
            .error
            .unwrap_or_else(|| panic!("rank {rank} ended without an error"));
        assert!(error.contains("rank 7"), "rank {rank}: {error}");
    }
}

#[test]
#[ignore = "needs root"]
fn netns_a_tree_of_three_levels_sums() {
    let mut net = Net::new("trib-deep").expect("a network");
    let root = net.add_host("root", Link::default()).expect("the root's host");
    let middle = net.add_switch("middle", Link::default()).expect("a rack");
    let low = net
        .add_switch_at(&middle, "low", Link::default())
        .expect("a rack below");
    // Two ranks at the lowest level, one in the middle, one at the root.
    let at: [(&Switch, &Host); 4] = [(&low, &low), (&low, &low), (&middle, &middle), (&middle, &root)];
    let workers = (0..).zip(at).map(|(rank, (switch, aggregator))| {
        let host = net.add_host_at(switch, &format!("w{rank}"), Link::default());
        (host.expect("a host"), aggregator)
    });
    let workers: Vec<(Host, &Host)> = workers.collect();
    let _aggregators = [
        serve(&root, None),
        serve(&middle, Some(&root)),
        serve(&low, Some(&middle)),
    ];
    let work = Work::new("deep", 4).of(6, &[1, 5000, 300_000]).with_loss(1);
    let start = |aggregators: &dyn Fn(&Host) -> Host| {
        let ranks = (0..)
            .zip(&workers)
            .map(|(rank, (host, at))| Rank::start(work.command(rank, host, &[&aggregators(at)])));
        ranks.collect::<Vec<_>>()
    };
    let flat = sums(&work, &start(&|_| root.clone()));
    assert_eq!(sums(&work, &start(&Host::clone)), flat);
}
