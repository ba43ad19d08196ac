//! The golden traces of `docs/vectors` through net_pcap: a capture goes in, and what comes out is compared byte by byte.

use std::fs;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};

use agg_core::slot::Head;
use agg_core::{Abort, AbortCause, Aggregator, MemberSet, Round, StoreAction, Verdict};
use agg_host::frame::Ethernet;
use agg_model::ModelJob;
use agg_model::harness::lockstep::config;
use agg_model::vectors::text::Hex;
use agg_model::vectors::trace::AGGREGATOR;
use agg_model::vectors::{Event, Expectation, JobLine, Recalled, Trace, VerdictKind, frame, pcap};
use dpdk_host::dpdk::{Device, Eal, Pool, Port, PortConfig};
use dpdk_host::{FrameCounter, HandOff, Link, Network, Poller, Route, Shard};

#[path = "common/answering.rs"]
mod answering;
#[path = "common/dress.rs"]
mod dress;
#[path = "common/eal.rs"]
mod eal;

use dress::Dress;

const MBUFS: u32 = 255;

/// What a store was asked: place, round, set, and the values to keep.
type Asked = (u32, Round, MemberSet, Option<Vec<i32>>);

/// A trace on its way through the host.
struct Player<'t> {
    trace: &'t Trace,
    dress: Dress,
    shard: Shard,
    poller: Poller,
    /// The jobs as they are now.
    jobs: Vec<JobLine>,
    asked: Vec<Asked>,
    /// What must have come out.
    expected: Vec<Vec<u8>>,
}

/// Who a job's packets go to.
fn ends(job: &JobLine) -> Vec<SocketAddrV4> {
    let members = job.members.iter().map(|member| member.address);
    members
        .chain(job.parent.as_ref().map(|parent| parent.address))
        .collect()
}

/// The answers by which the aggregator learns where a job's members are.
fn replies(job: &JobLine, dress: Dress) -> impl Iterator<Item = Vec<u8>> {
    ends(job)
        .into_iter()
        .map(move |end| dress.reply(*end.ip(), *AGGREGATOR.ip()))
}

/// All that is received, in order.
fn capture(trace: &Trace, dress: Dress) -> Vec<u8> {
    let jobs = trace.setup.jobs.iter();
    let mut frames: Vec<Vec<u8>> = jobs.flat_map(|job| replies(job, dress)).collect();
    for event in &trace.events {
        match event {
            Event::Packet(expected) => {
                let datagram = &trace.datagrams[expected.packet - 1];
                let number = expected.packet as u16;
                let frame = frame::write(datagram.source, AGGREGATOR, number, &datagram.payload);
                frames.push(dress.frame(&frame));
            }
            Event::Admit(line) => frames.extend(replies(&line.admit, dress)),
            _ => {}
        }
    }
    pcap::write(frames.iter().map(|frame| (0, frame.as_slice())))
}

/// The frames of a capture of DPDK's, which has nanoseconds; without those by which it asks for neighbours.
fn captured(path: &Path) -> Vec<Vec<u8>> {
    const NANOSECONDS: u32 = 0xa1b2_3c4d;
    let mut file = fs::read(path).expect("a capture");
    if file[..4] == NANOSECONDS.to_le_bytes() {
        file[..4].copy_from_slice(&0xa1b2_c3d4_u32.to_le_bytes());
    }
    let frames = pcap::read(&file).expect("a capture");
    let frames = frames.into_iter().map(<[u8]>::to_vec);
    frames.filter(|frame| !asks(frame)).collect()
}

fn asks(frame: &[u8]) -> bool {
    let ethernet = Ethernet::read(frame).expect("a frame");
    // ICMPv6, behind a header without extensions.
    ethernet.kind == 0x0806 || ethernet.kind == 0x86dd && frame[ethernet.len() + 6] == 58
}

