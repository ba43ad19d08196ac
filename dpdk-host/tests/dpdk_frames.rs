//! What frames can look like, over rings in this process: IPv6, VLANs, several mbufs, and what drivers say of them. The test is the
//! other end of the wire, and what plays the driver.

use std::net::{Ipv4Addr, SocketAddrV4};

use agg_core::Aggregator;
use agg_core::slot::Head;
use agg_model::harness::lockstep::config;
use agg_model::harness::random::Random;
use agg_model::packet::ModelPacket;
use agg_model::vectors::{JobLine, frame};
use dpdk_host::dpdk::{Arrival, BURST, Burst, Device, Eal, Mbuf, Pool, Port, PortConfig, Queue};
use dpdk_host::{FrameCounter, HandOff, Link, Network, Poller, Route, Shard};

#[path = "common/answering.rs"]
mod answering;
#[path = "common/dress.rs"]
mod dress;
#[path = "common/eal.rs"]
mod eal;
#[path = "common/packet.rs"]
mod packet;

use dress::Dress;
use packet::{EPOCH, KEY};

const HERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), 4601);
const MAC: [u8; 6] = [2, 0, 10, 77, 0, 1];
const MEMBERS: u8 = 2;
/// Few, since every scene has its own.
const MBUFS: u32 = 63;

const PLAIN: Dress = Dress {
    ipv6: false,
    vlan: None,
};
const V6: Dress = Dress {
    ipv6: true,
    vlan: None,
};
const TAGGED: Dress = Dress {
    ipv6: false,
    vlan: Some(7),
};
const BOTH: Dress = Dress {
    ipv6: true,
    vlan: Some(4094),
};
const DRESSES: [Dress; 4] = [PLAIN, V6, TAGGED, BOTH];

fn member(number: u8) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 10 + number), 5000)
}

fn job(lanes: u16) -> JobLine {
    packet::job(lanes, 4, (0..MEMBERS).map(member))
}

fn packet(number: u8, slot: u16, lanes: u16) -> ModelPacket {
    let values = (0..i32::from(lanes)).flat_map(|lane| (lane * (i32::from(number) + 1)).to_le_bytes());
    packet::contribution(number, slot, values.collect())
}

/// The sum of what all members have.
fn result(slot: u16, lanes: u16) -> Vec<u8> {
    let packet = ModelPacket {
        up: false,
        result: true,
        member: MEMBERS - 1, // whose contribution comes last
        set: (0..MEMBERS).collect(),
        workers: MEMBERS.into(),
        rest: (0..i32::from(lanes))
            .flat_map(|lane| (3 * lane).to_le_bytes())
            .collect(),
        ..packet(0, slot, lanes)
    };
    packet.emit()
}

/// The two ends of a wire.
struct Scene {
    dress: Dress,
    lanes: u16,
    shard: Shard,
    poller: Poller,
    there: Queue,
    /// What the test sends in.
    received: Pool,
    /// What the host sends in.
    answers: Pool,
    now: u64,
    _ports: [Port; 2],
}

impl Scene {
    /// Mbufs have room for the longest frame.
    fn new(eal: &Eal, name: &str, dress: Dress, lanes: u16) -> Self {
        let room = (dress.framing() + 56 + 4 * usize::from(lanes)).max(128) as u16;
        Self::with(eal, name, dress, lanes, [2048, room])
    }

    /// Frames come in mbufs with room for so many bytes, and are answered in others.
    fn with(eal: &Eal, name: &str, dress: Dress, lanes: u16, rooms: [u16; 2]) -> Self {
        let pool = |kind, room| Pool::new(eal, &format!("{name}_{kind}"), MBUFS, room, None).unwrap();
        let (received, answers) = (pool("in", rooms[0]), pool("out", rooms[1]));
        let devices = Device::ring_pair(eal, name, 256).unwrap();
        let [(near, here), (far, there)] =
            devices.map(|device| Port::start(device, &received, &PortConfig::default()).unwrap());
        let job = job(lanes).job(EPOCH);
        let heads = vec![Head::VACANT; job.heads()].into_boxed_slice();
        let values = vec![-1; job.values()].into_boxed_slice();
        let network = Network {
            address: dress.ip(*HERE.ip()),
            prefix: if dress.ipv6 { 120 } else { 24 },
            gateway: None,
        };
        let shard = Shard::new(Aggregator::new(heads, values), network);
        let mut state = shard.lock();
        state.aggregator.admit(&dress.job(config(&job))).unwrap();
        let route = Route {
            members: (0..MEMBERS).map(|number| dress.address(member(number))).collect(),
            parent: None,
        };
        state.set_route(KEY, route);
        drop(state);
        let link = Link::alone(here.into_iter().next().unwrap(), MAC, false);
        let address = dress.address(HERE);
        Self {
            poller: Poller::new(vec![link], HandOff::alone(), answers.clone(), address, dress.vlan),
            there: there.into_iter().next().unwrap(),
            dress,
            lanes,
            shard,
            received,
            answers,
            now: 0,
            _ports: [near, far],
        }
    }

