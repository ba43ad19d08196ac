//! What a worker can be fed, in small steps that shrink.

use agg_core::Epoch;
use agg_core::worker::{Boundary, Membership};

use crate::checksum::seal;
use crate::harness::random::Random;
use crate::harness::{Data, Values, Watch};
use crate::kind::{ElementKind, ModelKind};
use crate::packet::{HEADER, ModelPacket, REFUSAL, WANT, members};
use crate::{ModelJob, ModelMember, ModelQuorum};

/// How long an operation may be without progress, in ns.
const TIMEOUT: u64 = 2_000_000_000;

/// One thing that happens to a worker. `pick` chooses among its contributions in flight, `epoch` is an offset to
/// the worker's own.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
#[expect(missing_docs, reason = "named by what is fed")]
pub enum Meal {
    /// A right result.
    Result { pick: u8, next: i8, nonfinite: bool },
    /// A result of these members, which may not be all, that says to stand for so many workers.
    ResultOf { pick: u8, set: u64, workers: u8 },
    /// The same for a chunk that is due and was not sent.
    Unsent { set: u64, workers: u8 },
    /// A result with a wrong bit in its header, under a check that is right.
    ResultWrong { pick: u8, bit: u16 },
    /// A result with a bit of its header flipped on the way.
    ResultDamaged { pick: u8, bit: u16 },
    /// A result that is longer or shorter.
    ResultResized { pick: u8, by: i16 },
    /// A result that was taken before.
    Old(u8),
    /// A result for the round after one that was taken: of a chunk that may be due but was not sent.
    Early(u8),
    /// A Want for what is in flight, carrying any set.
    Want { pick: u8, set: u64, epoch: i8 },
    /// A Want for what was finished.
    WantKept { pick: u8, epoch: i8 },
    /// A refusal of an old epoch.
    OldEpoch { epoch: i8 },
    /// Any refusal for what is in flight.
    Refusal {
        pick: u8,
        reason: i16,
        epoch: i8,
        member: u8,
    },
    /// Any bytes.
    Bytes(Vec<u8>),
    /// Any fields behind the right key, with the right check.
    Sealed([u8; 32]),
    /// Microseconds pass.
    Wait(u16),
    /// So many more things happen (wrapping at 8) before the host asks the worker for packets again.
    Busy(u8),
    /// A new place: another number, so many workers less (wrapping at 2), so many epochs on.
    Rejoin {
        member: u8,
        fewer: u8,
        epoch: u8,
        lost: Option<Lost>,
    },
    /// The next operation, if none is under way.
    Start { elements: u16, kind: u8 },
    /// The operation after the one under way, as [`Meal::Start`] would choose it; it is the next that starts.
    Announce { elements: u16, kind: u8 },
}

/// What ends when a rank was lost.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Lost {
    /// The furthest operation that another rank can be in; else the worker's own.
    pub ahead: bool,
    /// So many chunks further than the worker's own are others.
    pub chunks: u8,
}

/// Who is fed.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Guest {
    /// Workers of the job.
    pub workers: u8,
    /// The window is 2 to this power, wrapping at 5.
    pub window: u8,
    /// The round that it begins with.
    pub first_round: u32,
    /// Whether its job has a quorum.
    pub quorum: bool,
}

impl Guest {
    /// The job, of single workers with chunks of 16 lanes.
    pub fn job(&self) -> ModelJob {
        let member = |number: u8| ModelMember {
            source: ([0; 16], u16::from(number)),
            set: [number].into(),
            workers: 1,
        };
        let members = (0..self.workers.clamp(1, 64)).map(member).collect();
        let mut job = ModelJob::new(0x5eed, members, 16, 1 << (self.window % 5));
        job.quorum = self.quorum.then_some(ModelQuorum { members: 1, grace: 0 });
        job
    }

    /// Member `member` of that job; not of epoch 0, so that there are older ones.
    pub fn watch(&self, member: u8, timeout: u64) -> Watch {
        let job = self.job();
        let place = Membership {
            epoch: Epoch(10),
            member,
            members: job.members.len() as u8,
            workers: job.members.len() as u32,
        };
        let first_chunk = u64::from(self.first_round) * u64::from(job.window);
        Watch::new(&job, place, timeout, first_chunk)
    }
}

/// A watched worker, fed.
#[derive(Clone, Debug)]
pub struct Feed {
    watch: Watch,
    key: u64,
    workers: u32,
    random: Random,
    now: u64,
    /// What is left of [`Meal::Busy`].
    busy: u8,
    /// What was announced.
    announced: Option<Values>,
}