impl Player<'_> {
    /// One frame; nothing happens besides.
    fn frame(&mut self, now: u64) {
        assert_eq!(
            self.poller.turn(&self.shard, now, 1),
            1,
            "{}: a frame",
            self.trace.name
        );
    }

    fn admit(&mut self, line: &JobLine, now: u64) {
        let job: ModelJob = line.job(self.trace.setup.epoch);
        let mut state = self.shard.lock();
        state.aggregator.release(job.key);
        state
            .aggregator
            .admit(&self.dress.job(config(&job)))
            .expect("memory was made for it");
        let route = Route {
            members: line
                .members
                .iter()
                .map(|member| self.dress.address(member.address))
                .collect(),
            parent: line
                .parent
                .as_ref()
                .map(|parent| self.dress.address(parent.address)),
        };
        state.set_route(job.key, route);
        drop(state);
        self.jobs.retain(|other| other.key != line.key);
        self.jobs.push(line.clone());
        for _ in ends(line) {
            self.frame(now);
        }
    }

    fn packet(&mut self, expected: &Expectation) {
        let before = self.shard.lock().aggregator.counters().clone();
        self.frame(expected.now);
        let source = self.trace.datagrams[expected.packet - 1].source;
        if let Some(Hex(packet)) = &expected.output {
            let to = self.receivers(expected.verdict, packet, source);
            self.expected
                .extend(to.iter().map(|to| self.dress.sent(AGGREGATOR, *to, packet)));
        }
        let state = self.shard.lock();
        let counters = state.aggregator.counters();
        let raised = |name: &str| {
            counters
                .iter()
                .any(|(counter, value)| counter.name() == name && value == before.get(counter) + 1)
        };
        assert!(
            raised(&expected.counter),
            "{}, packet {}: {} is not counted",
            self.trace.name,
            expected.packet,
            expected.counter
        );
        drop(state);
        self.ask();
    }

    /// To whom an output goes.
    fn receivers(&self, verdict: VerdictKind, packet: &[u8], source: SocketAddrV4) -> Vec<SocketAddrV4> {
        let job = || {
            let key = &packet[8..16];
            let job = self.jobs.iter().find(|job| job.key.0.to_le_bytes() == *key);
            job.expect("the output's job")
        };
        match verdict {
            VerdictKind::Quiet => Vec::new(),
            VerdictKind::Reply => vec![source],
            VerdictKind::Broadcast => job().members.iter().map(|member| member.address).collect(),
            VerdictKind::Forward => job().parent.iter().map(|parent| parent.address).collect(),
        }
    }

    /// Notes what the aggregator asks of a store, which this host has none of.
    fn ask(&mut self) {
        let mut state = self.shard.lock();
        while let Some(request) = state.aggregator.store_request() {
            let put = match request.action {
                StoreAction::Put(values) => Some(values.to_vec()),
                StoreAction::Get => None,
            };
            self.asked.push((request.place, request.round, request.set, put));
        }
    }

    /// A store gives back what it was given: beside the port.
    fn recalled(&mut self, line: &Recalled) {
        let sum = (
            u32::from(line.slot) * 2 + line.round % 2,
            Round(line.round),
            MemberSet(line.set.0),
        );
        let put = self
            .asked
            .iter()
            .filter(|asked| (asked.0, asked.1, asked.2) == sum);
        let values = put
            .filter_map(|asked| asked.3.clone())
            .next()
            .expect("it was put");
        let mut out = vec![0; 2048];
        let verdict = self.shard.lock().aggregator.recalled(
            line.recalled.0,
            sum.0,
            sum.1,
            sum.2,
            &values,
            line.now,
            &mut out,
        );
        let (kind, len) = match verdict {
            Verdict::Quiet => (VerdictKind::Quiet, None),
            Verdict::Reply { len } => (VerdictKind::Reply, Some(len)),
            Verdict::Broadcast { len, .. } => (VerdictKind::Broadcast, Some(len)),
            Verdict::Forward { len, .. } => (VerdictKind::Forward, Some(len)),
        };
        let output = len.map(|len| Hex(out[..len].to_vec()));
        assert_eq!(
            (kind, output),
            (line.verdict, line.output.clone()),
            "{}",
            self.trace.name
        );
        self.ask();
    }

    fn play(&mut self) {
        let mut now = 0;
        for job in &self.trace.setup.jobs {
            self.admit(job, now);
        }
        for event in &self.trace.events {
            if let Event::Packet(expected) = event {
                now = expected.now;
            }
            match event {
                Event::Packet(expected) => self.packet(expected),
                Event::Recalled(line) => self.recalled(line),
                Event::Admit(line) => self.admit(&line.admit, now),
                other => control(&mut self.shard.lock().aggregator, other),
            }
        }
        assert_eq!(self.poller.turn(&self.shard, now, 1), 0, "no frame is left");
    }
}

/// What is no packet.
fn control(aggregator: &mut agg_host::ShardAggregator, event: &Event) {
    match event {
        Event::Abort(line) => {
            let cause = match line.reason {
                4 => AbortCause::LostMember,
                5 => AbortCause::MemberFailed,
                6 => AbortCause::Ended,
                other => panic!("{other} is no reason to abort"),
            };
            let member = line.member;
            aggregator.abort(line.abort.0, Abort { cause, member });
        }
        Event::Stored(line) => {
            let place = u32::from(line.slot) * 2 + line.round % 2;
            aggregator.stored(line.stored.0, place, Round(line.round), MemberSet(line.set.0));
        }
        Event::StoreLost(line) => aggregator.store_lost(line.store_lost.0),
        Event::Suspend(line) => aggregator.suspend(line.suspend.0),
        Event::Exclude(line) => aggregator.exclude(line.exclude.0, line.member),
        Event::Packet(_) | Event::Recalled(_) | Event::Admit(_) => unreachable!("a packet"),
    }
}