    /// A frame in as many mbufs as it needs, each with at most so many bytes.
    fn mbuf(&self, bytes: &[u8], each: usize) -> Mbuf {
        let mut parts = bytes.chunks(each).map(|part| {
            let mut mbuf = self.received.take().expect("a free mbuf");
            mbuf.set_len(part.len());
            mbuf.bytes_mut().copy_from_slice(part);
            mbuf
        });
        let mut first = parts.next().unwrap();
        parts.for_each(|part| first.append(part).unwrap());
        first
    }

    /// One frame in, what comes of it out.
    fn ask(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.ask_in(self.mbuf(frame, 2048))
    }

    fn ask_in(&mut self, mbuf: Mbuf) -> Vec<Vec<u8>> {
        let mut burst = Burst::default();
        assert!(burst.push(mbuf).is_ok());
        assert_eq!(self.there.send(&mut burst), 1);
        self.turn(1)
    }

    fn turn(&mut self, came: usize) -> Vec<Vec<u8>> {
        self.now += 1;
        assert_eq!(self.poller.turn(&self.shard, self.now, BURST), came);
        let mut burst = Burst::default();
        let mut frames = Vec::new();
        while self.there.receive(BURST, &mut burst) > 0 {
            frames.extend(burst.drain().map(|mbuf| mbuf.bytes().to_vec()));
        }
        frames
    }

    fn contribution(&self, number: u8, slot: u16) -> Vec<u8> {
        let packet = packet(number, slot, self.lanes).emit();
        self.dress.frame(&frame::write(member(number), HERE, 1, &packet))
    }

    /// The result for each member.
    fn results(&self, slot: u16) -> Vec<Vec<u8>> {
        let result = result(slot, self.lanes);
        let to = (0..MEMBERS).map(|number| self.dress.sent(HERE, member(number), &result));
        to.collect()
    }

    fn introduce(&mut self) {
        self.turn(0);
        for number in 0..MEMBERS {
            let reply = self.dress.reply(*member(number).ip(), *HERE.ip());
            assert!(self.ask(&reply).is_empty());
        }
    }

    fn count(&self, counter: FrameCounter) -> u64 {
        self.shard.lock().frames.get(counter)
    }
}

const NOTHING: [Vec<u8>; 0] = [];

/// DPDK starts once in a process, so all of a file is one test.
#[test]
fn frames_of_all_kinds_are_summed_answered_and_dropped() {
    let eal = eal::start();
    for (number, dress) in DRESSES.into_iter().enumerate() {
        members_are_found_and_get_results(&eal, &format!("found{number}"), dress);
        questions_and_pings_are_answered(&eal, &format!("asked{number}"), dress);
    }
    only_the_own_vlan_is_looked_at(&eal);
    a_tag_that_a_driver_took_out_counts(&eal);
    what_a_port_finds_damaged_is_dropped(&eal);
    for (lanes, each) in [(352, 60), (2048, 2048), (8192, 1500)] {
        what_comes_in_several_mbufs_is_summed(&eal, &format!("parts{lanes}"), lanes, each);
    }
    what_is_too_long_or_has_no_mbuf_is_dropped(&eal);
    for (number, dress) in DRESSES.into_iter().enumerate() {
        whatever_comes_is_survived(&eal, &format!("garbage{number}"), dress);
    }
}

