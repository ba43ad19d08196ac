//! The registry without the network, for the fuzz target `control`: requests as bytes, times as they come.
//!
//! No part of the interface. It does what the service does with a request, but for the waiting.

use std::fmt::Debug;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use prost::Message;

use crate::config::ControlConfig;
use crate::messages::{Description, Left, Member, Pulse, Registered, Registration, Status};
use crate::plane::{AbortReason, DataPlane};
use crate::proto;
use crate::refusal::Refusal;
use crate::registry::{self, Registry};
use crate::service::{member, unreadable};

/// The registry.
pub struct Control {
    registry: Registry,
    /// Of the last call that had one.
    now: Instant,
}

/// A registration that was accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(registry::Ticket);

/// What comes of a request; none if its bytes are no message at all.
pub type Answer<T> = Option<Result<T, Refusal>>;

impl Control {
    /// A registry without worlds and jobs.
    pub fn new(plane: Arc<dyn DataPlane>, config: ControlConfig) -> Self {
        Self {
            registry: Registry::new(plane, config),
            now: Instant::now(),
        }
    }

    /// A `RegisterRequest` from `peer`.
    pub fn register(&mut self, request: &[u8], peer: IpAddr, now: Instant) -> Answer<Ticket> {
        self.now = now;
        let request = proto::RegisterRequest::decode(request).ok()?;
        let request = Registration::try_from(request).map_err(unreadable);
        Some(request.and_then(|request| self.registry.register(&request, peer, now).map(Ticket)))
    }

    /// A `HeartbeatRequest`.
    pub fn heartbeat(&mut self, request: &[u8], now: Instant) -> Answer<Pulse> {
        self.now = now;
        let request = proto::HeartbeatRequest::decode(request).ok()?;
        let sender = member(request.member);
        Some(sender.and_then(|sender| self.registry.heartbeat(sender, request.progress, now)))
    }

    /// A `LeaveRequest`, and what is answered at once.
    pub fn leave(&mut self, request: &[u8], now: Instant) -> Answer<Left> {
        self.now = now;
        let request = proto::LeaveRequest::decode(request).ok()?;
        let left = |sender: Member| {
            self.registry
                .leave(sender, now)
                .map(|()| self.registry.left(sender.key))
        };
        Some(member(request.member).and_then(left))
    }

    /// An `AbortRequest`.
    pub fn abort(&mut self, request: &[u8], now: Instant) -> Answer<()> {
        self.now = now;
        let request = proto::AbortRequest::decode(request).ok()?;
        let relayed = request
            .reason
            .map(AbortReason::try_from)
            .transpose()
            .map_err(unreadable);
        let sender = member(request.member).and_then(|sender| Ok((sender, relayed?)));
        Some(sender.and_then(|(sender, relayed)| self.registry.abort(sender, &request.text, relayed, now)))
    }

    /// The outcome of a registration, if there is one yet.
    pub fn poll(&mut self, ticket: Ticket) -> Option<Result<Registered, Refusal>> {
        self.registry.poll(ticket.0)
    }

    /// Ends a registration whose time is over.
    pub fn give_up(&mut self, ticket: Ticket, waited: Duration) -> Result<Registered, Refusal> {
        self.registry.give_up(ticket.0, waited, self.now)
    }

    /// Ends a registration whose caller has gone.
    pub fn withdraw(&mut self, ticket: Ticket) {
        self.registry.withdraw(ticket.0, self.now);
    }

    /// Looks for lost ranks.
    pub fn tick(&mut self, now: Instant) {
        self.now = now;
        self.registry.tick(now);
    }

    /// Takes no new worlds.
    pub fn drain(&mut self) {
        self.registry.drain();
    }

    /// Ends everything.
    pub fn close(&mut self, now: Instant) {
        self.registry.close(now);
    }

    /// What an operator sees.
    pub fn status(&self, now: Instant) -> Status {
        self.registry.status(now)
    }

    /// Jobs that run.
    pub fn running_jobs(&self) -> usize {
        self.registry.running_jobs()
    }

    /// Registrations whose outcome nobody has taken yet.
    pub fn open_tickets(&self) -> usize {
        self.registry.open_tickets()
    }
}

/// The bytes of a `RegisterRequest`.
pub fn registration(request: &Registration) -> Vec<u8> {
    proto::RegisterRequest::from(request).encode_to_vec()
}

/// The bytes of a `HeartbeatRequest`.
pub fn heartbeat(member: Member, progress: u64) -> Vec<u8> {
    let member = Some(member.into());
    proto::HeartbeatRequest { member, progress }.encode_to_vec()
}

/// The bytes of a `LeaveRequest`.
pub fn leave(member: Member, linger_ms: u32) -> Vec<u8> {
    let member = Some(member.into());
    proto::LeaveRequest { member, linger_ms }.encode_to_vec()
}

/// The bytes of an `AbortRequest`; `relayed` is a child aggregator's reason.
pub fn abort(member: Member, text: String, relayed: Option<AbortReason>) -> Vec<u8> {
    let member = Some(member.into());
    let reason = relayed.map(Into::into);
    proto::AbortRequest { member, text, reason }.encode_to_vec()
}

/// The text of a refusal as a rank receives it.
pub fn refusal_text(refusal: Refusal) -> String {
    tonic::Status::from(refusal).message().to_owned()
}

/// Bytes as each answer that a client reads: what it accepts is the same once it was sent on, and what it does not is
/// said on one line. Panics otherwise.
pub fn read_answers(bytes: &[u8]) {
    comes_back::<proto::Host, Description>(bytes);
    comes_back::<proto::RegisterResponse, Registered>(bytes);
    comes_back::<proto::HeartbeatResponse, Pulse>(bytes);
    comes_back::<proto::LeaveResponse, Left>(bytes);
    comes_back::<proto::StatusResponse, Status>(bytes);
}

/// A status is the same once it was sent, but for fractions of milliseconds. Panics otherwise.
pub fn send_status(status: Status) {
    comes_back::<proto::StatusResponse, Status>(&proto::StatusResponse::from(status).encode_to_vec());
}

fn comes_back<M, T>(bytes: &[u8])
where
    M: Message + Default + From<T>,
    T: TryFrom<M> + Clone + PartialEq + Debug,
    T::Error: Debug + ToString,
{
    let Ok(message) = M::decode(bytes) else { return };
    let read = match T::try_from(message) {
        Ok(read) => read,
        Err(error) => {
            let text = error.to_string();
            assert!(!text.contains(char::is_control), "not one line: {text:?}");
            return;
        }
    };
    let sent = M::from(read.clone()).encode_to_vec();
    let again = M::decode(sent.as_slice()).map(T::try_from);
    match again {
        Ok(Ok(again)) => assert_eq!(again, read),
        other => panic!("{read:?} is sent as {other:?}"),
    }
}
