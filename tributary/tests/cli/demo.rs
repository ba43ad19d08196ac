//! Small demos.

use serde_json::Value;

use crate::support::{run, succeed};

fn out(test: &str) -> String {
    let directory = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    directory.to_str().unwrap().to_owned()
}

#[test]
fn loss_and_order_change_no_bit() {
    let out = out("demo-loss");
    let text = succeed(&[
        "demo",
        "--workers",
        "2",
        "--epochs",
        "3",
        "--loss",
        "1%",
        "--out",
        &out,
        "--json",
    ]);
    let result: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(result["ok"], true);
    let names: Vec<_> = result["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| &run["name"])
        .collect();
    assert_eq!(names, ["1% loss", "1% loss reordered", "no loss"]);
    let workers = || {
        result["runs"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|run| run["workers"].as_array().unwrap())
    };
    assert!(workers().all(|worker| worker["digest"] == workers().next().unwrap()["digest"]));
    assert_eq!(workers().count(), 6);
    assert!(
        result["runs"][0]["counters"]["wants_sent"].as_u64() > Some(0),
        "{}",
        result["runs"][0]["counters"]
    );
    let svg = std::fs::read_to_string(format!("{out}/training.svg")).unwrap();
    assert!(svg.contains("one process") && svg.contains("workers: 2"));
}

#[test]
fn tables_are_for_people() {
    let outcome = run(&[
        "demo",
        "--workers",
        "3",
        "--epochs",
        "1",
        "--out",
        &out("demo-tables"),
    ]);
    assert!(outcome.status.success(), "{outcome:?}");
    assert_eq!(outcome.stderr, "", "no bar without a terminal");
    for part in [
        "one process",
        "first run, 2",
        "reordered, 0",
        "contributions merged",
        "all 2 runs: the same bits",
    ] {
        assert!(
            outcome.stdout.contains(part),
            "no '{part}' in\n{}",
            outcome.stdout
        );
    }
    assert!(!outcome.stdout.contains("FAIL") && outcome.stdout.contains("training.svg"));
}

#[test]
fn one_worker_is_a_world_too() {
    succeed(&[
        "demo",
        "--workers",
        "1",
        "--epochs",
        "1",
        "--out",
        &out("demo-one"),
        "--json",
    ]);
}

#[test]
fn a_directory_that_cannot_be_is_named() {
    let line = crate::support::fail(
        &["demo", "--workers", "1", "--epochs", "1", "--out", "/dev/null/x"],
        1,
    );
    assert!(line.contains("/dev/null/x") && line.contains("--out"), "{line}");
}
