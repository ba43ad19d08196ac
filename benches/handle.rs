//! The whole aggregator for one packet, `Aggregator::handle`: bytes in, verdict out. Beside it, for a contribution
//! that is neither first nor last, the merge alone of the same packets into the same slots.

use std::hint::black_box;

use agg_core::slot::{Arrival, Head};
use agg_core::wire::{HEADER_LEN, Header, packet_len};
use agg_core::{Aggregator, Counter, Endpoint, Job, Lanes, MAX_MEMBERS, Verdict};
use benches::cpu_time::{self, CpuTime};
use benches::isa::{Isa, Work};
use benches::packets::{KEY, endpoint, header, job, packet, running};
use benches::place::Place;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};

/// The chunk size of these benchmarks: the one for an MTU of 1500.
const N: usize = Lanes::L352.count();

/// The last member.
const LAST: u8 = MAX_MEMBERS as u8 - 1;

/// An aggregator and the packets that one iteration hands to it.
struct Traffic {
    aggregator: Aggregator<Box<[Head]>, Box<[i32]>>,
    /// What the aggregator knows of the job, for the merge alone.
    job: Job,
    packets: Vec<(Vec<u8>, Endpoint)>,
    /// What each slot is put back to before an iteration, so that every iteration does the same.
    before: Vec<Head>,
    out: Vec<u8>,
}

impl Traffic {
    fn new(window: u16) -> Self {
        let heads = usize::from(window) * 2;
        let memory = (vec![Head::VACANT; heads].into(), vec![0; heads * N].into());
        let mut aggregator = Aggregator::new(memory.0, memory.1);
        aggregator.admit(&job(Lanes::L352, window)).expect("the job fits");
        let before = vec![Head::VACANT; heads];
        Self {
            aggregator,
            job: running(window),
            packets: Vec::new(),
            before,
            out: vec![0; packet_len(N)],
        }
    }

    /// The contributions of these members to all slots have come already.
    fn after(mut self, members: std::ops::Range<u8>) -> Self {
        for slot in 0..(self.before.len() / 2) as u16 {
            for member in members.clone() {
                let packet = packet(&header(member, slot, 1), N);
                self.aggregator
                    .handle(&packet, &endpoint(member), 0, &mut self.out);
            }
        }
        self.before.clone_from_slice(self.aggregator.memory().0);
        self
    }

    /// These contributions come.
    fn then(mut self, headers: impl IntoIterator<Item = Header>) -> Self {
        self.packets = headers
            .into_iter()
            .map(|header| (packet(&header, N), endpoint(header.member)))
            .collect();
        self
    }

    /// This packet comes, many times over.
    fn repeated(mut self, packet: &[u8], source: Endpoint) -> Self {
        self.packets = vec![(packet.to_vec(), source); MAX_MEMBERS];
        self
    }
}

/// Packets to few slots, which are put back before each iteration.
struct Handle<'t>(&'t mut Traffic);

impl Work for Handle<'_> {
    #[inline(always)]
    fn work(&mut self) {
        let Traffic {
            aggregator,
            packets,
            before,
            out,
            ..
        } = &mut *self.0;
        aggregator.memory_mut().0.clone_from_slice(before);
        for (packet, source) in packets.iter() {
            black_box(black_box(&mut *aggregator).handle(black_box(packet), source, 0, out));
        }
    }
}

/// The merge alone of the same packets, all for the slot's generation 1.
struct Merge<'t>(&'t mut Traffic, Vec<Header>);

impl Work for Merge<'_> {
    #[inline(always)]
    fn work(&mut self) {
        let Traffic {
            aggregator,
            job,
            packets,
            before,
            ..
        } = &mut *self.0;
        let (heads, values) = aggregator.memory_mut();
        heads.clone_from_slice(before);
        for ((packet, _), header) in packets.iter().zip(&self.1) {
            accept(&mut heads[1], &mut values[N..], job, header, black_box(packet));
        }
    }
}

