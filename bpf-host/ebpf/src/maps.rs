//! The maps, and the constants that the loader sets. Sizes of 1 here are set by the loader, too.

use agg_core::wire::HEADER_LEN;
use agg_core::{Counter, Epoch, Nanos};
use aya_ebpf::bindings::{BPF_F_MMAPABLE, BPF_F_NO_PREALLOC, bpf_spin_lock};
use aya_ebpf::btf_maps::{Array, ArrayOfMaps, DevMap, DevMapHash, HashMap, PerCpuArray, PerCpuHashMap};
use aya_ebpf::helpers::bpf_ktime_get_ns;
use aya_ebpf::macros::btf_map;
use bpf_layout::{JobEntry, MAX_JOBS, MemberEntry, ROW_LANES, TALLIES};

/// The UDP port of the data plane.
#[unsafe(no_mangle)]
static PORT: u16 = 0;

/// The only address that is served, as four bytes in network order; zeros: all.
#[unsafe(no_mangle)]
static ADDRESS: u32 = 0;

/// The epoch of the daemon's start, with which probes are answered.
#[unsafe(no_mangle)]
static EPOCH: u32 = 0;

/// Whether replies are redirected to where the packet came from instead of sent back: a veth wakes its peer for what is
/// sent back only if that has an XDP program, too (`veth_xdp_tx` of drivers/net/veth.c).
#[unsafe(no_mangle)]
static REDIRECT_REPLIES: u8 = 0;

/// Whether the time is what map `CLOCK` holds: tests set it, to ask what happens at a given moment.
#[unsafe(no_mangle)]
static TEST_CLOCK: u8 = 0;

/// The time, where a test sets it.
#[btf_map]
static CLOCK: Array<u64, 1> = Array::new();

/// The running jobs by key. Not preallocated: an entry that is replaced is there until the loader writes the next.
#[btf_map]
static JOBS: HashMap<u64, JobEntry, MAX_JOBS, { BPF_F_NO_PREALLOC as usize }> = HashMap::new();

/// Under a quorum, which members are late, by the job's number.
#[btf_map]
static LATE: Array<u64, MAX_JOBS> = Array::new();

/// The members of each job.
#[btf_map]
static MEMBERS: Array<MemberEntry, { MAX_JOBS * agg_core::MAX_MEMBERS }> = Array::new();

/// The generations of all slots.
#[btf_map]
static HEADS: Array<LockedHead, 1> = Array::new();

/// Their values.
#[btf_map]
static VALUES: Array<[i32; ROW_LANES], 1, { BPF_F_MMAPABLE as usize }> = Array::new();

/// What happened to packets.
#[btf_map]
static COUNTERS: PerCpuArray<u64, TALLIES> = PerCpuArray::new();

/// What was decided about the packet at hand: of those that arrive, then of those that the daemon runs the program over.
#[btf_map]
static DECISION: PerCpuArray<Decision, 2> = PerCpuArray::new();

/// Where each job's results go.
#[btf_map]
static BROADCAST: ArrayOfMaps<DevMap<{ agg_core::MAX_MEMBERS }>, MAX_JOBS> = ArrayOfMaps::new();

/// The devices that packets leave by, each with the program [`crate::deliver`].
#[btf_map]
static DEVICES: DevMapHash<MAX_DEVICES> = DevMapHash::new();

/// Whose turn it is at each device that clones leave by.
#[btf_map]
static TURNS: PerCpuHashMap<u32, Turn, MAX_DEVICES> = PerCpuHashMap::new();

/// Packets that this CPU has sent to all members.
#[btf_map]
static SERIAL: PerCpuArray<u64, 1> = PerCpuArray::new();

/// The loopback interface, of which every test run is. The program is never attached there.
const LOOPBACK: u32 = 1;

/// Devices that clones leave by.
const MAX_DEVICES: usize = 256;

/// Which clone of a packet the last one was that left by a device.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Turn {
    /// The packet's.
    pub(crate) serial: u64,
    /// The member whose number comes after it.
    pub(crate) next: u64,
}

/// [`bpf_layout::HeadEntry`] as the kernel must see it: it finds the lock by its type.
#[repr(C)]
pub(crate) struct LockedHead {
    pub(crate) lock: bpf_spin_lock,
    reserved: u32,
    pub(crate) head: [u64; 8],
}

/// What was decided about a packet. It goes through a map so that the verifier forgets by which of the core's many paths it
/// was decided: it would follow the passes over the lanes once for each of them. See [`forgotten`].
#[repr(C)]
pub(crate) struct Decision {
    /// The lane of its row at which the packet's chunk begins.
    pub(crate) lane: u32,
    /// An [`agg_core::slot::Merge`].
    pub(crate) merge: u32,
    /// An [`agg_core::slot::To`]; [`NOTHING`] where nothing is to be sent.
    pub(crate) to: u32,
    /// Whether the slot's values are to be sent.
    pub(crate) values: u32,
    pub(crate) counter: u32,
    /// The values that are to be sent, added up as their UDP checksum needs it.
    pub(crate) sum: u64,
    /// The header of what is to be sent.
    pub(crate) header: [u8; HEADER_LEN],
    /// The slot's head as it was before.
    pub(crate) before: [u64; 8],
}

