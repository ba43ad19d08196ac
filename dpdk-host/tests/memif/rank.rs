//! A rank as a process of its own, at the other end of a memif: the worker of `agg_core` over bursts, and nothing else.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use agg_control::{
    ControlClient, Member, OnLost, Policy, Pulse, Registered, Registration, Resume, fresh_nonce,
};
use agg_core::wire::packet_len;
use agg_core::worker::{Membership, SlotState};
use agg_core::{Epoch, Lanes, OpKind, Operation, Tensor, Worker, WorkerConfig};
use agg_host::frame::{Datagram, End, Ethernet, Framing, Ip, Mac, Way};
use dpdk_host::dpdk::{BURST, Burst, Device, Eal, Pool, Port, PortConfig, Queue};

/// Where a rank is told what it is.
pub const TOLD: &str = "TRIBUTARY_MEMIF_RANK";

/// Nothing may take longer.
pub const LIMIT: Duration = Duration::from_secs(60);

/// After so long a silent aggregator is looked for anew.
const SILENT: Duration = Duration::from_secs(1);

const AGGREGATOR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
const BASE: u16 = 4601;
/// A rank's own UDP port of stream 0.
const OWN: u16 = 5000;
const TYPE_ARP: u16 = 0x0806;

/// What a rank is told.
#[derive(Clone, Debug)]
pub struct Told {
    pub world: String,
    pub rank: u32,
    pub size: u32,
    /// Where to register.
    pub control: SocketAddr,
    /// The memif's abstract socket.
    pub socket: String,
    pub streams: u16,
    pub operations: u32,
    /// Elements of each stream in each operation.
    pub elements: usize,
}

impl Told {
    pub fn to_text(&self) -> String {
        let Self {
            world,
            rank,
            size,
            control,
            socket,
            streams,
            operations,
            elements,
        } = self;
        format!("{world} {rank} {size} {control} {socket} {streams} {operations} {elements}")
    }

    fn read(text: &str) -> Self {
        let words: Vec<&str> = text.split(' ').collect();
        let [world, rank, size, control, socket, streams, operations, elements] = words[..] else {
            panic!("{text}: eight words");
        };
        Self {
            world: world.to_owned(),
            rank: rank.parse().unwrap(),
            size: size.parse().unwrap(),
            control: control.parse().unwrap(),
            socket: socket.to_owned(),
            streams: streams.parse().unwrap(),
            operations: operations.parse().unwrap(),
            elements: elements.parse().unwrap(),
        }
    }

    fn address(&self, stream: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 10 + self.rank as u8), OWN + stream)
    }
}

/// What a rank puts in.
fn value(rank: u32, stream: u16, operation: u32, index: usize) -> i32 {
    let mixed = (index as u32)
        .wrapping_mul(2_654_435_761)
        .wrapping_add(rank.wrapping_mul(40_503))
        .wrapping_add(operation.wrapping_mul(69_069))
        .rotate_left(u32::from(stream) + 1);
    mixed as i32
}

/// Does what the environment says, if it says something; each step is told on standard output.
pub fn run_if_rank() {
    if let Ok(text) = std::env::var(TOLD) {
        let mut rank = Rank::start(Told::read(&text));
        match rank.work() {
            Ok(()) => println!("done"),
            Err(failure) => println!("failed: {failure}"),
        }
    }
}

type StreamWorker = Worker<Box<[SlotState]>, Box<[i32]>>;

/// A port with the one other end that there is.
struct Wire {
    port: Port,
    queues: Vec<Queue>,
    pool: Pool,
    ours: (Mac, Ipv4Addr),
    aggregator: Option<Mac>,
    out: Burst,
}

struct Rank {
    told: Told,
    wire: Wire,
    clock: Instant,
    control: ControlClient,
    member: Member,
    registered: Registered,
    workers: Vec<StreamWorker>,
    tensors: Vec<Vec<i32>>,
    progress: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
}

