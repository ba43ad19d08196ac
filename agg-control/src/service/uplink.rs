//! The calls of an aggregator to its parent. What to call, and what follows from the answers, the registry decides.

mod calls;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tonic::transport::Endpoint;

use self::calls::Parent;
use super::Shared;
use crate::client::ControlError;
use crate::client::connect::endpoint;
use crate::proto::control_client::ControlClient as Stub;
use crate::registry::Ask;

/// How often the registry is asked what it wants, if nothing else happens: below its shortest pause.
const PERIOD: Duration = Duration::from_millis(20);

/// The connection to the parent, and the calls that are under way.
pub(crate) struct Uplink {
    shared: Arc<Shared>,
    endpoint: Endpoint,
    address: String,
}

impl Uplink {
    /// None without a parent.
    pub(crate) fn new(shared: &Arc<Shared>) -> Result<Option<Self>, ControlError> {
        let Some(parent) = &shared.config().parent else {
            return Ok(None);
        };
        let lost_after = shared.config().lost_after;
        let endpoint = endpoint(&parent.address, parent.tls.as_ref())?
            .connect_timeout(lost_after)
            .http2_keep_alive_interval(lost_after / 2)
            .keep_alive_timeout(lost_after / 2);
        Ok(Some(Self {
            shared: shared.clone(),
            endpoint,
            address: parent.address.clone(),
        }))
    }

    /// Runs until `goodbye` comes or its sender is gone; then says the last words.
    pub(crate) async fn run(self, mut goodbye: oneshot::Receiver<()>) {
        let config = self.shared.config();
        let parent = Parent {
            stub: Stub::new(self.endpoint.connect_lazy()),
            address: self.address,
            patience: config.lost_after / 2,
            longest: config.lost_after,
        };
        let mut calls = Calls {
            shared: self.shared.clone(),
            parent,
            running: JoinSet::new(),
            registering: HashMap::new(),
        };
        let mut changes = self.shared.changes();
        let mut stopping = false;
        while !stopping {
            tokio::select! {
                _ = &mut goodbye => stopping = true,
                // The sender lives in `shared`: this cannot fail.
                _ = changes.changed() => {}
                () = tokio::time::sleep(PERIOD) => {}
            }
            calls.make(stopping);
        }
        calls.finish().await;
    }
}

struct Calls {
    shared: Arc<Shared>,
    parent: Parent,
    running: JoinSet<()>,
    /// The calls that register a world. An earlier one is left to end by itself: the parent supersedes it.
    registering: HashMap<String, Vec<AbortHandle>>,
}

impl Calls {
    /// Makes the calls that the registry wants. Before the end only last words are of use.
    fn make(&mut self, stopping: bool) {
        while self.running.try_join_next().is_some() {}
        let asks = self.shared.registry().upstream_wants(Instant::now());
        for ask in asks {
            let is_last_word = matches!(ask, Ask::Abort { .. } | Ask::Leave { .. });
            if stopping && !is_last_word {
                continue;
            }
            self.start(ask);
        }
        self.withdraw();
    }

    fn start(&mut self, ask: Ask) {
        let (shared, parent) = (self.shared.clone(), self.parent.clone());
        match ask {
            Ask::Register { world, version } => {
                let call = self
                    .running
                    .spawn(calls::register(shared, parent, world.clone(), version));
                self.registering.entry(world).or_default().push(call);
            }
            Ask::Heartbeat { member, progress } => {
                self.running
                    .spawn(calls::heartbeat(shared, parent, member, progress));
            }
            Ask::Abort { member, reason } => {
                self.running.spawn(calls::abort(parent, member, reason));
            }
            Ask::Leave { member } => {
                self.running.spawn(calls::leave(parent, member));
            }
        }
    }

    /// Ends the calls of worlds that nobody waits for any more, which withdraws them at the parent.
    fn withdraw(&mut self) {
        let registry = self.shared.registry();
        self.registering.retain(|world, calls| {
            calls.retain(|call| !call.is_finished());
            if !registry.upstream_waits(world) {
                calls.iter().for_each(AbortHandle::abort);
                calls.clear();
            }
            !calls.is_empty()
        });
    }

    async fn finish(mut self) {
        for call in self.registering.values().flatten() {
            call.abort();
        }
        while self.running.join_next().await.is_some() {}
    }
}
