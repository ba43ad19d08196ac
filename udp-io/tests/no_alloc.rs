//! Sending and receiving allocate nothing once the batches exist.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::Cell,
    time::Duration,
};

use udp_io::{Port, PortConfig, RecvBatch, SendBatch, UdpPort, wait_any};

thread_local! {
    /// Of this thread only: the test harness allocates in its own.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller keeps the contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn steady_state_does_not_allocate() {
    let bind = || UdpPort::bind("127.0.0.1:0".parse().unwrap(), &PortConfig::default()).unwrap();
    let (a, b, c) = (bind(), bind(), bind());
    let everyone = [b.local_addr(), c.local_addr()];
    let (mut out, mut arrived) = (SendBatch::new(1200, 8), RecvBatch::new(&b, 1200));
    let mut round = || {
        for i in 0..100u32 {
            a.send_to_all(&mut out, &everyone, &[i as u8; 1200]).unwrap();
            a.send(&mut out, b.local_addr(), &[1; 50]).unwrap();
        }
        a.flush(&mut out).unwrap();
        let mut packets = 0;
        while wait_any(
            &[&b, &c],
            Duration::from_millis(if packets < 300 { 1000 } else { 0 }),
        )
        .unwrap()
        {
            for port in [&b, &c] {
                packets += port.recv(&mut arrived).unwrap();
                assert!(
                    arrived
                        .packets()
                        .all(|(source, packet)| source == a.local_addr() && !packet.is_empty())
                );
            }
        }
        assert_eq!(packets, 300);
    };
    // The lists of destinations reach their size in the first round.
    round();
    let before = ALLOCATIONS.with(Cell::get);
    for _ in 0..20 {
        round();
    }
    assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
}
