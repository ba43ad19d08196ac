//! One call each. All have deadlines.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tonic::transport::Channel;
use tonic::{Response, Status};

use crate::client::error::status_cause;
use crate::convert::Unreadable;
use crate::messages::{Description, Member, Pulse, Registered};
use crate::plane::AbortReason;
use crate::proto;
use crate::proto::control_client::ControlClient as Stub;
use crate::registry::{Accepted, Answer};
use crate::service::Shared;
use crate::service::code::WORD_KEY;

/// Pause between attempts to say a last word.
const PAUSE: Duration = Duration::from_millis(100);

/// The parent aggregator.
#[derive(Debug, Clone)]
pub(super) struct Parent {
    pub(super) stub: Stub<Channel>,
    pub(super) address: String,
    /// How long a call may take that waits for nothing.
    pub(super) patience: Duration,
    /// How long a last word is tried.
    pub(super) longest: Duration,
}

/// Where the parent's shards receive.
struct DataPorts {
    first: SocketAddr,
    shards: u16,
    /// Bytes of the largest packet that gets there and back, if that is known.
    carried: Option<u32>,
}

pub(super) async fn register(shared: Arc<Shared>, parent: Parent, world: String, version: u64) {
    let answer = match data_ports(&shared, &parent).await {
        Ok(ports) => match registration(&shared, &parent, &world, version, &ports).await {
            Some(answer) => answer,
            None => return,
        },
        Err(answer) => answer,
    };
    shared
        .registry()
        .upstream_registered(&world, version, answer, Instant::now());
    shared.changed();
}

/// None if the world has changed meanwhile.
async fn registration(
    shared: &Shared,
    parent: &Parent,
    world: &str,
    version: u64,
    ports: &DataPorts,
) -> Option<Answer<Accepted>> {
    let now = Instant::now();
    let request = shared
        .registry()
        .upstream_request(world, version, ports.first, now);
    let Some(mut request) = request else {
        // It may have refused the world.
        shared.changed();
        return None;
    };
    let carried = ports.carried.unwrap_or(request.max_datagram);
    request.max_datagram = request.max_datagram.min(carried);
    let mut stub = parent.stub.clone();
    let call = stub.register(proto::RegisterRequest::from(&request));
    let answer: Answer<Registered> = answered(call, request.wait + parent.patience).await;
    Some(match answer {
        Answer::Ok(terms) => {
            let port = |shard| SocketAddr::new(ports.first.ip(), ports.first.port().wrapping_add(shard));
            let endpoints = (0..ports.shards).map(port).collect();
            Answer::Ok(Accepted { terms, endpoints })
        }
        Answer::Refused { word, message } => Answer::Refused { word, message },
        Answer::Silent { detail } => Answer::Silent { detail },
    })
}

async fn data_ports(shared: &Shared, parent: &Parent) -> Result<DataPorts, Answer<Accepted>> {
    let mut stub = parent.stub.clone();
    let call = stub.describe(proto::DescribeRequest {});
    let host = match answered::<_, Description>(call, parent.patience).await {
        Answer::Ok(description) => description.host,
        Answer::Refused { word, message } => return Err(Answer::Refused { word, message }),
        Answer::Silent { detail } => return Err(Answer::Silent { detail }),
    };
    let ip = match host.data_ip {
        Some(ip) => ip,
        None => {
            let silent = |detail| Answer::Silent { detail };
            let found = tokio::time::timeout(parent.patience, tokio::net::lookup_host(&parent.address));
            let found = found
                .await
                .map_err(|_| silent("no answer of the name service".into()))?;
            let mut found = found.map_err(|error| silent(error.to_string()))?;
            let address = found.next();
            address
                .ok_or_else(|| silent("the name has no address".into()))?
                .ip()
        }
    };
    let first = SocketAddr::new(ip, host.base_port);
    let (plane, shards) = (shared.registry().plane(), host.shards);
    // A thread of its own: it waits for packets.
    let carried = tokio::task::spawn_blocking(move || plane.probe(&host, first)).await;
    Ok(DataPorts {
        first,
        shards,
        carried: carried.ok().flatten(),
    })
}

pub(super) async fn heartbeat(shared: Arc<Shared>, parent: Parent, member: Member, progress: u64) {
    let mut stub = parent.stub.clone();
    let call = stub.heartbeat(proto::HeartbeatRequest {
        member: Some(member.into()),
        progress,
    });
    let answer: Answer<Pulse> = answered(call, parent.patience).await;
    let goes_on = matches!(answer, Answer::Ok(Pulse::Ok));
    shared.registry().upstream_pulse(member, answer, Instant::now());
    if !goes_on {
        shared.changed();
    }
}

pub(super) async fn abort(parent: Parent, member: Member, reason: AbortReason) {
    last_word(&parent, |mut stub| {
        let message = proto::AbortRequest {
            member: Some(member.into()),
            text: reason.text.clone(),
            reason: Some(reason.clone().into()),
        };
        async move { stub.abort(message).await.map(drop) }
    })
    .await;
}

pub(super) async fn leave(parent: Parent, member: Member) {
    last_word(&parent, |mut stub| {
        let message = proto::LeaveRequest {
            member: Some(member.into()),
            linger_ms: 0,
        };
        async move { stub.leave(message).await.map(drop) }
    })
    .await;
}

/// Tries until the parent has heard it, for as long as the parent would miss this aggregator.
async fn last_word<F>(parent: &Parent, say: impl Fn(Stub<Channel>) -> F)
where
    F: Future<Output = Result<(), Status>>,
{
    let deadline = Instant::now() + parent.longest;
    while Instant::now() < deadline {
        let said = tokio::time::timeout(parent.patience, say(parent.stub.clone())).await;
        match said {
            Ok(Ok(())) => return,
            // It has an opinion of its own, for example that the job has ended already.
            Ok(Err(status)) if status.metadata().contains_key(WORD_KEY) => return,
            Ok(Err(_)) | Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
    tracing::warn!(
        parent = parent.address,
        "the parent was not told of the end of a job: it does not answer"
    );
}

/// A status with a word comes from the parent's control service, one without from the transport.
async fn answered<M, T>(call: impl Future<Output = Result<Response<M>, Status>>, limit: Duration) -> Answer<T>
where
    T: TryFrom<M>,
    T::Error: Into<Unreadable>,
{
    let status = match tokio::time::timeout(limit, call).await {
        Ok(Ok(response)) => {
            return match T::try_from(response.into_inner()) {
                Ok(answer) => Answer::Ok(answer),
                Err(error) => Answer::Silent {
                    detail: format!("it sent an answer that cannot be read: {}", error.into()),
                },
            };
        }
        Ok(Err(status)) => status,
        Err(_) => {
            let detail = format!("no answer within {:.1} s", limit.as_secs_f64());
            return Answer::Silent { detail };
        }
    };
    match status
        .metadata()
        .get(WORD_KEY)
        .and_then(|word| word.to_str().ok())
    {
        Some(word) => Answer::Refused {
            word: word.into(),
            message: status.message().into(),
        },
        None => Answer::Silent {
            detail: status_cause(&status),
        },
    }
}
