//! The loop over rings in this process: the test is the other end of the wire.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agg_core::slot::Head;
use agg_core::{Aggregator, Counter};
use agg_host::frame::checksum;
use agg_model::harness::lockstep::config;
use agg_model::packet::ModelPacket;
use agg_model::vectors::{JobLine, frame};
use dpdk_host::dpdk::{BURST, Burst, Device, Eal, Mbuf, Pool, Port, PortConfig, Queue};
use dpdk_host::{FrameCounter, HandOff, Idle, Link, Network, Poller, Route, Shard};

#[path = "common/answering.rs"]
mod answering;
#[path = "common/eal.rs"]
mod eal;
#[path = "common/packet.rs"]
mod packet;

use answering::{arp_reply, sent};
use packet::{EPOCH, KEY};

const HERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), 4601);
const MEMBERS: u8 = 3;
const WINDOW: u16 = 128;
const LANES: u16 = 16;
const MBUFS: u32 = 511;

fn member(number: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 10 + number), 5000)
}

fn job() -> JobLine {
    packet::job(LANES, WINDOW, (0..MEMBERS).map(member))
}

/// A member's contribution, all of whose values are its number and one.
fn contribution(number: u8, slot: u16, resend: bool) -> Vec<u8> {
    let values = (0..LANES).flat_map(|_| i32::from(number + 1).to_le_bytes());
    let packet = ModelPacket {
        resend,
        ..packet::contribution(number, slot, values.collect())
    };
    frame::write(member(number), HERE, 1, &packet.emit())
}

/// The two ends of a wire.
struct Scene {
    shard: Shard,
    poller: Poller,
    near: Port,
    far: Port,
    there: Queue,
    pool: Pool,
    now: u64,
}

impl Scene {
    fn new(eal: &Eal, name: &str, ring: u32) -> Self {
        let pool = Pool::new(eal, name, MBUFS, 2048, None).unwrap();
        let devices = Device::ring_pair(eal, name, ring).unwrap();
        let [(near, here), (far, there)] =
            devices.map(|device| Port::start(device, &pool, &PortConfig::default()).unwrap());
        let job = job().job(EPOCH);
        let heads = vec![Head::VACANT; job.heads()].into_boxed_slice();
        let values = vec![-1; job.values()].into_boxed_slice();
        let network = Network {
            address: (*HERE.ip()).into(),
            prefix: 24,
            gateway: None,
        };
        let shard = Shard::new(Aggregator::new(heads, values), network);
        let mut state = shard.lock();
        state.aggregator.admit(&config(&job)).unwrap();
        let members = (0..MEMBERS).map(|number| member(number).into()).collect();
        let parent = None;
        state.set_route(KEY, Route { members, parent });
        drop(state);
        let link = Link::alone(here.into_iter().next().unwrap(), [2, 0, 10, 77, 0, 1], false);
        Self {
            poller: Poller::new(vec![link], HandOff::alone(), pool.clone(), HERE.into(), None),
            there: there.into_iter().next().unwrap(),
            shard,
            near,
            far,
            pool,
            now: 1,
        }
    }

    fn mbuf(&self, bytes: &[u8]) -> Mbuf {
        let mut mbuf = self.pool.take().expect("a free mbuf");
        mbuf.set_len(bytes.len());
        mbuf.bytes_mut().copy_from_slice(bytes);
        mbuf
    }

    fn send(&mut self, frame: &[u8]) {
        let mut burst = Burst::default();
        assert!(burst.push(self.mbuf(frame)).is_ok());
        assert_eq!(self.there.send(&mut burst), 1);
    }

    /// Everything that has come back.
    fn received(&mut self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut burst = Burst::default();
        while self.there.receive(BURST, &mut burst) > 0 {
            frames.extend(burst.drain().map(|mbuf| mbuf.bytes().to_vec()));
        }
        frames
    }

    fn turn(&mut self) -> usize {
        self.now += 1;
        self.poller.turn(&self.shard, self.now, BURST)
    }

    /// One frame in, what comes of it out.
    fn ask(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.send(frame);
        assert_eq!(self.turn(), 1);
        self.received()
    }

    fn frames(&self, counter: FrameCounter) -> u64 {
        self.shard.lock().frames.get(counter)
    }

    fn packets(&self, counter: Counter) -> u64 {
        self.shard.lock().aggregator.counters().get(counter)
    }

