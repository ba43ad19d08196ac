//! A peer of net_memif that goes while its frames are received. Without the gate (`dpdk::gate`) the memory is gone in the middle of a
//! burst, and this test ends with a segmentation fault.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use dpdk_host::dpdk::{BURST, Burst, Device, Eal, Pool, Port, PortConfig, Queue};

/// Peers, one after the other.
const PEERS: u64 = 300;

/// Frames that each sends at least.
const FRAMES: u64 = 2000;

const LIMIT: Duration = Duration::from_secs(60);

/// Both ends in one process, with one interrupt thread.
#[test]
fn a_peer_may_go_while_its_frames_are_received() {
    let arguments = "--no-huge -m 64 --no-pci --no-shconf --no-telemetry --log-level 3 --lcores 0@(0-1)";
    let eal = Eal::start(&arguments.split(' ').collect::<Vec<_>>()).expect("DPDK starts");
    let pool = Pool::new(&eal, "frames", 4095, 2048, None).unwrap();
    let socket = format!("socket=trib-gate-{}", std::process::id());
    let server = Device::add(&eal, "net_memif0", &format!("role=server,rsize=10,{socket}")).unwrap();
    let (server, mut queues) = Port::start(server, &pool, &PortConfig::default()).unwrap();
    let (received, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| poll(&mut queues[0], &received, &stop));
        for peer in 1..=PEERS {
            let arguments = format!("role=client,rsize=10,{socket}");
            let device = Device::add(&eal, &format!("net_memif{peer}"), &arguments).unwrap();
            let (client, mut queues) = Port::start(device, &pool, &PortConfig::default()).unwrap();
            let deadline = Instant::now() + LIMIT;
            let goal = received.load(Ordering::Relaxed) + FRAMES;
            while received.load(Ordering::Relaxed) < goal {
                send(&mut queues[0], &pool);
                assert!(Instant::now() < deadline, "peer {peer}: no frames come");
            }
            assert!(server.is_up() && client.is_up());
            // Its queue is full when it goes.
            for _ in 0..32 {
                send(&mut queues[0], &pool);
            }
            drop((queues, client));
            while server.is_up() {
                assert!(Instant::now() < deadline, "peer {peer} is not gone");
                thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(received.into_inner() >= PEERS * FRAMES);
}

fn poll(queue: &mut Queue, received: &AtomicU64, stop: &AtomicBool) {
    let mut burst = Burst::default();
    while !stop.load(Ordering::Relaxed) {
        let came = queue.receive(BURST, &mut burst);
        burst.drain().for_each(drop);
        received.fetch_add(came as u64, Ordering::Relaxed);
    }
}

fn send(queue: &mut Queue, pool: &Pool) {
    let mut burst = Burst::default();
    if pool.take_some(BURST / 2, &mut burst) {
        let mut frames = Burst::default();
        for mut mbuf in burst.drain() {
            mbuf.set_len(1500);
            let _ = frames.push(mbuf);
        }
        queue.send(&mut frames);
    }
    thread::yield_now();
}