fn members_are_found_and_get_results(eal: &Eal, name: &str, dress: Dress) {
    let mut scene = Scene::new(eal, name, dress, 16);
    let mut asked = scene.turn(0);
    let mut questions: Vec<Vec<u8>> = (0..MEMBERS)
        .map(|number| {
            let mut question = dress.question(*HERE.ip(), *member(number).ip());
            if !dress.ipv6 {
                // To all, and for an address that is not known.
                let arp = question.len() - 28;
                question[..6].fill(0xff);
                question[arp + 18..arp + 24].fill(0);
            }
            question
        })
        .collect();
    asked.sort();
    questions.sort();
    assert_eq!(asked, questions, "{dress:?}");
    assert_eq!(scene.ask(&scene.contribution(0, 1)), NOTHING);
    assert_eq!(scene.ask(&scene.contribution(1, 1)), NOTHING, "nobody is known");
    assert_eq!(scene.count(FrameCounter::NoNeighbour), u64::from(MEMBERS));
    scene.introduce();
    assert_eq!(scene.ask(&scene.contribution(0, 2)), NOTHING);
    assert_eq!(
        scene.ask(&scene.contribution(1, 2)),
        scene.results(2),
        "{dress:?}"
    );
    // Who asks is known as well.
    let mut scene = Scene::new(eal, &format!("{name}b"), dress, 16);
    scene.turn(0);
    for number in 0..MEMBERS {
        scene.ask(&dress.question(*member(number).ip(), *HERE.ip()));
    }
    assert_eq!(scene.ask(&scene.contribution(0, 2)), NOTHING);
    assert_eq!(
        scene.ask(&scene.contribution(1, 2)),
        scene.results(2),
        "{dress:?}"
    );
}

fn questions_and_pings_are_answered(eal: &Eal, name: &str, dress: Dress) {
    let mut scene = Scene::new(eal, name, dress, 16);
    scene.turn(0);
    let (here, there) = (*HERE.ip(), *member(0).ip());
    assert_eq!(
        scene.ask(&dress.question(there, here)),
        [dress.reply(here, there)],
        "{dress:?}"
    );
    assert_eq!(scene.ask(&dress.question(there, *member(1).ip())), NOTHING);
    assert_eq!(scene.count(FrameCounter::ArpAnswered), 1);
    let ping = dress.ping(there, here, false);
    assert_eq!(scene.ask(&ping), [dress.ping(here, there, true)], "{dress:?}");
    assert_eq!(scene.ask(&dress.ping(there, here, true)), NOTHING);
    assert_eq!(scene.ask(&dress.ping(there, *member(1).ip(), false)), NOTHING);
    let mut damaged = ping;
    *damaged.last_mut().unwrap() ^= 1;
    assert_eq!(scene.ask(&damaged), NOTHING);
    assert_eq!(scene.count(FrameCounter::EchoAnswered), 1);
    // The other family's packets.
    let other = Dress {
        ipv6: !dress.ipv6,
        ..dress
    };
    assert_eq!(scene.ask(&other.ping(there, here, false)), NOTHING);
    let packet = frame::write(member(0), HERE, 1, &packet(0, 0, 16).emit());
    let foreign = scene.count(FrameCounter::Foreign);
    assert_eq!(scene.ask(&other.frame(&packet)), NOTHING);
    assert_eq!(scene.count(FrameCounter::Foreign), foreign + 1);
}

fn only_the_own_vlan_is_looked_at(eal: &Eal) {
    let (here, there) = (*HERE.ip(), *member(0).ip());
    let ping = |vlan| Dress { ipv6: false, vlan }.ping(there, here, false);
    let mut none = Scene::new(eal, "untagged", PLAIN, 16);
    none.turn(0);
    // A tag that says a priority only is in no VLAN.
    for (vlan, answers) in [(None, 1), (Some(0), 1), (Some(7), 0)] {
        assert_eq!(none.ask(&ping(vlan)).len(), answers, "{vlan:?}");
    }
    assert_eq!(none.count(FrameCounter::OtherVlan), 1);
    let mut tagged = Scene::new(eal, "tagged", TAGGED, 16);
    tagged.turn(0);
    for (vlan, answers) in [(None, 0), (Some(0), 0), (Some(7), 1), (Some(8), 0)] {
        assert_eq!(tagged.ask(&ping(vlan)).len(), answers, "{vlan:?}");
    }
    // The same VLAN at another priority.
    let mut urgent = ping(Some(7));
    urgent[14] = 0xe0;
    assert_eq!(tagged.ask(&urgent).len(), 1);
    assert_eq!(tagged.count(FrameCounter::OtherVlan), 3);
}

