//! What aggregation costs between two processes: ranks in one, the aggregator in the other, net_memif between them.
//!
//!     cargo bench -p dpdk-host --bench memif            # --quick: shorter, to see that it works
//!
//! The other process plays four ranks for each shard: it sends contributions of 352 lanes, of which it writes the headers only, and
//! has at most so many of them under way. They are summed, and each rank gets each result; or, in turn, each packet is sent back by
//! the same host, with an echo in the place of the core; or each frame by a loop that does nothing but swap its addresses. In all
//! three as many frames of the same size go either way. With one
//! shard, each process has a core of its own where there are two; with two shards, four threads share what there is.
//!
//! Two times are taken: that of the clock on the wall, from the first frame sent to the last one back; and that which the
//! aggregator's cores spend on turns in which frames came, which other programs on the machine change less. Of each round's ratio
//! the median and the extremes are printed. A report: nothing is asserted of time.

use std::io::{BufRead, BufReader, Write, stdin};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

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

const HERE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 4601);
const FRAMING: usize = Framing::new(&SocketAddr::V4(HERE), None).len();
const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const LANES: Lanes = Lanes::L352;
const FRAME: usize = FRAMING + packet_len(LANES.count());
/// Frames of a shard that are under way at most: fewer than a window, so that no slot is used before its result has come.
const UNDER_WAY: usize = 128;
/// Frames that are sent together.
const TOGETHER: usize = 32;
/// Nothing may take longer.
const LIMIT: Duration = Duration::from_secs(60);

/// What the other process is told: its socket and the number of shards.
const TOLD: &str = "TRIBUTARY_MEMIF_BENCH";

fn here(shard: usize) -> SocketAddr {
    (*HERE.ip(), HERE.port() + shard as u16).into()
}

fn member(number: u8, shard: usize) -> SocketAddr {
    (Ipv4Addr::new(10, 0, 0, 10 + number), 5000 + shard as u16).into()
}

fn member_mac(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 1, number]
}

/// What is done with frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    Wait = 0,
    Core = 1,
    Echo = 2,
    Swap = 3,
    End = 4,
}

/// What is measured.
const MEASURED: [(Mode, &str); 3] = [
    (Mode::Core, "sums"),
    (Mode::Echo, "the host's echo"),
    (Mode::Swap, "plain echo"),
];

/// DPDK for a process whose threads are on these CPUs.
fn start_eal(cpus: &[&str], memif: &str) -> Eal {
    let cores = cpus.iter().enumerate();
    let cores: Vec<String> = cores.map(|(core, cpus)| format!("{core}@{cpus}")).collect();
    let cores = cores.join(",");
    let mut arguments: Vec<&str> = "--no-huge -m 128 --no-pci --no-shconf --no-telemetry --log-level 3"
        .split(' ')
        .collect();
    arguments.extend(["--lcores", &cores, "--vdev", memif]);
    Eal::start(&arguments).expect("DPDK starts")
}

/// A port with two queues for each shard: the first half of all for the host, the other for the loop that swaps.
fn start_port(eal: &Eal, shards: usize) -> (Port, Vec<Queue>, Pool) {
    let pool = Pool::new(eal, "frames", 8191, 2048, None).expect("a pool");
    let device = Device::find(eal, "net_memif0").expect("a memif");
    let config = PortConfig {
        queues: 2 * shards as u16,
        ..PortConfig::default()
    };
    let (port, queues) = Port::start(device, &pool, &config).expect("a port");
    (port, queues, pool)
}

/// One shard's core: what it does until the end.
struct Core {
    poller: Poller,
    shard: Arc<Shard>,
    swap: Queue,
    spent: Arc<Spent>,
}

/// What a core has spent on turns in which frames came.
#[derive(Default)]
struct Spent {
    nanoseconds: AtomicU64,
    frames: AtomicU64,
}

