//! The real packet reader against the model's.

mod common;

use agg_core::wire::{HEADER_LEN, Header};
use agg_model::checksum::seal;
use agg_model::harness::reading;
use proptest::prelude::*;

const REGRESSIONS: &str = "proptest-regressions/wire.txt";

/// Bytes that are more or less a packet.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let start = prop_oneof![9 => Just([0x54, 0x52, 1]), 1 => any::<[u8; 3]>()];
    let kind = prop_oneof![9 => 1_u8..4, 1 => any::<u8>()];
    let flags = prop_oneof![9 => 0_u8..32, 1 => any::<u8>()];
    let others = (
        any::<[u8; 32]>(),
        any::<[u8; 19]>(),
        prop::collection::vec(any::<u8>(), 0..100),
    );
    (start, kind, flags, others, prop::bool::weighted(0.9)).prop_map(
        |(start, kind, flags, others, sealed)| {
            let mut header = [0; HEADER_LEN];
            header[..3].copy_from_slice(&start);
            (header[3], header[4]) = (kind, flags);
            header[5..37].copy_from_slice(&others.0);
            header[37..56].copy_from_slice(&others.1);
            if sealed {
                seal(&mut header);
            }
            [header.as_slice(), &others.2].concat()
        },
    )
}

#[test]
fn wire_1_to_3_core_and_model_read_the_same() {
    common::check(20_000, REGRESSIONS, bytes(), |bytes| reading::agree(&bytes));
}

#[test]
fn any_bytes_at_all_are_read_or_refused_alike() {
    common::check(
        5_000,
        REGRESSIONS,
        prop::collection::vec(any::<u8>(), 0..120),
        |bytes| reading::agree(&bytes),
    );
}

/// Every flip of one to three bits of a header is noticed.
#[test]
fn wire_3_a_damaged_header_is_never_read() {
    let flips = prop::collection::btree_set(0_usize..HEADER_LEN * 8, 1..4);
    common::check(20_000, REGRESSIONS, (bytes(), flips), |(mut bytes, flips)| {
        if Header::split(&bytes).is_ok() {
            for flip in &flips {
                bytes[flip / 8] ^= 1 << (flip % 8);
            }
            assert!(Header::split(&bytes).is_err());
        }
    });
}
