//! Arguments that cannot be, and help.

use crate::support::{fail, run, serve, succeed};

#[test]
fn worlds_have_1_to_64_workers() {
    for workers in ["0", "65", "-1", "many"] {
        let workers = format!("--workers={workers}");
        for command in [&["demo", &workers][..], &["bench", "allreduce", &workers]] {
            let line = fail(command, 2);
            assert!(
                line.contains("--workers") && (line.contains("1..=64") || line.contains("invalid digit")),
                "{line}"
            );
        }
    }
}

#[test]
fn sizes_are_whole_elements() {
    for (size, nearest) in [
        ("4097", "4096 or 4100"),
        ("1", "0 or 4"),
        ("4k,1025", "1024 or 1028"),
    ] {
        let line = fail(&["bench", "allreduce", "--bytes", size], 2);
        assert!(line.contains(nearest), "{line}");
    }
    assert!(fail(&["bench", "allreduce", "--bytes", "4 apples"], 2).contains("MiB"));
}

#[test]
fn sizes_beyond_memory_are_refused() {
    let line = fail(
        &[
            "bench",
            "allreduce",
            "--workers",
            "1",
            "--bytes",
            "100000GiB",
            "--iterations",
            "1",
        ],
        1,
    );
    assert!(line.contains("no memory") && line.contains("--bytes"), "{line}");
}

#[test]
fn shares_and_times_are_checked() {
    assert!(fail(&["demo", "--loss", "150%"], 2).contains("1%"));
    assert!(fail(&["demo", "--timeout", "soon"], 2).contains("500ms"));
    assert!(fail(&["bench", "allreduce", "--iterations", "0"], 2).contains("auto"));
    assert!(fail(&["bench", "allreduce", "--rank", "0"], 2).contains("--aggregator"));
    assert!(fail(&["demo", "--epochs", "0"], 2).contains("1..=1000"));
}

#[test]
fn a_chunk_size_that_is_none_names_those_that_are() {
    let line = fail(
        &[
            "bench",
            "allreduce",
            "--workers",
            "1",
            "--bytes",
            "4",
            "--lanes",
            "100",
        ],
        1,
    );
    assert!(line.contains("100 lanes") && line.contains("8192"), "{line}");
}

#[test]
fn nobody_at_the_aggregators_address() {
    let rank = ["--rank", "0", "--world-size", "2", "--timeout", "1"];
    let commands: [&[&str]; 4] = [
        &["demo"],
        &["bench", "allreduce"],
        &["status"],
        &[
            "bench",
            "allreduce",
            rank[0],
            rank[1],
            rank[2],
            rank[3],
            rank[4],
            rank[5],
        ],
    ];
    std::thread::scope(|scope| {
        for command in commands {
            scope.spawn(move || {
                let line = fail(&[command, &["--aggregator", "127.0.0.1:1"]].concat(), 1);
                assert!(
                    line.contains("127.0.0.1:1") && line.contains("tributary serve"),
                    "{line}"
                );
            });
        }
    });
    assert!(fail(&["status", "--aggregator", "nonsense"], 1).contains("host:port"));
}

#[test]
fn ports_that_are_taken_are_named() {
    let server = serve();
    let line = fail(
        &[
            "serve",
            "--control-addr",
            &server.control,
            "--data-addr",
            "127.0.0.1:0",
        ],
        1,
    );
    assert!(
        line.contains(&server.control) && line.contains("in use"),
        "{line}"
    );
    let line = fail(
        &[
            "serve",
            "--control-addr",
            "127.0.0.1:0",
            "--data-addr",
            &server.data,
        ],
        1,
    );
    assert!(line.contains(&server.data) && line.contains("in use"), "{line}");
}

#[test]
fn a_parent_that_cannot_be_is_named() {
    let serve = |more: &[&str]| {
        let args = ["serve", "--data-addr", "127.0.0.1:0", "--control-addr"];
        fail(&[&args[..], more].concat(), 1)
    };
    let line = serve(&["127.0.0.1:24699", "--parent", "127.0.0.1:24699"]);
    assert!(
        line.contains("127.0.0.1:24699") && line.contains("own control address"),
        "{line}"
    );
    let line = serve(&["127.0.0.1:0", "--parent", "nonsense"]);
    assert!(line.contains("nonsense") && line.contains("host:port"), "{line}");
}

#[test]
fn a_parent_that_does_not_answer_is_told_to_the_ranks() {
    let leaf = crate::support::serve_with(&["--parent", "127.0.0.1:1"]);
    let rank = [
        "--rank",
        "0",
        "--world-size",
        "2",
        "--wait",
        "1",
        "--aggregator",
        &leaf.control,
    ];
    let line = fail(&[&["bench", "allreduce"], &rank[..]].concat(), 1);
    assert!(
        line.contains("parent aggregator at 127.0.0.1:1") && line.contains("tributary serve"),
        "{line}"
    );
}

#[test]
fn a_store_that_cannot_be_is_refused() {
    let serve = |more: &[&str], status| {
        let args = [
            "serve",
            "--data-addr",
            "127.0.0.1:0",
            "--control-addr",
            "127.0.0.1:0",
        ];
        fail(&[&args[..], more].concat(), status)
    };
    assert!(serve(&["--store", "much"], 2).contains("--store"));
    assert!(serve(&["--lender", "127.0.0.1:1"], 2).contains("--store"));
}

#[test]
fn a_flat_world_has_at_most_64_ranks() {
    let server = serve();
    let args = [
        "bench",
        "allreduce",
        "--bytes",
        "4",
        "--aggregator",
        &server.control,
        "--world-size",
        "65",
        "--rank",
    ];
    let ranks: Vec<_> = (0..64)
        .map(|rank| crate::support::start(&[&args[..], &[&rank.to_string()]].concat()))
        .collect();
    let status = || succeed(&["status", "--aggregator", &server.control, "--json"]);
    crate::support::wait_for(status, |text| text.contains("\"missing\":[64]"));
    let line = fail(&[&args[..], &["64"]].concat(), 1);
    assert!(
        line.contains("65") && line.contains("64 members") && line.contains("child aggregators"),
        "{line}"
    );
    drop(ranks);
}

#[test]
fn help_has_an_example_of_every_command() {
    for command in ["demo", "serve", "status", "bench", "bench allreduce"] {
        let args: Vec<&str> = command.split(' ').chain(["--help"]).collect();
        let help = succeed(&args);
        assert!(
            help.matches(&format!("tributary {command}")).count() >= 2,
            "{help}"
        );
    }
    let help = succeed(&["--help"]);
    assert!(
        !help.contains("demo-worker") && !help.contains("bench-worker"),
        "{help}"
    );
    assert!(succeed(&["--version"]).starts_with("tributary "));
    assert!(!run(&[]).status.success());
}

#[test]
fn worker_commands_are_not_for_hands() {
    for command in ["demo-worker", "bench-worker"] {
        assert!(fail(&[command], 1).contains("tributary demo"));
    }
}