impl Core {
    fn run(&mut self, mode: &AtomicU8) {
        loop {
            let begin = cpu_time();
            let came = match mode.load(Ordering::Relaxed) {
                mode if mode == Mode::Core as u8 => self.poller.turn(&self.shard, self.shard.now(), BURST),
                mode if mode == Mode::Echo as u8 => {
                    let now = self.shard.now();
                    self.poller.turn_with(
                        &self.shard,
                        now,
                        BURST,
                        |_: &mut ShardAggregator,
                         packet: &[u8],
                         _: Ecn,
                         _: &Endpoint,
                         _: Nanos,
                         out: &mut [u8]| {
                            let len = packet.len();
                            out[..len].copy_from_slice(packet);
                            Verdict::Reply { len }
                        },
                    )
                }
                mode if mode == Mode::Swap as u8 => swap(&mut self.swap),
                mode if mode == Mode::End as u8 => return,
                _ => 0,
            };
            if came == 0 {
                std::thread::yield_now();
                continue;
            }
            let nanoseconds = cpu_time() - begin;
            self.spent.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
            self.spent.frames.fetch_add(came as u64, Ordering::Relaxed);
        }
    }
}

/// The thread's, in nanoseconds.
fn cpu_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sends frames back to where they came from.
fn swap(queue: &mut Queue) -> usize {
    let mut burst = Burst::default();
    let came = queue.receive(BURST, &mut burst);
    let mut back = Burst::default();
    for mut mbuf in burst.drain() {
        let frame = mbuf.bytes_mut();
        let (to, rest) = frame.split_at_mut(6);
        to.swap_with_slice(&mut rest[..6]);
        let (from, rest) = frame[26..].split_at_mut(4);
        from.swap_with_slice(&mut rest[..4]);
        let (from, rest) = frame[34..].split_at_mut(2);
        from.swap_with_slice(&mut rest[..2]);
        let _ = back.push(mbuf);
    }
    while !back.is_empty() {
        queue.send(&mut back);
    }
    came
}

fn shards(count: usize) -> Vec<Arc<Shard>> {
    let memory = || SlotMemory::of(8 << 20, 0).aggregator().expect("memory");
    let network = Network {
        address: (*HERE.ip()).into(),
        prefix: 24,
        gateway: None,
    };
    let first = Shard::new(memory(), network);
    let others: Vec<Shard> = (1..count).map(|_| first.beside(memory())).collect();
    let shards: Vec<Arc<Shard>> = std::iter::once(first).chain(others).map(Arc::new).collect();
    for (number, shard) in shards.iter().enumerate() {
        let mut state = shard.lock();
        state
            .aggregator
            .admit(&packet::job(LANES, |member_| member(member_, number)))
            .expect("room for the job");
        let members = (0..MEMBERS).map(|member_| member(member_, number)).collect();
        let parent = None;
        state.set_route(KEY, Route { members, parent });
    }
    shards
}

/// The other process, which does what it is told to on its standard input.
struct Peer {
    process: Child,
    tell: ChildStdin,
    hear: BufReader<ChildStdout>,
}

