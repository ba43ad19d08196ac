//! The programs in the kernel, and a run of one over a frame.

use agg_model::vectors::trace::AGGREGATOR;
use aya::programs::xdp::Xdp;
use aya::programs::{TestRun, TestRunOptions};
use aya::{Ebpf, EbpfLoader};

use super::frames;
use crate::explain;
use crate::load::OBJECT;
use crate::memory::Memory;

/// `enum xdp_action` of include/uapi/linux/bpf.h.
pub(super) const XDP_DROP: u32 = 1;
pub(super) const XDP_PASS: u32 = 2;
pub(super) const XDP_TX: u32 = 3;
pub(super) const XDP_REDIRECT: u32 = 4;

/// What the names of the programs begin with that address the clones, before the member's number.
pub(super) const MEMBER_PROGRAM: &str = "deliver_";

/// Loads all programs, for packets to the golden traces' aggregator; whether the clock is to be set.
pub(super) fn programs(memory: &Memory, test_clock: u8) -> Ebpf {
    explain::lift_memory_limit();
    let address = u32::from_ne_bytes(AGGREGATOR.ip().octets());
    let mut programs = EbpfLoader::new()
        .map_max_entries("HEADS", memory.heads() as u32)
        .map_max_entries("VALUES", memory.rows() as u32)
        .override_global("PORT", &AGGREGATOR.port(), true)
        .override_global("ADDRESS", &address, true)
        .override_global("TEST_CLOCK", &test_clock, true)
        .load(OBJECT)
        .unwrap_or_else(|error| panic!("{}", explain::loading(&error)));
    for (name, program) in programs.programs_mut() {
        let program: &mut Xdp = program.try_into().expect("an XDP program");
        let loaded = program.load();
        loaded.unwrap_or_else(|error| panic!("{name}: {}", explain::loading(&error)));
    }
    programs
}

/// A program by its name.
pub(super) fn program<'p>(programs: &'p Ebpf, name: &str) -> &'p Xdp {
    let program = programs.program(name).expect("the object has it");
    program.try_into().expect("an XDP program")
}

/// What the program did with a frame.
pub(super) struct Run {
    pub(super) verdict: u32,
    pub(super) frame: Vec<u8>,
}

/// Runs a program over a frame.
pub(super) fn run(program: &Xdp, frame: &[u8]) -> Run {
    let mut out = vec![0; frames::LONGEST];
    let options = TestRunOptions {
        data_in: Some(frame),
        data_out: Some(&mut out),
        ..TestRunOptions::default()
    };
    let done = program.test_run(options).expect("the kernel runs it");
    out.truncate(done.data_size_out as usize);
    Run {
        verdict: done.return_value,
        frame: out,
    }
}
