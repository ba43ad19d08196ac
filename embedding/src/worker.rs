//! The worker: sums of 32-bit integers, which need no floats on the device.

use core::ffi::c_void;
use core::ptr;

use agg_core::worker::SlotState;
use agg_core::{Epoch, Lanes, OpKind, Operation, Policy, Tensor, Worker, WorkerConfig};

use crate::memory::{place, slice, slice_mut};
use crate::{TRIBUTARY_LANES, TRIBUTARY_WINDOW};

/// A worker.
pub struct TributaryWorker(Worker<[SlotState; TRIBUTARY_WINDOW], [i32; TRIBUTARY_WINDOW * TRIBUTARY_LANES]>);

/// Bytes of memory that a worker needs, aligned to 8.
pub const TRIBUTARY_WORKER_BYTES: usize = 20_480;

const _: () = assert!(size_of::<TributaryWorker>() <= TRIBUTARY_WORKER_BYTES);
const _: () = assert!(align_of::<TributaryWorker>() <= 8);

/// What a worker is told when it joins a job. Its window is `TRIBUTARY_WINDOW`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct TributaryWorkerConfig {
    /// The job's key.
    pub key: u64,
    /// Nanoseconds without any result after which an operation fails.
    pub timeout: u64,
    /// The aggregator's epoch.
    pub epoch: u32,
    /// This worker's number.
    pub member: u8,
    /// How many workers the job has.
    pub members: u8,
}

/// Makes a worker in `memory`, of at least `TRIBUTARY_WORKER_BYTES` bytes aligned to 8; null where it is smaller.
///
/// # Safety
/// `memory` must point to `bytes` writable bytes that nothing else uses as long as the worker is used; `config` to a
/// configuration.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_worker_init(
    memory: *mut c_void,
    bytes: usize,
    config: *const TributaryWorkerConfig,
) -> *mut TributaryWorker {
    // SAFETY: as the caller says.
    let Some(config) = (unsafe { config.as_ref() }) else {
        return ptr::null_mut();
    };
    let config = WorkerConfig {
        key: config.key,
        epoch: Epoch(config.epoch),
        member: config.member,
        members: config.members,
        workers: u32::from(config.members),
        lanes: Lanes::L256,
        window: TRIBUTARY_WINDOW as u16,
        policy: Policy::All,
        timeout: config.timeout,
        first_chunk: 0,
    };
    let slots = core::array::from_fn(|_| SlotState::default());
    let Ok(worker) = Worker::new(config, slots, [0; TRIBUTARY_WINDOW * TRIBUTARY_LANES]) else {
        return ptr::null_mut();
    };
    // SAFETY: as the caller says.
    unsafe { place(memory, bytes, TributaryWorker(worker)) }
}

/// Starts the sum of `elements` integers over all workers; false where the last one has not ended or has failed.
/// Every worker must start the same sums in the same order.
///
/// # Safety
/// `worker` must come from `tributary_worker_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_worker_start(
    worker: *mut TributaryWorker,
    elements: usize,
    now: u64,
) -> bool {
    // SAFETY: as the caller says.
    let Some(TributaryWorker(worker)) = (unsafe { worker.as_mut() }) else {
        return false;
    };
    let elements = elements as u64;
    worker
        .start(
            Operation {
                kind: OpKind::SUM_I32,
                elements,
            },
            elements,
            now,
        )
        .is_ok()
}

/// Whether a sum is under way.
///
/// # Safety
/// `worker` must come from `tributary_worker_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_worker_is_busy(worker: *const TributaryWorker) -> bool {
    // SAFETY: as the caller says.
    unsafe { worker.as_ref() }.is_some_and(|TributaryWorker(worker)| worker.is_busy())
}

/// Whether a sum failed: a member or the aggregator is missing, or the members disagree on the sum. It is over then.
///
/// # Safety
/// `worker` must come from `tributary_worker_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_worker_has_failed(worker: *const TributaryWorker) -> bool {
    // SAFETY: as the caller says.
    unsafe { worker.as_ref() }.is_some_and(|TributaryWorker(worker)| worker.failure().is_some())
}

/// Writes the next packet for the aggregator to `out`, of at least `TRIBUTARY_PACKET_BYTES` bytes, and returns its
/// length; 0 when there is nothing to send now. `values` must be the same from the start of a sum to its end.
///
/// # Safety
/// `worker` must come from `tributary_worker_init`; `values` must point to `elements` integers and `out` to `out_len`
/// bytes; none may share memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_worker_transmit(
    worker: *mut TributaryWorker,
    now: u64,
    values: *mut i32,
    elements: usize,
    out: *mut u8,
    out_len: usize,
) -> usize {
    // SAFETY: as the caller says.
    let (worker, values) = unsafe { (worker.as_mut(), slice_mut(values, elements)) };
    // SAFETY: as the caller says.
    let out = unsafe { slice_mut(out, out_len) };
    let Some(TributaryWorker(worker)) = worker else {
        return 0;
    };
    worker.transmit(now, &Tensor::I32(values), out).unwrap_or(0)
}

/// Takes in one packet from the aggregator; any bytes at all may come. Sums are written to `values`.
///
/// # Safety
/// `worker` must come from `tributary_worker_init`; `packet` must point to `packet_len` bytes and `values` to
/// `elements` integers; none may share memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_worker_handle(
    worker: *mut TributaryWorker,
    now: u64,
    packet: *const u8,
    packet_len: usize,
    values: *mut i32,
    elements: usize,
) {
    // SAFETY: as the caller says.
    let (worker, values) = unsafe { (worker.as_mut(), slice_mut(values, elements)) };
    // SAFETY: as the caller says.
    let packet = unsafe { slice(packet, packet_len) };
    if let Some(TributaryWorker(worker)) = worker {
        worker.handle(now, packet, &mut Tensor::I32(values));
    }
}

/// When to call `tributary_worker_handle_timeout`; `UINT64_MAX` while no sum is under way.
///
/// # Safety
/// `worker` must come from `tributary_worker_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_worker_next_timeout(worker: *const TributaryWorker) -> u64 {
    // SAFETY: as the caller says.
    unsafe { worker.as_ref() }
        .and_then(|TributaryWorker(worker)| worker.next_timeout())
        .unwrap_or(u64::MAX)
}

/// Does what is due: makes lost packets be sent again, or fails the sum.
///
/// # Safety
/// `worker` must come from `tributary_worker_init`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tributary_worker_handle_timeout(worker: *mut TributaryWorker, now: u64) {
    // SAFETY: as the caller says.
    if let Some(TributaryWorker(worker)) = unsafe { worker.as_mut() } {
        worker.handle_timeout(now);
    }
}