fn a_tag_that_a_driver_took_out_counts(eal: &Eal) {
    for (number, [tagged, without]) in [[TAGGED, PLAIN], [BOTH, V6]].into_iter().enumerate() {
        let mut scene = Scene::new(eal, &format!("stripped{number}"), tagged, 16);
        scene.introduce();
        let stripped = |scene: &Scene, frame: &[u8], vlan| {
            let mut mbuf = scene.mbuf(frame, 2048);
            mbuf.set_arrival(Arrival {
                vlan: Some(vlan),
                ..Arrival::default()
            });
            mbuf
        };
        let (here, there) = (*HERE.ip(), *member(0).ip());
        let own = tagged.vlan.unwrap();
        for (question, answer) in [
            (without.ping(there, here, false), tagged.ping(here, there, true)),
            (without.question(there, here), tagged.reply(here, there)),
        ] {
            // The priority is the driver's to take out, too.
            let mbuf = stripped(&scene, &question, own | 0xe000);
            assert_eq!(scene.ask_in(mbuf), [answer]);
            let mbuf = stripped(&scene, &question, own - 1);
            assert_eq!(scene.ask_in(mbuf), NOTHING);
        }
        assert_eq!(scene.count(FrameCounter::OtherVlan), 2);
        for number in 0..MEMBERS {
            let packet = packet(number, 0, 16).emit();
            let frame = without.frame(&frame::write(member(number), HERE, 1, &packet));
            let mbuf = stripped(&scene, &frame, own);
            let came = scene.ask_in(mbuf);
            let expected = if number + 1 == MEMBERS {
                scene.results(0)
            } else {
                Vec::new()
            };
            assert_eq!(came, expected);
        }
    }
}

fn what_a_port_finds_damaged_is_dropped(eal: &Eal) {
    for (number, dress) in [PLAIN, V6].into_iter().enumerate() {
        let mut scene = Scene::new(eal, &format!("damaged{number}"), dress, 16);
        scene.introduce();
        let said = |scene: &Scene, frame: &[u8], arrival| {
            let mut mbuf = scene.mbuf(frame, 2048);
            mbuf.set_arrival(arrival);
            mbuf
        };
        let bad_ip = Arrival {
            has_bad_ip: true,
            ..Arrival::default()
        };
        let bad_udp = Arrival {
            has_bad_udp: true,
            ..Arrival::default()
        };
        let [first, last] = [0, 1].map(|number| scene.contribution(number, 0));
        scene.ask(&first);
        for arrival in [bad_ip, bad_udp] {
            let mbuf = said(&scene, &last, arrival);
            assert_eq!(scene.ask_in(mbuf), NOTHING, "{dress:?}: {arrival:?}");
        }
        assert_eq!(scene.count(FrameCounter::BadChecksum), 2);
        assert_eq!(scene.ask(&last), scene.results(0));
        // Without a checksum none can be wrong, whatever a driver makes of it.
        scene.ask(&scene.contribution(0, 1));
        let mut without = scene.contribution(1, 1);
        let at = dress.framing() - 2;
        without[at..at + 2].fill(0);
        let mbuf = said(&scene, &without, bad_udp);
        assert_eq!(scene.ask_in(mbuf), scene.results(1));
    }
}

fn what_comes_in_several_mbufs_is_summed(eal: &Eal, name: &str, lanes: u16, each: usize) {
    let longest = (BOTH.framing() + 56 + 4 * usize::from(lanes)) as u16;
    let mut scene = Scene::with(eal, name, BOTH, lanes, [2048, longest]);
    scene.introduce();
    for (number, slot) in [(0, 0), (1, 0), (0, 3), (1, 3)] {
        let frame = scene.contribution(number, slot);
        let mbuf = scene.mbuf(&frame, each);
        assert_eq!(mbuf.segments(), frame.len().div_ceil(each));
        let came = scene.ask_in(mbuf);
        let is_last = number == MEMBERS - 1;
        let expected = if is_last { scene.results(slot) } else { Vec::new() };
        assert!(
            came == expected,
            "{lanes} lanes, member {number}, slot {slot}: {} frames",
            came.len()
        );
    }
    assert_eq!(scene.count(FrameCounter::Gathered), 4);
    // A ping in parts: its headers, and then the rest.
    let (here, there) = (*HERE.ip(), *member(0).ip());
    let mbuf = scene.mbuf(&BOTH.ping(there, here, false), BOTH.framing());
    assert_eq!(scene.ask_in(mbuf), [BOTH.ping(here, there, true)]);
    assert_eq!(scene.received.available(), MBUFS, "what was gathered goes back");
}

