//! What the core costs in the loop: one core plays the ranks and the aggregator over net_ring.
//!
//!     cargo bench -p dpdk-host            # --quick: shorter, to see that it works
//!
//! The same loop runs with the core; with a copy of the payload into the slot in the place of the merge, and of the slot into
//! the result; and with an echo of the header. Ranks write headers only, and what they get they drop: their part of the time is
//! the same in all three. All three run in turn, again and again, on one thread's CPU time; of each round's ratios the median
//! and the extremes are printed. A report: nothing is asserted of time.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use agg_core::wire::{Ecn, HEADER_LEN, packet_len};
use agg_core::{Counter, Endpoint, Lanes, Nanos, Round, Verdict};
use agg_host::frame::{End, Framing, Way};
use agg_host::{ShardAggregator, SlotMemory};
use dpdk_host::dpdk::{BURST, Burst, Device, Eal, Pool, Port, PortConfig, Queue};
use dpdk_host::{HandOff, Link, Network, Poller, Route, Shard};
use rustix::time::{ClockId, clock_gettime};

#[path = "common/packet.rs"]
mod packet;

use packet::{KEY, MEMBERS, WINDOW, header};

const EAL: &str = "--no-huge -m 128 --no-pci --no-shconf --no-telemetry --log-level 3 -l 0";
const HERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 4601);
/// Bytes of the headers in front of packets.
const FRAMING: usize = Framing::new(&SocketAddr::V4(HERE), None).len();
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

fn member(number: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 10 + number), 5000)
}

/// What is in the place of the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Variant {
    Core,
    Copy,
    Echo,
}

const VARIANTS: [Variant; 3] = [Variant::Core, Variant::Copy, Variant::Echo];

/// Copies payloads, as if that were the sum.
struct Copier {
    slots: Vec<u8>,
    payload: usize,
}

impl Copier {
    fn handle(&mut self, packet: &[u8], out: &mut [u8]) -> Verdict {
        let slot = usize::from(u16::from_le_bytes([packet[6], packet[7]])) % usize::from(WINDOW);
        let slot = &mut self.slots[slot * self.payload..][..self.payload];
        slot.copy_from_slice(&packet[HEADER_LEN..]);
        if packet[5] + 1 < MEMBERS {
            return Verdict::Quiet;
        }
        out[..HEADER_LEN].copy_from_slice(&packet[..HEADER_LEN]);
        out[HEADER_LEN..][..self.payload].copy_from_slice(slot);
        let len = packet.len();
        Verdict::Broadcast { key: KEY, len }
    }
}

fn echo(packet: &[u8], out: &mut [u8]) -> Verdict {
    out[..HEADER_LEN].copy_from_slice(&packet[..HEADER_LEN]);
    Verdict::Reply { len: HEADER_LEN }
}

/// The wire, with the ranks at one end.
struct Scene {
    shard: Shard,
    poller: Poller,
    there: Queue,
    pool: Pool,
    lanes: Lanes,
    copier: Copier,
    /// Ethernet, IPv4 and UDP headers of each member's frames.
    framing: Vec<[u8; FRAMING]>,
    /// The next contribution.
    next: (Round, u16, u8),
    _ports: [Port; 2],
}

impl Scene {
    fn new(eal: &Eal, lanes: Lanes) -> Self {
        let name = format!("l{}", lanes.count());
        let room = (FRAMING + packet_len(lanes.count())).max(2048) as u16;
        let pool = Pool::new(eal, &name, 1023, room, None).expect("a pool");
        let devices = Device::ring_pair(eal, &name, 256).expect("rings");
        let [(near, here), (far, there)] =
            devices.map(|device| Port::start(device, &pool, &PortConfig::default()).expect("a port"));
        let memory = SlotMemory::of(8 << 20, 0);
        let network = Network {
            address: (*HERE.ip()).into(),
            prefix: 24,
            gateway: None,
        };
        let shard = Shard::new(memory.aggregator().expect("memory"), network);
        let mut state = shard.lock();
        state
            .aggregator
            .admit(&packet::job(lanes, |number| member(number).into()))
            .expect("room for the job");
        let members = (0..MEMBERS).map(|number| member(number).into()).collect();
        state.set_route(
            KEY,
            Route {
                members,
                parent: None,
            },
        );
        drop(state);
        let here_end = End {
            mac: MAC,
            address: HERE.into(),
        };
        let framing = (0..MEMBERS).map(|number| {
            let mut framing = [0; FRAMING];
            let address = member(number).into();
            let from = End {
                mac: [2, 0, 0, 0, 1, number],
                address,
            };
            let way = Way::between(&from, &here_end).expect("one family");
            way.write(None, packet_len(lanes.count()), None, &mut framing);
            framing
        });
        let link = Link::alone(here.into_iter().next().expect("a queue"), MAC, false);
        let payload = 4 * lanes.count();
        let mut scene = Self {
            poller: Poller::new(vec![link], HandOff::alone(), pool.clone(), HERE.into(), None),
            there: there.into_iter().next().expect("a queue"),
            copier: Copier {
                slots: vec![0; payload * usize::from(WINDOW)],
                payload,
            },
            framing: framing.collect(),
            shard,
            pool,
            lanes,
            next: (Round(0), 0, 0),
            _ports: [near, far],
        };
        scene.introduce();
        scene
    }

