//! Any bytes at all: core and model read the same header or refuse for the same reason, and emit inverts parse.
//!
//! The check of a header is out of a fuzzer's reach, so each input is read twice: as it is, and with the right check.
#![no_main]

use agg_model::checksum::seal;
use agg_model::harness::reading;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    reading::agree(bytes);
    let mut sealed = bytes.to_vec();
    if let Some(header) = sealed.first_chunk_mut() {
        seal(header);
        reading::agree(&sealed);
    }
});
