//! Registration: what is asked and what is answered.

use std::time::Duration;

use super::{Unreadable, address, byte, micros, millis, narrow, unless_zero};
use crate::messages::{OnLost, Policy, Registered, Registration};
use crate::proto;

impl From<&Registration> for proto::RegisterRequest {
    fn from(request: &Registration) -> Self {
        Self {
            world: request.world.clone(),
            size: request.size,
            ranks: request.ranks.clone(),
            nonce: request.nonce,
            endpoints: request.endpoints.iter().map(ToString::to_string).collect(),
            max_datagram: request.max_datagram,
            receive_buffer: request.receive_buffer,
            lanes: request.lanes.unwrap_or(0),
            window: request.window.unwrap_or(0),
            wait_ms: millis(request.wait),
            child: request.child,
            slot_memory: request.slot_memory,
            quorum: request.policy.into(),
            on_lost: proto::OnLost::from(request.on_lost).into(),
            weight: request.weight.into(),
            priority: request.priority.into(),
            resume: request.resume.clone().map(Into::into),
        }
    }
}

impl TryFrom<proto::RegisterRequest> for Registration {
    type Error = Unreadable;

    fn try_from(request: proto::RegisterRequest) -> Result<Self, Unreadable> {
        let on_lost = request.on_lost().into();
        Ok(Self {
            endpoints: request
                .endpoints
                .iter()
                .map(|text| address(text))
                .collect::<Result<_, _>>()?,
            world: request.world,
            size: request.size,
            ranks: request.ranks,
            child: request.child,
            nonce: request.nonce,
            max_datagram: request.max_datagram,
            receive_buffer: request.receive_buffer,
            slot_memory: request.slot_memory,
            lanes: unless_zero(request.lanes),
            window: unless_zero(request.window),
            policy: policy(request.quorum)?,
            on_lost,
            weight: narrow(request.weight, "weight")?.max(Registration::WEIGHT),
            priority: byte(request.priority, "priority")?,
            wait: Duration::from_millis(request.wait_ms.into()),
            resume: request.resume.map(TryInto::try_into).transpose()?,
        })
    }
}

impl From<Registered> for proto::RegisterResponse {
    fn from(answer: Registered) -> Self {
        Self {
            key: answer.key,
            epoch: answer.epoch,
            member: answer.member.into(),
            lanes: answer.lanes.into(),
            window: answer.window.into(),
            streams: answer.streams.into(),
            heartbeat_ms: millis(answer.heartbeat),
            lost_after_ms: millis(answer.lost_after),
            members: answer
                .members
                .into_iter()
                .map(|ranks| proto::Ranks { ranks })
                .collect(),
            workers: answer.workers,
            generations: answer.generations.into(),
            quorum: answer.policy.into(),
            boundary: answer.boundary.map(Into::into),
        }
    }
}

impl TryFrom<proto::RegisterResponse> for Registered {
    type Error = Unreadable;

    fn try_from(answer: proto::RegisterResponse) -> Result<Self, Unreadable> {
        let member = byte(answer.member, "member")?;
        if usize::from(member) >= answer.members.len() {
            let members = answer.members.len();
            return Err(Unreadable(format!(
                "member = {member} is not below the number of members, {members}"
            )));
        }
        Ok(Self {
            key: answer.key,
            epoch: answer.epoch,
            member,
            members: answer.members.into_iter().map(|member| member.ranks).collect(),
            workers: answer.workers,
            lanes: narrow(answer.lanes, "lanes")?,
            window: narrow(answer.window, "window")?,
            generations: narrow(answer.generations, "generations")?,
            streams: narrow(answer.streams, "streams")?,
            heartbeat: Duration::from_millis(answer.heartbeat_ms.into()),
            lost_after: Duration::from_millis(answer.lost_after_ms.into()),
            policy: policy(answer.quorum)?,
            boundary: answer.boundary.map(Into::into),
        })
    }
}

impl From<Policy> for Option<proto::Quorum> {
    fn from(policy: Policy) -> Self {
        match policy {
            Policy::All => None,
            Policy::Quorum {
                members,
                grace,
                history_bytes,
            } => Some(proto::Quorum {
                members: members.into(),
                grace_us: micros(grace),
                history_bytes,
            }),
        }
    }
}

pub(super) fn policy(quorum: Option<proto::Quorum>) -> Result<Policy, Unreadable> {
    Ok(match quorum {
        None => Policy::All,
        Some(quorum) => Policy::Quorum {
            members: byte(quorum.members, "members of a quorum")?,
            grace: Duration::from_micros(quorum.grace_us),
            history_bytes: quorum.history_bytes,
        },
    })
}

impl From<OnLost> for proto::OnLost {
    fn from(on_lost: OnLost) -> Self {
        match on_lost {
            OnLost::Abort => proto::OnLost::Abort,
            OnLost::Shrink => proto::OnLost::Shrink,
        }
    }
}

impl From<proto::OnLost> for OnLost {
    fn from(on_lost: proto::OnLost) -> Self {
        match on_lost {
            proto::OnLost::Abort => OnLost::Abort,
            proto::OnLost::Shrink => OnLost::Shrink,
        }
    }
}
