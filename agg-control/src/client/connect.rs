//! Makes the connection.

use std::error::Error as StdError;
use std::io;
use std::path::Path;
use std::time::Duration;

use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Error, Identity};

use super::Stub;
use super::error::{ControlError, root_cause, status_cause};
use crate::config::ClientTls;
use crate::proto::DescribeRequest;

/// Pause between attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// A silent aggregator is noticed after twice this time.
const KEEPALIVE: Duration = Duration::from_secs(10);

pub(crate) fn endpoint(address: &str, tls: Option<&ClientTls>) -> Result<Endpoint, ControlError> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let invalid = |_| ControlError::Address {
        address: address.to_owned(),
    };
    let endpoint = Endpoint::from_shared(format!("{scheme}://{address}")).map_err(invalid)?;
    if endpoint.uri().port().is_none() {
        return Err(ControlError::Address {
            address: address.to_owned(),
        });
    }
    let endpoint = endpoint
        .tcp_nodelay(true)
        .http2_keep_alive_interval(KEEPALIVE)
        .keep_alive_timeout(KEEPALIVE);
    let Some(tls) = tls else { return Ok(endpoint) };
    let broken = |error: Error| ControlError::Tls {
        detail: root_cause(&error),
    };
    endpoint.tls_config(tls_config(tls)?).map_err(broken)
}

fn tls_config(tls: &ClientTls) -> Result<ClientTlsConfig, ControlError> {
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(&tls.ca)?));
    if let Some(identity) = &tls.identity {
        config = config.identity(Identity::from_pem(read(&identity.cert)?, read(&identity.key)?));
    }
    if let Some(name) = &tls.server_name {
        config = config.domain_name(name.clone());
    }
    Ok(config)
}

fn read(path: &Path) -> Result<Vec<u8>, ControlError> {
    std::fs::read(path).map_err(|source| ControlError::TlsFile {
        path: path.into(),
        source,
    })
}

/// Tries to connect until `limit` has passed.
pub(super) async fn connect(
    endpoint: Endpoint,
    address: String,
    limit: Duration,
) -> Result<Stub<Channel>, ControlError> {
    let deadline = Instant::now() + limit.min(Duration::from_secs(u32::MAX.into()));
    loop {
        let detail = match timeout_at(deadline, endpoint.connect()).await {
            Ok(Ok(channel)) => return greet(Stub::new(channel), address, deadline).await,
            Ok(Err(error)) if is_handshake(&error) => {
                return Err(ControlError::Handshake {
                    address,
                    detail: root_cause(&error),
                });
            }
            Ok(Err(error)) => root_cause(&error),
            Err(_) => "no answer".into(),
        };
        let again = Instant::now() + PAUSE;
        if again >= deadline {
            return Err(ControlError::Unreachable { address, detail });
        }
        sleep_until(again).await;
    }
}

/// With TLS 1.3 a server refuses a certificate only after the client believes to be connected, and without TLS
/// anything at all may be listening: only an answer shows that this works.
async fn greet(
    mut stub: Stub<Channel>,
    address: String,
    deadline: Instant,
) -> Result<Stub<Channel>, ControlError> {
    match timeout_at(deadline, stub.describe(DescribeRequest {})).await {
        Ok(Ok(_)) => Ok(stub),
        Ok(Err(status)) => Err(ControlError::Handshake {
            address,
            detail: status_cause(&status),
        }),
        Err(_) => Err(ControlError::Handshake {
            address,
            detail: "no answer to the first call".into(),
        }),
    }
}

/// Something is there, but it speaks another protocol or the certificates do not match: trying again is of no use.
fn is_handshake(error: &Error) -> bool {
    matches!(io_cause(error), Some(io) if matches!(io.kind(), io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof))
}

fn io_cause(error: &Error) -> Option<&io::Error> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(io) = error.downcast_ref::<io::Error>() {
            return Some(io);
        }
        next = error.source();
    }
    None
}
