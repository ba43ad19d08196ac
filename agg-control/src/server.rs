//! Runs the control service in a thread of its own, so that hosts need no async runtime.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::sync::oneshot;
use tonic::transport::server::{Router, TcpIncoming};
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use crate::client::ControlError;
use crate::config::{ConfigError, ControlConfig, TlsConfig};
use crate::incoming::Incoming;
use crate::metrics;
use crate::plane::DataPlane;
use crate::proto::control_server;
use crate::registry::Registry;
use crate::service::uplink::Uplink;
use crate::service::{ControlService, Shared};

/// Largest request, in bytes: 64 data addresses and a name need less than a tenth of it.
const LARGEST_REQUEST: usize = 64 << 10;

/// Largest header block of a request, in bytes.
const LARGEST_HEADERS: u32 = 16 << 10;

/// Most calls at the same time on one connection: a rank needs three, and one process may hold all ranks of a world.
const MOST_CALLS: u32 = 256;

/// How long a new connection may take for its TLS handshake.
const HANDSHAKE_LIMIT: Duration = Duration::from_secs(5);

/// Why the control service cannot run.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The settings contradict each other.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The parent aggregator's address or TLS files do not work.
    #[error("the parent aggregator cannot be used: {0}")]
    Parent(#[from] ControlError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address} ({source}): free the port or choose another address")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The listener that was passed in does not work.
    #[error("the listening socket does not work ({0}): pass one that is bound and listens")]
    Listener(#[source] io::Error),
    /// A certificate or key file cannot be read.
    #[error("cannot read the TLS file {} ({source}): check the path and its permissions", path.display())]
    TlsFile {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A certificate or key is not usable.
    #[error(
        "the TLS files {}, {} and {} do not work together ({detail}): check that they are PEM and belong together",
        files.cert.display(), files.key.display(), files.client_ca.display()
    )]
    Tls {
        /// The files.
        files: TlsConfig,
        /// What the TLS library said.
        detail: String,
    },
    /// No thread or no runtime.
    #[error("cannot start the control service's thread ({0}): raise the limits on threads and open files")]
    Thread(#[source] io::Error),
}

/// The running control service. Dropping it shuts it down.
pub struct ControlServer {
    address: SocketAddr,
    metrics_address: Option<SocketAddr>,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Starts the control service on `address` (port 0: any free port, see [`ControlServer::local_addr`]).
///
/// # Errors
/// [`ServeError`] if the settings, the address or the TLS files do not work. Once this returns, calls are answered.
pub fn serve(
    address: SocketAddr,
    plane: Arc<dyn DataPlane>,
    config: ControlConfig,
) -> Result<ControlServer, ServeError> {
    let listener = TcpListener::bind(address).map_err(|source| ServeError::Listen { address, source })?;
    serve_on(listener, plane, config)
}

/// Like [`serve`], on a socket that listens already.
///
/// # Errors
/// [`ServeError`] if the settings, the socket or the TLS files do not work.
pub fn serve_on(
    listener: TcpListener,
    plane: Arc<dyn DataPlane>,
    config: ControlConfig,
) -> Result<ControlServer, ServeError> {
    config.validate()?;
    let address = listener.local_addr().map_err(ServeError::Listener)?;
    listener.set_nonblocking(true).map_err(ServeError::Listener)?;
    let metrics = config.metrics.map(listen).transpose()?;
    let metrics_address = metrics.as_ref().map(TcpListener::local_addr);
    let metrics_address = metrics_address.transpose().map_err(ServeError::Listener)?;
    let shared = Arc::new(Shared::new(Registry::new(plane, config.clone()), config));
    let router = router(&shared)?;
    let uplink = Uplink::new(&shared)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(ServeError::Thread)?;
    let incoming = {
        let _context = runtime.enter();
        TcpIncoming::from(tokio::net::TcpListener::from_std(listener).map_err(ServeError::Listener)?)
            .with_nodelay(Some(true))
    };
    let incoming = Incoming::new(incoming);
    let (stop, stopped) = oneshot::channel();
    let serving = serve_until_stopped(router, incoming, metrics, uplink, shared.clone(), stopped);
    let thread = std::thread::Builder::new()
        .name("tributary-control".into())
        .spawn(move || runtime.block_on(serving))
        .map_err(ServeError::Thread)?;
    tracing::info!(%address, "control service listens");
    if let Some(address) = metrics_address {
        tracing::info!("metrics for Prometheus at http://{address}/metrics");
    }
    Ok(ControlServer {
        address,
        metrics_address,
        shared,
        stop: Some(stop),
        thread: Some(thread),
    })
}

/// A socket that listens and does not block.
fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    let listener = TcpListener::bind(address).map_err(|source| ServeError::Listen { address, source })?;
    listener.set_nonblocking(true).map_err(ServeError::Listener)?;
    Ok(listener)
}

impl ControlServer {
    /// The address where Prometheus finds `/metrics`.
    pub fn metrics_addr(&self) -> Option<SocketAddr> {
        self.metrics_address
    }

    /// The address it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Number of jobs that run.
    pub fn running_jobs(&self) -> usize {
        self.shared.registry().running_jobs()
    }

    /// Takes no new worlds from now on; running jobs go on. For a host that waits for [`Self::running_jobs`] to
    /// reach 0 before it shuts down.
    pub fn drain(&self) {
        self.shared.registry().drain();
        self.shared.changed();
    }

    /// Aborts and releases all jobs, answers the calls that wait, and stops. Takes `shutdown_grace` at most, plus
    /// the time that the data plane needs.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        let Some(stop) = self.stop.take() else { return };
        self.shared.registry().close(Instant::now());
        self.shared.changed();
        // If the thread has ended, there is nobody to tell.
        let _ = stop.send(());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the control service's thread panicked");
        }
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn router(shared: &Arc<Shared>) -> Result<Router, ServeError> {
    let config = shared.config();
    let mut server = Server::builder()
        .max_concurrent_streams(MOST_CALLS)
        .http2_max_header_list_size(LARGEST_HEADERS)
        // A machine that vanished without closing its connections must not keep its rank seated.
        .http2_keepalive_interval(Some(config.lost_after / 2))
        .http2_keepalive_timeout(Some(config.lost_after / 2));
    if let Some(files) = &config.tls {
        let broken = |error: tonic::transport::Error| ServeError::Tls {
            files: files.clone(),
            detail: causes(&error),
        };
        server = server.tls_config(tls(files)?).map_err(broken)?;
    }
    let service = control_server::ControlServer::new(ControlService::new(shared.clone()));
    Ok(server.add_service(service.max_decoding_message_size(LARGEST_REQUEST)))
}

fn tls(files: &TlsConfig) -> Result<ServerTlsConfig, ServeError> {
    let identity = Identity::from_pem(read(&files.cert)?, read(&files.key)?);
    let authority = Certificate::from_pem(read(&files.client_ca)?);
    Ok(ServerTlsConfig::new()
        .identity(identity)
        .client_ca_root(authority)
        .timeout(HANDSHAKE_LIMIT))
}

fn read(path: &Path) -> Result<Vec<u8>, ServeError> {
    std::fs::read(path).map_err(|source| ServeError::TlsFile {
        path: path.into(),
        source,
    })
}

async fn serve_until_stopped(
    router: Router,
    incoming: Incoming<TcpIncoming>,
    metrics: Option<TcpListener>,
    uplink: Option<Uplink>,
    shared: Arc<Shared>,
    stopped: oneshot::Receiver<()>,
) {
    let reclaim = tokio::spawn(reclaim(shared.clone()));
    let metrics = metrics.map(|listener| tokio::spawn(metrics::serve(listener, shared.clone())));
    let (farewell, goodbye) = oneshot::channel();
    let uplink = uplink.map(|uplink| tokio::spawn(uplink.run(goodbye)));
    let (begin, begun) = oneshot::channel();
    let signal = async {
        // An error means that the handle is gone: stop as well.
        let _ = stopped.await;
        let _ = begin.send(());
        let _ = farewell.send(());
    };
    let grace = async {
        let _ = begun.await;
        tokio::time::sleep(shared.config().shutdown_grace).await;
    };
    tokio::select! {
        served = router.serve_with_incoming_shutdown(incoming, signal) => {
            if let Err(error) = served {
                tracing::error!("the control service failed: {}", causes(&error));
            }
        }
        () = grace => tracing::warn!("some calls were still open after the grace period"),
    }
    reclaim.abort();
    if let Some(metrics) = metrics {
        metrics.abort();
    }
    if let Some(uplink) = uplink {
        // It tells the parent of the jobs that were aborted, and ends by itself.
        let _ = tokio::time::timeout(shared.config().shutdown_grace, uplink).await;
    }
}

/// Looks for lost ranks often enough that the delay hardly matters.
async fn reclaim(shared: Arc<Shared>) {
    let period = (shared.config().lost_after / 10).clamp(Duration::from_millis(10), Duration::from_secs(1));
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let slept = Instant::now();
        interval.tick().await;
        if slept.elapsed() > period * 3 {
            // This process was stopped, or its machine: the heartbeats of that time wait in the sockets. Read them first.
            tokio::time::sleep(shared.config().heartbeat * 2).await;
        }
        if shared.registry().tick(Instant::now()) {
            shared.changed();
        }
    }
}

/// An error and what caused it, in one line.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Wrappers often repeat what they wrap.
        if !text.ends_with(&cause_text) {
            text += ": ";
            text += &cause_text;
        }
        next = cause.source();
    }
    text
}
