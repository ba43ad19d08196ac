//! A blocking client: ranks and tools are plain threads.

mod background;
pub(crate) mod connect;
pub(crate) mod error;

use std::sync::Arc;
use std::time::Duration;

use tonic::transport::Channel;
use tonic::{Response, Status as GrpcStatus};

use self::background::Background;
pub use self::error::ControlError;
use crate::config::ClientTls;
use crate::convert::{Unreadable, millis};
use crate::messages::{Description, Left, Member, Pulse, Registered, Registration, Status};
use crate::proto;
use crate::proto::control_client::ControlClient as Stub;

/// A connection to an aggregator's control service.
///
/// Clones share the connection, so that one thread can wait in [`register`](Self::register) or
/// [`leave`](Self::leave) while another sends heartbeats. The connection is made again after it broke. When the last
/// clone is dropped the connection closes, and with it any call that still waits.
#[derive(Debug, Clone)]
pub struct ControlClient {
    inner: Arc<Inner>,
    timeout: Duration,
}

#[derive(Debug)]
struct Inner {
    address: String,
    stub: Stub<Channel>,
    background: Background,
}

/// A nonce for a [`Registration`]: draw one per process and keep it for retries.
pub fn fresh_nonce() -> u64 {
    loop {
        let nonce = rand::random();
        if nonce != 0 {
            return nonce;
        }
    }
}

impl ControlClient {
    /// Connects to `address` ("host:port"), trying again until `timeout` has passed: ranks and aggregator may be
    /// started in any order. Each later call may take `timeout` beyond the time that it is meant to wait.
    ///
    /// # Errors
    /// [`ControlError::Unreachable`] if nobody answers in time, [`ControlError::Handshake`] if something else than
    /// an aggregator answers or TLS fails, and errors of the address and the TLS files.
    pub fn connect(address: &str, tls: Option<&ClientTls>, timeout: Duration) -> Result<Self, ControlError> {
        let endpoint = connect::endpoint(address, tls)?;
        let background = Background::start().map_err(ControlError::Thread)?;
        let connecting = connect::connect(endpoint, address.to_owned(), timeout);
        let stub = background.run(connecting).ok_or(ControlError::Stopped)??;
        Ok(Self {
            inner: Arc::new(Inner {
                address: address.to_owned(),
                stub,
                background,
            }),
            timeout,
        })
    }

    /// The same connection, for calls that may take no longer than `timeout` beyond the time that they are meant to wait.
    #[must_use]
    pub fn with_timeout(&self, timeout: Duration) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            timeout,
        }
    }

    /// The address it was connected to.
    pub fn address(&self) -> &str {
        &self.inner.address
    }

    /// What the aggregator is and has.
    ///
    /// # Errors
    /// [`ControlError`] if the aggregator cannot be asked.
    pub fn describe(&self) -> Result<Description, ControlError> {
        self.call("describe itself", Duration::ZERO, |mut stub| async move {
            stub.describe(proto::DescribeRequest {}).await
        })
    }

    /// Registers a member and waits until its world is complete.
    ///
    /// # Errors
    /// [`ControlError::RanksMissing`] after `request.wait`, [`ControlError::Refused`] if the request or the world is
    /// not possible.
    pub fn register(&self, request: &Registration) -> Result<Registered, ControlError> {
        let message = proto::RegisterRequest::from(request);
        self.call("register a rank", request.wait, |mut stub| async move {
            stub.register(message).await
        })
    }

    /// Says that the member is alive and has the results of `progress` chunks.
    ///
    /// # Errors
    /// [`ControlError`] if the aggregator cannot be asked or refuses.
    pub fn heartbeat(&self, member: Member, progress: u64) -> Result<Pulse, ControlError> {
        let message = proto::HeartbeatRequest {
            member: Some(member.into()),
            progress,
        };
        self.call("take a heartbeat", Duration::ZERO, |mut stub| async move {
            stub.heartbeat(message).await
        })
    }

    /// Ends the member's part and waits until all have left, the job is aborted or `linger` has passed.
    ///
    /// # Errors
    /// [`ControlError::UnknownJob`] if the job has ended already.
    pub fn leave(&self, member: Member, linger: Duration) -> Result<Left, ControlError> {
        let message = proto::LeaveRequest {
            member: Some(member.into()),
            linger_ms: millis(linger),
        };
        self.call("let a rank leave", linger, |mut stub| async move {
            stub.leave(message).await
        })
    }

    /// Ends the job for all ranks; `text` says in one line why.
    ///
    /// # Errors
    /// [`ControlError::UnknownJob`] if the job has ended already.
    pub fn abort(&self, member: Member, text: &str) -> Result<(), ControlError> {
        let message = proto::AbortRequest {
            member: Some(member.into()),
            text: text.to_owned(),
            reason: None,
        };
        let proto::AbortResponse {} = self.call("abort a job", Duration::ZERO, |mut stub| async move {
            stub.abort(message).await
        })?;
        Ok(())
    }

    /// Everything an operator wants to see.
    ///
    /// # Errors
    /// [`ControlError`] if the aggregator cannot be asked.
    pub fn status(&self) -> Result<Status, ControlError> {
        self.call("show its status", Duration::ZERO, |mut stub| async move {
            stub.status(proto::StatusRequest {}).await
        })
    }

    /// Makes one call, which may take `wait` by its nature.
    fn call<T, M, F, C>(&self, what: &'static str, wait: Duration, make: C) -> Result<T, ControlError>
    where
        T: TryFrom<M>,
        T::Error: Into<Unreadable>,
        M: Send + 'static,
        F: Future<Output = Result<Response<M>, GrpcStatus>> + Send + 'static,
        C: FnOnce(Stub<Channel>) -> F,
    {
        let inner = &self.inner;
        let limit = wait.saturating_add(self.timeout);
        let call = make(inner.stub.clone());
        let answer = inner
            .background
            .run(async move { tokio::time::timeout(limit, call).await })
            .ok_or(ControlError::Stopped)?
            .map_err(|_| ControlError::Timeout {
                address: inner.address.clone(),
                what,
                waited: limit,
            })?
            .map_err(|status| error::from_status(&inner.address, &status))?;
        T::try_from(answer.into_inner()).map_err(|error| ControlError::BadAnswer {
            address: inner.address.clone(),
            what: error.into().0,
        })
    }
}