/// A number in a map's memory, of which neither the compiler nor the verifier knows what it is.
#[inline(always)]
pub(crate) fn forgotten(number: &u32) -> u32 {
    // SAFETY: a reference.
    unsafe { core::ptr::read_volatile(number) }
}

/// Nothing is to be sent.
pub(crate) const NOTHING: u32 = u32::MAX;

pub(crate) fn port() -> u16 {
    // SAFETY: a constant of this program. Read as if it could change, since the loader does change it.
    unsafe { core::ptr::read_volatile(&raw const PORT) }
}

pub(crate) fn address() -> u32 {
    // SAFETY: as for the port.
    unsafe { core::ptr::read_volatile(&raw const ADDRESS) }
}

pub(crate) fn epoch() -> Epoch {
    // SAFETY: as for the port.
    Epoch(unsafe { core::ptr::read_volatile(&raw const EPOCH) })
}

/// The time. The verifier knows the constant, and takes the test's clock out of a program that does not use it.
#[inline(always)]
pub(crate) fn now() -> Nanos {
    // SAFETY: as for the port.
    if unsafe { core::ptr::read_volatile(&raw const TEST_CLOCK) } != 0 {
        return CLOCK.get(0).copied().unwrap_or(0);
    }
    // SAFETY: reads the kernel's clock.
    unsafe { bpf_ktime_get_ns() }
}

pub(crate) fn redirects_replies() -> bool {
    // SAFETY: as for the port.
    unsafe { core::ptr::read_volatile(&raw const REDIRECT_REPLIES) != 0 }
}

/// A running job.
#[inline(always)]
pub(crate) fn job(key: u64) -> Option<&'static JobEntry> {
    // SAFETY: entries are never changed, only replaced. The loader waits for the runs that may read a replaced one before it
    // writes the next, which would get its memory.
    unsafe { JOBS.get(key) }
}

/// A member of a job.
#[inline(always)]
pub(crate) fn member(job: &JobEntry, number: u8) -> Option<&'static MemberEntry> {
    if u32::from(number) >= job.members {
        return None;
    }
    MEMBERS.get(bpf_layout::member_index(job.index, number))
}

/// Which members of a job are late.
#[inline(always)]
pub(crate) fn late(job: &JobEntry) -> Option<&'static mut u64> {
    // SAFETY: the map's memory, which stays. Other CPUs may write it, too: a bit that gets lost so comes again with the
    // member's next contribution or the next slot that it misses.
    LATE.get_ptr_mut(job.index).map(|late| unsafe { &mut *late })
}

/// A generation of a job's slots; `None` beyond its last.
#[inline(always)]
pub(crate) fn head(job: &JobEntry, generation: u32) -> Option<*mut LockedHead> {
    if generation >= job.heads {
        return None;
    }
    HEADS.get_ptr_mut(job.first_head.wrapping_add(generation))
}

/// The row of values that a chunk is in.
#[inline(always)]
pub(crate) fn row(job: &JobEntry, row: u32) -> Option<*mut [i32; ROW_LANES]> {
    VALUES.get_ptr_mut(job.first_row.wrapping_add(row))
}

#[inline(always)]
pub(crate) fn decision(interface: u32) -> Option<&'static mut Decision> {
    let index = u32::from(interface == LOOPBACK);
    // SAFETY: this CPU's own. What arrives interrupts only test runs, before Linux 6.3, and has an entry of its own; those
    // are the daemon's, one at a time.
    DECISION
        .get_ptr_mut(index)
        .map(|decision| unsafe { &mut *decision })
}

/// Sends a frame that is addressed already by a device. Not by `bpf_redirect`: frames that wait for a device are in one
/// queue, which has the program of the first of them, or none if that was sent so.
#[inline(always)]
pub(crate) fn redirect(device: u32) -> Option<u32> {
    DEVICES.redirect(device, 0).ok()
}

/// The devices of a job's members.
#[inline(always)]
pub(crate) fn broadcast(job: u32) -> Option<&'static DevMap<{ agg_core::MAX_MEMBERS }>> {
    BROADCAST.get(job)
}

/// The turn at a device.
#[inline(always)]
pub(crate) fn turn(device: u32) -> Option<&'static mut Turn> {
    if TURNS.get_ptr_mut(device).is_none() {
        // Serial numbers begin at 1.
        let _ = TURNS.insert(device, Turn { serial: 0, next: 0 }, 0);
    }
    // SAFETY: this CPU's own, and a run is not interrupted by another on its CPU. Entries are never removed.
    TURNS.get_ptr_mut(device).map(|turn| unsafe { &mut *turn })
}

/// A number that no other packet to all members has had on this CPU.
#[inline(always)]
pub(crate) fn serial() -> Option<u64> {
    let serial = SERIAL.get_ptr_mut(0)?;
    // SAFETY: this CPU's own.
    unsafe {
        *serial = (*serial).wrapping_add(1);
        Some(*serial)
    }
}

#[inline(always)]
pub(crate) fn count(counter: Counter) {
    tally(counter as u32);
}

/// Adds one to a counter by its place.
#[inline(always)]
pub(crate) fn tally(index: u32) {
    if let Some(count) = COUNTERS.get_ptr_mut(index) {
        // SAFETY: this CPU's own.
        unsafe { *count = (*count).wrapping_add(1) };
    }
}
