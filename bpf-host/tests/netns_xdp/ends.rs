//! However the host ends, nothing of it stays in the kernel.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use aya::maps::loaded_maps;
use aya::programs::loaded_programs;
use testjob::{LIMIT, Process, Work};
use testnet::Host;

use crate::cluster::{Cluster, WINDOW, generic, native};

/// The kernel frees when all readers are gone, which takes a moment.
const PATIENCE: Duration = Duration::from_secs(5);

/// The kernel's numbers of the programs or maps that a process holds; `what` is `prog_id` or `map_id`.
fn held(process: &Process, what: &str) -> Vec<u32> {
    let folder = format!("/proc/{}/fdinfo", process.id());
    let files = fs::read_dir(folder).expect("a process").filter_map(Result::ok);
    let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
    let numbers = texts.filter_map(|text| {
        let number = text
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{what}:")))?;
        number.trim().parse().ok()
    });
    numbers.collect()
}

/// Whether an XDP program is at the host's interface.
fn has_program(host: &Host) -> bool {
    let link = Command::new("ip")
        .args(["-n", host.namespace(), "-j", "link", "show", "eth0"])
        .output();
    let link = String::from_utf8(link.expect("ip runs").stdout).expect("JSON");
    assert!(link.contains("\"eth0\""), "{link}");
    link.contains("\"xdp\"")
}

/// Waits until none of these programs and maps are in the kernel.
fn assert_gone(programs: &[u32], maps: &[u32]) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // What vanishes while it is looked at is an error, and no longer there.
        let loaded = loaded_programs()
            .filter_map(Result::ok)
            .map(|program| program.id());
        let left: Vec<u32> = loaded.filter(|id| programs.contains(id)).collect();
        let loaded = loaded_maps().filter_map(Result::ok).map(|map| map.id());
        let left_maps: Vec<u32> = loaded.filter(|id| maps.contains(id)).collect();
        if left.is_empty() && left_maps.is_empty() {
            return;
        }
        assert!(
            Instant::now() < deadline,
            "left in the kernel: programs {left:?}, maps {left_maps:?}"
        );
        thread::sleep(Duration::from_millis(20));
    }
}

fn leaves_nothing(prefix: &str, end: impl Fn(&mut Process)) {
    for server in [native(), generic()] {
        let cluster = Cluster::new(prefix, 2);
        let host = &cluster.aggregator;
        let mut process = server.start(host, None);
        let work = Work {
            window: Some(WINDOW),
            ..Work::new("ends", 2).of(10_000, &[300_000])
        };
        // In the middle of a job.
        let ranks = cluster.start(&work, &[host]);
        ranks[0].hear(2);
        assert!(has_program(host));
        let (programs, maps) = (held(&process, "prog_id"), held(&process, "map_id"));
        assert!(programs.len() >= 2 && maps.len() >= 8, "{programs:?} {maps:?}");
        end(&mut process);
        assert!(!has_program(host), "the program is still at the interface");
        assert_gone(&programs, &maps);
        drop(ranks);
        // And the next one finds its place free.
        server.start(host, None);
    }
}

#[test]
#[ignore = "needs root"]
fn netns_a_killed_host_leaves_nothing_in_the_kernel() {
    leaves_nothing("trib-xdp-killed", Process::kill);
}

#[test]
#[ignore = "needs root"]
fn netns_a_stopped_host_leaves_nothing_in_the_kernel() {
    leaves_nothing("trib-xdp-stop", |process| {
        let status = process.stop();
        assert!(status.success(), "{status}");
    });
}

#[test]
#[ignore = "needs root"]
fn netns_ranks_are_told_that_their_host_stops() {
    let cluster = Cluster::new("trib-xdp-told", 2);
    let mut process = native().start(&cluster.aggregator, None);
    let work = Work {
        window: Some(WINDOW),
        ..Work::new("told", 2).of(10_000, &[300_000])
    };
    let ranks = cluster.start(&work, &[&cluster.aggregator]);
    ranks[0].hear(2);
    process.stop();
    let stopped = Instant::now();
    for rank in ranks {
        let error = rank.hear_all().error.expect("an error");
        assert!(error.contains("ended by the aggregator"), "{error}");
    }
    assert!(stopped.elapsed() < LIMIT, "told in time");
}
