//! Members, heartbeats and the end of a job.

use super::{Unreadable, required};
use crate::messages::{Left, Member, Pulse};
use crate::plane::{AbortKind, AbortReason};
use crate::proto;

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
            Pulse::Reform => (State::Reform, None),
            Pulse::Excluded(reason) => (State::Excluded, Some(reason.into())),
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
                required(answer.abort, "the abort's reason")?.try_into()?,
            )),
            State::UnknownJob => Ok(Pulse::UnknownJob),
            State::Reform => Ok(Pulse::Reform),
            State::Excluded => Ok(Pulse::Excluded(
                required(answer.abort, "the reason of the exclusion")?.try_into()?,
            )),
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