    fn learn(&mut self, members: std::ops::Range<u8>) {
        for number in members {
            assert_eq!(
                self.ask(&arp_reply(*member(number).ip(), *HERE.ip())),
                Vec::<Vec<u8>>::new()
            );
        }
    }
}

/// DPDK starts once in a process, so all of a file is one test.
#[test]
fn the_loop_sums_answers_and_drops() {
    let eal = eal::start();
    neighbours_are_asked_for_and_results_go_to_all(&eal);
    only_what_is_for_the_shard_is_answered(&eal);
    without_mbufs_nothing_is_lost_but_time(&eal);
    a_full_ring_loses_nothing_but_time(&eal);
    it_runs_until_stopped(&eal);
}

fn neighbours_are_asked_for_and_results_go_to_all(eal: &Eal) {
    let mut scene = Scene::new(eal, "sum", 1024);
    assert_eq!(scene.turn(), 0);
    let asked = scene.received();
    assert_eq!(asked.len(), usize::from(MEMBERS), "one request for each member");
    for request in &asked {
        assert_eq!(
            (&request[..6], &request[12..14], &request[20..22]),
            ([0xff; 6].as_slice(), [8, 6].as_slice(), [0, 1].as_slice())
        );
    }
    scene.learn(0..2);
    assert_eq!(scene.turn(), 0);
    assert!(scene.received().is_empty(), "not again at once");

    // Of the contribution that came last, or, again, of none.
    let result = |slot, last: Option<u8>| {
        let mut packet = ModelPacket::parse(&contribution(0, slot, false)[42..]).unwrap();
        packet.rest = (0..LANES).flat_map(|_| 6_i32.to_le_bytes()).collect();
        (packet.up, packet.result, packet.resend) = (false, true, last.is_none());
        packet.member = last.unwrap_or(255);
        (packet.set, packet.workers) = ((0..MEMBERS).collect(), 3);
        packet.emit()
    };
    assert!(scene.ask(&contribution(0, 4, false)).is_empty());
    assert!(scene.ask(&contribution(1, 4, false)).is_empty());
    let came = scene.ask(&contribution(2, 4, false));
    let expected: Vec<Vec<u8>> = (0..2)
        .map(|number| sent(HERE, member(number), &result(4, Some(2))))
        .collect();
    assert_eq!(came, expected, "to those whose Ethernet address is known");
    assert_eq!(scene.frames(FrameCounter::NoNeighbour), 1);
    // Who asks again is answered where his frame came from.
    let came = scene.ask(&contribution(2, 4, true));
    assert_eq!(came, [sent(HERE, member(2), &result(4, None))]);
    scene.learn(2..3);
    for number in 0..MEMBERS {
        let came = scene.ask(&contribution(number, 5, false));
        assert_eq!(came.len(), if number + 1 == MEMBERS { 3 } else { 0 });
    }
    assert_eq!(
        scene.near.stats().unwrap().received,
        scene.frames(FrameCounter::Received)
    );
    assert_eq!(
        scene.far.stats().unwrap().received,
        scene.frames(FrameCounter::Sent)
    );
}

fn only_what_is_for_the_shard_is_answered(eal: &Eal) {
    let mut scene = Scene::new(eal, "foreign", 1024);
    scene.turn();
    scene.received();
    let mut request = arp_reply(*member(0).ip(), *HERE.ip());
    request[21] = 1;
    let reply = arp_reply(*HERE.ip(), *member(0).ip());
    assert_eq!(scene.ask(&request), [reply]);
    assert_eq!(scene.frames(FrameCounter::ArpAnswered), 1);
    // Somebody else is asked for.
    request[41] ^= 3;
    assert!(scene.ask(&request).is_empty());

    let mut ping = frame::write(member(0), HERE, 1, b"");
    ping.truncate(42);
    ping[23] = 1;
    ping[34..42].copy_from_slice(&[8, 0, 0, 0, 0, 1, 0, 1]);
    let sum = checksum(&ping[34..42]);
    ping[36..38].copy_from_slice(&sum.to_be_bytes());
    ping[24..26].fill(0);
    let sum = checksum(&ping[14..34]);
    ping[24..26].copy_from_slice(&sum.to_be_bytes());
    let answers = scene.ask(&ping);
    assert_eq!(answers.len(), 1);
    assert_eq!(
        (&answers[0][26..30], answers[0][34]),
        ([10, 77, 0, 1].as_slice(), 0)
    );
    assert_eq!(scene.frames(FrameCounter::EchoAnswered), 1);

    let to = |to| frame::write(member(0), to, 1, &[0; 80]);
    let other_port = SocketAddrV4::new(*HERE.ip(), 4602);
    let mut ipv6 = to(HERE);
    ipv6[12..14].copy_from_slice(&[0x86, 0xdd]);
    for foreign in [to(other_port), to(member(1)), ipv6, vec![0; 13], vec![0; 60]] {
        assert!(scene.ask(&foreign).is_empty());
    }
    assert_eq!(scene.frames(FrameCounter::Foreign), 5);
    // Not of the protocol: the core's to count.
    assert!(scene.ask(&to(HERE)).is_empty());
    assert_eq!(scene.packets(Counter::DroppedForeign), 1);
}

