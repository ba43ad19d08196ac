//! The status of worlds, jobs and ranks.

use std::time::Duration;

use super::host::{from_counters, to_counters};
use super::{Unreadable, address, long_millis, narrow, required};
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
            waiting: status.waiting.into_iter().map(Into::into).collect(),
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
        }
    }
}

impl TryFrom<proto::JobStatus> for JobStatus {
    type Error = Unreadable;

    fn try_from(job: proto::JobStatus) -> Result<Self, Unreadable> {
        Ok(Self {
            name: job.name,
            size: job.size,
            lanes: narrow(job.lanes, "lanes")?,
            window: narrow(job.window, "window")?,
            streams: narrow(job.streams, "streams")?,
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
        };
        Self {
            rank: rank.rank,
            state: state.into(),
            address: rank.address.to_string(),
            heard_ms_ago: long_millis(rank.heard),
            progress: rank.progress,
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
            proto::RankState::Unspecified => {
                return Err(Unreadable(format!("rank state {} is unknown", rank.state)));
            }
        };
        Ok(Self {
            rank: rank.rank,
            state,
            address: address(&rank.address)?,
            heard: Duration::from_millis(rank.heard_ms_ago),
            progress: rank.progress,
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
        }
    }
}

impl From<proto::WaitingWorld> for WaitingWorld {
    fn from(world: proto::WaitingWorld) -> Self {
        Self {
            name: world.name,
            size: world.size,
            missing: world.missing,
            age: Duration::from_millis(world.age_ms),
        }
    }
}
