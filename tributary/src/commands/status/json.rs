//! The status as JSON.

use agg_control::{AbortReason, At, JobStatus, Policy, RankStatus, Status, WaitingWorld};
use serde_json::{Map, Value, json};

use super::table::state;

/// The whole status, counters that are zero too.
pub fn render(status: &Status) -> Value {
    let host = &status.description.host;
    json!({
        "host": {
            "kind": host.kind.to_string(),
            "version": host.version,
            "epoch": host.epoch,
            "data_ip": host.data_ip,
            "base_port": host.base_port,
            "shards": host.shards,
            "lanes": host.lanes,
            "memory_per_shard": host.memory_per_shard,
            "memory_free": status.description.memory_free,
            "receive_buffer": host.receive_buffer,
            "receive_ring": host.receive_ring,
            "shared_memory": !host.shared_memory.is_empty(),
        },
        "draining": status.draining,
        "jobs": status.jobs.iter().map(job).collect::<Vec<_>>(),
        "waiting": status.waiting.iter().map(waiting).collect::<Vec<_>>(),
        "shards": status.shards.iter()
            .map(|shard| json!({ "shard": shard.shard, "counters": counters(&shard.values) }))
            .collect::<Vec<_>>(),
        "total": counters(&status.total),
    })
}

fn counters(values: &[(String, u64)]) -> Map<String, Value> {
    values
        .iter()
        .map(|(name, count)| (name.clone(), json!(count)))
        .collect()
}

fn job(job: &JobStatus) -> Value {
    json!({
        "world": job.name,
        "size": job.size,
        "workers": job.workers,
        "lanes": job.lanes,
        "window": job.window,
        "streams": job.streams,
        "generations": job.generations,
        "policy": policy(job.policy),
        "weight": job.weight,
        "priority": job.priority,
        "age_seconds": job.age.as_secs_f64(),
        "aborted": job.aborted.as_ref().map(|reason: &AbortReason| reason.text.clone()),
        "ranks": job.ranks.iter().map(rank).collect::<Vec<_>>(),
    })
}

/// Times in seconds, as everywhere here.
fn policy(policy: Policy) -> Value {
    match policy {
        Policy::All => json!({ "kind": "all" }),
        Policy::Quorum {
            members,
            grace,
            history_bytes,
        } => json!({
            "kind": "quorum",
            "members": members,
            "grace_seconds": grace.as_secs_f64(),
            "history_bytes": history_bytes,
        }),
    }
}

fn rank(rank: &RankStatus) -> Value {
    json!({
        "rank": rank.rank,
        "ranks": rank.ranks,
        "child": rank.child,
        "state": state(rank.state),
        "address": At(rank.address).to_string(),
        "heard_seconds": rank.heard.as_secs_f64(),
        "progress": rank.progress,
        "lag_chunks": rank.lag_chunks,
        "lag_seconds": rank.lag.as_secs_f64(),
    })
}

fn waiting(world: &WaitingWorld) -> Value {
    json!({
        "world": world.name,
        "size": world.size,
        "missing": world.missing,
        "queued": world.queued,
        "priority": world.priority,
        "age_seconds": world.age.as_secs_f64(),
    })
}
