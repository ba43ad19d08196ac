//! Two shards at two ports, over rings in this process: the first port has a queue for each shard, the second one queue only. The
//! test is at the other end of both wires.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agg_core::slot::Head;
use agg_core::{Aggregator, Counter};
use agg_host::ShardAggregator;
use agg_model::harness::lockstep::config;
use agg_model::packet::ModelPacket;
use agg_model::vectors::{JobLine, frame};
use dpdk_host::dpdk::{BURST, Burst, Device, Eal, Pool, Port, PortConfig, Queue, Steering};
use dpdk_host::{Exit, FrameCounter, HandOff, Idle, Link, Network, Poller, Route, Shard};

#[path = "common/answering.rs"]
mod answering;
#[path = "common/packet.rs"]
mod packet;

use answering::{arp_reply, sent};
use packet::{EPOCH, KEY};

const SHARDS: u16 = 2;
const MEMBERS: u8 = 2;
const WINDOW: u16 = 64;
const LANES: u16 = 16;
const MBUFS: u32 = 511;
/// A ring of so many holds one less.
const HAND_OFF: u32 = 16;

/// Where a shard receives.
fn here(shard: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), 4601 + shard)
}

/// A member's address on a shard's stream. Each is at the port of its number.
fn member(number: u8, shard: u16) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 10 + number), 5000 + shard)
}

fn job(shard: u16) -> JobLine {
    packet::job(LANES, WINDOW, (0..MEMBERS).map(|number| member(number, shard)))
}

fn packet(shard: u16, number: u8, slot: u16) -> ModelPacket {
    packet::contribution(number, slot, values(i32::from(shard) + 1))
}

fn values(value: i32) -> Vec<u8> {
    (0..LANES).flat_map(|_| value.to_le_bytes()).collect()
}

/// A contribution: all values are the shard's number and one.
fn contribution(shard: u16, number: u8, slot: u16, resend: bool) -> Vec<u8> {
    let packet = ModelPacket {
        resend,
        ..packet(shard, number, slot)
    };
    frame::write(member(number, shard), here(shard), 1, &packet.emit())
}

/// The result for a member: that of the contribution that came last, or, again, that of none.
fn result(shard: u16, number: u8, slot: u16, last: Option<u8>) -> Vec<u8> {
    let packet = ModelPacket {
        up: false,
        result: true,
        resend: last.is_none(),
        member: last.unwrap_or(255),
        set: (0..MEMBERS).collect(),
        workers: MEMBERS.into(),
        rest: values(i32::from(MEMBERS) * (i32::from(shard) + 1)),
        ..packet(shard, 0, slot)
    };
    sent(here(shard), member(number, shard), &packet.emit())
}

fn aggregator() -> ShardAggregator {
    let job = job(0).job(EPOCH);
    let heads = vec![Head::VACANT; job.heads()].into_boxed_slice();
    let values = vec![-1; job.values()].into_boxed_slice();
    Aggregator::new(heads, values)
}

fn shards() -> Vec<Arc<Shard>> {
    let network = Network {
        address: (*here(0).ip()).into(),
        prefix: 24,
        gateway: None,
    };
    let first = Shard::new(aggregator(), network);
    let others: Vec<Shard> = (1..SHARDS).map(|_| first.beside(aggregator())).collect();
    let shards = std::iter::once(first).chain(others).map(Arc::new);
    let shards: Vec<Arc<Shard>> = shards.collect();
    for (shard, number) in shards.iter().zip(0..) {
        let mut state = shard.lock();
        let job = job(number).job(EPOCH);
        state.aggregator.admit(&config(&job)).unwrap();
        let members = (0..MEMBERS).map(|member_| member(member_, number).into());
        let members = members.collect();
        let parent = None;
        state.set_route(KEY, Route { members, parent });
    }
    shards
}

/// Shards, their cores' loops, and the other ends of the wires.
struct Scene {
    shards: Vec<Arc<Shard>>,
    pollers: Vec<Poller>,
    /// By port, then by queue.
    there: Vec<Vec<Queue>>,
    pool: Pool,
    now: u64,
    ports: Vec<Port>,
}