fn without_mbufs_nothing_is_lost_but_time(eal: &Eal) {
    let mut scene = Scene::new(eal, "empty", 1024);
    scene.turn();
    scene.received();
    scene.learn(0..MEMBERS);
    for number in 0..2 {
        scene.ask(&contribution(number, 0, false));
    }
    // One is kept for the next answer: it is used, and then there is none for copies.
    let last = contribution(2, 0, false);
    scene.send(&last);
    let taken: Vec<Mbuf> = std::iter::from_fn(|| scene.pool.take()).collect();
    assert_eq!(scene.turn(), 1);
    let came = scene.received();
    assert_eq!((came.len(), scene.frames(FrameCounter::NotCopied)), (1, 2));
    drop(taken);
    for number in 0..2 {
        assert_eq!(
            scene.ask(&contribution(number, 0, true)).len(),
            1,
            "member {number} gets it when it asks"
        );
    }
    // Now none is kept either: what comes changes nothing.
    scene.send(&contribution(0, 1, false));
    scene.send(&contribution(1, 1, false));
    let mut taken: Vec<Mbuf> = std::iter::from_fn(|| scene.pool.take()).collect();
    let merged = scene.packets(Counter::Merged);
    while scene.turn() > 0 {}
    let dropped = scene.frames(FrameCounter::NoMbuf);
    assert_eq!(scene.packets(Counter::Merged) + dropped, merged + 2);
    taken.clear();
    for number in 0..2 {
        scene.ask(&contribution(number, 1, true));
    }
    assert_eq!(scene.ask(&contribution(2, 1, false)).len(), 3);
}

fn a_full_ring_loses_nothing_but_time(eal: &Eal) {
    let mut scene = Scene::new(eal, "full", 64);
    scene.turn();
    scene.received();
    scene.learn(0..MEMBERS);
    for slot in 0..30 {
        for number in 0..MEMBERS {
            scene.send(&contribution(number, slot, false));
        }
        scene.turn();
    }
    let full = scene.frames(FrameCounter::RingFull);
    assert_eq!(scene.received().len() as u64 + full, 90);
    assert_eq!(full, 27, "a ring of 64 holds 63");
    for number in 0..MEMBERS {
        assert_eq!(scene.ask(&contribution(number, 29, true)).len(), 1);
    }
    drop((scene.poller, scene.there, scene.near, scene.far));
}

fn it_runs_until_stopped(eal: &Eal) {
    for (idle, name) in [
        (Idle::Spin, "spin"),
        (Idle::Yield, "yield"),
        (Idle::Sleep, "sleep"),
    ] {
        let Scene {
            shard,
            mut poller,
            mut there,
            pool,
            ..
        } = Scene::new(eal, name, 256);
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| poller.run(&shard, idle, &stop));
            let mut request = arp_reply(*member(0).ip(), *HERE.ip());
            request[21] = 1;
            let mut burst = Burst::default();
            let mut mbuf = pool.take().unwrap();
            mbuf.set_len(request.len());
            mbuf.bytes_mut().copy_from_slice(&request);
            assert!(burst.push(mbuf).is_ok());
            assert_eq!(there.send(&mut burst), 1);
            let deadline = Instant::now() + Duration::from_secs(10);
            let mut is_answered = false;
            while !is_answered && Instant::now() < deadline {
                there.receive(BURST, &mut burst);
                is_answered = burst.drain().any(|mbuf| mbuf.bytes()[21] == 2);
                std::thread::yield_now();
            }
            stop.store(true, Ordering::Relaxed);
            assert!(is_answered, "{name}");
        });
    }
}