impl Feed {
    /// A worker that has just joined, and started nothing.
    pub fn new(guest: &Guest) -> Self {
        let job = guest.job();
        let mut feed = Self {
            watch: guest.watch(0, TIMEOUT),
            key: job.key,
            workers: job.members.len() as u32,
            random: Random::new(u64::from(guest.first_round)),
            now: 1_000_000,
            busy: 0,
            announced: None,
        };
        feed.eat(&Meal::Start {
            elements: 100,
            kind: 1,
        });
        feed
    }

    /// The worker.
    pub fn watch(&self) -> &Watch {
        &self.watch
    }

    /// One thing happens; then the worker does what is due and, mostly, sends all that it has. Panics where a rule is broken.
    pub fn eat(&mut self, meal: &Meal) {
        match meal {
            Meal::Start { elements, kind } => self.start(*elements, *kind),
            Meal::Announce { elements, kind } => self.announce(*elements, *kind),
            Meal::Rejoin {
                member,
                fewer,
                epoch,
                lost,
            } => self.rejoin(member % 64, fewer % 2, epoch % 4, *lost),
            Meal::Busy(meals) => self.busy = meals % 8 + 1,
            Meal::Wait(micros) => self.now += u64::from(*micros) * 1_000,
            _ => {
                if let Some(bytes) = self.serve(meal) {
                    self.watch.handle(self.now, &bytes);
                }
            }
        }
        if self.watch.next_timeout().is_some_and(|due| due <= self.now) {
            self.watch.handle_timeout(self.now);
        }
        self.busy = self.busy.saturating_sub(1);
        if self.busy == 0 {
            while self.watch.transmit(self.now).is_some() {}
        }
    }

    fn start(&mut self, elements: u16, kind: u8) {
        if self.watch.is_busy() || self.watch.failure().is_some() {
            return;
        }
        // Unless it was taken back, since a rank was lost.
        let announced = self.announced.take().filter(|_| self.watch.has_announced());
        if let Some(values) = announced.or_else(|| self.values(elements, kind)) {
            self.watch.start(values, self.now);
        }
    }

    fn announce(&mut self, elements: u16, kind: u8) {
        if let Some(mut values) = self.values(elements, kind)
            && self.watch.announce(&mut values)
        {
            self.announced = Some(values);
        }
    }

    fn values(&mut self, elements: u16, kind: u8) -> Option<Values> {
        let elements = usize::from(elements) % 1_000 + 1;
        let kinds = ModelKind::all();
        // A quarter each of sums with feedback and of what trains a model, the rest of everything there is.
        Some(match kind {
            0..64 => {
                let mut values = self.random.floats(elements, -60, 60);
                if self.random.permille(200) {
                    values[self.random.below(elements as u64) as usize] = f32::NAN;
                }
                let narrowest = if self.workers > 32 { 2 } else { 3 };
                let bits = [32, 16, 8][usize::from(kind) % narrowest];
                Values::feedback(values, vec![9.0; elements], bits)
            }
            64..128 => Values::f32(self.random.floats(elements, -60, 60)),
            _ => match kinds[usize::from(kind) % kinds.len()] {
                ModelKind::Barrier => Values::BARRIER,
                kind if self.workers > kind.most_workers() => return None,
                kind @ ModelKind::Reduce {
                    element: ElementKind::I32,
                    ..
                } => Values {
                    kind,
                    data: Data::I32(self.random.integers(elements)),
                },
                kind => Values::floats_of(kind, self.random.floats(elements, -60, 60)),
            },
        })
    }

    fn rejoin(&mut self, member: u8, fewer: u8, epoch: u8, lost: Option<Lost>) {
        self.workers = (self.workers - u32::from(fewer)).max(1);
        let place = Membership {
            epoch: Epoch(self.watch.epoch() + 1 + u32::from(epoch)),
            member,
            members: self.workers as u8,
            workers: self.workers,
        };
        let boundary = lost.map(|lost| {
            let (operation, next_chunk) = match lost.ahead {
                true => self.watch.furthest(),
                false => self.watch.position(),
            };
            Boundary {
                operation,
                next_chunk: next_chunk + u64::from(lost.chunks),
            }
        });
        self.watch.rejoin(place, boundary, self.now);
    }