/// A packet to each of many slots: slots that no cache holds, packets that a host has just received. A slot is put back
/// while it is in cache.
struct Many {
    traffic: Traffic,
    headers: Vec<Header>,
    fronts: Vec<[u8; HEADER_LEN]>,
}

/// How many packets lie between a packet's arrival and its turn: half a batch.
const AHEAD: usize = MAX_MEMBERS / 2;

impl Many {
    /// The packet at this place of the batch; and one further on arrives: its header, that is, for values are alike.
    #[inline(always)]
    fn next<'p>(
        packets: &'p mut [(Vec<u8>, Endpoint)],
        fronts: &[[u8; HEADER_LEN]],
        slot: usize,
    ) -> &'p (Vec<u8>, Endpoint) {
        let coming = &fronts[(slot + AHEAD) % fronts.len()];
        packets[(slot + AHEAD) % MAX_MEMBERS].0[..HEADER_LEN].copy_from_slice(coming);
        black_box(&packets[slot % MAX_MEMBERS])
    }
}

struct HandleMany<'t>(&'t mut Many);

impl Work for HandleMany<'_> {
    #[inline(always)]
    fn work(&mut self) {
        let Many {
            traffic:
                Traffic {
                    aggregator,
                    packets,
                    before,
                    out,
                    ..
                },
            fronts,
            ..
        } = &mut *self.0;
        for slot in 0..fronts.len() {
            let (packet, source) = Many::next(packets, fronts, slot);
            black_box(black_box(&mut *aggregator).handle(packet, source, 0, out));
            aggregator.memory_mut().0[2 * slot + 1] = before[1].clone();
        }
    }
}

/// The merge alone of the same packets into the same slots.
struct MergeMany<'t>(&'t mut Many);

impl Work for MergeMany<'_> {
    #[inline(always)]
    fn work(&mut self) {
        let Many {
            traffic:
                Traffic {
                    aggregator,
                    job,
                    packets,
                    before,
                    ..
                },
            headers,
            fronts,
        } = &mut *self.0;
        let (heads, values) = aggregator.memory_mut();
        for (slot, header) in headers.iter().enumerate() {
            let (packet, _) = Many::next(packets, fronts, slot);
            let index = 2 * slot + 1;
            accept(&mut heads[index], &mut values[index * N..], job, header, packet);
            heads[index] = before[1].clone();
        }
    }
}

#[inline(always)]
fn accept(head: &mut Head, values: &mut [i32], job: &Job, header: &Header, packet: &[u8]) {
    let values = values.first_chunk_mut::<N>().expect("the slot's values");
    let arrived = packet[HEADER_LEN..]
        .as_chunks::<4>()
        .0
        .first_chunk::<N>()
        .expect("a whole chunk");
    let arrival = Arrival {
        header: black_box(header),
        values: Some(arrived),
    };
    black_box(black_box(head).accept(black_box(values), black_box(job), arrival, 0));
}

/// Measures what one packet costs with each instruction set.
fn measure(group: &mut BenchmarkGroup<'_, CpuTime>, name: &str, mut traffic: Traffic) {
    group.throughput(cpu_time::packets(traffic.packets.len()));
    for isa in Isa::available() {
        group.bench_function(format!("{}/{N}/{isa}/{name}", Place::Cache), |bencher| {
            bencher.iter(|| isa.run(&mut Handle(&mut traffic)));
        });
    }
}

