//! What `status` shows.

use rustix::process::Signal;
use serde_json::Value;

use crate::support::{Running, Server, fail, serve, serve_with, start, succeed, wait_for};

#[test]
fn jobs_ranks_and_waiting_worlds_are_shown() {
    let server = serve();
    let status = || succeed(&["status", "--aggregator", &server.control]);
    let idle = status();
    // A seventeenth of the memory is for the headers of slots.
    for part in [
        "no jobs",
        "no packets yet",
        "slot memory 16.0 MiB a shard, one more job can take 15.1 MiB;",
    ] {
        assert!(idle.contains(part), "no '{part}' in\n{idle}");
    }

    let rank = ["bench", "allreduce", "--aggregator", &server.control, "--rank"];
    let waiting = start(&[&rank[..], &["1", "--world-size", "3", "--world", "early"]].concat());
    let long = [
        "--world-size",
        "2",
        "--world",
        "busy",
        "--iterations",
        "1000000",
        "--bytes",
        "4k",
    ];
    let ranks = ["0", "1"].map(|number| start(&[&rank[..], &[number], &long].concat()));
    let text = wait_for(status, |text| {
        ["running", "early", "slots completed"]
            .iter()
            .all(|part| text.contains(part))
    });
    for part in [
        "world 'busy': 2 ranks",
        "missing ranks",
        "0, 2",
        "slots completed",
        "udp aggregator",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    let json: Value =
        serde_json::from_str(&succeed(&["status", "--aggregator", &server.control, "--json"])).unwrap();
    assert_eq!(json["jobs"][0]["world"], "busy");
    assert_eq!(json["jobs"][0]["ranks"].as_array().unwrap().len(), 2);
    assert_eq!(json["waiting"][0]["missing"], Value::from(vec![0, 2]));
    assert!(json["total"]["slots_completed"].as_u64() > Some(0));

    for running in ranks {
        running.signal(Signal::INT);
        running.end();
    }
    drop(waiting);
}

/// A rank of a world that sums for ever.
fn rank(server: &Server, world: &str, rank: usize, size: usize, more: &[&str]) -> Running {
    let (rank, size) = (rank.to_string(), size.to_string());
    let args = [
        "bench",
        "allreduce",
        "--aggregator",
        &server.control,
        "--rank",
        &rank,
        "--world-size",
        &size,
        "--world",
        world,
        "--iterations",
        "1000000",
        "--bytes",
        "4k",
    ];
    start(&[&args[..], more].concat())
}

fn json(server: &Server) -> Value {
    let text = succeed(&["status", "--aggregator", &server.control, "--json"]);
    serde_json::from_str(&text).unwrap()
}

/// The status once it has what is looked for.
fn json_with(server: &Server, will_do: impl Fn(&Value) -> bool) -> Value {
    let look = || json(server).to_string();
    let text = wait_for(look, |text| will_do(&serde_json::from_str(text).unwrap()));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn policy_weight_and_who_is_behind_are_shown() {
    let server = serve();
    let more = [
        "--policy",
        "quorum:2,2",
        "--weight",
        "3",
        "--priority",
        "1",
        "--straggler",
        "2:20ms",
    ];
    let ranks: Vec<_> = (0..3)
        .map(|number| rank(&server, "few", number, 3, &more))
        .collect();
    let behind = |status: &Value| status["jobs"][0]["ranks"][2]["lag_chunks"].as_u64() > Some(0);
    let status = json_with(&server, behind);
    let job = &status["jobs"][0];
    assert_eq!(
        (&job["policy"]["kind"], &job["policy"]["members"]),
        (&"quorum".into(), &2.into())
    );
    assert_eq!(
        (&job["weight"], &job["priority"], &job["workers"]),
        (&3.into(), &1.into(), &3.into())
    );
    assert!(
        job["generations"].as_u64() > Some(2) && job["policy"]["grace_seconds"] == 0.002,
        "{job}"
    );
    let text = succeed(&["status", "--aggregator", &server.control]);
    for part in ["quorum of 2 after 2 ms", "weight 3, priority 1", "behind"] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    drop(ranks);
}

#[test]
fn a_world_waits_for_memory_in_the_queue() {
    let server = serve();
    // 8 MiB and a little each, of 16.
    let more = ["--window", "128", "--lanes", "8192"];
    let first = rank(&server, "first", 0, 1, &more);
    json_with(&server, |status| status["jobs"][0]["world"] == "first");
    let second = rank(
        &server,
        "second",
        0,
        1,
        &[&more[..], &["--priority", "4"]].concat(),
    );
    let status = json_with(&server, |status| status["waiting"][0]["queued"] == true);
    assert_eq!(
        (&status["waiting"][0]["world"], &status["waiting"][0]["priority"]),
        (&"second".into(), &4.into())
    );
    let text = succeed(&["status", "--aggregator", &server.control]);
    assert!(
        text.contains("worlds that wait") && text.contains("memory (priority 4)"),
        "{text}"
    );
    first.signal(Signal::INT);
    first.end();
    json_with(&server, |status| status["waiting"].as_array().unwrap().is_empty());
    drop(second);
}

#[test]
fn a_tree_is_shown_from_its_root_and_its_leaf() {
    let root = serve();
    let leaf = serve_with(&["--parent", &root.control]);
    let ranks = [
        rank(&leaf, "tree", 0, 3, &[]),
        rank(&leaf, "tree", 1, 3, &[]),
        rank(&root, "tree", 2, 3, &[]),
    ];
    let status = json_with(&root, |status| status["jobs"][0]["world"] == "tree");
    let members = status["jobs"][0]["ranks"].as_array().unwrap();
    assert_eq!(members.len(), 2, "{status}");
    assert_eq!(
        (&members[0]["child"], &members[0]["ranks"]),
        (&true.into(), &Value::from(vec![0, 1]))
    );
    assert_eq!(
        (&members[1]["child"], &members[1]["ranks"]),
        (&false.into(), &Value::from(vec![2]))
    );
    let text = succeed(&["status", "--aggregator", &root.control]);
    assert!(text.contains("0 to 1 (2 ranks)"), "{text}");
    let below = json(&leaf);
    assert_eq!(
        (
            &below["jobs"][0]["workers"],
            below["jobs"][0]["ranks"].as_array().unwrap().len()
        ),
        (&3.into(), 2)
    );

    let line = fail(
        &[
            "bench",
            "allreduce",
            "--aggregator",
            &leaf.control,
            "--rank",
            "0",
            "--world-size",
            "2",
            "--policy",
            "quorum:1",
        ],
        1,
    );
    assert!(
        line.contains("quorum below a parent") && line.contains("policy = all"),
        "{line}"
    );
    drop(ranks);
}
