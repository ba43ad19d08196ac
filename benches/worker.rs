//! What a worker spends on a chunk: `Worker::transmit` and `Worker::handle`, with values of both types.
//!
//! The worker is the only member of its job, so that a contribution is its own result: it comes back with another
//! header. Each half is timed while the other runs; operations are whole, with the exponents that they need.

use std::hint::black_box;
use std::time::Duration;

use agg_core::wire::{Flags, HEADER_LEN, Header, NO_MEMBER, packet_len};
use agg_core::worker::SlotState;
use agg_core::{Lanes, OpKind, Operation, Policy, Tensor, Worker, WorkerConfig};
use benches::cpu_time::{self, CpuTime};
use benches::isa::{Isa, Work};
use benches::packets::{EPOCH, KEY};
use criterion::{Criterion, criterion_group, criterion_main};

const LANES: Lanes = Lanes::L352;
const WINDOW: u16 = 64;
/// Chunks of an operation: many windows, so that header-only chunks count as they do in use.
const CHUNKS: usize = 32 * WINDOW as usize;

/// Elements of one type.
enum Elements {
    I32(Vec<i32>),
    F32(Vec<f32>),
}

impl Elements {
    fn tensor(&mut self) -> Tensor<'_> {
        match self {
            Self::I32(values) => Tensor::I32(values),
            Self::F32(values) => Tensor::F32(values),
        }
    }

    fn kind(&self) -> OpKind {
        match self {
            Self::I32(_) => OpKind::SUM_I32,
            Self::F32(_) => OpKind::SUM_F32,
        }
    }
}

struct Stream {
    worker: Worker<Vec<SlotState>, Vec<i32>>,
    elements: Elements,
    /// The packets of a window, and their lengths.
    packets: Vec<(Vec<u8>, usize)>,
    now: u64,
}

impl Stream {
    fn new(elements: Elements) -> Self {
        let config = WorkerConfig {
            key: KEY,
            epoch: EPOCH,
            member: 0,
            members: 1,
            workers: 1,
            lanes: LANES,
            window: WINDOW,
            policy: Policy::All,
            timeout: u64::MAX / 2,
            first_chunk: 0,
        };
        let window = usize::from(WINDOW);
        let memory = (
            vec![SlotState::default(); window],
            vec![0; window * LANES.count()],
        );
        Self {
            worker: Worker::new(config, memory.0, memory.1).expect("the memory fits"),
            elements,
            packets: vec![(vec![0; packet_len(LANES.count())], 0); window],
            now: 1,
        }
    }

    /// Runs a whole operation; returns the time spent on sending and on receiving.
    fn operation(&mut self, isa: Isa) -> (Duration, Duration) {
        let elements = (CHUNKS * LANES.count()) as u64;
        let operation = Operation {
            kind: self.elements.kind(),
            elements,
        };
        self.worker
            .start(operation, elements, self.now)
            .expect("the last operation has ended");
        let mut spent = (Duration::ZERO, Duration::ZERO);
        while self.worker.is_busy() {
            self.now += 10_000;
            let begin = cpu_time::now();
            isa.run(&mut Transmit(self));
            spent.0 += cpu_time::now() - begin;
            for (packet, len) in &mut self.packets {
                as_result(&mut packet[..*len]);
            }
            let begin = cpu_time::now();
            isa.run(&mut Receive(self));
            spent.1 += cpu_time::now() - begin;
        }
        assert_eq!(self.worker.failure(), None);
        spent
    }
}

/// Turns a contribution into the result of a job of one worker.
fn as_result(packet: &mut [u8]) {
    let Some(front) = packet.first_chunk_mut::<HEADER_LEN>() else {
        return;
    };
    let header = Header::parse(front).expect("a packet of ours");
    let shape = header.flags.and(Flags::HEADER_ONLY.with(Flags::NONFINITE));
    *front = Header {
        flags: shape.with(Flags::RESULT),
        member: NO_MEMBER,
        ..header
    }
    .emit();
}

struct Transmit<'s>(&'s mut Stream);

impl Work for Transmit<'_> {
    #[inline(always)]
    fn work(&mut self) {
        let Stream {
            worker,
            elements,
            packets,
            now,
        } = &mut *self.0;
        let tensor = elements.tensor();
        for (packet, len) in packets {
            *len = black_box(&mut *worker)
                .transmit(*now, &tensor, packet)
                .unwrap_or(0);
        }
    }
}

struct Receive<'s>(&'s mut Stream);

impl Work for Receive<'_> {
    #[inline(always)]
    fn work(&mut self) {
        let Stream {
            worker,
            elements,
            packets,
            now,
        } = &mut *self.0;
        let mut tensor = elements.tensor();
        for (packet, len) in packets.iter().filter(|(_, len)| *len > 0) {
            black_box(&mut *worker).handle(*now + 5_000, &packet[..*len], &mut tensor);
        }
    }
}

fn all(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("worker");
    group.throughput(cpu_time::packets(CHUNKS));
    let elements = CHUNKS * LANES.count();
    let streams = [
        ("i32", Elements::I32((0..elements as i32).collect())),
        (
            "f32",
            Elements::F32((0..elements).map(|element| element as f32 / 99.0).collect()),
        ),
    ];
    for (name, elements) in streams {
        let mut stream = Stream::new(elements);
        for isa in Isa::available() {
            let name = format!("{}/{isa}/{name}", LANES.count());
            group.bench_function(format!("{name}/transmit"), |bencher| {
                bencher.iter_custom(|times| (0..times).map(|_| stream.operation(isa).0).sum());
            });
            group.bench_function(format!("{name}/handle"), |bencher| {
                bencher.iter_custom(|times| (0..times).map(|_| stream.operation(isa).1).sum());
            });
        }
    }
    // The same bytes copied chunk by chunk into a packet in cache.
    let (tensor, mut packet) = (vec![1_i32; elements], vec![0; LANES.count()]);
    group.bench_function(format!("{}/copy", LANES.count()), |bencher| {
        bencher.iter(|| {
            for block in tensor.chunks_exact(LANES.count()) {
                black_box(&mut packet[..]).copy_from_slice(black_box(block));
            }
        });
    });
}

criterion_group!(name = benches; config = benches::criterion(); targets = all);
criterion_main!(benches);
