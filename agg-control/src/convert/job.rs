//! The status of worlds, jobs and ranks.

use std::time::Duration;

use super::host::{from_counters, to_counters};
use super::registration::policy;
use super::{Unreadable, address, byte, long_millis, micros, narrow, required};
use crate::messages::{JobStatus, RankState, RankStatus, Status, WaitingWorld};
use crate::proto;

impl From<Status> for proto::StatusResponse {
    fn from(status: Status) -> Self {
        Self {
            host: Some(status.description.into()),
            draining: status.draining,
            jobs: status.jobs.into_iter().map(Into::into).collect(),
            waiting: status.waiting.into_iter().map(Into::into).collect(),
            shards: status.shards.into_iter().map(Into::into).collect(),
            total: to_counters(status.total),
        }
    }
}

impl TryFrom<proto::StatusResponse> for Status {
    type Error = Unreadable;

    fn try_from(status: proto::StatusResponse) -> Result<Self, Unreadable> {
        Ok(Self {
            description: required(status.host, "the host's description")?.try_into()?,
            draining: status.draining,
            jobs: status
                .jobs
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            waiting: status
                .waiting
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            shards: status
                .shards
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            total: from_counters(status.total),
        })
    }
}

impl From<JobStatus> for proto::JobStatus {
    fn from(job: JobStatus) -> Self {
        Self {
            name: job.name,
            size: job.size,
            lanes: job.lanes.into(),
            window: job.window.into(),
            streams: job.streams.into(),
            age_ms: long_millis(job.age),
            ranks: job.ranks.into_iter().map(Into::into).collect(),
            abort: job.aborted.map(Into::into),
            workers: job.workers,
            generations: job.generations.into(),
            quorum: job.policy.into(),
            priority: job.priority.into(),
            weight: job.weight.into(),
        }
    }
}

impl TryFrom<proto::JobStatus> for JobStatus {
    type Error = Unreadable;

    fn try_from(job: proto::JobStatus) -> Result<Self, Unreadable> {
        Ok(Self {
            name: job.name,
            size: job.size,
            workers: job.workers,
            lanes: narrow(job.lanes, "lanes")?,
            window: narrow(job.window, "window")?,
            generations: narrow(job.generations, "generations")?,
            streams: narrow(job.streams, "streams")?,
            policy: policy(job.quorum)?,
            priority: byte(job.priority, "priority")?,
            weight: narrow(job.weight, "weight")?,
            age: Duration::from_millis(job.age_ms),
            ranks: job
                .ranks
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            aborted: job.abort.map(TryInto::try_into).transpose()?,
        })
    }
}

impl From<RankStatus> for proto::RankStatus {
    fn from(rank: RankStatus) -> Self {
        let state = match rank.state {
            RankState::Registered => proto::RankState::Registered,
            RankState::Running => proto::RankState::Running,
            RankState::Left => proto::RankState::Left,
            RankState::Lost => proto::RankState::Lost,
            RankState::Reforming => proto::RankState::Reforming,
        };
        Self {
            rank: rank.rank,
            state: state.into(),
            address: rank.address.to_string(),
            heard_ms_ago: long_millis(rank.heard),
            progress: rank.progress,
            ranks: rank.ranks,
            child: rank.child,
            lag_chunks: rank.lag_chunks,
            lag_us: micros(rank.lag),
        }
    }
}

impl TryFrom<proto::RankStatus> for RankStatus {
    type Error = Unreadable;

    fn try_from(rank: proto::RankStatus) -> Result<Self, Unreadable> {
        let state = match rank.state() {
            proto::RankState::Registered => RankState::Registered,
            proto::RankState::Running => RankState::Running,
            proto::RankState::Left => RankState::Left,
            proto::RankState::Lost => RankState::Lost,
            proto::RankState::Reforming => RankState::Reforming,
            proto::RankState::Unspecified => {
                return Err(Unreadable(format!("rank state {} is unknown", rank.state)));
            }
        };
        Ok(Self {
            rank: rank.rank,
            ranks: rank.ranks,
            child: rank.child,
            state,
            address: address(&rank.address)?,
            heard: Duration::from_millis(rank.heard_ms_ago),
            progress: rank.progress,
            lag_chunks: rank.lag_chunks,
            lag: Duration::from_micros(rank.lag_us),
        })
    }
}

impl From<WaitingWorld> for proto::WaitingWorld {
    fn from(world: WaitingWorld) -> Self {
        Self {
            name: world.name,
            size: world.size,
            missing: world.missing,
            age_ms: long_millis(world.age),
            queued: world.queued,
            priority: world.priority.into(),
        }
    }
}

impl TryFrom<proto::WaitingWorld> for WaitingWorld {
    type Error = Unreadable;

    fn try_from(world: proto::WaitingWorld) -> Result<Self, Unreadable> {
        Ok(Self {
            name: world.name,
            size: world.size,
            missing: world.missing,
            queued: world.queued,
            priority: byte(world.priority, "priority")?,
            age: Duration::from_millis(world.age_ms),
        })
    }
}