fn what_is_too_long_or_has_no_mbuf_is_dropped(eal: &Eal) {
    let mut scene = Scene::new(eal, "long", PLAIN, 352);
    scene.introduce();
    let long = PLAIN.frame(&frame::write(member(0), HERE, 1, &[0; 3000]));
    let mbuf = scene.mbuf(&long, 1500);
    assert_eq!(scene.ask_in(mbuf), NOTHING);
    assert_eq!(scene.count(FrameCounter::TooLong), 1);
    let frame = scene.contribution(0, 0);
    let taken: Vec<Mbuf> = std::iter::from_fn(|| scene.answers.take()).collect();
    let mbuf = scene.mbuf(&frame, 100);
    assert_eq!(scene.ask_in(mbuf), NOTHING);
    assert_eq!(scene.count(FrameCounter::NoMbuf), 1);
    drop(taken);
    let mbuf = scene.mbuf(&frame, 100);
    assert_eq!(scene.ask_in(mbuf), NOTHING);
    assert_eq!(scene.ask(&scene.contribution(1, 0)), scene.results(0));
}

/// Frames of all kinds with some bytes changed, cut off, or in parts: none does harm, no mbuf is lost, and then sums are right.
fn whatever_comes_is_survived(eal: &Eal, name: &str, dress: Dress) {
    const SEED: u64 = 0x7261_6d65;
    const FRAMES: u64 = 20_000;
    let mut scene = Scene::new(eal, name, dress, 16);
    scene.turn(0);
    let mut random = Random::new(SEED);
    let (here, there) = (*HERE.ip(), *member(0).ip());
    let kinds = [
        scene.contribution(0, 1),
        dress.ping(there, here, false),
        dress.question(there, here),
        dress.reply(there, here),
    ];
    for _ in 0..FRAMES {
        let mut frame = kinds[random.below(kinds.len() as u64) as usize].clone();
        for _ in 0..random.below(4) {
            let at = random.below(frame.len() as u64) as usize;
            frame[at] = random.bits() as u8;
        }
        if random.permille(200) {
            frame.truncate(1 + random.below(frame.len() as u64) as usize);
        }
        let each = if random.permille(100) {
            1 + random.below(60) as usize
        } else {
            2048
        };
        let mut mbuf = scene.mbuf(&frame, each.max(frame.len().div_ceil(8)));
        let flag = |random: &mut Random| random.permille(50);
        mbuf.set_arrival(Arrival {
            vlan: flag(&mut random).then(|| random.bits() as u16),
            has_bad_ip: flag(&mut random),
            has_bad_udp: flag(&mut random),
            ..Arrival::default()
        });
        scene.ask_in(mbuf);
    }
    assert_eq!(scene.received.available(), MBUFS, "seed {SEED:#x}");
    assert_eq!(scene.count(FrameCounter::Received), FRAMES);
    for counter in [
        FrameCounter::ArpAnswered,
        FrameCounter::EchoAnswered,
        FrameCounter::Foreign,
        FrameCounter::OtherVlan,
        FrameCounter::BadChecksum,
        FrameCounter::Gathered,
    ] {
        assert!(
            scene.count(counter) > 0,
            "{dress:?}, seed {SEED:#x}: no {counter:?}"
        );
    }
    scene.introduce();
    for number in 0..MEMBERS {
        let came = scene.ask(&scene.contribution(number, 2));
        let expected = if number + 1 == MEMBERS {
            scene.results(2)
        } else {
            Vec::new()
        };
        assert_eq!(came, expected, "{dress:?}, seed {SEED:#x}");
    }
}