impl Wire {
    fn start(told: &Told) -> Self {
        let memif = format!("net_memif0,role=client,rsize=9,socket={}", told.socket);
        let arguments =
            "--no-huge -m 64 --no-pci --no-shconf --no-telemetry --log-level 3 --lcores 0@(0-1) --vdev";
        let arguments: Vec<&str> = arguments.split(' ').chain([memif.as_str()]).collect();
        let eal = Eal::start(&arguments).expect("DPDK starts");
        let pool = Pool::new(&eal, "frames", 2047, 2048, None).expect("mbufs");
        let device = Device::find(&eal, "net_memif0").expect("a memif");
        let mac = device.info().expect("a device").mac;
        let (port, queues) = Port::start(device, &pool, &PortConfig::default()).expect("a port");
        let mut wire = Self {
            port,
            queues,
            pool,
            ours: (mac, *told.address(0).ip()),
            aggregator: None,
            out: Burst::default(),
        };
        wire.connect();
        wire
    }

    /// Waits until the other end is there and says its Ethernet address.
    fn connect(&mut self) {
        let deadline = Instant::now() + LIMIT;
        self.aggregator = None;
        let mut tried = Instant::now();
        while !self.port.is_up() {
            assert!(Instant::now() < deadline, "no link");
            thread::sleep(Duration::from_millis(10));
            // One that has not found its server does not look again.
            if tried.elapsed() > Duration::from_secs(1) {
                tried = Instant::now();
                let _ = self.port.restart(&mut self.queues);
            }
        }
        let mut asked = None;
        while self.aggregator.is_none() {
            assert!(Instant::now() < deadline, "nobody says who has {AGGREGATOR}");
            if asked.is_none_or(|asked: Instant| asked.elapsed() > Duration::from_millis(50)) {
                asked = Some(Instant::now());
                let question = self.arp(1, [0xff; 6], [0; 6], AGGREGATOR);
                self.push(&question);
                self.flush();
            }
            self.receive(&mut |_, _| {});
            thread::yield_now();
        }
    }

    fn arp(&self, operation: u8, to: Mac, target: Mac, whom: Ipv4Addr) -> Vec<u8> {
        let (mac, ip) = self.ours;
        [
            &to[..],
            &mac,
            &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation],
            &mac,
            &ip.octets(),
            &target,
            &whom.octets(),
        ]
        .concat()
    }

    fn push(&mut self, frame: &[u8]) {
        // Without an mbuf the frame is lost, as it would be on a wire.
        let Some(mut mbuf) = self.pool.take() else { return };
        mbuf.set_len(frame.len());
        mbuf.bytes_mut().copy_from_slice(frame);
        if let Err(mbuf) = self.out.push(mbuf) {
            self.flush();
            drop(self.out.push(mbuf));
        }
    }

    fn flush(&mut self) {
        for _ in 0..1000 {
            if self.out.is_empty() {
                return;
            }
            self.queues[0].send(&mut self.out);
        }
        self.out.drain().for_each(drop);
    }

    /// Hands packets to `each`, with the UDP port that they came to; answers ARP. Returns how many frames came.
    fn receive(&mut self, each: &mut dyn FnMut(u16, &[u8])) -> usize {
        let mut burst = Burst::default();
        let came = self.queues[0].receive(BURST, &mut burst);
        for mbuf in burst.drain() {
            let frame = mbuf.bytes();
            let Some(ethernet) = Ethernet::read(frame) else {
                continue;
            };
            if ethernet.kind == TYPE_ARP && frame.len() >= 42 {
                let from: Mac = frame[22..28].try_into().unwrap();
                if frame[28..32] == AGGREGATOR.octets() {
                    self.aggregator = Some(from);
                }
                if frame[21] == 1 && frame[38..42] == self.ours.1.octets() {
                    let answer = self.arp(2, from, from, AGGREGATOR);
                    self.push(&answer);
                }
            } else if let Some(ip) = Ip::read(frame, &ethernet)
                && let Some(datagram) = Datagram::read(frame, &ip)
            {
                each(datagram.to.port(), &frame[datagram.payload]);
            }
        }
        self.flush();
        came
    }
}

