//! Two leaves and a root over real connections.

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use agg_control::{
    AbortKind, ControlClient, ControlConfig, ControlError, ControlServer, Member, OnLost, ParentConfig,
    Pulse, Registered, Registration, Resume, serve,
};
use common::plane::FakePlane;
use common::switch::Switch;
use common::{TIMEOUT, connect, eventually, register, request};

/// Ranks 0 and 1 of 4 are at the first leaf, 2 and 3 at the second.
struct Tree {
    root: Node,
    /// Where the leaves find the root.
    path: Switch,
    leaves: Vec<Node>,
}

struct Node {
    server: ControlServer,
    plane: Arc<FakePlane>,
}

fn quick() -> ControlConfig {
    ControlConfig {
        lost_after: Duration::from_millis(1500),
        heartbeat: Duration::from_millis(50),
        ..ControlConfig::default()
    }
}

impl Node {
    fn start(config: ControlConfig, base_port: u16, epoch: u32) -> Self {
        let mut plane = FakePlane::new();
        plane.capabilities.base_port = base_port;
        plane.capabilities.epoch = epoch;
        let plane = Arc::new(plane);
        let address = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = serve(address, plane.clone(), config).expect("the service must start");
        Self { server, plane }
    }

    fn leaf(path: &Switch, base_port: u16) -> Self {
        let parent = ParentConfig {
            address: path.address().to_string(),
            tls: None,
        };
        let config = ControlConfig {
            parent: Some(parent),
            ..quick()
        };
        Self::start(config, base_port, 7)
    }
}

impl Tree {
    fn grow() -> Self {
        let root = Node::start(quick(), 4200, 20);
        let path = Switch::to(root.server.local_addr());
        let leaves = vec![Node::leaf(&path, 4300), Node::leaf(&path, 4400)];
        Self { root, path, leaves }
    }

    fn start(&self, on_lost: OnLost) -> Vec<Rank> {
        let ranks: Vec<_> = (0..4u32)
            .map(|rank| {
                let request = Registration {
                    on_lost,
                    ..request("x", 4, rank)
                };
                let server = &self.leaves[rank as usize / 2].server;
                (request.clone(), connect(server), register(server, request))
            })
            .collect();
        ranks
            .into_iter()
            .map(|(request, client, call)| Rank {
                terms: call.join().unwrap().expect("the world is complete"),
                request,
                client,
            })
            .collect()
    }
}

/// A worker, but for the gradients.
struct Rank {
    request: Registration,
    client: ControlClient,
    terms: Registered,
}

impl Rank {
    fn member(&self) -> Member {
        Member {
            key: self.terms.key,
            rank: self.request.rank(),
            nonce: self.request.nonce,
        }
    }

    fn pulse(&self) -> Result<Pulse, ControlError> {
        self.client.heartbeat(self.member(), 5)
    }

    /// Registers again, with what it knows of its job, at this server.
    fn resume_at(&self, server: &ControlServer) -> JoinHandle<Result<Registered, ControlError>> {
        let terms = &self.terms;
        let resume = Resume {
            key: terms.key,
            epoch: terms.epoch,
            lanes: terms.lanes,
            window: terms.window,
            generations: terms.generations,
            streams: terms.streams,
            operations: 3 + self.request.rank(),
            next_chunks: vec![40],
        };
        let request = Registration {
            resume: Some(resume),
            ..self.request.clone()
        };
        register(server, request)
    }
}

/// Heartbeats of these ranks go on until each got this answer.
fn until_all(ranks: &[Rank], expected: &Pulse) {
    eventually("all ranks learn it", || {
        ranks
            .iter()
            .map(|rank| rank.pulse())
            .filter(|pulse| pulse.as_ref().is_ok_and(|pulse| pulse == expected))
            .count()
            == ranks.len()
    });
}