impl Peer {
    fn start(socket: &str, shards: usize) -> Self {
        let mut process = Command::new(std::env::current_exe().expect("this program"))
            .env(TOLD, format!("{socket} {shards}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let tell = process.stdin.take().expect("a pipe");
        let hear = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut peer = Self { process, tell, hear };
        assert_eq!(peer.answer(), "ready");
        peer
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.hear.read_line(&mut line).expect("an answer");
        line.trim().to_owned()
    }

    /// Frames a second, over all shards.
    fn run(&mut self, mode: Mode, frames: usize, shards: usize) -> f64 {
        writeln!(self.tell, "{} {frames}", mode as u8).expect("it listens");
        let seconds: f64 = self.answer().parse().expect("a time: see the error above");
        (frames * shards) as f64 / seconds
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The middle, the least and the most of some numbers.
fn spread(mut numbers: Vec<f64>) -> [f64; 3] {
    numbers.sort_by(f64::total_cmp);
    [numbers[numbers.len() / 2], numbers[0], numbers[numbers.len() - 1]]
}

/// Frames a second: of the clock on the wall, and of what a core spent.
type Rates = [f64; 2];

fn measure(
    peer: &mut Peer,
    mode: &AtomicU8,
    shards: &[Arc<Shard>],
    spent: &[Arc<Spent>],
    rounds: usize,
    frames: usize,
) {
    let spent = || {
        let sum = |of: fn(&Spent) -> &AtomicU64| {
            let each = spent.iter().map(|spent| of(spent).load(Ordering::Relaxed));
            each.sum::<u64>() as f64
        };
        [sum(|spent| &spent.nanoseconds), sum(|spent| &spent.frames)]
    };
    let run = |peer: &mut Peer, what: Mode, frames| -> Rates {
        let before = spent();
        mode.store(what as u8, Ordering::Relaxed);
        let rate = peer.run(what, frames, shards.len());
        mode.store(Mode::Wait as u8, Ordering::Relaxed);
        let after = spent();
        let [nanoseconds, frames] = [0, 1].map(|at| after[at] - before[at]);
        [rate, frames / nanoseconds * 1e9]
    };
    for (what, _) in MEASURED {
        run(peer, what, frames / 8);
    }
    let completed = || -> u64 {
        let completed = |shard: &Arc<Shard>| shard.lock().aggregator.counters().get(Counter::Completed);
        shards.iter().map(completed).sum()
    };
    let before = completed();
    let rates: Vec<[Rates; 3]> = (0..rounds)
        .map(|_| MEASURED.map(|(what, _)| run(peer, what, frames)))
        .collect();
    let slots = (rounds * frames * shards.len() / usize::from(MEMBERS)) as u64;
    assert_eq!(completed() - before, slots, "every slot is summed");
    let name = if shards.len() == 1 { "1 shard" } else { "2 shards" };
    for (time, of) in ["a second", "a second of a core"].into_iter().enumerate() {
        for (at, (_, what)) in MEASURED.into_iter().enumerate() {
            let [rate, ..] = spread(rates.iter().map(|rates| rates[at][time]).collect());
            let gigabits = rate * 32.0 * LANES.count() as f64 / 1e9;
            println!(
                "{name}, {what}: {:.2} million packets {of}, {gigabits:.1} Gbit/s of payload each way",
                rate / 1e6
            );
        }
        for (at, (_, what)) in MEASURED.into_iter().enumerate().skip(1) {
            let ratios = rates.iter().map(|rates| rates[0][time] / rates[at][time]);
            let [ratio, least, most] = spread(ratios.collect());
            println!("{name}, sums / {what}, {of}: {ratio:.2} ({least:.2} to {most:.2})");
        }
    }
}

/// One number of shards, in a process of its own: DPDK starts once.
fn host(count: usize, is_quick: bool) {
    let (rounds, frames) = if is_quick { (3, 1 << 14) } else { (61, 1 << 16) };
    let socket = format!("trib-bench-{}", std::process::id());
    let memif = format!("net_memif0,role=server,rsize=10,socket={socket}");
    let cpus = if count == 1 { vec!["0"] } else { vec!["0", "1"] };
    let eal = start_eal(&cpus, &memif);
    let (port, mut queues, pool) = start_port(&eal, count);
    let swaps = queues.split_off(count);
    let hand_offs = HandOff::among(&eal, "hand", count, 256).expect("rings");
    let shards = shards(count);
    let spent: Vec<Arc<Spent>> = shards.iter().map(|_| Arc::default()).collect();
    let parts = queues.into_iter().zip(hand_offs).zip(swaps).enumerate();
    let mut cores: Vec<Core> = parts
        .map(|(number, ((queue, hand_off), swap))| {
            let link = Link::alone(queue, MAC, false);
            Core {
                poller: Poller::new(vec![link], hand_off, pool.clone(), here(number), None),
                shard: Arc::clone(&shards[number]),
                swap,
                spent: Arc::clone(&spent[number]),
            }
        })
        .collect();
    let mode = Arc::new(AtomicU8::new(Mode::Core as u8));
    let others: Vec<_> = eal
        .workers()
        .into_iter()
        .zip(cores.split_off(1))
        .map(|(lcore, mut core)| {
            let mode = Arc::clone(&mode);
            lcore.launch(move || core.run(&mode)).expect("a core")
        })
        .collect();
    std::thread::scope(|scope| {
        let driver = scope.spawn(|| {
            // Whatever goes wrong: the cores stop.
            let _end = Halt(&mode);
            let mut peer = Peer::start(&socket, count);
            measure(&mut peer, &mode, &shards, &spent, rounds, frames);
        });
        cores[0].run(&mode);
        driver.join().expect("measured");
    });
    drop(others);
    drop((cores, port));
}

/// Ends the cores' loops when it is dropped.
struct Halt<'m>(&'m AtomicU8);

impl Drop for Halt<'_> {
    fn drop(&mut self) {
        self.0.store(Mode::End as u8, Ordering::Relaxed);
    }
}

/// The ranks of one shard.
struct Ranks {
    /// For the host, and for the loop that swaps.
    queues: [Queue; 2],
    pool: Pool,
    framing: Vec<[u8; FRAMING]>,
    /// The next contribution.
    next: (Round, u16, u8),
}

impl Ranks {
    fn new(shard: usize, queues: [Queue; 2], pool: Pool) -> Self {
        let framing = (0..MEMBERS).map(|number| {
            let mut framing = [0; FRAMING];
            let from = End {
                mac: member_mac(number),
                address: member(number, shard),
            };
            let to = End {
                mac: MAC,
                address: here(shard),
            };
            let way = Way::between(&from, &to).expect("one family");
            way.write(None, packet_len(LANES.count()), None, &mut framing);
            framing
        });
        Self {
            queues,
            pool,
            framing: framing.collect(),
            next: (Round(0), 0, 0),
        }
    }

    /// So many frames there and back.
    fn run(&mut self, mode: u8, frames: usize) {
        let deadline = Instant::now() + LIMIT;
        let (mut sent, mut received) = (0, 0);
        let mut out = Burst::default();
        let next = self.next;
        while received < frames {
            if out.is_empty() && sent < frames && sent - received + TOGETHER <= UNDER_WAY {
                self.contribute(&mut out);
                sent += out.len();
            }
            let queue = &mut self.queues[usize::from(mode == Mode::Swap as u8)];
            if !out.is_empty() {
                queue.send(&mut out);
            }
            let mut burst = Burst::default();
            let came = queue.receive(BURST, &mut burst);
            // Questions for the ranks' Ethernet addresses are shorter.
            received += burst.drain().filter(|mbuf| mbuf.bytes().len() == FRAME).count();
            if came == 0 {
                assert!(
                    Instant::now() < deadline,
                    "{received} of {frames} frames have come back of {sent} sent"
                );
                std::thread::yield_now();
            }
        }
        if mode != Mode::Core as u8 {
            // Nothing was summed.
            self.next = next;
        }
    }

    fn contribute(&mut self, out: &mut Burst) {
        let mut burst = Burst::default();
        assert!(self.pool.take_some(TOGETHER, &mut burst), "mbufs come back");
        for mut mbuf in burst.drain() {
            let (round, slot, member) = self.next;
            mbuf.set_len(FRAME);
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
    }

    /// The ranks say their Ethernet addresses.
    fn introduce(&mut self) {
        let mut burst = Burst::default();
        for number in 0..MEMBERS {
            let mac = member_mac(number);
            let std::net::IpAddr::V4(ip) = member(number, 0).ip() else {
                unreachable!("IPv4");
            };
            let reply = [
                &MAC[..],
                &mac,
                &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2],
                &mac,
                &ip.octets(),
                &MAC,
                &HERE.ip().octets(),
            ]
            .concat();
            let mut mbuf = self.pool.take().expect("an mbuf");
            mbuf.set_len(reply.len());
            mbuf.bytes_mut().copy_from_slice(&reply);
            assert!(burst.push(mbuf).is_ok());
        }
        while !burst.is_empty() {
            self.queues[0].send(&mut burst);
        }
        // What the aggregator has asked until then.
        std::thread::sleep(Duration::from_millis(500));
        while self.queues[0].receive(BURST, &mut burst) > 0 {
            burst.drain().for_each(drop);
        }
    }
}

/// The other process.
fn peer(told: &str) {
    let (socket, shards) = told.split_once(' ').expect("a socket and a number");
    let shards: usize = shards.parse().expect("a number");
    let memif = format!("net_memif0,role=client,rsize=10,socket={socket}");
    let cpus = if shards == 1 { vec!["1"] } else { vec!["0", "1"] };
    let eal = start_eal(&cpus, &memif);
    let (port, mut queues, pool) = start_port(&eal, shards);
    let deadline = Instant::now() + LIMIT;
    while !port.is_up() {
        assert!(Instant::now() < deadline, "no link");
        std::thread::yield_now();
    }
    let swaps = queues.split_off(shards);
    let parts = queues.into_iter().zip(swaps).enumerate();
    let mut ranks: Vec<Ranks> = parts
        .map(|(shard, (host, swap))| Ranks::new(shard, [host, swap], pool.clone()))
        .collect();
    ranks[0].introduce();
    let mut others = ranks.split_off(1);
    let mut first = ranks.pop().expect("a shard");
    println!("ready");
    for line in stdin().lines().map_while(Result::ok) {
        let (mode, frames) = line.split_once(' ').expect("a mode and a number");
        let (mode, frames) = (mode.parse().expect("a mode"), frames.parse().expect("a number"));
        let together = Arc::new(Barrier::new(shards));
        let running: Vec<_> = eal
            .workers()
            .into_iter()
            .zip(others.drain(..))
            .map(|(lcore, mut ranks)| {
                let (together, (back, ranks_back)) = (Arc::clone(&together), std::sync::mpsc::channel());
                let running = lcore.launch(move || {
                    together.wait();
                    ranks.run(mode, frames);
                    let _ = back.send(ranks);
                });
                (running.expect("a core"), ranks_back)
            })
            .collect();
        together.wait();
        let begin = Instant::now();
        first.run(mode, frames);
        others = running
            .into_iter()
            .map(|(running, ranks)| {
                // First: DPDK waits for its cores without pause, and others need this one.
                let ranks = ranks.recv().expect("its frames have come back");
                running.wait();
                ranks
            })
            .collect();
        println!("{}", begin.elapsed().as_secs_f64());
    }
}

fn main() {
    if let Ok(told) = std::env::var(TOLD) {
        return peer(&told);
    }
    let is_quick = std::env::args().any(|argument| argument == "--quick");
    if let Ok(shards) = std::env::var("TRIBUTARY_MEMIF_SHARDS") {
        return host(shards.parse().expect("a number"), is_quick);
    }
    for shards in ["1", "2"] {
        let run = || {
            let mut run = Command::new(std::env::current_exe().expect("this program"));
            let run = run
                .args(std::env::args().skip(1))
                .env("TRIBUTARY_MEMIF_SHARDS", shards);
            run.status().expect("a process")
        };
        // Nobody sends a frame again here: where other programs keep the host from its core for long, a ring overflows and the
        // figures mean nothing.
        let mut status = run();
        if !status.success() {
            eprintln!("{shards} shards: {status}; once more");
            status = run();
        }
        assert!(status.success(), "{shards} shards: {status}");
    }
}