impl Scene {
    fn new(eal: &Eal, name: &str) -> Self {
        let pool = Pool::new(eal, name, MBUFS, 2048, None).unwrap();
        let mut ports = Vec::new();
        let mut there = Vec::new();
        let mut links: Vec<Vec<Link>> = (0..SHARDS).map(|_| Vec::new()).collect();
        for (number, queues) in [2, 1].into_iter().enumerate() {
            let devices = Device::ring_pair_of(eal, &format!("{name}{number}"), 256, queues).unwrap();
            let config = PortConfig {
                queues,
                ..PortConfig::default()
            };
            let [(near, here), (far, theirs)] =
                devices.map(|device| Port::start(device, &pool, &config).unwrap());
            let (receive, send): (Vec<_>, Vec<_>) = here.into_iter().map(Queue::split).unzip();
            let send: Vec<Exit> = send.into_iter().map(Exit::new).collect();
            let mut receive = receive.into_iter();
            for (shard, links) in links.iter_mut().enumerate() {
                links.push(Link {
                    receive: receive.next(),
                    send: send[shard % send.len()].clone(),
                    mac: [2, 0, 10, 77, 0, 1],
                    checksums: false,
                });
            }
            ports.extend([near, far]);
            there.push(theirs);
        }
        let hand_offs = HandOff::among(eal, name, SHARDS.into(), HAND_OFF).unwrap();
        let parts = links.into_iter().zip(hand_offs).zip(0..);
        let pollers = parts.map(|((links, hand_off), shard)| {
            let address = SocketAddr::from(here(shard));
            Poller::new(links, hand_off, pool.clone(), address, None)
        });
        Self {
            shards: shards(),
            pollers: pollers.collect(),
            there,
            pool,
            now: 1,
            ports,
        }
    }

    fn send(&mut self, port: usize, queue: usize, frame: &[u8]) {
        send(&self.pool, &mut self.there[port][queue], frame);
    }

    /// One turn of each shard, the first one first.
    fn turn(&mut self) {
        self.now += 1;
        for (poller, shard) in self.pollers.iter_mut().zip(&self.shards) {
            poller.turn(shard, self.now, BURST);
        }
    }

    /// Everything that has come to a queue of a port.
    fn received(&mut self, port: usize, queue: usize) -> Vec<Vec<u8>> {
        received(&mut self.there[port][queue])
    }

    /// What has come to all queues: by port and queue.
    fn all_received(&mut self) -> [Vec<Vec<u8>>; 3] {
        [(0, 0), (0, 1), (1, 0)].map(|(port, queue)| self.received(port, queue))
    }

    fn frames(&self, shard: usize, counter: FrameCounter) -> u64 {
        self.shards[shard].lock().frames.get(counter)
    }

    fn packets(&self, shard: usize, counter: Counter) -> u64 {
        self.shards[shard].lock().aggregator.counters().get(counter)
    }

    /// Members say where they are, each at its port and always to the first queue.
    fn introduce(&mut self) {
        self.turn();
        self.all_received();
        for number in 0..MEMBERS {
            let reply = arp_reply(*member(number, 0).ip(), *here(0).ip());
            self.send(number.into(), 0, &reply);
        }
        self.turn();
        assert_eq!(self.all_received().concat(), Vec::<Vec<u8>>::new());
    }
}

fn send(pool: &Pool, queue: &mut Queue, frame: &[u8]) {
    let mut burst = Burst::default();
    let mut mbuf = pool.take().expect("a free mbuf");
    mbuf.set_len(frame.len());
    mbuf.bytes_mut().copy_from_slice(frame);
    assert!(burst.push(mbuf).is_ok());
    assert_eq!(queue.send(&mut burst), 1);
}

fn received(queue: &mut Queue) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut burst = Burst::default();
    while queue.receive(BURST, &mut burst) > 0 {
        frames.extend(burst.drain().map(|mbuf| mbuf.bytes().to_vec()));
    }
    frames
}

/// DPDK starts once in a process, so all of a file is one test. The other core shares a CPU with the main one.
#[test]
fn shards_get_what_is_theirs_from_whichever_queue_it_came_to() {
    let arguments = "--no-huge -m 64 --no-pci --no-shconf --no-telemetry --log-level 3 --lcores 0@0,1@0";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let eal = Eal::start(&arguments).expect("DPDK starts");
    neighbours_are_asked_for_once_at_every_port(&eal);
    a_slot_is_summed_wherever_its_packets_come_from(&eal);
    what_another_shard_has_no_room_for_is_lost_but_for_a_while(&eal);
    what_is_no_shard_s_is_dropped(&eal);
    rings_refuse_and_give_back(&eal);
    a_port_that_cannot_steer_says_so(&eal);
    cores_work_at_the_same_time(&eal);
    a_core_that_panics_says_so(&eal);
}

