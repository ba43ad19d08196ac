//! The core, compiled for several instruction sets; the best that the machine has is chosen at run time.

use agg_core::slot::Head;
use agg_core::wire::Ecn;
use agg_core::{Aggregator, Endpoint, Nanos, Verdict};
use multiversion::multiversion;

/// The aggregator of one shard.
pub type ShardAggregator = Aggregator<Box<[Head]>, Box<[i32]>>;

/// [`Aggregator::handle_ecn`], inlined into each version so that the merge vectorises.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "aarch64+neon"))]
pub fn handle(
    aggregator: &mut ShardAggregator,
    packet: &[u8],
    ecn: Ecn,
    source: &Endpoint,
    now: Nanos,
    out: &mut [u8],
) -> Verdict {
    aggregator.handle_ecn(packet, ecn, source, now, out)
}
