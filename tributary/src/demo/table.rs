//! The demo's results as tables for a terminal.

use std::collections::BTreeSet;

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};

use super::check::Check;
use super::report::{Run, WorkerReport};

const HEADER: [&str; 10] = [
    "worker",
    "accuracy\n%",
    "loss\nnats",
    "all-\nreduces",
    "summed\nMB",
    "packets\nsent",
    "goodput\nMB/s",
    "resends",
    "communication\ns (share)",
    "digest of\nparameters",
];

/// Every worker of every run beside the same training in one process.
pub fn render_table(single: &WorkerReport, runs: &[Run]) -> String {
    let mut table = new_table(&HEADER);
    table.add_row(row("one process".to_owned(), single));
    for run in runs {
        for worker in &run.workers {
            table.add_row(row(format!("{}, {}", run.name, worker.rank), worker));
        }
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// What the aggregator counted, a column a run.
pub fn render_counters(runs: &[Run]) -> String {
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.counters.keys()).collect();
    let mut header = vec!["counter"];
    header.extend(runs.iter().map(|run| run.name.as_str()));
    let mut table = new_table(&header);
    for name in names {
        let mut row = vec![name.replace('_', " ")];
        row.extend(runs.iter().map(|run| run.counters.get(name).unwrap_or(&0).to_string()));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

/// One line a check: its mark, its name, the numbers behind it.
pub fn render_checks(checks: &[Check]) -> String {
    let mut table = new_table(&["", "check", "numbers"]);
    for check in checks {
        let mark = if check.ok {
            Cell::new("pass").fg(Color::Green)
        } else {
            Cell::new("FAIL").fg(Color::Red)
        };
        table.add_row([mark, Cell::new(&check.name), Cell::new(&check.detail)]);
    }
    table.to_string()
}

fn new_table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::UTF8_BORDERS_ONLY)
        .set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    table
}

fn row(name: String, worker: &WorkerReport) -> [String; 10] {
    let alone = worker.world == 1;
    let shared = |text: String| if alone { "-".to_owned() } else { text };
    [
        name,
        format!("{:.2}", 100.0 * worker.accuracy),
        format!("{:.4}", worker.final_loss()),
        shared(worker.all_reduces.to_string()),
        shared(megabytes(worker.reduced_bytes as f64)),
        shared(worker.traffic.packets_sent.to_string()),
        shared(megabytes(worker.mean_goodput())),
        shared(worker.traffic.resends.to_string()),
        shared(format!(
            "{:.2} ({:.0} %)",
            worker.reduce_seconds,
            100.0 * worker.reduce_share()
        )),
        worker.digest.short(),
    ]
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1}", bytes / 1e6)
}

#[cfg(test)]
mod tests {
    use super::super::report::{Traffic, tests::outcome};
    use super::*;

    #[test]
    fn every_worker_has_a_row() {
        let single = WorkerReport::new(0, 1, &outcome(30, vec![1.0]), Traffic::default());
        let worker = |rank| {
            WorkerReport::new(
                rank,
                2,
                &outcome(30, vec![2.0]),
                Traffic {
                    resends: 7,
                    ..Traffic::default()
                },
            )
        };
        let runs = [Run {
            name: "udp".to_owned(),
            workers: vec![worker(0), worker(1)],
            counters: [("wants_sent".to_owned(), 5)].into(),
        }];
        let text = render_table(&single, &runs);
        for part in [
            "one process",
            "udp, 0",
            "udp, 1",
            "66.67",
            "goodput",
            &worker(0).digest.short(),
        ] {
            assert!(text.contains(part), "no '{part}' in\n{text}");
        }
    }

    #[test]
    fn counters_of_all_runs_stand_side_by_side() {
        let run = |name: &str, counters: &[(&str, u64)]| Run {
            name: name.to_owned(),
            workers: Vec::new(),
            counters: counters.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        };
        let text = render_counters(&[run("calm", &[]), run("foul", &[("wants_sent", 5)])]);
        let row = text.lines().find(|line| line.contains("wants sent")).unwrap();
        let cells: Vec<_> = row.split_whitespace().filter(|cell| cell.parse::<u64>().is_ok()).collect();
        assert_eq!(cells, ["0", "5"]);
    }

    #[test]
    fn a_failed_check_stands_out() {
        let check = Check {
            name: "same bits".to_owned(),
            ok: false,
            detail: "2 digests".to_owned(),
        };
        let text = render_checks(&[check]);
        assert!(
            text.contains("FAIL") && text.contains("same bits") && text.contains("2 digests"),
            "{text}"
        );
    }
}
