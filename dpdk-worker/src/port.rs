//! A port that runs, with its queues and what the streams share there.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use agg_host::frame::{End, Framing, Mac};
use dpdk_host::discovery::{self, Heard, Ours};
use dpdk_host::dpdk::{BURST, Burst, Mbuf, Pool, attach};
use dpdk_host::{Hop, Idle, Neighbours};

use crate::PortError;
use crate::frames::{Content, content};
use crate::inbox::Inbox;
use crate::queues::Queues;

/// The number of the one port.
const PORT: usize = 0;

/// How often it is looked whether neighbours are to be asked for, or a peer is gone.
const ASK: Duration = Duration::from_millis(10);

/// How long an answer is waited for at the start.
const PATIENCE: Duration = Duration::from_secs(3);

/// How long the thread that looks between operations sleeps.
const NAP: Duration = Duration::from_micros(500);

/// A port that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) about: Description,
    pub(crate) pool: Pool,
    pub(crate) queues: Queues,
    neighbours: Mutex<Neighbours>,
    clock: Instant,
    /// When it is looked next whether neighbours are to be asked for, in ns.
    ask: AtomicU64,
    /// A communicator has it.
    taken: AtomicBool,
}

/// What there is to know of a port before it runs.
#[derive(Debug)]
pub(crate) struct Description {
    pub(crate) device: String,
    pub(crate) mac: Mac,
    /// Where the first stream receives.
    pub(crate) address: SocketAddr,
    pub(crate) framing: Framing,
    pub(crate) checksums: bool,
    pub(crate) idle: Idle,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    pub(crate) fn new(about: Description, pool: Pool, neighbours: Neighbours, queues: Queues) -> Self {
        Self {
            about,
            pool,
            queues,
            neighbours: Mutex::new(neighbours),
            clock: Instant::now(),
            ask: AtomicU64::new(0),
            taken: AtomicBool::new(false),
        }
    }

    /// What is known of others, for another thread.
    pub(crate) fn neighbours(&self) -> Neighbours {
        lock(&self.neighbours).share()
    }

    /// Has it asked soon how somebody is reached, if that is not done anyway.
    pub(crate) fn want(&self, to: IpAddr) {
        let mut neighbours = lock(&self.neighbours);
        if !neighbours.wants(to) {
            neighbours.want(to);
            self.ask.store(0, Ordering::Relaxed);
        }
    }

    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    /// Asks for neighbours and looks for a lost peer, if it is time.
    pub(crate) fn look_round(&self, stream: usize) {
        let now = self.now();
        let due = self.ask.load(Ordering::Relaxed);
        let next = now + ASK.as_nanos() as u64;
        // Of several threads one asks.
        let is_ours = now >= due
            && self
                .ask
                .compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if !is_ours {
            return;
        }
        self.queues.look_for_peer();
        let due = lock(&self.neighbours).due(now);
        for who in due {
            let question = discovery::ask(&self.ours(), who);
            if let Some((question, mbuf)) = question.zip(self.pool.take()) {
                self.say(&question, mbuf, stream);
            }
        }
    }

    /// The port's addresses.
    fn ours(&self) -> Ours {
        Ours {
            mac: self.about.mac,
            ip: self.about.address.ip(),
            vlan: self.about.framing.vlan(),
        }
    }

    /// What a stream's packets come from.
    pub(crate) fn end(&self, stream_address: SocketAddr) -> End {
        End {
            mac: self.about.mac,
            address: stream_address,
        }
    }

    /// What is in a frame that came.
    pub(crate) fn content(&self, mbuf: &Mbuf) -> Content {
        content(mbuf, &self.ours())
    }

    /// Takes in what a neighbour says, and answers it in the frame that it came in.
    pub(crate) fn hear(&self, heard: Heard, mbuf: Mbuf, stream: usize) {
        if let Some((who, mac)) = heard.said {
            let hop = Hop { port: PORT, mac };
            lock(&self.neighbours).learn(who, hop, self.now());
        }
        if let Some(answer) = heard.answer {
            self.say(&answer, mbuf, stream);
        }
    }

