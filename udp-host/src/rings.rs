//! Members of a shard that are attached by shared memory: a ring each way, instead of datagrams.

use std::collections::BTreeMap;

use agg_control::attached_address;
use agg_core::Endpoint;
use shm_io::{Line, PacketBuffer, Receiver, Sender};
use udp_io::QueueSet;

/// Whose packet it is, and what came of it.
pub(crate) struct Taken {
    pub(crate) name: u64,
    pub(crate) source: Endpoint,
    pub(crate) len: usize,
}

/// The rings of a shard, by the names that the host has given them.
#[derive(Default)]
pub(crate) struct Rings {
    rings: BTreeMap<u64, Ring>,
    /// The ring that was taken from last, for each queue that has some.
    last: BTreeMap<usize, u64>,
    /// Packets that no ring had room for.
    dropped: u64,
    /// Packets of members that were longer than any job has.
    too_long: u64,
    /// The shard has said that it sleeps.
    dozing: bool,
}

struct Ring {
    send: Sender,
    receive: Receiver,
    /// The job that its member is registered with, and the queue that this has.
    job: Option<u64>,
    queue: usize,
    /// Something was sent to it, or taken from it, since it was last published.
    touched: bool,
}

impl Rings {
    pub(crate) fn add(&mut self, line: Line) {
        if self.dozing {
            line.doze(false);
        }
        let name = line.name();
        let (send, receive) = line.split();
        let ring = Ring {
            send,
            receive,
            job: None,
            queue: 0,
            touched: false,
        };
        self.rings.insert(name, ring);
    }

    /// What they take of the machine's memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.rings.values().map(|ring| ring.send.line().bytes()).sum()
    }

    /// How many have no job, or none yet.
    pub(crate) fn idle(&self) -> usize {
        self.rings.values().filter(|ring| ring.job.is_none()).count()
    }

    /// Packets that no ring had room for.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Packets of members that were dropped since they were longer than any job has.
    pub(crate) fn too_long(&self) -> u64 {
        self.too_long
    }

    /// Whether a member of this job may have this name: it is attached here, and of no other job.
    pub(crate) fn can_be_of(&self, name: u64, job: u64) -> bool {
        let ring = self.rings.get(&name);
        ring.is_some_and(|ring| ring.job.is_none_or(|other| other == job))
    }

    /// A member belongs to a job now, which has that queue.
    pub(crate) fn assign(&mut self, name: u64, job: u64, queue: usize) {
        if let Some(ring) = self.rings.get_mut(&name) {
            (ring.job, ring.queue) = (Some(job), queue);
        }
    }

    /// A job has ended: its members' packets are of no job.
    pub(crate) fn release(&mut self, job: u64) {
        for ring in self.rings.values_mut().filter(|ring| ring.job == Some(job)) {
            (ring.job, ring.queue) = (None, 0);
        }
    }

    /// The queues whose jobs have packets in rings.
    pub(crate) fn ready(&self) -> QueueSet {
        let mut ready = QueueSet::default();
        let waiting = self
            .rings
            .values()
            .filter(|ring| ring.receive.line().has_packets());
        waiting.for_each(|ring| ready.insert(ring.queue));
        ready
    }

    /// Says to all members that this shard is about to sleep; `false` if there is something to do after all.
    pub(crate) fn doze(&mut self) -> bool {
        self.dozing = true;
        let mut idle = true;
        for ring in self.rings.values() {
            idle &= !ring.receive.line().doze(false);
        }
        idle
    }

    /// Says that this shard is awake. Of the members in `rung`, and only of these, the sockets had something. Who has gone
    /// is forgotten.
    pub(crate) fn rise(&mut self, rung: &[u64]) {
        if !std::mem::take(&mut self.dozing) && rung.is_empty() {
            return;
        }
        self.rings.retain(|name, ring| {
            let line = ring.receive.line();
            line.rise(rung.contains(name));
            line.answer();
            let is_there = !line.has_hung_up();
            if !is_there {
                tracing::debug!(
                    name,
                    job = ring.job,
                    "a member attached by shared memory has gone"
                );
            }
            is_there
        });
    }

    /// Takes the next packet of a queue's jobs, from one ring after the other.
    pub(crate) fn take(&mut self, queue: usize, packet: &mut PacketBuffer) -> Option<Taken> {
        let last = self.last.entry(queue).or_insert(0);
        let after = (std::ops::Bound::Excluded(*last), std::ops::Bound::Unbounded);
        let ahead = self.rings.range(after).chain(self.rings.range(..=*last));
        let mut names = ahead.filter(|(_, ring)| ring.queue == queue && ring.receive.line().has_packets());
        let name = *names.next()?.0;
        drop(names);
        *last = name;
        let ring = self.rings.get_mut(&name)?;
        ring.touched = true;
        let before = ring.receive.oversized();
        let received = ring.receive.receive(packet);
        self.too_long += ring.receive.oversized() - before;
        match received {
            Ok(Some(bytes)) => Some(Taken {
                name,
                source: Endpoint::from(attached_address(name)),
                len: bytes.len(),
            }),
            // Only packets that were too long.
            Ok(None) => self.take(queue, packet),
            Err(error) => {
                tracing::warn!(
                    name,
                    job = ring.job,
                    "a member attached by shared memory is let go: {error}"
                );
                self.rings.remove(&name);
                self.take(queue, packet)
            }
        }
    }

    /// Sends a packet to a member, if it is attached and has room.
    pub(crate) fn send(&mut self, name: u64, packet: &[u8]) {
        let ring = self.rings.get_mut(&name);
        let sent = ring.is_some_and(|ring| {
            ring.touched = true;
            ring.send.push(packet)
        });
        self.dropped += u64::from(!sent);
    }

    /// Lets members see what was sent to them.
    pub(crate) fn publish(&mut self) {
        for ring in self.rings.values_mut().filter(|ring| ring.touched) {
            ring.touched = false;
            ring.send.publish();
        }
    }
}