    /// The ranks say their Ethernet addresses.
    fn introduce(&mut self) {
        self.poller.turn(&self.shard, self.shard.now(), BURST);
        let mut burst = Burst::default();
        for number in 0..MEMBERS {
            let mut mbuf = self.pool.take().expect("an mbuf");
            let mac = [2, 0, 0, 0, 1, number];
            let ip = member(number).ip().octets();
            let reply = [
                &MAC[..],
                &mac,
                &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2],
                &mac,
                &ip,
                &MAC,
                &HERE.ip().octets(),
            ]
            .concat();
            mbuf.set_len(reply.len());
            mbuf.bytes_mut().copy_from_slice(&reply);
            assert!(burst.push(mbuf).is_ok());
        }
        self.there.send(&mut burst);
        self.poller.turn(&self.shard, self.shard.now(), BURST);
        self.take_results();
    }

    fn take_results(&mut self) -> usize {
        let mut burst = Burst::default();
        let mut results = 0;
        while self.there.receive(BURST, &mut burst) > 0 {
            results += burst.drain().count();
        }
        results
    }

    /// A burst of contributions.
    fn contribute(&mut self) {
        let mut burst = Burst::default();
        assert!(self.pool.take_some(BURST, &mut burst), "mbufs come back");
        let mut out = Burst::default();
        for mut mbuf in burst.drain() {
            let (round, slot, member) = self.next;
            mbuf.set_len(FRAMING + packet_len(self.lanes.count()));
            let frame = mbuf.bytes_mut();
            frame[..FRAMING].copy_from_slice(&self.framing[usize::from(member)]);
            // The values are those that were there before.
            frame[FRAMING..][..HEADER_LEN].copy_from_slice(&header(round, slot, member).emit());
            assert!(out.push(mbuf).is_ok());
            self.next = match (member + 1 == MEMBERS, slot + 1 == WINDOW) {
                (false, _) => (round, slot, member + 1),
                (true, false) => (round, slot + 1, 0),
                (true, true) => (Round(round.0.wrapping_add(1)), 0, 0),
            };
        }
        assert_eq!(self.there.send(&mut out), BURST);
    }

    /// So many bursts; packets a second of CPU time.
    fn run(&mut self, variant: Variant, bursts: usize) -> f64 {
        // Whatever ran before: whole rounds only.
        let completed = self.completed();
        let begin = cpu_time();
        let mut results = 0;
        for _ in 0..bursts {
            self.contribute();
            let now = self.shard.now();
            let Self {
                poller,
                shard,
                copier,
                ..
            } = self;
            let came = match variant {
                Variant::Core => poller.turn(shard, now, BURST),
                Variant::Copy => poller.turn_with(
                    shard,
                    now,
                    BURST,
                    |_: &mut ShardAggregator,
                     packet: &[u8],
                     _: Ecn,
                     _: &Endpoint,
                     _: Nanos,
                     out: &mut [u8]| { copier.handle(packet, out) },
                ),
                Variant::Echo => poller.turn_with(
                    shard,
                    now,
                    BURST,
                    |_: &mut ShardAggregator,
                     packet: &[u8],
                     _: Ecn,
                     _: &Endpoint,
                     _: Nanos,
                     out: &mut [u8]| { echo(packet, out) },
                ),
            };
            assert_eq!(came, BURST);
            results += self.take_results();
        }
        let seconds = cpu_time() - begin;
        assert!(
            results >= bursts * BURST,
            "{variant:?}: each packet makes a frame: {results}"
        );
        if variant == Variant::Core {
            let slots = (bursts * BURST / usize::from(MEMBERS)) as u64;
            assert_eq!(self.completed() - completed, slots, "every slot is summed");
        }
        (bursts * BURST) as f64 / seconds
    }

    fn completed(&self) -> u64 {
        self.shard.lock().aggregator.counters().get(Counter::Completed)
    }
}

/// The thread's, in seconds.
fn cpu_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The middle, the least and the most of some numbers.
fn spread(mut numbers: Vec<f64>) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [numbers[numbers.len() / 2], numbers[0], numbers[numbers.len() - 1]]
}

fn main() {
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    let (rounds, bursts) = if is_quick { (3, 256) } else { (15, 4096) };
    let eal = Eal::start(&EAL.split(' ').collect::<Vec<_>>()).expect("DPDK starts");
    println!(
        "{MEMBERS} members, {rounds} rounds of {} packets each, one core plays both ends",
        bursts * BURST
    );
    for lanes in [Lanes::L352, Lanes::L2048] {
        let mut scene = Scene::new(&eal, lanes);
        for variant in VARIANTS {
            scene.run(variant, bursts / 8);
        }
        let rates: Vec<[f64; 3]> = (0..rounds)
            .map(|_| VARIANTS.map(|variant| scene.run(variant, bursts)))
            .collect();
        for (at, variant) in VARIANTS.iter().enumerate() {
            let [rate, ..] = spread(rates.iter().map(|rates| rates[at]).collect());
            let gigabits = rate * 32.0 * lanes.count() as f64 / 1e9;
            println!(
                "{} lanes, {variant:?}: {:.2} million packets a CPU-second, {gigabits:.1} Gbit/s of payload received",
                lanes.count(),
                rate / 1e6
            );
        }
        for at in 1..VARIANTS.len() {
            let [ratio, least, most] = spread(rates.iter().map(|rates| rates[0] / rates[at]).collect());
            println!(
                "{} lanes, Core / {:?}: {ratio:.2} ({least:.2} to {most:.2})",
                lanes.count(),
                VARIANTS[at]
            );
        }
    }
}