    /// The bytes of a meal; none where it has none, or needs a contribution in flight or a kept result and there is
    /// none.
    fn serve(&mut self, meal: &Meal) -> Option<Vec<u8>> {
        let at = |pick: u8, count: usize| usize::from(pick) % count.max(1);
        let in_flight = |pick: u8| {
            self.watch
                .in_flight()
                .nth(at(pick, self.watch.in_flight().count()))
                .cloned()
        };
        let kept = |pick: u8| {
            self.watch
                .kept()
                .nth(at(pick, self.watch.kept().count()))
                .cloned()
        };
        let result = |pick: u8| in_flight(pick).map(|sent| self.watch.result_for(&sent));
        let epoch = |by: i8| self.watch.epoch().saturating_add_signed(i32::from(by));
        let from_aggregator = |packet: ModelPacket, kind: u8, by: i8| {
            let epoch = epoch(by);
            ModelPacket {
                kind,
                up: false,
                result: false,
                member: 255,
                epoch,
                rest: Vec::new(),
                ..packet
            }
        };
        Some(match *meal {
            Meal::Wait(_)
            | Meal::Busy(_)
            | Meal::Start { .. }
            | Meal::Announce { .. }
            | Meal::Rejoin { .. } => return None,
            Meal::Result {
                pick,
                next,
                nonfinite,
            } => {
                let mut packet = result(pick)?;
                packet.next = (next != i8::MIN).then_some(i16::from(next));
                packet.nonfinite |= nonfinite;
                packet.emit()
            }
            Meal::ResultOf { pick, set, workers } => ModelPacket {
                set: members(set),
                workers: u32::from(workers),
                ..result(pick)?
            }
            .emit(),
            Meal::Unsent { set, workers } => ModelPacket {
                set: members(set),
                workers: u32::from(workers),
                ..self.watch.result_before_sending()?
            }
            .emit(),
            Meal::ResultWrong { pick, bit } => {
                let mut bytes = result(pick)?.emit();
                let header = bytes.first_chunk_mut::<HEADER>()?;
                header[usize::from(bit) / 8 % HEADER] ^= 1 << (bit % 8);
                seal(header);
                bytes
            }
            Meal::ResultDamaged { pick, bit } => {
                let mut bytes = result(pick)?.emit();
                bytes[usize::from(bit) / 8 % HEADER] ^= 1 << (bit % 8);
                bytes
            }
            Meal::ResultResized { pick, by } => {
                let mut bytes = result(pick)?.emit();
                bytes.resize((bytes.len() as i64 + i64::from(by)).clamp(0, 300) as usize, 7);
                bytes
            }
            Meal::Old(pick) => kept(pick)?.emit(),
            Meal::Early(pick) => {
                let kept = kept(pick)?;
                ModelPacket {
                    round: kept.round.wrapping_add(1),
                    ..kept
                }
                .emit()
            }
            Meal::Want { pick, set, epoch } => ModelPacket {
                set: members(set),
                ..from_aggregator(in_flight(pick)?, WANT, epoch)
            }
            .emit(),
            Meal::WantKept { pick, epoch } => from_aggregator(kept(pick)?, WANT, epoch).emit(),
            Meal::OldEpoch { epoch } => {
                let packet = in_flight(0).or_else(|| kept(0))?;
                ModelPacket {
                    scale: Some(3),
                    ..from_aggregator(packet, REFUSAL, epoch)
                }
                .emit()
            }
            Meal::Refusal {
                pick,
                reason,
                epoch,
                member,
            } => {
                let packet = from_aggregator(in_flight(pick)?, REFUSAL, epoch);
                ModelPacket {
                    scale: Some(reason),
                    member,
                    ..packet
                }
                .emit()
            }
            Meal::Bytes(ref bytes) => bytes.clone(),
            Meal::Sealed(fields) => {
                let mut header = [0; HEADER];
                header[..3].copy_from_slice(&[0x54, 0x52, 1]);
                // Most of the kinds and flags that there are, and a slot that may be in the window.
                (header[3], header[4], header[5]) = (fields[0] % 4, fields[1] & 0x1e, fields[2]);
                header[6] = fields[3] % 32;
                header[8..16].copy_from_slice(&self.key.to_le_bytes());
                header[16] = fields[4] % 16;
                header[20] = fields[5] % 8;
                header[24..50].copy_from_slice(&fields[6..32]);
                seal(&mut header);
                header.to_vec()
            }
        })
    }
}
