//! Probes (R-PROBE): by the byte offsets of the document's table, like all packets.

use crate::checksum::{checksum, seal};
use crate::packet::{FROM_AGGREGATOR, HEADER};
use crate::verdict::{ModelSend, ModelVerdict, To};

/// The `kind` of a probe.
pub const PROBE: u8 = 4;

/// Chunk sizes (R-CHUNK-5).
const LANES: [usize; 6] = [16, 256, 352, 848, 2048, 8192];

/// What an aggregator that started with `epoch` does with a probe; `None`: it is none.
pub fn answer(bytes: &[u8], epoch: u32) -> Option<ModelVerdict> {
    // R-PROBE-1
    let header = bytes.first_chunk::<HEADER>()?;
    let check = u32::from_le_bytes([header[52], header[53], header[54], header[55]]);
    if header[..4] != [0x54, 0x52, 1, PROBE] || header[4] > 1 || checksum(header) != check {
        return None;
    }
    // R-PROBE-2
    let is_question = header[4] == 1;
    if !is_question {
        return Some(ModelVerdict::quiet("dropped_wrong_direction"));
    }
    if header[16..20] != epoch.to_le_bytes() {
        return Some(ModelVerdict::quiet("dropped_wrong_epoch"));
    }
    if !LANES.iter().any(|lanes| HEADER + 4 * lanes == bytes.len()) {
        return Some(ModelVerdict::quiet("dropped_bad_length"));
    }
    let mut front = [0; HEADER];
    front[..4].copy_from_slice(&header[..4]);
    front[5] = FROM_AGGREGATOR;
    front[8..20].copy_from_slice(&header[8..20]);
    seal(&mut front);
    let mut answer = front.to_vec();
    answer.resize(bytes.len(), 0);
    Some(ModelVerdict {
        counter: "probes_answered",
        send: Some(ModelSend {
            to: To::Sender,
            bytes: answer,
        }),
    })
}
