//! The status as tables for a terminal.

use std::time::Duration;

use agg_control::{At, JobStatus, Policy, RankState, RankStatus, Status, WaitingWorld};
use comfy_table::{CellAlignment, Table, presets};

use crate::args::human;

/// Host, jobs, waiting worlds, and the counters that are not zero.
pub fn render(address: &str, status: &Status) -> String {
    let mut parts = vec![host(address, status)];
    parts.extend(status.jobs.iter().map(job));
    if status.jobs.is_empty() {
        parts.push("no jobs".to_owned());
    }
    if !status.waiting.is_empty() {
        parts.push(format!("worlds that wait\n{}", waiting(&status.waiting)));
    }
    let counted = counters(&status.total);
    parts.push(counted.map_or("no packets yet".to_owned(), |table| {
        format!("since the start\n{table}")
    }));
    parts.join("\n\n")
}

/// A rank's state in one word.
pub fn state(state: RankState) -> &'static str {
    match state {
        RankState::Registered => "registered",
        RankState::Running => "running",
        RankState::Left => "left",
        RankState::Lost => "lost",
        RankState::Reforming => "to register again",
    }
}

fn host(address: &str, status: &Status) -> String {
    let host = &status.description.host;
    let ip = host
        .data_ip
        .map_or("the control address".to_owned(), |ip| ip.to_string());
    let ports = match host.shards {
        1 => format!("UDP port {}", host.base_port),
        shards => format!(
            "UDP ports {} to {}",
            host.base_port,
            host.base_port + (shards - 1)
        ),
    };
    let draining = if status.draining {
        "; draining: takes no new worlds"
    } else {
        ""
    };
    let waiting = if host.receive_ring > 0 {
        format!("receive ring {} frames", host.receive_ring)
    } else {
        format!("receive buffer {}", human(host.receive_buffer))
    };
    let attaches = if host.shared_memory.is_empty() {
        ""
    } else {
        ", or shared memory on its machine"
    };
    format!(
        "{} aggregator {} at {address}, epoch {}{draining}\ndata on {ip}, {ports}{attaches}\nslot memory {} a shard, one more job can \
         take {}; {waiting}",
        host.kind,
        host.version,
        host.epoch,
        human(host.memory_per_shard),
        human(status.description.memory_free),
    )
}

fn job(job: &JobStatus) -> String {
    let ended = job
        .aborted
        .as_ref()
        .map_or(String::new(), |reason| format!("\naborted: {}", reason.text));
    let header = [
        "rank",
        "state",
        "address",
        "heard",
        "chunks done",
        "behind",
        "for",
    ];
    let mut ranks = table(&header, &[3, 4, 5, 6]);
    for rank in &job.ranks {
        let behind = match rank.lag_chunks {
            0 => ["-".to_owned(), "-".to_owned()],
            chunks => [format!("{chunks} chunks"), ago(rank.lag)],
        };
        let [chunks, time] = behind;
        ranks.add_row([
            who(rank),
            state(rank.state).to_owned(),
            At(rank.address).to_string(),
            format!("{} ago", ago(rank.heard)),
            rank.progress.to_string(),
            chunks,
            time,
        ]);
    }
    format!(
        "world '{}': {} for {}, chunks of {} values, window {}, {} stream{}{}{ended}\n{ranks}",
        job.name,
        if job.workers == job.size {
            format!("{} ranks", job.size)
        } else {
            format!("{} of {} ranks", job.workers, job.size)
        },
        ago(job.age),
        job.lanes,
        job.window,
        job.streams,
        if job.streams == 1 { "" } else { "s" },
        policy(job),
    )
}

/// A rank, or the ranks behind another aggregator.
fn who(rank: &RankStatus) -> String {
    match rank.ranks.as_slice() {
        [only] if rank.child => format!("{only} (behind an aggregator)"),
        [first, .., last] => format!("{first} to {last} ({} ranks)", rank.ranks.len()),
        _ => rank.rank.to_string(),
    }
}

/// What differs from the defaults: `, quorum of 3 after 5 ms, weight 2`.
fn policy(job: &JobStatus) -> String {
    let mut text = String::new();
    if let Policy::Quorum { members, grace, .. } = job.policy {
        text += &format!(", quorum of {members} after {} ms", grace.as_millis());
        text += &format!(", {} rounds of history", job.generations);
    }
    if job.weight != 1 {
        text += &format!(", weight {}", job.weight);
    }
    if job.priority != 0 {
        text += &format!(", priority {}", job.priority);
    }
    text
}

fn waiting(worlds: &[WaitingWorld]) -> Table {
    let mut waiting = table(&["world", "size", "missing ranks", "waiting for"], &[1, 3]);
    for world in worlds {
        let missing: Vec<_> = world.missing.iter().map(u32::to_string).collect();
        waiting.add_row([
            world.name.clone(),
            world.size.to_string(),
            if world.queued {
                format!("none, but memory (priority {})", world.priority)
            } else {
                missing.join(", ")
            },
            ago(world.age),
        ]);
    }
    waiting
}

/// The counters that are not zero, if there are any.
fn counters(total: &[(String, u64)]) -> Option<Table> {
    let mut counted = table(&["counter", "count"], &[1]);
    for (name, count) in total.iter().filter(|(_, count)| *count > 0) {
        counted.add_row([name.replace('_', " "), count.to_string()]);
    }
    (!counted.is_empty()).then_some(counted)
}

fn table(header: &[&str], numbers: &[usize]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_header(header);
    for &column in numbers {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// A time as people say it.
fn ago(time: Duration) -> String {
    match time.as_secs() {
        0..60 => format!("{:.1} s", time.as_secs_f64()),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_well() {
        for (seconds, text) in [(1, "1.0 s"), (75, "1 min 15 s"), (7260, "2 h 1 min")] {
            assert_eq!(ago(Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn zero_counters_are_left_out() {
        let total = [("slots_completed".to_owned(), 3), ("duplicates".to_owned(), 0)];
        let text = counters(&total).unwrap().to_string();
        assert!(
            text.contains("slots completed") && !text.contains("duplicates"),
            "{text}"
        );
        assert!(counters(&total[1..]).is_none());
    }
}