    /// Sends it at once. What the port does not take now is asked or said again later.
    fn say(&self, frame: &[u8], mut mbuf: Mbuf, stream: usize) {
        mbuf.set_len(frame.len());
        mbuf.bytes_mut().copy_from_slice(frame);
        let mut burst = Burst::default();
        if burst.push(mbuf).is_ok() {
            self.queues.send(stream, &mut burst);
        }
    }
}

/// A port in the hands of a communicator.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) running: Arc<Running>,
    pub(crate) inboxes: Vec<Inbox>,
    pub(crate) addresses: Vec<SocketAddr>,
}

impl Taken {
    /// Takes a port for so many streams.
    ///
    /// # Errors
    /// Somebody else has it, or there are not so many UDP ports.
    pub(crate) fn new(running: &Arc<Running>, streams: u16) -> Result<Self, PortError> {
        let first = running.about.address.port();
        if first.checked_add(streams.saturating_sub(1)).is_none() {
            return Err(PortError::Streams { streams, first });
        }
        if running.taken.swap(true, Ordering::AcqRel) {
            return Err(PortError::Taken(running.about.device.clone()));
        }
        let ip = running.about.address.ip();
        let address = |stream| SocketAddr::from((ip, first + stream));
        Ok(Self {
            running: Arc::clone(running),
            inboxes: (0..streams).map(|_| Inbox::default()).collect(),
            addresses: (0..streams).map(address).collect(),
        })
    }

    /// The stream that receives at a UDP port.
    pub(crate) fn stream(&self, udp_port: u16) -> Option<usize> {
        let stream = usize::from(udp_port.checked_sub(self.running.about.address.port())?);
        (stream < self.inboxes.len()).then_some(stream)
    }

    /// Waits until it is known how an aggregator is reached.
    ///
    /// # Errors
    /// Nobody answers.
    pub(crate) fn find(&self, aggregator: IpAddr, hop: IpAddr) -> Result<(), PortError> {
        let began = Instant::now();
        let mut neighbours = self.running.neighbours();
        self.running.want(aggregator);
        while neighbours.hop(aggregator).is_none() {
            if began.elapsed() > PATIENCE {
                return Err(PortError::NoAnswer {
                    hop,
                    device: self.running.about.device.clone(),
                });
            }
            self.look();
            std::thread::sleep(NAP);
            neighbours.refresh();
        }
        Ok(())
    }

    /// Waits until there is something for a stream.
    pub(crate) fn wait(&self, limit: Duration) {
        let began = Instant::now();
        loop {
            self.look();
            let left = limit.saturating_sub(began.elapsed());
            if left.is_zero() || self.inboxes.iter().any(|inbox| !inbox.is_empty()) {
                return;
            }
            std::thread::sleep(left.min(NAP));
        }
    }

    /// Sorts what has come to all queues.
    fn look(&self) {
        attach(&self.running.pool);
        let mut came = Burst::default();
        for stream in 0..self.running.queues.len() {
            self.running.look_round(stream);
            self.running.queues.receive(stream, BURST, &mut came);
            for mbuf in came.drain() {
                self.sort(mbuf, stream);
            }
        }
    }

    /// Puts a frame that came to a stream's queue where it belongs.
    fn sort(&self, mbuf: Mbuf, stream: usize) {
        match self.running.content(&mbuf) {
            Content::Datagram { to, .. } => self.pass_on(to, mbuf),
            Content::Discovery(heard) => self.running.hear(heard, mbuf, stream),
            Content::Foreign => {}
        }
    }

    /// Gives a frame to the stream at a UDP port; for nobody, or where it is full, it is lost.
    pub(crate) fn pass_on(&self, udp_port: u16, mbuf: Mbuf) {
        if let Some(stream) = self.stream(udp_port) {
            self.inboxes[stream].push(mbuf);
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.running.taken.store(false, Ordering::Release);
    }
}
