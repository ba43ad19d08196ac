//! What a packet costs in the kernel, beside bare loops over its lanes and beside the core in user space.
//!
//! No assertion on time: it prints a table. One packet run again and again would be a duplicate each time but the first, so
//! each packet is a test run of its own, for the loops as well; what a run of nothing takes is what such a run costs by itself.

use std::hint::black_box;
use std::time::Instant;

use agg_core::slot::Head;
use agg_core::wire::{Flags, HEADER_LEN, Header, Kind, packet_len};
use agg_core::{
    Aggregator, Counter, Endpoint, Epoch, Exponent, JobConfig, Lanes, MAX_MEMBERS, Member, MemberSet, OpKind,
    Operation, Policy, Round, Verdict,
};
use aya::EbpfLoader;
use aya::programs::xdp::Xdp;
use aya::programs::{TestRun, TestRunOptions};

use super::frames;
use super::kernel::Kernel;
use super::programs::{XDP_DROP, XDP_REDIRECT};

/// The loops, kept beside the program.
static LOOPS: &[u8] = aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/object/loops.o"));

/// The chunk size for an MTU of 1500, which the loops have too.
const LANES: Lanes = Lanes::L352;
const KEY: u64 = 0xc057;
const EPOCH: Epoch = Epoch(1);
const SLOTS: u16 = 16;
const ROUNDS: u32 = 20;

type Cores = Aggregator<Box<[Head]>, Box<[i32]>>;

fn source(member: u8) -> std::net::SocketAddrV4 {
    frames::address(frames::v4(([0xfc; 16], 3000 + u16::from(member))))
}

fn endpoint(member: u8) -> Endpoint {
    Endpoint::from(std::net::SocketAddr::from(source(member)))
}

fn job() -> JobConfig {
    let member = |number| Member {
        source: endpoint(number),
        set: MemberSet::single(number),
        workers: 1,
    };
    JobConfig {
        key: KEY,
        epoch: EPOCH,
        members: (0..MAX_MEMBERS as u8).map(member).collect(),
        lanes: LANES,
        window: SLOTS,
        generations: 2,
        policy: Policy::All,
        parent: None,
        frames: None,
    }
}

fn packet(member: u8, slot: u16, round: u32) -> Vec<u8> {
    let operation = Operation {
        kind: OpKind::SUM_I32,
        elements: 1 << 20,
    };
    let header = Header {
        kind: Kind::Data,
        flags: Flags::UP,
        member,
        slot,
        key: KEY,
        epoch: EPOCH,
        round: Round(round),
        set: MemberSet::single(member),
        workers: 1,
        scale: Exponent(0),
        next: Exponent::NONE,
        op: operation.tag(),
        op_seq: 1,
    };
    let mut packet = header.emit().to_vec();
    let values = (0..LANES.count()).map(|lane| (lane as i32).wrapping_mul(0x0101_0101 ^ i32::from(member)));
    packet.extend(values.flat_map(i32::to_le_bytes));
    packet
}

/// Times in nanoseconds of first, middle and last contributions.
#[derive(Default)]
struct Times([Vec<f64>; 3]);

impl Times {
    fn add(&mut self, member: u8, nanoseconds: f64) {
        let place = match member {
            0 => 0,
            last if usize::from(last) == MAX_MEMBERS - 1 => 2,
            _ => 1,
        };
        self.0[place].push(nanoseconds);
    }

    fn medians(self) -> [f64; 3] {
        self.0.map(median)
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// One run of a program: its verdict and its time.
fn run(program: &Xdp, frame: &[u8]) -> (u32, f64) {
    let options = TestRunOptions {
        data_in: Some(frame),
        ..TestRunOptions::default()
    };
    let done = program.test_run(options).expect("the kernel runs it");
    (done.return_value, done.duration.as_nanos() as f64)
}

fn each(mut handle: impl FnMut(u8, &[u8])) {
    for round in 0..ROUNDS {
        for slot in 0..SLOTS {
            for member in 0..MAX_MEMBERS as u8 {
                handle(member, &packet(member, slot, round));
            }
        }
    }
}

fn in_the_kernel() -> [f64; 3] {
    let mut kernel = Kernel::load(4 << 20);
    kernel.admit(&job());
    kernel.set_clock(1);
    let mut times = Times::default();
    each(|member, packet| {
        let frame = frames::bare(source(member), packet);
        let (verdict, time) = run(kernel.program(), &frame);
        let is_last = usize::from(member) == MAX_MEMBERS - 1;
        assert_eq!(verdict, if is_last { XDP_REDIRECT } else { XDP_DROP });
        times.add(member, time);
    });
    assert_eq!(
        kernel.counted().of(Counter::Completed),
        u64::from(ROUNDS) * u64::from(SLOTS)
    );
    times.medians()
}

#[multiversion::multiversion(targets(
    "x86_64+avx512f+avx512bw+avx512vl+avx512dq",
    "x86_64+avx2",
    "aarch64+neon"
))]
fn handle(core: &mut Cores, packet: &[u8], source: &Endpoint, out: &mut [u8]) -> Verdict {
    core.handle(packet, source, 1, out)
}

