//! The golden traces of `docs/vectors`.

use std::path::Path;

use agg_model::harness::Subject;
use agg_model::packet::HEADER;
use agg_model::vectors::text::Hex;
use agg_model::vectors::{Event, Expectation, JobLine, Trace, VerdictKind};
use agg_model::{ModelVerdict, To};

use super::kernel::Kernel;
use super::pair::Pair;

/// Chunks of the traces that are on no device of this kind.
const TINY: u16 = 16;
/// The size of chunks that takes their place: values in front, zeros behind.
const WIDE: u16 = 256;

/// A trace that cannot run here, and why.
fn left_out(trace: &Trace) -> Option<&'static str> {
    let admitted = trace.events.iter().filter_map(|event| match event {
        Event::Admit(line) => Some(&line.admit),
        _ => None,
    });
    let spills = trace
        .setup
        .jobs
        .iter()
        .chain(admitted)
        .any(|job| job.frames.is_some());
    spills.then_some("this host has no store (R-SPILL)")
}

/// A trace with chunks of a size that the program has code for. What is decided stays the same: what was a chunk is one, what was
/// none is none.
fn widened(mut trace: Trace) -> Trace {
    if trace.setup.jobs.iter().all(|job| job.lanes != TINY) {
        return trace;
    }
    let lanes = |job: &mut JobLine| {
        assert_eq!(
            job.lanes, TINY,
            "{}: all jobs have chunks of one size",
            trace.name
        );
        job.lanes = WIDE;
    };
    let zeros = vec![0; 4 * usize::from(WIDE - TINY)];
    let widen = |packet: &mut Vec<u8>| {
        if packet.len() > HEADER {
            packet.extend(&zeros);
        }
    };
    trace.setup.jobs.iter_mut().for_each(lanes);
    trace
        .datagrams
        .iter_mut()
        .for_each(|datagram| widen(&mut datagram.payload));
    for event in &mut trace.events {
        match event {
            Event::Admit(line) => lanes(&mut line.admit),
            Event::Packet(expected) => {
                if let Some(Hex(bytes)) = &mut expected.output {
                    widen(bytes);
                }
            }
            _ => {}
        }
    }
    trace
}

fn check(trace: &str, expected: &Expectation, got: &ModelVerdict) {
    let kind = match got.send.as_ref().map(|send| send.to) {
        None => VerdictKind::Quiet,
        Some(To::Sender) => VerdictKind::Reply,
        Some(To::Members(_)) => VerdictKind::Broadcast,
        Some(To::Parent(_)) => VerdictKind::Forward,
    };
    let output = got.send.as_ref().map(|send| Hex(send.bytes.clone()));
    assert_eq!(
        (kind, &output, got.counter),
        (expected.verdict, &expected.output, expected.counter.as_str()),
        "{trace}, packet {}: {}",
        expected.packet,
        expected.about
    );
}

/// A whole trace through the kernel, the core and the model; how many packets it has.
fn play(kernel: &mut Kernel, trace: &Trace) -> u64 {
    println!("{}: {}", trace.name, trace.setup.about);
    let jobs = trace.setup.admitted();
    let mut pair = Pair::new(kernel, &jobs);
    jobs.iter().for_each(|job| pair.admit(job));
    for event in &trace.events {
        match event {
            Event::Packet(expected) => {
                let datagram = &trace.datagrams[expected.packet - 1];
                let source = agg_model::vectors::lines::source(datagram.source);
                let verdict = pair.handle(&datagram.payload, source, expected.now);
                check(&trace.name, expected, &verdict);
            }
            Event::Abort(line) => pair.abort(line.abort.0, line.reason, line.member),
            Event::Suspend(line) => pair.suspend(line.suspend.0),
            Event::Exclude(line) => pair.exclude(line.exclude.0, line.member),
            Event::Admit(line) => {
                pair.release(line.admit.key.0);
                pair.admit(&line.admit.job(trace.setup.epoch));
            }
            Event::Stored(_) | Event::Recalled(_) | Event::StoreLost(_) => panic!("{}: a store", trace.name),
        }
    }
    pair.packets()
}

/// All traces, at a veth or not.
fn play_all(redirects_replies: bool) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/vectors");
    let traces = Trace::read_all(&directory).expect("docs/vectors can be read");
    // What the traces hold of probes is that an aggregator may answer none.
    let mut kernel = Kernel::load_with(1 << 20, redirects_replies, 0);
    let (mut played, mut packets, mut left) = (0, 0, Vec::new());
    for trace in traces {
        if let Some(reason) = left_out(&trace) {
            println!("{} is left out: {reason}", trace.name);
            left.push(trace.name);
            continue;
        }
        packets += play(&mut kernel, &widened(trace));
        played += 1;
    }
    println!("{played} traces with {packets} packets were played; left out: {left:?}");
    assert_eq!(
        left,
        [
            "spill-evicted-result",
            "spill-min",
            "spill-put-and-recall",
            "spill-store-lost"
        ],
        "no other trace may be left out"
    );
    assert!(
        played >= 27 && packets >= 380,
        "{played} traces, {packets} packets"
    );
}

#[test]
#[ignore = "needs root"]
fn each_golden_trace_gives_the_same_in_the_kernel_as_in_user_space() {
    play_all(false);
}

/// At a veth replies are redirected.
#[test]
#[ignore = "needs root"]
fn each_golden_trace_gives_the_same_at_a_veth() {
    play_all(true);
}
