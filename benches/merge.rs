//! The merge of one contribution, `slot::Head::accept`, beside a plain loop that adds and a copy of the same bytes.

use std::hint::black_box;

use agg_core::slot::{Arrival, Head};
use agg_core::wire::Header;
use agg_core::{Job, MAX_MEMBERS};
use benches::cpu_time::{self, CpuTime};
use benches::isa::{Isa, Work};
use benches::packets::{header, running};
use benches::place::Place;
use criterion::{Criterion, criterion_group, criterion_main};

/// Slots and, for each, the values of a contribution. Out of cache, an arrival of each pass.
struct Buffers<const N: usize> {
    /// Of the contributions that come between the first and the last.
    headers: Vec<Header>,
    job: Job,
    /// A slot that holds its first contribution.
    opened: Head,
    heads: Vec<Head>,
    slots: Vec<[i32; N]>,
    arrivals: Vec<[[u8; 4]; N]>,
    /// The header of the next pass, where a pass is one header for many slots.
    turn: usize,
}

impl<const N: usize> Buffers<N> {
    fn new(place: Place) -> Self {
        let chunks = place.chunks(4 * N);
        let mut opened = Head::VACANT;
        let (first, arrival) = (header(0, 0, 0), [[1, 0, 0, 0]; N]);
        let arrival = Arrival {
            header: &first,
            values: Some(&arrival),
        };
        let job = running(1);
        opened.accept(&mut [0; N], &job, arrival, 0);
        Self {
            headers: (1..MAX_MEMBERS as u8 - 1)
                .map(|member| header(member, 0, 0))
                .collect(),
            heads: vec![opened.clone(); chunks],
            job,
            opened,
            slots: vec![[0; N]; chunks],
            arrivals: vec![[[3, 2, 1, 0]; N]; chunks],
            turn: 0,
        }
    }

    /// Contributions that one pass merges.
    fn pass(&self) -> usize {
        if self.slots.len() == 1 {
            self.headers.len()
        } else {
            self.slots.len()
        }
    }

    /// The headers of the next pass; slots are as after their first contribution whenever members begin anew.
    #[inline(always)]
    fn next_pass(&mut self) -> std::ops::Range<usize> {
        if self.slots.len() == 1 {
            self.heads[0] = self.opened.clone();
            return 0..self.headers.len();
        }
        if self.turn == self.headers.len() {
            self.heads.fill(self.opened.clone());
            self.turn = 0;
        }
        self.turn += 1;
        self.turn - 1..self.turn
    }
}

struct Accept<'b, const N: usize>(&'b mut Buffers<N>);

impl<const N: usize> Work for Accept<'_, N> {
    #[inline(always)]
    fn work(&mut self) {
        let headers = self.0.next_pass();
        for header in &self.0.headers[headers] {
            for ((head, slot), arrival) in self
                .0
                .heads
                .iter_mut()
                .zip(&mut self.0.slots)
                .zip(&self.0.arrivals)
            {
                // Opaque references: nothing of a slot may stay in registers from one packet to the next.
                let arrival = Arrival {
                    header: black_box(header),
                    values: Some(black_box(arrival)),
                };
                black_box(black_box(head).accept(black_box(slot), black_box(&self.0.job), arrival, 0));
            }
        }
    }
}

struct Add<'b, const N: usize>(&'b mut Buffers<N>);

impl<const N: usize> Work for Add<'_, N> {
    #[inline(always)]
    fn work(&mut self) {
        for _ in self.0.next_pass() {
            for (slot, arrival) in self.0.slots.iter_mut().zip(&self.0.arrivals) {
                for (sum, value) in black_box(slot).iter_mut().zip(black_box(arrival)) {
                    *sum = sum.wrapping_add(i32::from_le_bytes(*value));
                }
            }
        }
    }
}

struct Copy<'b, const N: usize>(&'b mut Buffers<N>);

impl<const N: usize> Work for Copy<'_, N> {
    #[inline(always)]
    fn work(&mut self) {
        for _ in self.0.next_pass() {
            for (slot, arrival) in self.0.slots.iter_mut().zip(&self.0.arrivals) {
                let bytes: &mut [[u8; 4]] = bytemuck::cast_slice_mut(black_box(slot));
                bytes.copy_from_slice(black_box(arrival));
            }
        }
    }
}

fn lanes<const N: usize>(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("merge");
    for place in Place::ALL {
        let mut buffers = Buffers::<N>::new(place);
        group.throughput(cpu_time::packets(buffers.pass()));
        for isa in Isa::available() {
            group.bench_function(format!("{place}/{N}/{isa}/accept"), |bencher| {
                bencher.iter(|| isa.run(&mut Accept(&mut buffers)));
            });
            group.bench_function(format!("{place}/{N}/{isa}/add"), |bencher| {
                bencher.iter(|| isa.run(&mut Add(&mut buffers)));
            });
        }
        // One for all: the C library's copy chooses its instruction set itself.
        group.bench_function(format!("{place}/{N}/copy"), |bencher| {
            bencher.iter(|| Isa::Baseline.run(&mut Copy(&mut buffers)));
        });
    }
}

fn all(criterion: &mut Criterion<CpuTime>) {
    lanes::<256>(criterion);
    lanes::<352>(criterion);
    lanes::<848>(criterion);
    lanes::<2048>(criterion);
}

criterion_group!(name = benches; config = benches::criterion(); targets = all);
criterion_main!(benches);
