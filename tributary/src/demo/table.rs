//! The demo's results as tables for a terminal.

use std::collections::BTreeSet;

use comfy_table::{Cell, CellAlignment, Color, ContentArrangement, Table, presets};

use super::check::Check;
use super::report::{Run, WorkerReport};

const HEADER: [&str; 8] = [
    "worker",
    "accuracy\n%",
    "loss\nnats",
    "packets\nsent",
    "goodput\nMB/s",
    "resends",
    "in sums\ns (share)",
    "digest",
];

/// Columns of a terminal that cells are wrapped for.
const NARROWEST: u16 = 70;

/// With more workers than this, a row shows a whole run, from its least to its largest value.
const ROWS_EACH: usize = 8;

/// Every worker of every run beside the same training in one process.
pub fn render_table(single: &WorkerReport, runs: &[Run]) -> String {
    let mut table = new_table(&HEADER);
    table.add_row(row("one process".to_owned(), std::slice::from_ref(single)));
    for run in runs {
        if run.workers.len() > ROWS_EACH {
            table.add_row(row(
                format!("{}, all {}", run.name, run.workers.len()),
                &run.workers,
            ));
            continue;
        }
        for worker in &run.workers {
            table.add_row(row(
                format!("{}, {}", run.name, worker.rank),
                std::slice::from_ref(worker),
            ));
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
        row.extend(
            runs.iter()
                .map(|run| run.counters.get(name).unwrap_or(&0).to_string()),
        );
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
    table.load_style(presets::UTF8_BORDERS_ONLY);
    // In a terminal so narrow, or of unknown width, cells of single letters would read worse than wrapped lines.
    let fits = table.width().is_none_or(|width| width >= NARROWEST);
    if fits {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    table.set_header(header);
    table
}

/// One worker, or several of one run.
fn row(name: String, workers: &[WorkerReport]) -> [String; 8] {
    let range = |value: fn(&WorkerReport) -> f64, digits: usize| {
        let values = || workers.iter().map(value);
        let least = format!("{:.digits$}", values().fold(f64::INFINITY, f64::min));
        let largest = format!("{:.digits$}", values().fold(f64::NEG_INFINITY, f64::max));
        if least == largest {
            least
        } else {
            format!("{least} to {largest}")
        }
    };
    let alone = workers.iter().all(WorkerReport::is_alone);
    let shared = |value, digits| {
        if alone {
            "-".to_owned()
        } else {
            range(value, digits)
        }
    };
    let in_sums = match alone {
        true => "-".to_owned(),
        false => format!(
            "{} ({} %)",
            range(|worker| worker.reduce_seconds, 2),
            range(|worker| 100.0 * worker.reduce_share(), 0)
        ),
    };
    let mut digests: Vec<_> = workers.iter().map(|worker| worker.digest.short()).collect();
    digests.sort();
    digests.dedup();
    [
        name,
        range(|worker| 100.0 * worker.accuracy, 2),
        range(|worker| worker.final_loss().into(), 4),
        shared(|worker| worker.traffic.packets_sent as f64, 0),
        shared(|worker| worker.mean_goodput() / 1e6, 1),
        shared(|worker| worker.traffic.resends as f64, 0),
        in_sums,
        digests.join("\n"),
    ]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

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
                    packets_sent: 70,
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
    fn many_workers_share_a_row() {
        let worker = |rank: usize| {
            let traffic = Traffic {
                packets_sent: 70 + rank as u64,
                ..Traffic::default()
            };
            WorkerReport::new(rank, 9, &outcome(30, vec![2.0]), traffic)
        };
        let run = Run {
            name: "udp".to_owned(),
            workers: (0..9).map(worker).collect(),
            counters: BTreeMap::new(),
        };
        let text = render_table(&worker(0), &[run]);
        let rows: Vec<_> = text.lines().filter(|line| line.contains("udp")).collect();
        assert!(
            rows.len() == 1 && rows[0].contains("all 9") && rows[0].contains("70 to 78"),
            "{text}"
        );
    }

    #[test]
    fn counters_of_all_runs_stand_side_by_side() {
        let run = |name: &str, counters: &[(&str, u64)]| Run {
            name: name.to_owned(),
            workers: Vec::new(),
            counters: counters
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect(),
        };
        let text = render_counters(&[run("calm", &[]), run("foul", &[("wants_sent", 5)])]);
        let row = text.lines().find(|line| line.contains("wants sent")).unwrap();
        let cells: Vec<_> = row
            .split_whitespace()
            .filter(|cell| cell.parse::<u64>().is_ok())
            .collect();
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