fn neighbours_are_asked_for_once_at_every_port(eal: &Eal) {
    let mut scene = Scene::new(eal, "ask");
    scene.turn();
    let [first, second, other] = scene.all_received();
    let whom = |requests: &[Vec<u8>]| {
        let mut whom: Vec<u8> = requests.iter().map(|request| request[41]).collect();
        whom.sort_unstable();
        whom
    };
    assert_eq!(whom(&first), [10, 11]);
    assert_eq!(whom(&other), [10, 11]);
    assert!(second.is_empty(), "the second shard does not ask again");
}

fn a_slot_is_summed_wherever_its_packets_come_from(eal: &Eal) {
    let mut scene = Scene::new(eal, "sum");
    scene.introduce();
    // To the right queue, to the wrong one of the same port, and to the only one of the other.
    for shard in 0..SHARDS {
        let right = usize::from(shard);
        for (slot, queue) in [(1, right), (2, 1 - right)] {
            scene.send(0, queue, &contribution(shard, 0, slot, false));
            scene.send(1, 0, &contribution(shard, 1, slot, false));
        }
    }
    // The first shard hands over, then the second does; what that one gave is looked at in the next turn.
    scene.turn();
    scene.turn();
    let [first, second, other] = scene.all_received();
    let sort = |mut frames: Vec<Vec<u8>>| {
        frames.sort();
        frames
    };
    // Member 0's of the first shard comes last where it went to the second one's queue.
    let last = |shard, slot| Some(u8::from((shard, slot) != (0, 2)));
    let results = |shard, number| {
        [1, 2]
            .map(|slot| result(shard, number, slot, last(shard, slot)))
            .to_vec()
    };
    assert_eq!(
        sort(first),
        sort(results(0, 0)),
        "each shard sends on its own queue"
    );
    assert_eq!(sort(second), sort(results(1, 0)));
    assert_eq!(
        sort(other),
        sort([results(0, 1), results(1, 1)].concat()),
        "or on the one that they share"
    );
    assert_eq!(scene.frames(0, FrameCounter::HandedOver), 3);
    assert_eq!(scene.frames(1, FrameCounter::HandedOver), 1);
    assert_eq!(
        [0, 1].map(|shard| scene.packets(shard, Counter::Completed)),
        [2, 2]
    );
    assert_eq!(
        [0, 1].map(|shard| scene.frames(shard, FrameCounter::Foreign)),
        [0, 0]
    );
    // Who asks again is answered by the port that he asked at.
    scene.send(1, 0, &contribution(1, 1, 1, true));
    scene.turn();
    assert_eq!(
        scene.all_received(),
        [Vec::new(), Vec::new(), vec![result(1, 1, 1, None)]]
    );
}

fn what_another_shard_has_no_room_for_is_lost_but_for_a_while(eal: &Eal) {
    let mut scene = Scene::new(eal, "full");
    scene.introduce();
    let slots = 40;
    for slot in 0..slots {
        scene.send(0, 0, &contribution(1, 0, slot, false));
    }
    scene.turn();
    let kept = u64::from(HAND_OFF) - 1;
    assert_eq!(scene.frames(0, FrameCounter::HandedOver), kept);
    assert_eq!(
        scene.frames(0, FrameCounter::HandOffFull),
        u64::from(slots) - kept
    );
    assert_eq!(scene.packets(1, Counter::Merged), kept);
    for slot in 0..slots {
        scene.send(0, 1, &contribution(1, 0, slot, true));
        scene.send(0, 1, &contribution(1, 1, slot, false));
        scene.turn();
    }
    assert_eq!(scene.packets(1, Counter::Completed), u64::from(slots));
    let pool = scene.pool.clone();
    scene.all_received();
    // Some are still on their way when the shards end.
    for slot in 0..10 {
        scene.send(0, 0, &contribution(1, 0, slot, true));
    }
    let now = scene.now + 1;
    scene.pollers[0].turn(&scene.shards[0], now, BURST);
    assert!(pool.available() < MBUFS);
    drop(scene);
    assert_eq!(pool.available(), MBUFS, "all mbufs are back");
}

