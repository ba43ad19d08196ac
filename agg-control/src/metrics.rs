//! What a status shows, as a page that Prometheus reads (OpenMetrics 1.0 text format).

use std::fmt;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use crate::messages::{JobStatus, RankStatus, Status};
use crate::service::Shared;

/// Content type of the format: OpenMetrics 1.0, "Overall Structure".
const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");

type Labels = Vec<(&'static str, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;

/// Serves the page at `/metrics` as long as the returned future is polled.
pub(crate) async fn serve(listener: TcpListener, shared: Arc<Shared>) {
    let router = Router::new().route("/metrics", get(page)).with_state(shared);
    let served = match tokio::net::TcpListener::from_std(listener) {
        Ok(listener) => axum::serve(listener, router).await,
        Err(error) => Err(error),
    };
    if let Err(error) = served {
        tracing::error!(%error, "metrics are not served any more");
    }
}

async fn page(State(shared): State<Arc<Shared>>) -> impl IntoResponse {
    let status = shared.registry().status(Instant::now());
    let mut headers = HeaderMap::new();
    match text(&status) {
        Ok(text) => {
            headers.insert(CONTENT_TYPE, OPEN_METRICS);
            (StatusCode::OK, headers, text)
        }
        Err(fmt::Error) => (StatusCode::INTERNAL_SERVER_ERROR, headers, String::new()),
    }
}

/// The page. All names begin with `tributary_`.
fn text(status: &Status) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("tributary");
    host(&mut registry, status);
    let shards = Family::<Labels, Counter>::default();
    for shard in &status.shards {
        for (name, value) in &shard.values {
            let labels = vec![("shard", shard.shard.to_string()), ("event", name.clone())];
            shards.get_or_create(&labels).inc_by(*value);
        }
    }
    registry.register("events", "What happened to packets and frames, by shard", shards);
    jobs(&mut registry, &status.jobs);
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

fn host(registry: &mut Registry, status: &Status) {
    let about = &status.description.host;
    let host = Gauges::default();
    let labels = vec![
        ("kind", about.kind.to_string()),
        ("version", about.version.clone()),
    ];
    host.get_or_create(&labels).set(1.0);
    registry.register("host", "1, for the host of this kind and version", host);
    let mut gauge = |name, help, unit: Option<Unit>, value: f64| {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(value);
        match unit {
            Some(unit) => registry.register_with_unit(name, help, unit, gauge),
            None => registry.register(name, help, gauge),
        }
    };
    gauge(
        "epoch",
        "The epoch, higher after each start",
        None,
        about.epoch.into(),
    );
    gauge("shards", "Shards", None, about.shards.into());
    gauge(
        "slot_memory",
        "Slot memory of a shard",
        Some(Unit::Bytes),
        about.memory_per_shard as f64,
    );
    gauge(
        "slot_memory_free",
        "The largest job that would fit the fullest shard",
        Some(Unit::Bytes),
        status.description.memory_free as f64,
    );
    gauge(
        "draining",
        "1 if no new worlds are taken",
        None,
        status.draining.into(),
    );
    let queued = status.waiting.iter().filter(|world| world.queued).count();
    gauge(
        "worlds_waiting_for_ranks",
        "Worlds of which ranks have not registered",
        None,
        (status.waiting.len() - queued) as f64,
    );
    gauge(
        "worlds_waiting_for_memory",
        "Worlds whose ranks are all there and wait for memory",
        None,
        queued as f64,
    );
}

fn jobs(registry: &mut Registry, jobs: &[JobStatus]) {
    let running = Gauge::<f64, AtomicU64>::default();
    running.set(jobs.iter().filter(|job| job.aborted.is_none()).count() as f64);
    registry.register("jobs_running", "Jobs that run", running);
    let families = Families::default();
    for job in jobs.iter().filter(|job| job.aborted.is_none()) {
        families.add(job);
    }
    families.register(registry);
}

/// What is shown of each job and of each of its members.
#[derive(Default)]
struct Families {
    ranks: Gauges,
    age: Gauges,
    progress: Gauges,
    lag_chunks: Gauges,
    waited: Gauges,
    heard: Gauges,
}

impl Families {
    fn add(&self, job: &JobStatus) {
        let labels = vec![("world", job.name.clone())];
        let set = |family: &Gauges, labels: &Labels, value: f64| {
            family.get_or_create(labels).set(value);
        };
        set(&self.ranks, &labels, job.workers.into());
        set(&self.age, &labels, seconds(job.age));
        for member in &job.ranks {
            let labels = of_rank(job, member);
            set(&self.progress, &labels, member.progress as f64);
            set(&self.lag_chunks, &labels, member.lag_chunks as f64);
            set(&self.waited, &labels, seconds(member.lag));
            set(&self.heard, &labels, seconds(member.heard));
        }
    }

    fn register(self, registry: &mut Registry) {
        registry.register("job_ranks", "Ranks of a running job", self.ranks);
        let unit = || Unit::Seconds;
        registry.register_with_unit("job_age", "Since all ranks had registered", unit(), self.age);
        registry.register(
            "rank_progress_chunks",
            "Chunks whose result a rank has, as its last heartbeat said",
            self.progress,
        );
        registry.register(
            "rank_lag_chunks",
            "Chunks that a rank is behind the first",
            self.lag_chunks,
        );
        registry.register_with_unit(
            "rank_lag",
            "How long slots have waited for a rank",
            unit(),
            self.waited,
        );
        registry.register_with_unit(
            "rank_heard",
            "Since a rank was heard on the control service",
            unit(),
            self.heard,
        );
    }
}

/// A leaf goes by the lowest of its ranks.
fn of_rank(job: &JobStatus, member: &RankStatus) -> Labels {
    vec![("world", job.name.clone()), ("rank", member.rank.to_string())]
}

fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}