impl Rank {
    fn start(told: Told) -> Self {
        let wire = Wire::start(&told);
        println!("linked");
        let control = connect(&told);
        let nonce = fresh_nonce();
        let registered = register(&told, &control, nonce, None).expect("the world comes together");
        let member = Member {
            key: registered.key,
            rank: told.rank,
            nonce,
        };
        let workers = (0..told.streams).map(|_| worker(&registered)).collect();
        println!("joined epoch {}", registered.epoch);
        let rank = Self {
            wire,
            clock: Instant::now(),
            control,
            member,
            registered,
            workers,
            tensors: vec![Vec::new(); told.streams.into()],
            progress: Arc::default(),
            ended: Arc::default(),
            told,
        };
        rank.keep_alive();
        rank
    }

    /// Says that the rank lives, until its process ends.
    fn keep_alive(&self) {
        let (control, member) = (self.control.clone(), self.member);
        let (pause, progress, ended) = (
            self.registered.heartbeat,
            Arc::clone(&self.progress),
            Arc::clone(&self.ended),
        );
        thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let pulse = control.heartbeat(member, progress.load(Ordering::Relaxed));
                if let Ok(Pulse::Aborted(reason)) = pulse {
                    println!("aborted: {reason}");
                    return;
                }
                thread::sleep(pause);
            }
        });
    }

    fn now(&self) -> u64 {
        self.clock.elapsed().as_nanos() as u64
    }

    fn work(&mut self) -> Result<(), String> {
        for number in 0..self.told.operations {
            self.sum(number)?;
            println!("summed {number}");
        }
        // Who needs a result again is answered until all have left.
        let (control, member) = (self.control.clone(), self.member);
        let leave = thread::spawn(move || control.leave(member, LIMIT));
        while !leave.is_finished() {
            self.turn();
        }
        self.ended.store(true, Ordering::Relaxed);
        let left = leave.join().expect("no panic");
        left.map(|_| ()).map_err(|error| error.to_string())
    }

    /// One sum on all streams; every lane is looked at.
    fn sum(&mut self, number: u32) -> Result<(), String> {
        let (elements, now) = (self.told.elements, self.now());
        let operation = Operation {
            kind: OpKind::SUM_I32,
            elements: elements as u64 * u64::from(self.told.streams),
        };
        for (stream, worker) in (0..).zip(&mut self.workers) {
            let values = (0..elements).map(|index| value(self.told.rank, stream, number, index));
            self.tensors[usize::from(stream)] = values.collect();
            worker
                .start(operation, elements as u64, now)
                .map_err(|error| format!("{error:?}"))?;
        }
        while self.workers.iter().any(|worker| worker.is_busy()) {
            self.turn();
            if self.workers.iter().any(|worker| self.is_silent(worker)) {
                self.resume()?;
            }
        }
        for (stream, worker) in (0..).zip(&self.workers) {
            if let Some(failure) = worker.failure() {
                return Err(failure.to_string());
            }
            let tensor = &self.tensors[usize::from(stream)];
            for (index, sum) in tensor.iter().enumerate() {
                let values = (0..self.told.size).map(|rank| value(rank, stream, number, index));
                let expected = values.fold(0, i32::wrapping_add);
                assert_eq!(*sum, expected, "sum {number}, stream {stream}, element {index}");
            }
        }
        Ok(())
    }

    fn is_silent(&self, worker: &StreamWorker) -> bool {
        worker.silent_for(self.now()) > SILENT.as_nanos() as u64
    }

    /// What has come, what is due, and what is to be sent.
    fn turn(&mut self) {
        let now = self.now();
        let Self {
            wire,
            workers,
            tensors,
            told,
            ..
        } = self;
        let came = wire.receive(&mut |port, packet| {
            let stream = usize::from(port.wrapping_sub(OWN));
            if let Some(worker) = workers.get_mut(stream) {
                worker.handle(now, packet, &mut Tensor::I32(&mut tensors[stream]));
            }
        });
        let framing = Framing::new(&told.address(0).into(), None);
        let mut frame = vec![0; framing.len() + 4096];
        for (stream, worker) in (0..).zip(workers) {
            if worker.next_timeout().is_some_and(|due| due <= now) {
                worker.handle_timeout(now);
            }
            let tensor = Tensor::I32(&mut tensors[usize::from(stream)]);
            let (from, to) = (
                End {
                    mac: wire.ours.0,
                    address: told.address(stream).into(),
                },
                End {
                    mac: wire.aggregator.unwrap_or_default(),
                    address: SocketAddr::from((AGGREGATOR, BASE + stream)),
                },
            );
            let way = Way::between(&from, &to).expect("one family");
            while let Some(len) = worker.transmit(now, &tensor, &mut frame[framing.len()..]) {
                way.write(None, len, None, &mut frame);
                wire.push(&frame[..framing.len() + len]);
            }
        }
        wire.flush();
        if came == 0 {
            thread::yield_now();
        }
    }

    /// Goes on at the aggregator that was started again.
    fn resume(&mut self) -> Result<(), String> {
        self.wire.connect();
        let positions: Vec<_> = self.workers.iter().map(|worker| worker.position()).collect();
        let resume = Resume {
            key: self.registered.key,
            epoch: self.registered.epoch,
            lanes: self.registered.lanes,
            window: self.registered.window,
            generations: self.registered.generations,
            streams: self.registered.streams,
            operations: positions
                .iter()
                .map(|position| position.operations)
                .min()
                .unwrap_or(0),
            next_chunks: positions.iter().map(|position| position.next_chunk).collect(),
        };
        let registered = register(&self.told, &self.control, self.member.nonce, Some(resume))?;
        if registered.epoch == self.registered.epoch {
            // It was only slow.
            return Ok(());
        }
        println!("resumed epoch {}", registered.epoch);
        let place = Membership {
            epoch: Epoch(registered.epoch),
            member: registered.member,
            members: registered.members.len() as u8,
            workers: registered.workers,
        };
        let now = self.now();
        for worker in &mut self.workers {
            worker.rejoin(&place, None, now);
        }
        self.registered = registered;
        Ok(())
    }
}

