//! Counters among DPDK's own telemetry (`dpdk-telemetry.py`; "Telemetry Library" of DPDK's programmer's guide).

use std::ffi::{c_char, c_int};
use std::panic::catch_unwind;
use std::sync::OnceLock;

use dpdk_sys as sys;

use super::error::{c_text, said};
use super::{DpdkError, Eal};

/// Counters by name: of a shard, or of all together; `None`: there is no such shard.
pub type Source = Box<dyn Fn(Option<u16>) -> Option<Vec<(String, u64)>> + Send + Sync>;

/// EAL starts once in a process, and so is this.
static SOURCE: OnceLock<Source> = OnceLock::new();

/// Answers a command, such as `/tributary/counters`, with counters; with a shard's number behind a comma, with that one's.
///
/// # Errors
/// What DPDK said, as to a second call.
pub fn publish(_: &Eal, command: &str, help: &str, source: Source) -> Result<(), DpdkError> {
    let (c_command, c_help) = (c_text(command)?, c_text(help)?);
    let refused = |said: String| DpdkError::Telemetry {
        command: command.to_owned(),
        said,
    };
    SOURCE
        .set(source)
        .map_err(|_| refused("a command was added before".to_owned()))?;
    // SAFETY: EAL runs, both are strings, which are copied, and `count` is there as long as the process.
    let code = unsafe { sys::shim_telemetry(c_command.as_ptr(), c_help.as_ptr(), count) };
    if code == 0 {
        Ok(())
    } else {
        Err(refused(said(code)))
    }
}

unsafe extern "C" fn count(shard: c_int, counters: *mut sys::Counter, room: usize) -> usize {
    let values = catch_unwind(|| {
        let shard = match shard {
            -1 => None,
            number => Some(u16::try_from(number).ok()?),
        };
        SOURCE.get()?(shard)
    });
    let Ok(Some(values)) = values else {
        return usize::MAX;
    };
    // SAFETY: the caller has as much room there as it says, and has set it to zeros.
    let places = unsafe { std::slice::from_raw_parts_mut(counters, room) };
    let mut written = 0;
    for (place, (name, value)) in places.iter_mut().zip(&values) {
        // The last byte stays 0.
        let last = place.name.len() - 1;
        for (to, byte) in place.name[..last].iter_mut().zip(name.bytes()) {
            *to = byte as c_char;
        }
        place.value = *value;
        written += 1;
    }
    written
}
