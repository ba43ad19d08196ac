//! The golden traces of `docs/vectors`: they are what the specification says, and the real aggregator keeps to them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use agg_core::slot::Head;
use agg_core::{Abort, AbortCause, Aggregator, Counter, Endpoint, MemberSet, Round, StoreAction, Verdict};
use agg_model::ModelJob;
use agg_model::harness::lockstep::{OF_STORES, config};
use agg_model::vectors::text::Hex;
use agg_model::vectors::{Datagram, Event, Expectation, Recalled, Trace, VerdictKind, scenarios};

/// What an output buffer holds before.
const UNWRITTEN: u8 = 0xa5;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/vectors")
}

fn traces() -> Vec<Trace> {
    Trace::read_all(&directory()).expect("docs/vectors can be read")
}

fn expectations(trace: &Trace) -> impl Iterator<Item = &Expectation> {
    trace.events.iter().filter_map(|event| match event {
        Event::Packet(expected) => Some(expected),
        _ => None,
    })
}

type Core = Aggregator<Vec<Head>, Vec<i32>>;

/// The real aggregator as a trace has it before its first packet.
fn core(trace: &Trace) -> Core {
    let setup = &trace.setup;
    let jobs = setup.admitted();
    let lanes = jobs.iter().map(ModelJob::values).sum();
    // What a real host's memory held before.
    let (heads, values) = (
        vec![Head::VACANT; jobs.iter().map(ModelJob::heads).sum()],
        vec![-1; lanes],
    );
    let mut core = Aggregator::new(heads, values);
    for job in &jobs {
        core.admit(&config(job)).expect("memory was made for it");
    }
    core
}

/// One packet; the error says what differs.
fn handle(
    core: &mut Core,
    datagram: &Datagram,
    expected: &Expectation,
    asked: &mut Vec<Asked>,
) -> Result<(), String> {
    let before = core.counters().clone();
    // Room for just the answer, so that one byte more would not fit.
    let room = expected.output.as_ref().map_or(56, |Hex(bytes)| bytes.len());
    let mut out = vec![UNWRITTEN; room];
    let source = Endpoint::from(std::net::SocketAddr::from(datagram.source));
    let verdict = core.handle(&datagram.payload, &source, expected.now, &mut out);
    let (kind, output) = sent(verdict, &out);
    let raised = |counter: &&Counter| core.counters().get(**counter) != before.get(**counter);
    let raised: BTreeSet<&str> = Counter::ALL
        .iter()
        .filter(raised)
        .map(|counter| counter.name())
        .collect();
    ask(core, asked);
    let (said, got) = (
        (
            expected.verdict,
            &expected.output,
            [expected.counter.as_str()]
                .into_iter()
                .chain(expected.also.as_deref())
                .collect(),
        ),
        (kind, &output, raised),
    );
    let number = expected.packet;
    (said == got)
        .then_some(())
        .ok_or_else(|| format!("packet {number}: the file says {said:?}, the core {got:?}"))
}

fn sent(verdict: Verdict, out: &[u8]) -> (VerdictKind, Option<Hex>) {
    match verdict {
        Verdict::Quiet => (VerdictKind::Quiet, None),
        Verdict::Reply { len } => (VerdictKind::Reply, Some(Hex(out[..len].to_vec()))),
        Verdict::Broadcast { key, len } => (VerdictKind::Broadcast, Some(of_job(key, &out[..len]))),
        Verdict::Forward { key, len } => (VerdictKind::Forward, Some(of_job(key, &out[..len]))),
    }
}

/// What a store was asked: place, round, set, and the values to keep.
type Asked = (u32, Round, MemberSet, Option<Vec<i32>>);

fn ask(core: &mut Core, asked: &mut Vec<Asked>) {
    while let Some(request) = core.store_request() {
        let put = match request.action {
            StoreAction::Put(values) => Some(values.to_vec()),
            StoreAction::Get => None,
        };
        asked.push((request.place, request.round, request.set, put));
    }
}

/// What a store gives back, which it was given, and asked for unless nothing comes of it.
fn recall(core: &mut Core, expected: &Recalled, asked: &mut Vec<Asked>) -> Result<(), String> {
    let (place, round) = (
        u32::from(expected.slot) * 2 + expected.round % 2,
        Round(expected.round),
    );
    let set = MemberSet(expected.set.0);
    let of_sum = |request: &&Asked| (request.0, request.1, request.2) == (place, round, set);
    let put = asked.iter().filter(of_sum).find_map(|request| request.3.clone());
    let values = put.ok_or("it was never put")?;
    if !asked.iter().filter(of_sum).any(|request| request.3.is_none()) {
        return Err("it was not asked for".into());
    }
    let mut out = vec![UNWRITTEN; expected.output.as_ref().map_or(56, |Hex(bytes)| bytes.len())];
    let before = core.counters().clone();
    let verdict = core.recalled(
        expected.recalled.0,
        place,
        round,
        set,
        &values,
        expected.now,
        &mut out,
    );
    let counter = Counter::ALL
        .iter()
        .find(|counter| counter.name() == expected.counter);
    let counter = *counter.ok_or("an unknown counter")?;
    let raised = core.counters().get(counter) == before.get(counter) + 1;
    ask(core, asked);
    let got = sent(verdict, &out);
    (raised && got == (expected.verdict, expected.output.clone()))
        .then_some(())
        .ok_or_else(|| format!("the store gives back: {expected:?}, the core {got:?}"))
}

