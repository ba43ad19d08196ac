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