fn in_user_space() -> [f64; 3] {
    let heads = usize::from(SLOTS) * 2;
    let values = vec![0; heads * LANES.count()];
    let mut core = Cores::new(vec![Head::VACANT; heads].into(), values.into());
    core.admit(&job()).expect("it fits");
    let mut out = vec![0; packet_len(LANES.count())];
    // What reading the clock takes.
    let clock = median((0..1000).map(|_| elapsed(Instant::now())).collect());
    let mut times = Times::default();
    each(|member, packet| {
        let source = endpoint(member);
        let began = Instant::now();
        let verdict = handle(&mut core, black_box(packet), &source, &mut out);
        let time = elapsed(began) - clock;
        black_box(verdict);
        times.add(member, time);
    });
    assert_eq!(
        core.counters().get(Counter::Completed),
        u64::from(ROUNDS) * u64::from(SLOTS)
    );
    times.medians()
}

fn elapsed(began: Instant) -> f64 {
    began.elapsed().as_nanos() as f64
}

/// The loops by name: a run by itself, and one of many in a row.
fn loops() -> Vec<(String, f64, f64)> {
    let mut object = EbpfLoader::new().load(LOOPS).expect("the kept loops");
    let frame = frames::bare(source(0), &packet(0, 0, 0));
    assert_eq!(frame.len(), bpf_layout::FRAMING + HEADER_LEN + 4 * LANES.count());
    let mut measured = Vec::new();
    for (name, program) in object.programs_mut() {
        let name = name.to_owned();
        let program: &mut Xdp = program.try_into().expect("an XDP program");
        program.load().expect("it loads");
        let single = median((0..5000).map(|_| run(program, &frame).1).collect());
        let options = TestRunOptions {
            data_in: Some(&frame),
            repeat: 200_000,
            ..TestRunOptions::default()
        };
        let repeated = program.test_run(options).expect("the kernel runs it");
        measured.push((name, single, repeated.duration.as_nanos() as f64));
    }
    measured.sort_by(|one, other| one.0.cmp(&other.0));
    measured
}

/// Packets that change nothing, so that one can come again and again: each gets further than the one before.
fn of_no_effect() -> Vec<(&'static str, f64)> {
    let mut kernel = Kernel::load(4 << 20);
    kernel.admit(&job());
    kernel.set_clock(1);
    let changed = |change: &dyn Fn(&mut Header)| {
        let mut packet = packet(0, 0, 1);
        let (front, _) = packet.split_first_chunk_mut::<HEADER_LEN>().expect("a header");
        let mut header = Header::parse(front).expect("a header");
        change(&mut header);
        *front = header.emit();
        frames::bare(source(0), &packet)
    };
    let right = changed(&|_| {});
    let mut elsewhere = right.clone();
    elsewhere[37] ^= 1;
    let mut damaged = right.clone();
    damaged[bpf_layout::FRAMING + 20] ^= 1;
    let packets = [
        ("for another port", elsewhere),
        ("damaged header", damaged),
        ("unknown job", changed(&|header| header.key += 1)),
        ("wrong source", changed(&|header| header.member = 1)),
        ("slot outside the window", changed(&|header| header.slot = SLOTS)),
        ("duplicate", right),
    ];
    let program = kernel.program();
    let time = |(name, frame): &(&'static str, Vec<u8>)| {
        let options = TestRunOptions {
            data_in: Some(frame),
            repeat: 200_000,
            ..TestRunOptions::default()
        };
        let done = program.test_run(options).expect("the kernel runs it");
        (*name, done.duration.as_nanos() as f64)
    };
    packets.iter().map(time).collect()
}

#[test]
#[ignore = "needs root"]
fn what_a_packet_costs_beside_bare_loops_and_user_space() {
    let loops = loops();
    let [first, middle, last] = in_the_kernel();
    let core = in_user_space();
    let single = |name: &str| {
        let found = loops.iter().find(|(known, ..)| known == name);
        found.map_or(f64::NAN, |(_, single, _)| *single)
    };
    let nothing = single("nothing");
    println!(
        "nanoseconds a packet of {} lanes, medians; a run of nothing, {nothing:.0} ns, taken off",
        LANES.count()
    );
    println!("| contribution | in the kernel | bare loop | ratio | core in user space |");
    println!("|---|---:|---:|---:|---:|");
    let rows = [
        ("first", first, "replace", core[0]),
        ("middle", middle, "add", core[1]),
        ("last", last, "add_and_answer", core[2]),
    ];
    for (name, kernel, bare, core) in rows {
        let (kernel, bare) = (kernel - nothing, single(bare) - nothing);
        println!(
            "| {name} | {kernel:.0} | {bare:.0} | {:.2} | {core:.0} |",
            kernel / bare
        );
    }
    for (name, time) in of_no_effect() {
        println!("no effect, {name}: {time:.0} ns in a row");
    }
    for (name, single, repeated) in &loops {
        println!("loop {name}: {single:.0} ns in a run by itself, {repeated:.0} ns in a row");
    }
}