fn connect(told: &Told) -> ControlClient {
    ControlClient::connect(&told.control.to_string(), None, Duration::from_secs(10))
        .expect("the control service answers")
}

fn register(
    told: &Told,
    control: &ControlClient,
    nonce: u64,
    resume: Option<Resume>,
) -> Result<Registered, String> {
    let registration = Registration {
        world: told.world.clone(),
        size: told.size,
        ranks: vec![told.rank],
        child: false,
        nonce,
        endpoints: (0..told.streams)
            .map(|stream| told.address(stream).into())
            .collect(),
        max_datagram: 1472,
        receive_buffer: 0,
        slot_memory: None,
        lanes: Some(352),
        window: Some(32),
        policy: Policy::All,
        on_lost: OnLost::Abort,
        weight: Registration::WEIGHT,
        priority: 0,
        wait: LIMIT,
        resume,
    };
    control.register(&registration).map_err(|error| error.to_string())
}

fn worker(registered: &Registered) -> StreamWorker {
    let lanes = Lanes::from_count(registered.lanes).expect("a chunk size");
    let window = usize::from(registered.window);
    assert!(packet_len(lanes.count()) <= 1472);
    let config = WorkerConfig {
        key: registered.key,
        epoch: Epoch(registered.epoch),
        member: registered.member,
        members: registered.members.len() as u8,
        workers: registered.workers,
        lanes,
        window: registered.window,
        policy: agg_core::Policy::All,
        timeout: LIMIT.as_nanos() as u64,
        first_chunk: 0,
    };
    let slots = vec![SlotState::default(); window].into_boxed_slice();
    Worker::new(config, slots, vec![0; window * lanes.count()].into_boxed_slice()).expect("memory")
}