/// An output that goes to others than the sender.
fn of_job(key: u64, out: &[u8]) -> Hex {
    assert_eq!(
        &out[8..16],
        key.to_le_bytes(),
        "the output is of the job that it is sent to"
    );
    Hex(out.to_vec())
}

/// A whole trace through the real aggregator.
fn replay(trace: &Trace) -> Result<(), String> {
    let mut core = core(trace);
    let mut asked = Vec::new();
    for event in &trace.events {
        match event {
            Event::Packet(expected) => handle(
                &mut core,
                &trace.datagrams[expected.packet - 1],
                expected,
                &mut asked,
            )
            .map_err(|error| format!("{}, {error}", trace.name))?,
            Event::Abort(abort) => {
                let cause = match abort.reason {
                    4 => AbortCause::LostMember,
                    5 => AbortCause::MemberFailed,
                    6 => AbortCause::Ended,
                    other => return Err(format!("{other} is no reason to abort")),
                };
                let member = abort.member;
                core.abort(abort.abort.0, Abort { cause, member });
            }
            Event::Stored(stored) => {
                let (place, round) = (u32::from(stored.slot) * 2 + stored.round % 2, Round(stored.round));
                let set = MemberSet(stored.set.0);
                let put = |request: &Asked| (request.0, request.1, request.2) == (place, round, set);
                if !asked.iter().any(|request| put(request) && request.3.is_some()) {
                    return Err(format!("{}: {stored:?} was never put", trace.name));
                }
                core.stored(stored.stored.0, place, round, set);
            }
            Event::Recalled(expected) => {
                recall(&mut core, expected, &mut asked).map_err(|error| format!("{}, {error}", trace.name))?
            }
            Event::StoreLost(lost) => core.store_lost(lost.store_lost.0),
            Event::Suspend(suspend) => core.suspend(suspend.suspend.0),
            Event::Exclude(exclude) => core.exclude(exclude.exclude.0, exclude.member),
            Event::Admit(admit) => {
                let job = admit.admit.job(trace.setup.epoch);
                core.release(job.key);
                core.admit(&config(&job)).expect("it takes the place of another");
            }
        }
    }
    Ok(())
}

#[test]
fn files_are_what_the_generator_writes() {
    let mut known = BTreeSet::new();
    for trace in scenarios::all() {
        for (name, bytes) in trace.files() {
            let kept = fs::read(directory().join(&name)).unwrap_or_default();
            assert!(
                kept == bytes,
                "{name} differs: cargo run -p agg-model --example vectors -- --write"
            );
            known.insert(name);
        }
        assert_eq!(Trace::read(&directory(), &trace.name).unwrap(), trace);
    }
    for entry in fs::read_dir(directory()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let is_trace = name.ends_with(".jsonl") || name.ends_with(".pcap");
        assert!(
            !is_trace || known.contains(&name),
            "{name} is of no scenario: delete it"
        );
    }
}

#[test]
fn the_core_does_what_every_trace_says() {
    for trace in traces() {
        replay(&trace).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// The replay above is worth something only if it notices when a packet or its expectation is another one.
#[test]
fn the_replay_notices_what_differs() {
    for trace in traces() {
        for at in 0..trace.events.len() {
            let Event::Packet(expected) = &trace.events[at] else {
                continue;
            };
            let mut other = trace.clone();
            let Event::Packet(changed) = &mut other.events[at] else {
                unreachable!()
            };
            match &mut changed.output {
                Some(Hex(bytes)) => *bytes.last_mut().expect("a packet has bytes") ^= 1,
                None => changed.verdict = VerdictKind::Reply,
            }
            assert!(
                replay(&other).is_err(),
                "{}, packet {}",
                trace.name,
                expected.packet
            );
        }
    }
}

#[test]
fn traces_show_every_check_merge_rule_and_counter() {
    let traces = traces();
    let all = || traces.iter().flat_map(expectations);
    let rules: BTreeSet<&str> = all().map(|expected| expected.rule.as_str()).collect();
    for (kind, numbers) in [
        ("VALID", 1..=10),
        ("SLOT", 0..=7),
        ("LEAF", 1..=5),
        ("QUORUM", 1..=3),
        ("QUORUM", 5..=5),
        ("REFORM", 1..=2),
        ("SPILL", 1..=4),
    ] {
        for number in numbers {
            let rule = format!("R-{kind}-{number}");
            assert!(rules.contains(rule.as_str()), "no packet shows {rule}");
        }
    }
    let counted: BTreeSet<&str> = all().map(|expected| expected.counter.as_str()).collect();
    let known = Counter::ALL.iter().map(|counter| counter.name());
    // Not of packets for slots: requests to a store, what is forgotten besides, and probes, which a host need not answer.
    let besides = [&OF_STORES[..3], &[Counter::ProbesAnswered.name()]].concat();
    let known: BTreeSet<&str> = known.filter(|name| !besides.contains(name)).collect();
    assert_eq!(counted, known);
    let wide: BTreeSet<u16> = traces
        .iter()
        .flat_map(|trace| trace.setup.jobs.iter().map(|job| job.lanes))
        .collect();
    assert_eq!(wide, [16, 256, 352].into());

    let document = fs::read_to_string(directory().join("../protocol.md")).unwrap();
    for rule in rules {
        assert!(
            document.contains(&format!("**{rule}**")),
            "{rule} is no rule of the protocol"
        );
    }
}
