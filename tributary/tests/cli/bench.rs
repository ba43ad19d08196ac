//! Benchmarks on this machine.

use serde_json::Value;

use crate::support::{fail, succeed};

fn reports(args: &[&str]) -> Vec<Value> {
    let text = succeed(&[&["bench", "allreduce", "--json"], args].concat());
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn every_size_is_right_with_loss() {
    for dtype in ["f32", "i32"] {
        let sizes = [
            "--bytes",
            "0,4,12,4100,100004",
            "--workers",
            "3",
            "--dtype",
            dtype,
        ];
        let reports = reports(
            &[
                &sizes[..],
                &["--loss", "2%", "--lanes", "256", "--iterations", "20"],
            ]
            .concat(),
        );
        let bytes: Vec<_> = reports
            .iter()
            .map(|report| report["bytes"].as_u64().unwrap())
            .collect();
        assert_eq!(bytes, [0, 4, 12, 4100, 100_004]);
        for report in &reports {
            assert_eq!(
                (&report["dtype"], &report["ranks"], &report["iterations"]),
                (&dtype.into(), &3.into(), &20.into())
            );
            assert!(report["min_seconds"].as_f64() <= report["median_seconds"].as_f64());
            assert!(report["aggregator_cpu_seconds"].is_number());
        }
        assert_eq!(reports[0]["packets_sent"], 0);
        assert!(reports[4]["resends"].as_u64() > Some(0), "{}", reports[4]);
    }
}

/// Each result is checked against the elements, within the bound that docs/protocol.md states.
#[test]
fn every_operation_type_and_width_is_right() {
    for line in [
        "--op max --type f32",
        "--op min --dtype i32",
        "--op avg --type f32",
        "--op sum --type f16",
        "--op max --type bf16",
        "--op avg --type bf16 --wire 8",
        "--op sum --type f32 --wire 16",
    ] {
        let common = "--bytes 4,100004 --workers 3 --iterations 3 --lanes 256";
        let args: Vec<_> = line.split(' ').chain(common.split(' ')).collect();
        for report in reports(&args) {
            let bits = if line.contains("--wire 8") {
                8
            } else if line.contains("--wire 16") {
                16
            } else {
                32
            };
            assert_eq!(report["wire_bits"], bits);
            assert!(line.contains(report["op"].as_str().unwrap()), "{line}");
            assert!(line.contains(report["dtype"].as_str().unwrap()), "{line}");
        }
    }
    for (line, complaint) in [
        ("--op avg --type i32", "integers have sum, min and max"),
        ("--op max --wire 16", "min and max in 32"),
        ("--wire 8 --workers 33", "room for the sum of 32 ranks"),
        ("--wire 16 --policy quorum:3", "can be checked"),
    ] {
        let args: Vec<_> = ["bench", "allreduce"]
            .into_iter()
            .chain(line.split(' '))
            .collect();
        let error = fail(&args, 1);
        assert!(error.contains(complaint), "{error}");
    }
}

#[test]
fn streams_are_shards_of_the_aggregator() {
    let reports = reports(&[
        "--bytes",
        "1MiB",
        "--workers",
        "2",
        "--streams",
        "3",
        "--window",
        "8",
        "--iterations",
        "2",
    ]);
    assert_eq!(
        (&reports[0]["streams"], &reports[0]["window"]),
        (&3.into(), &8.into())
    );
}

#[test]
fn a_table_for_people() {
    let text = succeed(&[
        "bench",
        "allreduce",
        "--bytes",
        "4k",
        "--workers",
        "2",
        "--iterations",
        "auto",
    ]);
    assert!(
        text.starts_with("all-reduce of f32, 2 workers, aggregator in this process, 1 stream"),
        "{text}"
    );
    assert!(text.contains("Gbit/s") && text.contains("4 KiB"), "{text}");
}

#[test]
fn a_world_name_is_for_ranks() {
    assert!(fail(&["bench", "allreduce", "--world", "mine"], 2).contains("--rank"));
}

#[test]
fn sums_under_a_quorum_are_some_ranks_gradients_each_once() {
    let line = "--workers 4 --bytes 4,4k,1MiB --iterations 30 --policy quorum:3,1 --straggler 3:10ms --loss 1% --lanes 256";
    let reports = reports(&line.split(' ').collect::<Vec<_>>());
    for report in &reports {
        assert_eq!(
            (&report["policy"], &report["straggler"]),
            (&"quorum:3,1".into(), &"3:10ms".into())
        );
        let ranks = report["per_rank"].as_array().unwrap();
        assert_eq!((ranks.len(), &report["lost"]), (4, &Value::Array(Vec::new())));
        for rank in ranks {
            let number = |name: &str| rank[name].as_u64().unwrap();
            assert_eq!(number("operations"), 30);
            assert!(
                number("late_operations") <= 30 && number("late_chunks") <= number("chunks"),
                "{rank}"
            );
            assert!(
                rank["stalled_seconds"].as_f64() <= rank["busy_seconds"].as_f64(),
                "{rank}"
            );
        }
        assert_eq!(ranks[3]["punctual"], false);
        assert!(report["punctual_stalled_share"].as_f64() <= Some(1.0));
    }
    let straggler = &reports[2]["per_rank"][3];
    assert!(
        straggler["late_chunks"].as_u64() > Some(0),
        "10 ms behind, and never late: {straggler}"
    );
}

#[test]
fn all_wait_for_the_straggler_without_a_quorum() {
    let line = "--workers 2 --bytes 4k --iterations 10 --straggler 1:10ms";
    let reports = reports(&line.split(' ').collect::<Vec<_>>());
    assert!(
        reports[0]["punctual_median_seconds"].as_f64() >= Some(0.01),
        "{}",
        reports[0]
    );
    assert_eq!(reports[0]["per_rank"][1]["late_operations"], 0);
    let text = succeed(&[
        "bench",
        "allreduce",
        "--workers",
        "2",
        "--bytes",
        "4",
        "--iterations",
        "2",
        "--straggler",
        "1:1ms",
    ]);
    assert!(
        text.contains("straggler 1:1ms") && text.contains("punctual ranks"),
        "{text}"
    );
}

#[test]
fn what_no_world_can_have_is_refused_with_the_numbers() {
    let bench = ["bench", "allreduce", "--workers", "2", "--bytes", "4"];
    let refused = |more: &[&str], status| fail(&[&bench[..], more].concat(), status);
    assert!(refused(&["--straggler", "2:1ms"], 1).contains("the ranks are 0 to 1"));
    assert!(refused(&["--straggler", "soon"], 2).contains("3:20ms"));
    assert!(refused(&["--policy", "quorum:3"], 1).contains("quorum of 3 of 2 ranks"));
    assert!(refused(&["--policy", "most"], 2).contains("quorum:K,GRACE_MS"));
    assert!(refused(&["--weight", "0"], 2).contains("1..=1000"));
    assert!(refused(&["--history", "much"], 2).contains("MiB"));
}