/// A contribution between the first and the last, against its merge alone.
fn middle(group: &mut BenchmarkGroup<'_, CpuTime>) {
    let headers: Vec<Header> = (1..LAST).map(|member| header(member, 0, 1)).collect();
    let mut traffic = Traffic::new(1).after(0..1).then(headers.clone());
    group.throughput(cpu_time::packets(traffic.packets.len()));
    for isa in Isa::available() {
        group.bench_function(format!("{}/{N}/{isa}/middle", Place::Cache), |bencher| {
            bencher.iter(|| isa.run(&mut Handle(&mut traffic)));
        });
        group.bench_function(format!("{}/{N}/{isa}/merge", Place::Cache), |bencher| {
            bencher.iter(|| isa.run(&mut Merge(&mut traffic, headers.clone())));
        });
    }

    const WINDOW: u16 = 1 << 15;
    let headers: Vec<Header> = (0..WINDOW).map(|slot| header(1, slot, 1)).collect();
    let fronts = headers.iter().map(Header::emit).collect();
    let traffic = Traffic::new(WINDOW)
        .after(0..1)
        .then(headers[..MAX_MEMBERS].iter().copied());
    let mut many = Many {
        traffic,
        headers,
        fronts,
    };
    // The first packets of a pass have arrived at the end of the pass before.
    HandleMany(&mut many).work();
    group.throughput(cpu_time::packets(usize::from(WINDOW)));
    for isa in Isa::available() {
        group.bench_function(format!("{}/{N}/{isa}/middle", Place::Memory), |bencher| {
            bencher.iter(|| isa.run(&mut HandleMany(&mut many)));
        });
        group.bench_function(format!("{}/{N}/{isa}/merge", Place::Memory), |bencher| {
            bencher.iter(|| isa.run(&mut MergeMany(&mut many)));
        });
    }
    let merged = many.traffic.aggregator.counters().get(Counter::Merged);
    let handled = many
        .traffic
        .aggregator
        .counters()
        .iter()
        .map(|(_, count)| count)
        .sum::<u64>();
    assert_eq!(merged, handled, "every packet must be merged");
}

/// The packets of a member that does nothing wrong.
fn valid(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("handle");
    middle(&mut group);
    let rounds = (0..MAX_MEMBERS as u32).map(|round| header(0, 0, round));
    measure(&mut group, "first", Traffic::new(1).then(rounds));
    let last = (0..MAX_MEMBERS as u16).map(|slot| header(LAST, slot, 1));
    measure(
        &mut group,
        "last",
        Traffic::new(MAX_MEMBERS as u16).after(0..LAST).then(last),
    );
    let (ours, from) = (packet(&header(3, 0, 1), N), endpoint(3));
    measure(
        &mut group,
        "duplicate",
        Traffic::new(1).after(0..LAST).repeated(&ours, from),
    );
    measure(
        &mut group,
        "replay",
        Traffic::new(1).after(0..LAST + 1).repeated(&ours, from),
    );
}

/// What must cost next to nothing, so that it cannot be used to keep an aggregator busy.
fn invalid(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("invalid");
    let (good, from) = (packet(&header(3, 0, 1), N), endpoint(3));
    let changed = |byte: usize| {
        let mut packet = good.clone();
        packet[byte] ^= 0x10;
        packet
    };
    let foreign_key = packet(
        &Header {
            key: KEY ^ 2,
            ..header(3, 0, 1)
        },
        N,
    );
    let stale = packet(&header(3, 0, u32::MAX), N);
    let kinds: [(&str, &[u8], Endpoint); 7] = [
        ("magic", &changed(0), from),
        ("short", &good[..HEADER_LEN - 1], from),
        ("checksum", &changed(20), from),
        ("key", &foreign_key, from),
        ("source", &good, endpoint(4)),
        ("length", &good[..good.len() - 4], from),
        ("stale", &stale, from),
    ];
    for (name, packet, source) in kinds {
        let mut traffic = Traffic::new(1).after(0..LAST).repeated(packet, source);
        let verdict = traffic.aggregator.handle(packet, &source, 0, &mut traffic.out);
        assert_eq!(verdict, Verdict::Quiet, "{name} is not dropped");
        measure(&mut group, name, traffic);
    }
}

criterion_group!(name = benches; config = benches::criterion(); targets = valid, invalid);
criterion_main!(benches);
