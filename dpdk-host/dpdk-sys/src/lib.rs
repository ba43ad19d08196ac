//! The functions of the C shim over libdpdk (`shim/shim.h`), as they are. `dpdk_host::dpdk` is what to use.
//!
//! No type of DPDK is known here: its struct layouts stay with the C compiler. Functions that return an `i32` give a
//! negative errno where they fail.
#![no_std]

use core::ffi::{c_char, c_int, c_uint, c_void};

/// What is in an mbuf's first segment.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct View {
    /// The first byte.
    pub data: *mut u8,
    /// Bytes that are there.
    pub len: u16,
    /// Bytes that can be.
    pub room: u16,
    /// Mbufs that the packet is spread over.
    pub segments: u16,
}

/// What a driver says of a frame that has come.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Arrival {
    /// [`UNTAGGED`] and those behind it.
    pub flags: u16,
    /// The VLAN tag that it has taken out.
    pub tag: u16,
    /// Mbufs that the frame is spread over.
    pub segments: u16,
}

/// A VLAN tag was taken out of the frame.
pub const UNTAGGED: u16 = 1;
/// The checksum of the IPv4 header is wrong.
pub const BAD_IP: u16 = 2;
/// That of UDP is.
pub const BAD_UDP: u16 = 4;

/// A port before it is started.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct PortInfo {
    /// The longest frame that the driver says it receives, in bytes.
    pub max_frame: u32,
    /// Pairs of queues that it can have.
    pub max_queues: u16,
    /// Bytes of the largest IP packet.
    pub mtu: u16,
    /// NUMA node; below 0: any.
    pub socket: i32,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Not 0: it can write IPv4 and UDP checksums.
    pub has_checksums: u8,
    /// Not 0: it can spread a frame over several mbufs, and says so.
    pub has_scatter: u8,
    /// The driver's name, ended by 0.
    pub driver: [c_char; 32],
}

/// How a port is started.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PortConfig {
    /// Whose mbufs each queue receives into: as many as queues.
    pub pools: *mut *mut c_void,
    /// Pairs of queues.
    pub queues: u16,
    /// Frames that a receive queue holds.
    pub receive_ring: u16,
    /// Frames that a send queue holds.
    pub send_ring: u16,
    /// Bytes of the largest IP packet; 0: as it is.
    pub mtu: u16,
    /// Not 0: it writes the checksums of mbufs that say so.
    pub checksums: u8,
    /// Not 0: frames may be longer than an mbuf. Only where it says that it can.
    pub scatter: u8,
    /// Not 0: it receives what is for groups.
    pub multicast: u8,
}

/// Which UDP datagrams a port gives to which queue.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steering {
    /// The UDP port that they go to.
    pub udp_port: u16,
    /// The queue.
    pub queue: u16,
    /// Not 0: they are IPv6 packets.
    pub is_ipv6: u8,
    /// Not 0: their frames have a VLAN tag.
    pub has_tag: u8,
}

/// What a port has counted.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PortStats {
    /// Frames received.
    pub received: u64,
    /// Frames sent.
    pub sent: u64,
    /// Frames lost since a receive ring was full.
    pub missed: u64,
    /// Frames received broken.
    pub receive_errors: u64,
    /// Frames not sent.
    pub send_errors: u64,
    /// Frames lost since no mbuf was free.
    pub no_mbuf: u64,
}

