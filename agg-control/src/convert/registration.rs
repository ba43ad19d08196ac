//! Registration, membership and aborts.

use std::time::Duration;

use super::{Unreadable, address, millis, narrow, unless_zero};
use crate::messages::{Left, Member, Pulse, Registered, Registration};
use crate::plane::{AbortKind, AbortReason};
use crate::proto;

impl From<&Registration> for proto::RegisterRequest {
    fn from(request: &Registration) -> Self {
        Self {
            world: request.world.clone(),
            size: request.size,
            rank: request.rank,
            nonce: request.nonce,
            endpoints: request.endpoints.iter().map(ToString::to_string).collect(),
            max_datagram: request.max_datagram,
            receive_buffer: request.receive_buffer,
            lanes: request.lanes.unwrap_or(0),
            window: request.window.unwrap_or(0),
            wait_ms: millis(request.wait),
        }
    }
}

impl TryFrom<proto::RegisterRequest> for Registration {
    type Error = Unreadable;

    fn try_from(request: proto::RegisterRequest) -> Result<Self, Unreadable> {
        Ok(Self {
            endpoints: request
                .endpoints
                .iter()
                .map(|text| address(text))
                .collect::<Result<_, _>>()?,
            world: request.world,
            size: request.size,
            rank: request.rank,
            nonce: request.nonce,
            max_datagram: request.max_datagram,
            receive_buffer: request.receive_buffer,
            lanes: unless_zero(request.lanes),
            window: unless_zero(request.window),
            wait: Duration::from_millis(request.wait_ms.into()),
        })
    }
}

impl From<Registered> for proto::RegisterResponse {
    fn from(answer: Registered) -> Self {
        Self {
            key: answer.key,
            epoch: answer.epoch,
            ranks: answer.ranks,
            lanes: answer.lanes.into(),
            window: answer.window.into(),
            streams: answer.streams.into(),
            heartbeat_ms: millis(answer.heartbeat),
            lost_after_ms: millis(answer.lost_after),
        }
    }
}

impl TryFrom<proto::RegisterResponse> for Registered {
    type Error = Unreadable;

    fn try_from(answer: proto::RegisterResponse) -> Result<Self, Unreadable> {
        Ok(Self {
            key: answer.key,
            epoch: answer.epoch,
            ranks: answer.ranks,
            lanes: narrow(answer.lanes, "lanes")?,
            window: narrow(answer.window, "window")?,
            streams: narrow(answer.streams, "streams")?,
            heartbeat: Duration::from_millis(answer.heartbeat_ms.into()),
            lost_after: Duration::from_millis(answer.lost_after_ms.into()),
        })
    }
}

impl From<Member> for proto::Member {
    fn from(member: Member) -> Self {
        Self {
            key: member.key,
            rank: member.rank,
            nonce: member.nonce,
        }
    }
}

impl From<proto::Member> for Member {
    fn from(member: proto::Member) -> Self {
        Self {
            key: member.key,
            rank: member.rank,
            nonce: member.nonce,
        }
    }
}

impl From<AbortReason> for proto::AbortReason {
    fn from(reason: AbortReason) -> Self {
        let kind = match reason.kind {
            AbortKind::Reported => proto::AbortKind::Reported,
            AbortKind::Lost => proto::AbortKind::Lost,
            AbortKind::Shutdown => proto::AbortKind::Shutdown,
        };
        Self {
            rank: reason.rank,
            kind: kind.into(),
            text: reason.text,
        }
    }
}

impl TryFrom<proto::AbortReason> for AbortReason {
    type Error = Unreadable;

    fn try_from(reason: proto::AbortReason) -> Result<Self, Unreadable> {
        let kind = match reason.kind() {
            proto::AbortKind::Reported => AbortKind::Reported,
            proto::AbortKind::Lost => AbortKind::Lost,
            proto::AbortKind::Shutdown => AbortKind::Shutdown,
            proto::AbortKind::Unspecified => {
                return Err(Unreadable(format!("abort kind {} is unknown", reason.kind)));
            }
        };
        Ok(Self {
            rank: reason.rank,
            kind,
            text: reason.text,
        })
    }
}

impl From<Pulse> for proto::HeartbeatResponse {
    fn from(pulse: Pulse) -> Self {
        use proto::heartbeat_response::State;
        let (state, abort) = match pulse {
            Pulse::Ok => (State::Ok, None),
            Pulse::Aborted(reason) => (State::Aborted, Some(reason.into())),
            Pulse::UnknownJob => (State::UnknownJob, None),
        };
        Self {
            state: state.into(),
            abort,
        }
    }
}

impl TryFrom<proto::HeartbeatResponse> for Pulse {
    type Error = Unreadable;

    fn try_from(answer: proto::HeartbeatResponse) -> Result<Self, Unreadable> {
        use proto::heartbeat_response::State;
        match answer.state() {
            State::Ok => Ok(Pulse::Ok),
            State::Aborted => Ok(Pulse::Aborted(
                super::required(answer.abort, "the abort's reason")?.try_into()?,
            )),
            State::UnknownJob => Ok(Pulse::UnknownJob),
            State::Unspecified => Err(Unreadable(format!("job state {} is unknown", answer.state))),
        }
    }
}

impl From<Left> for proto::LeaveResponse {
    fn from(left: Left) -> Self {
        Self {
            remaining: left.remaining,
            abort: left.aborted.map(Into::into),
        }
    }
}

impl TryFrom<proto::LeaveResponse> for Left {
    type Error = Unreadable;

    fn try_from(answer: proto::LeaveResponse) -> Result<Self, Unreadable> {
        Ok(Self {
            remaining: answer.remaining,
            aborted: answer.abort.map(TryInto::try_into).transpose()?,
        })
    }
}
