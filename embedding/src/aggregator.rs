//! The aggregator.

use core::ffi::c_void;

use agg_core::round::GENERATIONS;
use agg_core::slot::Head;
use agg_core::{AdmitError, Aggregator, Epoch, JobConfig, Lanes, Member, MemberSet, Policy, Verdict};

use crate::endpoint::TributaryEndpoint;
use crate::memory::{place, slice, slice_mut};
use crate::{TRIBUTARY_LANES, TRIBUTARY_WINDOW};

const HEADS: usize = TRIBUTARY_WINDOW * GENERATIONS as usize;

/// An aggregator. Its slots serve one job with the whole window, or several with smaller ones.
pub struct TributaryAggregator {
    aggregator: Aggregator<[Head; HEADS], [i32; HEADS * TRIBUTARY_LANES]>,
    /// Of every job.
    epoch: Epoch,
}

/// Bytes of memory that an aggregator needs, aligned to 8.
pub const TRIBUTARY_AGGREGATOR_BYTES: usize = 204_800;

const _: () = assert!(size_of::<TributaryAggregator>() <= TRIBUTARY_AGGREGATOR_BYTES);
const _: () = assert!(align_of::<TributaryAggregator>() <= 8);

/// Whether a job was admitted, or why not.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum TributaryAdmission {
    /// It was.
    Admitted,
    /// Not 1 to 64 members.
    Members,
    /// The window is no power of two.
    Window,
    /// The key is 0 or taken.
    Key,
    /// Too many jobs.
    Jobs,
    /// The slots that are free are fewer than the window.
    Memory,
}

/// What to do with what `tributary_aggregator_handle` wrote.
#[derive(Clone, Copy)]
#[repr(C)]
pub enum TributaryAction {
    /// Nothing was written.
    Quiet,
    /// Send it to the source of the packet.
    Reply,
    /// Send it to every member of the job.
    Broadcast,
}

/// The outcome of a packet.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct TributaryVerdict {
    /// Whom to send it to.
    pub action: TributaryAction,
    /// Of a broadcast: the job.
    pub key: u64,
    /// Bytes to send.
    pub len: usize,
}

/// Makes an aggregator without jobs in `memory`, of at least `TRIBUTARY_AGGREGATOR_BYTES` bytes aligned to 8; null
/// where it is smaller. `epoch` must be above that of every earlier start. Takes as much stack, this once.
///
/// # Safety
/// `memory` must point to `bytes` writable bytes that nothing else uses as long as the aggregator is used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_aggregator_init(
    memory: *mut c_void,
    bytes: usize,
    epoch: u32,
) -> *mut TributaryAggregator {
    let heads = [const { Head::VACANT }; HEADS];
    let aggregator = TributaryAggregator {
        aggregator: Aggregator::new(heads, [0; HEADS * TRIBUTARY_LANES]),
        epoch: Epoch(epoch),
    };
    // SAFETY: as the caller says.
    unsafe { place(memory, bytes, aggregator) }
}

/// Admits a job of the workers that send from `sources`, in the order of their numbers. `key` should be random.
///
/// # Safety
/// `aggregator` must come from `tributary_aggregator_init`, `sources` must point to `members` endpoints.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_aggregator_admit(
    aggregator: *mut TributaryAggregator,
    key: u64,
    sources: *const TributaryEndpoint,
    members: usize,
    window: u16,
) -> TributaryAdmission {
    // SAFETY: as the caller says.
    let (aggregator, sources) = unsafe { (aggregator.as_mut(), slice(sources, members)) };
    let Some(TributaryAggregator { aggregator, epoch }) = aggregator else {
        return TributaryAdmission::Memory;
    };
    let mut config = JobConfig {
        key,
        epoch: *epoch,
        members: Default::default(),
        lanes: Lanes::L256,
        window,
        generations: GENERATIONS,
        policy: Policy::All,
        parent: None,
        frames: None,
    };
    for (number, source) in (0..).zip(sources) {
        let member = Member {
            source: (*source).into(),
            set: MemberSet::single(number),
            workers: 1,
        };
        if config.members.push(member).is_err() {
            return TributaryAdmission::Members;
        }
    }
    match aggregator.admit(&config) {
        Ok(()) => TributaryAdmission::Admitted,
        // Of a quorum, of generations and of frames nothing is asked for that could be refused.
        Err(AdmitError::Members | AdmitError::Policy(_)) => TributaryAdmission::Members,
        Err(AdmitError::Window(_) | AdmitError::Generations(_)) => TributaryAdmission::Window,
        Err(AdmitError::Key) => TributaryAdmission::Key,
        Err(AdmitError::Jobs(_)) => TributaryAdmission::Jobs,
        Err(AdmitError::Memory { .. } | AdmitError::Frames(_)) => TributaryAdmission::Memory,
    }
}

/// Forgets a job and frees its slots.
///
/// # Safety
/// `aggregator` must come from `tributary_aggregator_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_aggregator_release(aggregator: *mut TributaryAggregator, key: u64) {
    // SAFETY: as the caller says.
    if let Some(TributaryAggregator { aggregator, .. }) = unsafe { aggregator.as_mut() } {
        aggregator.release(key);
    }
}

/// Handles one packet; any bytes at all may come. What is to be sent is written to `out`, of at least
/// `TRIBUTARY_PACKET_BYTES` bytes. `now` is in nanoseconds and must not run backwards. Never panics.
///
/// # Safety
/// `aggregator` must come from `tributary_aggregator_init`; `packet` must point to `packet_len` bytes, `source` to an
/// endpoint, and `out` to `out_len` bytes that none of the others share.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_aggregator_handle(
    aggregator: *mut TributaryAggregator,
    packet: *const u8,
    packet_len: usize,
    source: *const TributaryEndpoint,
    now: u64,
    out: *mut u8,
    out_len: usize,
) -> TributaryVerdict {
    // SAFETY: as the caller says.
    let (aggregator, source) = unsafe { (aggregator.as_mut(), source.as_ref()) };
    // SAFETY: as the caller says.
    let (packet, out) = unsafe { (slice(packet, packet_len), slice_mut(out, out_len)) };
    let quiet = TributaryVerdict {
        action: TributaryAction::Quiet,
        key: 0,
        len: 0,
    };
    let (Some(TributaryAggregator { aggregator, .. }), Some(source)) = (aggregator, source) else {
        return quiet;
    };
    #[cfg(feature = "provoke-panic")]
    let packet = &packet[1..];
    match aggregator.handle(packet, &(*source).into(), now, out) {
        // Nothing is forwarded: no job here has a parent.
        Verdict::Quiet | Verdict::Forward { .. } => quiet,
        Verdict::Reply { len } => TributaryVerdict {
            action: TributaryAction::Reply,
            key: 0,
            len,
        },
        Verdict::Broadcast { key, len } => TributaryVerdict {
            action: TributaryAction::Broadcast,
            key,
            len,
        },
    }
}