unsafe extern "C" {
    /// DPDK's version, as text.
    pub fn shim_version() -> *const c_char;
    /// What an error number means. Valid until the thread's next call.
    pub fn shim_strerror(code: c_int) -> *const c_char;
    /// Starts EAL. `log` is then what it logged meanwhile, or as before; to be freed by [`shim_log_free`].
    pub fn shim_eal_init(argc: c_int, argv: *mut *mut c_char, log: *mut *mut c_char) -> c_int;
    /// Frees a log.
    pub fn shim_log_free(log: *mut c_char);
    /// Makes the calling thread one that pools know.
    pub fn shim_thread_register() -> c_int;
    /// Undoes that.
    pub fn shim_thread_unregister();

    /// A pool of so many mbufs, each with room for so many bytes; null, with the reason, where it cannot be had.
    pub fn shim_pool_create(
        name: *const c_char,
        count: c_uint,
        cache: c_uint,
        room: u16,
        socket: c_int,
        error: *mut c_int,
    ) -> *mut c_void;
    /// Mbufs of a pool that are free.
    pub fn shim_pool_available(pool: *const c_void) -> c_uint;

    /// An empty mbuf; null where none is free.
    pub fn shim_alloc(pool: *mut c_void) -> *mut c_void;
    /// So many empty mbufs, or none.
    pub fn shim_alloc_bulk(pool: *mut c_void, mbufs: *mut *mut c_void, count: c_uint) -> c_int;
    /// Gives mbufs back to their pools.
    pub fn shim_free_bulk(mbufs: *mut *mut c_void, count: c_uint);
    /// Where an mbuf's bytes are.
    pub fn shim_view(mbuf: *mut c_void, view: *mut View);
    /// Sets the bytes that are in an mbuf of one segment.
    pub fn shim_set_len(mbuf: *mut c_void, len: u16);
    /// What the driver says of a frame.
    pub fn shim_arrival(mbuf: *const c_void, arrival: *mut Arrival);
    /// Says of a frame what a driver would, but for its segments.
    pub fn shim_set_arrival(mbuf: *mut c_void, arrival: *const Arrival);
    /// Spreads a frame over one more mbuf, which is the first one's then.
    pub fn shim_append(mbuf: *mut c_void, behind: *mut c_void) -> c_int;
    /// Copies a frame from all of its mbufs into an empty one.
    pub fn shim_gather(from: *const c_void, into: *mut c_void) -> c_int;
    /// Puts a VLAN tag into a frame.
    pub fn shim_insert_tag(mbuf: *mut c_void, tag: u16) -> c_int;
    /// Has the port write the checksums of a frame of UDP over IPv4 or IPv6 without options or extensions, behind an Ethernet
    /// header of so many bytes.
    pub fn shim_offload_checksums(mbuf: *mut c_void, ethernet: u16, is_ipv6: u8);

    /// Adds a virtual device.
    pub fn shim_device_add(driver_and_number: *const c_char, args: *const c_char) -> c_int;
    /// Adds two ports with so many queues, up to 16, joined by rings of so many frames, a power of two.
    pub fn shim_ring_pair(name: *const c_char, size: c_uint, queues: c_uint, ports: *mut u16) -> c_int;
    /// The port of a device.
    pub fn shim_port_by_name(name: *const c_char, port: *mut u16) -> c_int;
    /// The first port from a number on; -1: there is none.
    pub fn shim_port_next(from: u16) -> c_int;
    /// The device of a port.
    pub fn shim_port_name(port: u16, name: *mut c_char, room: usize) -> c_int;
    /// What a port is and can.
    pub fn shim_port_info(port: u16, info: *mut PortInfo) -> c_int;
    /// Configures and starts a port. `rings` are then the frames that its queues hold, receiving and sending.
    pub fn shim_port_start(port: u16, config: *const PortConfig, rings: *mut u16) -> c_int;
    /// Stops a port and starts it again.
    pub fn shim_port_restart(port: u16) -> c_int;
    /// Stops a port for good.
    pub fn shim_port_close(port: u16) -> c_int;
    /// What a port has counted.
    pub fn shim_port_stats(port: u16, stats: *mut PortStats) -> c_int;
    /// Receives up to so many frames, whose first bytes are on their way into the cache then.
    pub fn shim_receive(port: u16, queue: u16, mbufs: *mut *mut c_void, count: u16) -> u16;
    /// Sends up to so many frames, from the first on; those sent are the driver's.
    pub fn shim_send(port: u16, queue: u16, mbufs: *mut *mut c_void, count: u16) -> u16;

    /// Has a port that runs give UDP datagrams to a UDP port to a queue. `said` is then the driver's reason, ended by 0.
    pub fn shim_steer(port: u16, to: *const Steering, said: *mut c_char, room: usize) -> c_int;
    /// Whether the link is up: 1 or 0.
    pub fn shim_port_link(port: u16) -> c_int;

    /// A ring of so many mbufs, a power of two, from one thread to one other; null, with the reason, where it cannot be had.
    pub fn shim_ring_create(
        name: *const c_char,
        size: c_uint,
        socket: c_int,
        error: *mut c_int,
    ) -> *mut c_void;
    /// Frees an empty ring.
    pub fn shim_ring_free(ring: *mut c_void);
    /// Puts up to so many mbufs into a ring, from the first on.
    pub fn shim_ring_enqueue(ring: *mut c_void, mbufs: *mut *mut c_void, count: c_uint) -> c_uint;
    /// Takes up to so many mbufs out of a ring; their first bytes are on their way into the cache then.
    pub fn shim_ring_dequeue(ring: *mut c_void, mbufs: *mut *mut c_void, count: c_uint) -> c_uint;
    /// Notes a number of a port in an mbuf.
    pub fn shim_set_port(mbuf: *mut c_void, port: u16);
    /// The number that was noted.
    pub fn shim_port_of(mbuf: *const c_void) -> u16;

    /// The core of the calling thread; the largest number: it is none of DPDK's.
    pub fn shim_lcore() -> c_uint;
    /// The next core after one (-1: the first), without the main one; -1: there is none.
    pub fn shim_lcore_next(from: c_int) -> c_int;
    /// The NUMA node of a core; below 0: all have the same.
    pub fn shim_lcore_node(lcore: c_uint) -> c_int;
    /// Has a core that waits for work do some.
    pub fn shim_launch(
        lcore: c_uint,
        work: unsafe extern "C" fn(*mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    /// Waits until a core has done its work; returns what that returned.
    pub fn shim_wait(lcore: c_uint) -> c_int;

    /// From now on EAL's interrupt thread does nothing while somebody is inside the gate. Once in a process.
    pub fn shim_gate_start() -> c_int;
    /// Enters the gate; not twice by the same thread.
    pub fn shim_gate_enter();
    /// Leaves it, in the thread that has entered.
    pub fn shim_gate_leave();
    /// Adds a command to DPDK's telemetry; its answer is what `count` writes.
    pub fn shim_telemetry(command: *const c_char, help: *const c_char, count: Count) -> c_int;
}

/// A counter and its name, ended by 0.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Counter {
    /// What is counted.
    pub name: [c_char; 64],
    /// How often it has happened.
    pub value: u64,
}

/// Writes the counters of a shard, or of all together (-1), into so many places; returns how many, or the largest number
/// where there is no such shard. It is called by threads of DPDK's.
pub type Count = unsafe extern "C" fn(shard: c_int, counters: *mut Counter, room: usize) -> usize;