fn stay(ranks: &[Rank], time: Duration) {
    let start = std::time::Instant::now();
    while start.elapsed() < time {
        for rank in ranks {
            assert_eq!(rank.pulse().unwrap(), Pulse::Ok);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn four_ranks_at_two_leaves_are_one_job() {
    let tree = Tree::grow();
    let ranks = tree.start(OnLost::Abort);
    let key = ranks[0].terms.key;
    for rank in &ranks {
        let number = rank.request.rank() % 2;
        assert_eq!((rank.terms.key, rank.terms.workers), (key, 4));
        assert_eq!((u32::from(rank.terms.member), rank.terms.epoch), (number, 7));
    }
    assert_eq!(ranks[2].terms.members, [[2], [3]]);
    let root = tree.root.plane.jobs.lock().unwrap()[&key].clone();
    assert_eq!(root.members[1].ranks, [2, 3]);
    assert_eq!(
        root.members[1].endpoints,
        [SocketAddr::from(([127, 0, 0, 1], 4400))]
    );
    let leaf = tree.leaves[1].plane.jobs.lock().unwrap()[&key].clone();
    let parent = leaf.parent.unwrap();
    assert_eq!((parent.member, parent.epoch), (1, 20));
    assert_eq!(parent.endpoints, [SocketAddr::from(([127, 0, 0, 1], 4200))]);
    stay(&ranks, Duration::from_secs(2));

    let leaving: Vec<_> = ranks
        .iter()
        .map(|rank| {
            let (client, member) = (rank.client.clone(), rank.member());
            std::thread::spawn(move || client.leave(member, TIMEOUT).unwrap())
        })
        .collect();
    for left in leaving {
        assert_eq!(left.join().unwrap().remaining, 0);
    }
    eventually("the root forgets the job", || tree.root.plane.admitted() == 0);
    assert!(tree.root.plane.aborted.lock().unwrap().is_empty());
}

#[test]
fn an_abort_reaches_the_ranks_of_the_other_leaf() {
    let tree = Tree::grow();
    let ranks = tree.start(OnLost::Abort);
    ranks[1].client.abort(ranks[1].member(), "disk full").unwrap();
    let mut reason = None;
    eventually("rank 3 learns it", || {
        match ranks[3].pulse().unwrap() {
            Pulse::Aborted(why) => reason = Some(why),
            other => assert_eq!(other, Pulse::Ok),
        }
        reason.is_some()
    });
    let reason = reason.unwrap();
    assert_eq!((reason.rank, reason.kind), (Some(1), AbortKind::Reported));
    assert_eq!(reason.text, "rank 1 failed: disk full");
    assert_eq!(tree.root.plane.aborted.lock().unwrap().len(), 1);
}

#[test]
fn a_missing_rank_is_named_to_the_ranks_of_all_leaves() {
    let tree = Tree::grow();
    let impatient = |rank| Registration {
        wait: Duration::from_millis(400),
        ..request("x", 4, rank)
    };
    let calls = [
        register(&tree.leaves[0].server, impatient(0)),
        register(&tree.leaves[1].server, impatient(3)),
    ];
    for call in calls {
        let error = call.join().unwrap().unwrap_err();
        assert!(matches!(error, ControlError::RanksMissing { .. }), "{error:?}");
        assert!(
            error.to_string().contains("ranks 1, 2 did not register"),
            "{error}"
        );
    }
}

#[test]
fn the_ranks_of_a_leaf_that_died_go_on_at_the_root() {
    let mut tree = Tree::grow();
    let mut ranks = tree.start(OnLost::Abort);
    let (others, lost) = (ranks.split_off(2), ranks);
    // A leaf that is dead cannot be told apart from one that is slow, until its ranks come by another way.
    let dead = tree.leaves.remove(0);
    let others_leaf = &tree.leaves[0].server;
    let moved: Vec<_> = lost
        .iter()
        .map(|rank| rank.resume_at(&tree.root.server))
        .collect();
    until_all(&others, &Pulse::Reform);
    let stayed: Vec<_> = others.iter().map(|rank| rank.resume_at(others_leaf)).collect();
    let answer = |call: JoinHandle<Result<Registered, ControlError>>| call.join().unwrap().unwrap();
    let moved: Vec<_> = moved.into_iter().map(answer).collect();
    assert_eq!(moved[1].members, [vec![0], vec![1], vec![2, 3]]);
    assert_eq!((moved[1].member, moved[1].workers, moved[1].epoch), (1, 4, 21));
    for answer in stayed.into_iter().map(answer) {
        assert_eq!((answer.epoch, answer.workers, answer.boundary), (8, 4, None));
    }
    drop(dead);
}

#[test]
fn a_root_that_restarts_gets_its_job_back() {
    let mut tree = Tree::grow();
    let ranks = tree.start(OnLost::Abort);
    stay(&ranks, Duration::from_millis(200));
    tree.path.cut();
    let key = ranks[0].terms.key;
    let restarted = Node::start(quick(), 4200, 30);
    tree.path.lead_to(restarted.server.local_addr());
    until_all(&ranks, &Pulse::Reform);
    let calls: Vec<_> = (0..4)
        .map(|rank: usize| ranks[rank].resume_at(&tree.leaves[rank / 2].server))
        .collect();
    for call in calls {
        let answer = call.join().unwrap().unwrap();
        assert_eq!((answer.key, answer.epoch, answer.workers), (key, 8, 4));
    }
    let spec = restarted.plane.jobs.lock().unwrap()[&key].clone();
    assert_eq!(
        (spec.epoch, spec.members.len(), spec.window),
        (30, 2, ranks[0].terms.window)
    );
    stay(&ranks, Duration::from_secs(2));
    tree.root = restarted;
}

#[test]
fn a_leaf_that_shuts_down_says_so() {
    let mut tree = Tree::grow();
    let ranks = tree.start(OnLost::Abort);
    tree.leaves.remove(0).server.shutdown();
    let mut reason = None;
    eventually("rank 2 learns it", || {
        ranks[3].pulse().unwrap();
        if let Pulse::Aborted(why) = ranks[2].pulse().unwrap() {
            reason = Some(why);
        }
        reason.is_some()
    });
    assert_eq!(reason.unwrap().kind, AbortKind::Shutdown);
}

#[test]
fn a_root_that_stays_away_ends_the_job() {
    let tree = Tree::grow();
    let ranks = tree.start(OnLost::Abort);
    tree.path.cut();
    let mut text = String::new();
    eventually("rank 0 learns it", || {
        for rank in &ranks[1..] {
            rank.pulse().unwrap();
        }
        match ranks[0].pulse().unwrap() {
            Pulse::Aborted(reason) => text = reason.text,
            other => assert_eq!(other, Pulse::Ok),
        }
        !text.is_empty()
    });
    assert!(text.starts_with("the parent aggregator at 127.0.0.1:"), "{text}");
    assert!(text.contains("does not answer"), "{text}");
}

#[test]
fn a_tree_shrinks_by_a_lost_rank() {
    let tree = Tree::grow();
    let mut ranks = tree.start(OnLost::Shrink);
    let silent = ranks.remove(1);
    eventually("the leaf misses rank 1", || {
        let others = ranks[1..].iter().all(|rank| rank.pulse().unwrap() == Pulse::Ok);
        assert!(others, "the other leaf does not know yet");
        ranks[0].pulse().unwrap() == Pulse::Reform
    });
    let first = ranks[0].resume_at(&tree.leaves[0].server);
    until_all(&ranks[1..], &Pulse::Reform);
    let others: Vec<_> = ranks[1..]
        .iter()
        .map(|rank| rank.resume_at(&tree.leaves[1].server))
        .collect();
    let answer = first.join().unwrap().unwrap();
    let boundary = answer.boundary.clone().unwrap();
    assert_eq!(
        (answer.workers, boundary.failed_operation, boundary.lost),
        (3, 6, vec![1])
    );
    for other in others {
        assert_eq!(other.join().unwrap().unwrap().boundary, answer.boundary);
    }
    let Pulse::Excluded(reason) = silent.pulse().unwrap() else {
        panic!()
    };
    assert!(
        reason.text.ends_with("the job goes on without it"),
        "{}",
        reason.text
    );
}