fn what_is_no_shard_s_is_dropped(eal: &Eal) {
    let mut scene = Scene::new(eal, "none");
    scene.introduce();
    for port in [4600_u16, 4601 + SHARDS, 0, u16::MAX] {
        let mut frame = contribution(0, 0, 0, false);
        frame[36..38].copy_from_slice(&port.to_be_bytes());
        scene.send(0, 0, &frame);
        scene.send(0, 1, &frame);
    }
    scene.turn();
    assert_eq!(
        [0, 1].map(|shard| scene.frames(shard, FrameCounter::Foreign)),
        [4, 4]
    );
    assert_eq!(
        [0, 1].map(|shard| scene.frames(shard, FrameCounter::HandedOver)),
        [0, 0]
    );
}

fn rings_refuse_and_give_back(eal: &Eal) {
    let refused = |error: dpdk_host::dpdk::DpdkError| error.to_string();
    let Err(error) = HandOff::among(eal, "odd", 2, 15) else {
        panic!("a ring of 15");
    };
    let error = refused(error);
    assert!(
        error.starts_with("a ring odd_0_1 of 15 mbufs cannot be had: Invalid argument"),
        "{error}"
    );
}

fn a_port_that_cannot_steer_says_so(eal: &Eal) {
    let scene = Scene::new(eal, "steer");
    let to = Steering {
        udp_port: here(1).port(),
        queue: 1,
        is_ipv6: false,
        has_tag: false,
    };
    let error = scene.ports[0].steer(&to).unwrap_err().to_string();
    assert!(
        error.starts_with(
            "port net_ring_steer0_0 has no rte_flow rule for a UDP port: Function not implemented"
        ),
        "{error}"
    );
}

/// Both cores at once, each at its own queues; the wrong queue each time.
fn cores_work_at_the_same_time(eal: &Eal) {
    let mut scene = Scene::new(eal, "both");
    scene.introduce();
    let Scene {
        shards,
        mut pollers,
        mut there,
        pool,
        ports,
        ..
    } = scene;
    let stop = Arc::new(AtomicBool::new(false));
    let mut second = pollers.pop().unwrap();
    let mut first = pollers.pop().unwrap();
    let core = eal.workers().pop().expect("a core");
    let running = {
        let (shard, stop) = (Arc::clone(&shards[1]), Arc::clone(&stop));
        core.launch(move || second.run(&shard, Idle::Yield, &stop))
            .unwrap()
    };
    let busy = eal.workers().pop().unwrap().launch(|| {}).unwrap_err();
    assert!(busy.to_string().starts_with("core 1 takes no work"), "{busy}");
    let (first, ports) = std::thread::scope(|scope| {
        let shard = &shards[0];
        let halted = &stop;
        let run = scope.spawn(move || {
            first.run(shard, Idle::Yield, halted);
            first
        });
        let deadline = Instant::now() + Duration::from_secs(60);
        let mut counts = [0; 2];
        for slot in 0..WINDOW {
            for shard in 0..SHARDS {
                for number in 0..MEMBERS {
                    let (port, queue) = (
                        [0, 1][usize::from(number)],
                        usize::from(number == 0 && shard == 0),
                    );
                    send(
                        &pool,
                        &mut there[port][queue],
                        &contribution(shard, number, slot, false),
                    );
                }
            }
            let mut come = 0;
            while come < 4 && Instant::now() < deadline {
                for (port, queue) in [(0, 0), (0, 1), (1, 0)] {
                    let results = received(&mut there[port][queue]).len();
                    counts[port] += results;
                    come += results;
                }
                std::thread::yield_now();
            }
            assert_eq!(come, 4, "slot {slot}");
        }
        assert_eq!(counts, [2 * usize::from(WINDOW); 2]);
        stop.store(true, Ordering::Relaxed);
        (run.join().unwrap(), ports)
    });
    assert!(running.wait(), "it has not panicked");
    drop((first, there, ports));
    let handed = |shard: usize| shards[shard].lock().frames.get(FrameCounter::HandedOver);
    assert_eq!(
        [handed(0), handed(1)],
        [2 * u64::from(WINDOW), u64::from(WINDOW)],
        "the wrong queue of one port, and the only one of the other"
    );
}

fn a_core_that_panics_says_so(eal: &Eal) {
    let core = eal.workers().pop().expect("a core");
    assert_eq!((core.number(), eal.main().number()), (1, 0));
    let running = core.launch(|| panic!("as it should in this test")).unwrap();
    assert!(!running.wait());
    let core = eal.workers().pop().unwrap();
    assert!(core.launch(|| {}).unwrap().wait(), "it works again");
}
