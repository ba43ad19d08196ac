//! A job of the control service in the core's words.

use std::net::SocketAddr;

use agg_control::{AbortKind, AbortReason, AdmitError, JobSpec, ParentSpec};
use agg_core::wire::NO_MEMBER;
use agg_core::{Abort, AbortCause, Endpoint, Epoch, JobConfig, Lanes, Member, MemberSet, Parent, Policy};

use crate::Names;

/// What the core is told of a job on the shard of `stream`, without frames (R-SPILL): those are the host's to give.
///
/// # Errors
/// A chunk size that does not exist, or members that do not fit.
pub fn job_config(job: &JobSpec, stream: usize) -> Result<JobConfig, AdmitError> {
    let lanes = Lanes::from_count(job.lanes)
        .ok_or_else(|| AdmitError::Other(format!("{} lanes is no chunk size of this host", job.lanes)))?;
    let members = job.members.iter().enumerate().map(|(number, member)| {
        let source = member.endpoints.get(stream).copied()?;
        Some(Member {
            source: Endpoint::from(source),
            set: MemberSet::single(number as u8),
            workers: member.workers,
        })
    });
    let members: Option<Vec<Member>> = members.collect();
    let members = members.and_then(|members| members.as_slice().try_into().ok());
    let members = members.ok_or_else(|| {
        AdmitError::Other(format!(
            "{} members with an address a stream do not fit",
            job.members.len()
        ))
    })?;
    Ok(JobConfig {
        key: job.key,
        epoch: Epoch(job.epoch),
        members,
        lanes,
        window: job.window,
        generations: job.generations,
        policy: policy(job.policy),
        parent: job.parent.as_ref().and_then(|spec| parent(spec, stream)),
        frames: None,
    })
}

/// The core's word for a policy; its memory is settled by the job's generations.
fn policy(policy: agg_control::Policy) -> Policy {
    match policy {
        agg_control::Policy::All => Policy::All,
        agg_control::Policy::Quorum { members, grace, .. } => Policy::Quorum {
            members,
            grace: u64::try_from(grace.as_nanos()).unwrap_or(u64::MAX),
        },
    }
}

fn parent(parent: &ParentSpec, stream: usize) -> Option<Parent> {
    Some(Parent {
        source: Endpoint::from(*parent.endpoints.get(stream)?),
        member: parent.member,
        epoch: Epoch(parent.epoch),
    })
}

/// Where results and Wants of a stream go, by member number.
pub fn member_endpoints(job: &JobSpec, stream: usize) -> Vec<SocketAddr> {
    let endpoints = job
        .members
        .iter()
        .filter_map(|member| member.endpoints.get(stream));
    endpoints.copied().collect()
}

/// Where the sums of a leaf's stream go.
pub fn parent_endpoint(job: &JobSpec, stream: usize) -> Option<SocketAddr> {
    job.parent.as_ref()?.endpoints.get(stream).copied()
}

/// Why the core does not take a job, as the control service says it.
pub fn refused(error: agg_core::AdmitError) -> AdmitError {
    match error {
        agg_core::AdmitError::Memory { needed, free } => AdmitError::OutOfMemory { needed, free },
        agg_core::AdmitError::Jobs(limit) => AdmitError::TooManyJobs { limit },
        other => AdmitError::Other(format!("the job cannot run here: {other:?}")),
    }
}

/// The end of a job in the core's words. The member is named where the rank is one of `names`; the reason's text names
/// others.
pub fn abort(reason: &AbortReason, names: Option<&Names>) -> Abort {
    let cause = match reason.kind {
        AbortKind::Lost => AbortCause::LostMember,
        AbortKind::Reported => AbortCause::MemberFailed,
        AbortKind::Shutdown => AbortCause::Ended,
    };
    let member = names
        .zip(reason.rank)
        .and_then(|(names, rank)| names.member_of(rank));
    Abort {
        cause,
        member: member.unwrap_or(NO_MEMBER),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use agg_control::MemberSpec;

    use super::*;

    fn job() -> JobSpec {
        let member = |rank: u32, port| MemberSpec {
            endpoints: vec![SocketAddr::from(([10, 0, 0, 1], port))],
            workers: 1,
            ranks: vec![rank],
        };
        JobSpec {
            key: 7,
            name: "world".to_owned(),
            epoch: 3,
            members: vec![member(0, 1), member(1, 2)],
            workers: 2,
            lanes: 352,
            window: 8,
            generations: 2,
            streams: 1,
            policy: agg_control::Policy::Quorum {
                members: 1,
                grace: Duration::from_millis(2),
                history_bytes: 0,
            },
            weight: 1,
            parent: None,
        }
    }

    #[test]
    fn members_are_numbered_in_order_and_times_are_nanoseconds() {
        let config = job_config(&job(), 0).unwrap();
        let sets: Vec<u64> = config.members.iter().map(|member| member.set.0).collect();
        assert_eq!(
            (sets, config.epoch, config.lanes),
            (vec![1, 2], Epoch(3), Lanes::L352)
        );
        let grace = 2_000_000;
        assert_eq!(config.policy, Policy::Quorum { members: 1, grace });
    }

    #[test]
    fn what_does_not_exist_is_named() {
        let lanes = JobSpec { lanes: 360, ..job() };
        let error = job_config(&lanes, 0).unwrap_err().to_string();
        assert_eq!(error, "360 lanes is no chunk size of this host");
        let error = job_config(&job(), 1).unwrap_err().to_string();
        assert_eq!(error, "2 members with an address a stream do not fit");
    }

    #[test]
    fn an_abort_names_the_member_whose_rank_it_is() {
        let names = Names::of(&job());
        let reason = |rank| AbortReason {
            rank,
            kind: AbortKind::Lost,
            text: String::new(),
        };
        let member = |rank| abort(&reason(rank), Some(&names)).member;
        assert_eq!([Some(1), Some(9), None].map(member), [1, NO_MEMBER, NO_MEMBER]);
        assert_eq!(abort(&reason(Some(1)), None).member, NO_MEMBER);
    }
}
