//! Hosts with several ranks each: those of one host share memory with a leaf in the first of them, and send one stream.

use testjob::{Process, Rank, Said, Server, Work, carried, sums, sums_after};
use testnet::{Host, Link, Net};

const HOSTS: u32 = 2;
const RANKS_EACH: u32 = 2;
const RANKS: u32 = HOSTS * RANKS_EACH;

struct Cluster {
    root: Host,
    hosts: Vec<Host>,
    // Dropped after the handles: it ends what still runs inside.
    _net: Net,
}

impl Cluster {
    fn new(prefix: &str) -> Self {
        let mut net = Net::new(prefix).expect("a network");
        let root = net.add_host("root", Link::default()).expect("the root's host");
        let hosts = (0..HOSTS).map(|host| {
            net.add_host(&format!("h{host}"), Link::with_rate("1gbit"))
                .expect("a host")
        });
        Self {
            hosts: hosts.collect(),
            root,
            _net: net,
        }
    }

    fn serve(&self) -> Process {
        Server::new(env!("CARGO_BIN_EXE_tributary"), &["serve"]).start(&self.root, None)
    }

    /// Starts all ranks, as torchrun tells them of each other or not.
    fn start(&self, work: &Work, told: bool) -> Vec<Rank> {
        let start = |rank: u32| {
            let (node, local) = (rank / RANKS_EACH, rank % RANKS_EACH);
            let mut command = work.command(rank, &self.hosts[node as usize], &[&self.root]);
            let said = [
                ("RANK", rank),
                ("WORLD_SIZE", RANKS),
                ("LOCAL_RANK", local),
                ("LOCAL_WORLD_SIZE", RANKS_EACH),
                ("GROUP_RANK", node),
            ];
            if told {
                command.envs(said.map(|(name, number)| (name, number.to_string())));
            }
            Rank::start(command)
        };
        (0..RANKS).map(start).collect()
    }

    /// Bytes that each host's link has carried up and down.
    fn carried(&self) -> Vec<[u64; 2]> {
        carried(&self.hosts)
    }
}

#[test]
#[ignore = "a rank of another test"]
fn rank() {
    testjob::run_if_rank();
}

#[test]
#[ignore = "needs root"]
fn netns_a_hosts_link_carries_one_tensor_each_way_with_the_same_bits() {
    const ELEMENTS: usize = 4 << 20;
    const BYTES: u64 = 4 * ELEMENTS as u64;
    let cluster = Cluster::new("trib-local");
    let _root = cluster.serve();
    let work = Work::new("once", RANKS).of(2, &[ELEMENTS]);
    let mut results = Vec::new();
    for (tensors, told) in [(1, true), (u64::from(RANKS_EACH), false)] {
        let before = cluster.carried();
        results.push(sums(&work, &cluster.start(&work, told)));
        let least = tensors * BYTES * work.operations as u64;
        // Headers, the chunks that carry exponents only, and control: within 10 %.
        let expected = least..least * 110 / 100;
        for (before, after) in before.iter().zip(cluster.carried()) {
            let carried = [after[0] - before[0], after[1] - before[1]];
            assert!(
                carried.iter().all(|bytes| expected.contains(bytes)),
                "up and down {carried:?}, expected {expected:?}, told: {told}"
            );
        }
    }
    assert_eq!(results[0], results[1]);
}

/// Through shared memory chunks would be larger than what a link carries.
#[test]
#[ignore = "needs root"]
fn netns_ranks_that_share_memory_go_on_at_an_aggregator_elsewhere() {
    let cluster = Cluster::new("trib-away");
    let host = &cluster.hosts[0];
    let mut here = Server::new(env!("CARGO_BIN_EXE_tributary"), &["serve"]).start(host, None);
    let _there = cluster.serve();
    let work = Work::new("away", 2).of(40, &[1000, 300_000]);
    let start = |rank| Rank::start(work.command(rank, host, &[host, &cluster.root]));
    let ranks = [start(0), start(1)];
    let before = carried([host]);
    let sums = sums_after(&work, &ranks, || here.kill());
    assert_eq!(sums.len(), work.operations);
    let sent = carried([host])[0][0] - before[0][0];
    assert!(sent > 1_000_000, "{sent} bytes to the stand-by");
}

/// Kills the first rank of the second host, and with it the leaf there; returns what the others say to their end.
fn kill_a_first_rank(prefix: &str, work: &Work) -> Vec<Said> {
    let cluster = Cluster::new(prefix);
    let _root = cluster.serve();
    let mut ranks = cluster.start(work, true);
    ranks[2].hear(4);
    ranks[2].kill();
    ranks.remove(2);
    ranks.iter().map(Rank::hear_all).collect()
}

#[test]
#[ignore = "needs root"]
fn netns_a_killed_first_rank_ends_the_job_with_its_name() {
    let work = Work::new("first", RANKS).of(10_000, &[300_000]);
    for (rank, said) in kill_a_first_rank("trib-first", &work).into_iter().enumerate() {
        let error = said.error;
        let error = error.unwrap_or_else(|| panic!("rank {rank} ended without an error"));
        // Those of the other host learn it from the aggregator; who was there looked for another until its own deadline, and
        // others may have given up before.
        assert!(error.contains("2 did not register"), "rank {rank}: {error}");
    }
}

#[test]
#[ignore = "needs root"]
fn netns_without_a_killed_first_rank_the_others_of_its_host_go_on_at_the_aggregator() {
    let mut work = Work::new("without", RANKS).of(40, &[1000, 300_000]);
    work.shrinks = true;
    work.slow = Some((0, 50));
    let said = kill_a_first_rank("trib-without", &work);
    for said in &said {
        assert_eq!(said.error, None);
        assert!(
            said.lost.iter().all(|lost| lost.ends_with("[2]")),
            "{:?}",
            said.lost
        );
        assert_eq!(said.lost.len(), 1);
    }
    let last = |said: &Said| said.sums.last().cloned();
    assert!(last(&said[0]).is_some_and(|sum| sum.starts_with("sum 39 ")));
    assert!(said.iter().all(|one| last(one) == last(&said[0])), "{said:?}");
}
