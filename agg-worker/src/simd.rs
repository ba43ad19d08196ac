//! The sans-IO worker, compiled for several instruction sets; the best that the machine has is chosen at run time.

use agg_core::wire::Ecn;
use agg_core::worker::SlotState;
use agg_core::{Nanos, Tensor, Worker};
use multiversion::multiversion;

pub(crate) type StreamWorker = Worker<Box<[SlotState]>, Box<[i32]>>;

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn transmit(
    worker: &mut StreamWorker,
    now: Nanos,
    tensor: &Tensor<'_>,
    out: &mut [u8],
) -> Option<usize> {
    worker.transmit(now, tensor, out)
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl+avx512dq", "x86_64+avx2", "aarch64+neon"))]
pub(crate) fn handle(
    worker: &mut StreamWorker,
    now: Nanos,
    packet: &[u8],
    ecn: Ecn,
    tensor: &mut Tensor<'_>,
) {
    worker.handle_ecn(now, packet, ecn, tensor);
}
