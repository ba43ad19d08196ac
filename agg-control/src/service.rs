//! The gRPC service: a thin layer that adds clocks, waiting and status codes to the registry.

pub(crate) mod code;
pub(crate) mod uplink;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tonic::{Request, Response, Status};

use crate::config::ControlConfig;
use crate::convert::{Unreadable, required};
use crate::messages::{Left, Member, Registration};
use crate::plane::AbortReason;
use crate::proto;
use crate::refusal::Refusal;
use crate::registry::{Outcome, PARENTS_TURN, Registry, Ticket};

/// The registry and a signal to all calls that wait for it to change.
pub(crate) struct Shared {
    registry: Mutex<Registry>,
    changes: watch::Sender<()>,
    config: ControlConfig,
}

impl Shared {
    pub(crate) fn new(registry: Registry, config: ControlConfig) -> Self {
        Self {
            registry: Mutex::new(registry),
            changes: watch::Sender::new(()),
            config,
        }
    }

    /// The registry's own state is consistent after each of its calls, so a panic elsewhere does not spoil it.
    pub(crate) fn registry(&self) -> MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn changed(&self) {
        self.changes.send_replace(());
    }

    pub(crate) fn config(&self) -> &ControlConfig {
        &self.config
    }

    /// A receiver of the signal that something has changed.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    /// Waits until `look` finds something, looking again after every change; `None` after `limit`.
    async fn wait_for<T>(
        &self,
        limit: Duration,
        mut look: impl FnMut(&mut Registry) -> Option<T>,
    ) -> Option<T> {
        let mut changes = self.changes.subscribe();
        let search = async {
            loop {
                changes.borrow_and_update();
                if let Some(found) = look(&mut self.registry()) {
                    return found;
                }
                // The sender lives in `self`: this cannot fail.
                let _ = changes.changed().await;
            }
        };
        tokio::time::timeout(limit, search).await.ok()
    }
}

/// Withdraws a registration when its call is dropped, that is when the caller's connection has gone.
struct Withdrawal<'a> {
    shared: &'a Shared,
    ticket: Ticket,
}

impl Drop for Withdrawal<'_> {
    fn drop(&mut self) {
        self.shared.registry().withdraw(self.ticket, Instant::now());
        // Another world may have taken its place.
        self.shared.changed();
    }
}

pub(crate) struct ControlService {
    shared: Arc<Shared>,
}

impl ControlService {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    async fn wait_for_world(&self, ticket: Ticket, wait: Duration) -> Outcome {
        let _withdrawal = Withdrawal {
            shared: &self.shared,
            ticket,
        };
        let limit = match self.shared.config.parent {
            Some(_) => wait + PARENTS_TURN,
            None => wait,
        };
        match self
            .shared
            .wait_for(limit, |registry| registry.poll(ticket))
            .await
        {
            Some(outcome) => outcome,
            None => self.shared.registry().give_up(ticket, wait, Instant::now()),
        }
    }

    async fn wait_for_departures(&self, member: Member, linger: Duration) -> Left {
        let look = |registry: &mut Registry| {
            let left = registry.left(member.key);
            (left.remaining == 0 || left.aborted.is_some()).then_some(left)
        };
        match self.shared.wait_for(linger, look).await {
            Some(left) => left,
            None => self.shared.registry().left(member.key),
        }
    }
}

pub(crate) fn unreadable(Unreadable(what): Unreadable) -> Refusal {
    Refusal::Malformed { what }
}

pub(crate) fn member(member: Option<proto::Member>) -> Result<Member, Refusal> {
    Ok(required(member, "member").map_err(unreadable)?.into())
}

#[tonic::async_trait]
impl proto::control_server::Control for ControlService {
    async fn describe(
        &self,
        _request: Request<proto::DescribeRequest>,
    ) -> Result<Response<proto::DescribeResponse>, Status> {
        let host = self.shared.registry().describe().into();
        Ok(Response::new(proto::DescribeResponse { host: Some(host) }))
    }

    async fn register(
        &self,
        request: Request<proto::RegisterRequest>,
    ) -> Result<Response<proto::RegisterResponse>, Status> {
        let peer = request
            .remote_addr()
            .ok_or_else(|| Status::internal("the connection has no peer address"))?;
        let request = Registration::try_from(request.into_inner()).map_err(unreadable)?;
        let wait = request.wait.min(self.shared.config.longest_wait);
        let ticket = self
            .shared
            .registry()
            .register(&request, peer.ip(), Instant::now())?;
        self.shared.changed();
        let answer = self.wait_for_world(ticket, wait).await?;
        Ok(Response::new(answer.into()))
    }

    async fn heartbeat(
        &self,
        request: Request<proto::HeartbeatRequest>,
    ) -> Result<Response<proto::HeartbeatResponse>, Status> {
        let request = request.into_inner();
        let member = member(request.member)?;
        let pulse = self
            .shared
            .registry()
            .heartbeat(member, request.progress, Instant::now())?;
        Ok(Response::new(pulse.into()))
    }

    async fn leave(
        &self,
        request: Request<proto::LeaveRequest>,
    ) -> Result<Response<proto::LeaveResponse>, Status> {
        let request = request.into_inner();
        let member = member(request.member)?;
        self.shared.registry().leave(member, Instant::now())?;
        self.shared.changed();
        let linger = Duration::from_millis(request.linger_ms.into()).min(self.shared.config.longest_linger);
        let left = self.wait_for_departures(member, linger).await;
        Ok(Response::new(left.into()))
    }

    async fn abort(
        &self,
        request: Request<proto::AbortRequest>,
    ) -> Result<Response<proto::AbortResponse>, Status> {
        let request = request.into_inner();
        let member = member(request.member)?;
        let relayed = request.reason.map(AbortReason::try_from).transpose();
        let relayed = relayed.map_err(unreadable)?;
        self.shared
            .registry()
            .abort(member, &request.text, relayed, Instant::now())?;
        self.shared.changed();
        Ok(Response::new(proto::AbortResponse {}))
    }

    async fn status(
        &self,
        _request: Request<proto::StatusRequest>,
    ) -> Result<Response<proto::StatusResponse>, Status> {
        let status = self.shared.registry().status(Instant::now());
        Ok(Response::new(status.into()))
    }
}
