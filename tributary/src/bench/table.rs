//! The figures for a terminal, row by row as they come.

use super::report::{RankReport, SizeReport};
use crate::args::{OpArg, human};

const COLUMNS: [(&str, &str); 11] = [
    ("size", ""),
    ("iterations", ""),
    ("median", ""),
    ("min", ""),
    ("max", ""),
    ("bandwidth", "GB/s"),
    ("", "Gbit/s"),
    ("workers' CPU", "an iteration"),
    ("aggregator's", "an iteration"),
    ("packets", "sent"),
    ("chunks", "resent"),
];

/// What all rows have in common, in one line.
pub fn about(report: &SizeReport, aggregator: &str) -> String {
    let SizeReport {
        ranks,
        dtype,
        op,
        wire_bits,
        lanes,
        window,
        streams,
        loss,
        ..
    } = report;
    let loss = if *loss > 0.0 {
        format!(", {} % loss injected each way", 100.0 * loss)
    } else {
        String::new()
    };
    let straggler = report.straggler.as_ref();
    let straggler = straggler.map_or(String::new(), |straggler| format!(", straggler {straggler}"));
    let policy = match report.policy.as_str() {
        "all" => String::new(),
        policy => format!(", {policy} ms"),
    };
    let op = match op {
        OpArg::Sum => String::new(),
        op => format!(" ({})", format!("{op:?}").to_lowercase()),
    };
    let wire = match wire_bits {
        32 => String::new(),
        bits => format!(" in {bits} bits"),
    };
    let plural = if *streams == 1 { "" } else { "s" };
    format!(
        "all-reduce{op} of {dtype}{wire}, {ranks} workers, aggregator {aggregator}, {streams} stream{plural}, chunks of {lanes} \
         values, window {window}{loss}{policy}{straggler}"
    )
}

/// The column heads, two lines.
pub fn header() -> String {
    let upper = COLUMNS.map(|(upper, _)| upper.to_owned());
    let lower = COLUMNS.map(|(_, lower)| lower.to_owned());
    format!("{}\n{}", align(&upper), align(&lower))
}

/// One size.
pub fn row(report: &SizeReport) -> String {
    align(&[
        human(report.bytes),
        report.iterations.to_string(),
        time(report.median_seconds),
        time(report.min_seconds),
        time(report.max_seconds),
        format!("{:.3}", report.algbw_gbyte_per_second),
        format!("{:.2}", report.algbw_gbit_per_second),
        time(report.worker_cpu_seconds),
        report.aggregator_cpu_seconds.map_or("-".to_owned(), time),
        report.packets_sent.to_string(),
        report.resends.to_string(),
    ])
}

/// What a size shows of single ranks, in lines under its row; nothing where all ranks are alike.
pub fn details(report: &SizeReport) -> Vec<String> {
    let alike = report.policy == "all" && report.straggler.is_none() && report.lost.is_empty();
    if alike {
        return Vec::new();
    }
    let mut lines = vec![format!(
        "  punctual ranks: median {}, {:.1} % of their time stalled",
        time(report.punctual_median_seconds),
        100.0 * report.punctual_stalled_share
    )];
    let noted = |rank: &&RankReport| rank.late_chunks > 0 || !rank.punctual;
    lines.extend(report.per_rank.iter().filter(noted).map(|rank| {
        format!(
            "  rank {}: late for {} of {} operations, {} of {} chunks; {} gradients; median {}",
            rank.rank,
            rank.late_operations,
            rank.operations,
            rank.late_chunks,
            rank.chunks,
            rank.gradients,
            time(rank.median_seconds)
        )
    }));
    lines.extend(report.lost.iter().map(|rank| format!("  rank {rank}: lost")));
    lines
}

fn align(cells: &[String; COLUMNS.len()]) -> String {
    let widths = [9, 11, 9, 9, 9, 10, 7, 13, 13, 9, 7];
    let cells = cells
        .iter()
        .zip(widths)
        .map(|(cell, width)| format!("{cell:>width$}"));
    cells.collect::<Vec<_>>().join(" ")
}

/// Three digits and a unit.
pub fn time(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (1e3 * s, "ms"),
        s => (1e6 * s, "µs"),
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::figures::RankFigures;
    use super::super::report::tests::setup;
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (seconds, text) in [
            (0.0, "0.00 µs"),
            (12.34e-6, "12.3 µs"),
            (0.1234, "123 ms"),
            (2.0, "2.00 s"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }

    fn report() -> SizeReport {
        let figures = RankFigures {
            packets: 6000,
            resends: 12,
            cpu: Duration::from_millis(40),
            times: vec![Duration::from_millis(90); 5],
            ..RankFigures::default()
        };
        let numbers = figures.to_numbers();
        SizeReport::new(
            &setup(),
            100 << 20,
            &[numbers.clone(), numbers],
            &Default::default(),
        )
        .unwrap()
    }

    #[test]
    fn rows_stand_under_their_heads() {
        let mut report = report();
        let widths = |text: &str| text.lines().map(|line| line.chars().count()).collect::<Vec<_>>();
        assert_eq!(widths(&header()), vec![widths(&row(&report))[0]; 2]);
        assert!(row(&report).contains(" - "));
        report.aggregator_cpu_seconds = Some(0.5);
        assert!(row(&report).contains("500 ms"));
        assert!(about(&report, "at a:1").contains("1 % loss"));
        assert!(details(&report).is_empty());
    }

    #[test]
    fn late_and_lost_ranks_have_lines() {
        let mut report = report();
        report.policy = "quorum:1,5".to_owned();
        report.straggler = Some("1:20ms".to_owned());
        report.lost = vec![7];
        report.per_rank[1].late_chunks = 9;
        assert!(about(&report, "at a:1").contains("quorum:1,5 ms, straggler 1:20ms"));
        let lines = details(&report);
        assert!(lines[0].contains("punctual ranks: median 90.0 ms"), "{lines:?}");
        assert!(
            lines[1].contains("rank 1: late for 0 of 5 operations, 9 of 0 chunks"),
            "{lines:?}"
        );
        assert_eq!((lines.len(), lines[2].as_str()), (3, "  rank 7: lost"));
    }
}