/// One trace; how many frames came out, and how many came in several mbufs.
fn play(
    eal: &Eal,
    [received, answers]: [&Pool; 2],
    directory: &Path,
    dress: Dress,
    name: &str,
    trace: &Trace,
) -> (usize, u64) {
    let (input, output) = (directory.join("in.pcap"), directory.join("out.pcap"));
    fs::write(&input, capture(trace, dress)).expect("a file");
    let arguments = format!("rx_pcap={},tx_pcap={}", input.display(), output.display());
    let device = Device::add(eal, name, &arguments).expect("a device");
    let (port, mut queues) = Port::start(device, received, &PortConfig::default()).expect("a port");
    let jobs = trace.setup.admitted();
    let heads = vec![Head::VACANT; jobs.iter().map(ModelJob::heads).sum()];
    // What a real host's memory held before.
    let values = vec![-1; jobs.iter().map(ModelJob::values).sum()];
    let aggregator = Aggregator::new(heads.into_boxed_slice(), values.into_boxed_slice());
    // No address of a trace is behind a gateway.
    let network = Network {
        address: dress.ip(*AGGREGATOR.ip()),
        prefix: 0,
        gateway: None,
    };
    let link = Link::alone(queues.pop().expect("a queue"), [2, 0, 10, 77, 0, 1], false);
    let mut player = Player {
        trace,
        dress,
        shard: Shard::new(aggregator, network),
        poller: Poller::new(
            vec![link],
            HandOff::alone(),
            answers.clone(),
            dress.address(AGGREGATOR),
            dress.vlan,
        ),
        jobs: Vec::new(),
        asked: Vec::new(),
        expected: Vec::new(),
    };
    player.play();
    let gathered = player.shard.lock().frames.get(FrameCounter::Gathered);
    let Player { poller, expected, .. } = player;
    // The capture is whole when the port is closed.
    drop((poller, port));
    let came = captured(&output);
    for (at, (came, expected)) in came.iter().zip(&expected).enumerate() {
        assert_eq!(came, expected, "{}: frame {}", trace.name, at + 1);
    }
    assert_eq!(came.len(), expected.len(), "{}: frames", trace.name);
    (came.len(), gathered)
}

/// All traces; how many mbufs' frames were gathered.
fn play_all(eal: &Eal, pools: [&Pool; 2], dress: Dress, prefix: &str) -> u64 {
    let vectors = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/vectors");
    let traces = Trace::read_all(&vectors).expect("docs/vectors can be read");
    let directory: PathBuf = std::env::temp_dir().join(format!("trib-dpdk-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let (mut packets, mut frames, mut gathered) = (0, 0, 0);
    for (number, trace) in traces.iter().enumerate() {
        let name = format!("net_pcap_{prefix}{number}");
        let (came, of_several) = play(eal, pools, &directory, dress, &name, trace);
        frames += came;
        gathered += of_several;
        packets += trace.datagrams.len();
        for pool in pools {
            assert_eq!(pool.available(), MBUFS, "{}: all mbufs are back", trace.name);
        }
    }
    fs::remove_dir_all(&directory).unwrap();
    println!(
        "{dress:?}: {} traces with {packets} packets, {gathered} of them in several mbufs, gave {frames} frames",
        traces.len()
    );
    assert!(
        traces.len() >= 30 && packets >= 400 && frames >= 300,
        "{packets} packets, {frames} frames"
    );
    gathered
}

/// DPDK starts once in a process, so all of a file is one test.
#[test]
fn each_golden_trace_gives_the_same_frames_as_the_specification() {
    let eal = eal::start();
    let pool = |name, room| Pool::new(&eal, name, MBUFS, room, None).unwrap();
    let (large, small) = (pool("frames", 2048), pool("small", 100));
    for (ipv6, vlan, prefix) in [
        (false, None, "plain"),
        (true, None, "v6"),
        (false, Some(7), "tagged"),
        (true, Some(4094), "both"),
    ] {
        assert_eq!(play_all(&eal, [&large; 2], Dress { ipv6, vlan }, prefix), 0);
    }
    let dress = Dress {
        ipv6: true,
        vlan: Some(7),
    };
    let gathered = play_all(&eal, [&small, &large], dress, "small");
    assert!(gathered >= 400, "{gathered} frames were longer than an mbuf");
}
