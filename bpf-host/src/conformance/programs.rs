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

/// What the loader's constants say.
#[derive(Clone, Copy, Default)]
pub(super) struct Constants {
    /// The clock is the test's.
    pub(super) test_clock: bool,
    /// Replies are redirected, as at a veth.
    pub(super) redirect_replies: bool,
}

/// With which probes are answered.
pub(super) const EPOCH: u16 = 5;

/// Loads all programs, for packets to the golden traces' aggregator.
pub(super) fn programs(memory: &Memory, constants: Constants) -> Ebpf {
    explain::lift_memory_limit();
    let address = u32::from_ne_bytes(AGGREGATOR.ip().octets());
    let mut programs = EbpfLoader::new()
        .map_max_entries("HEADS", memory.heads() as u32)
        .map_max_entries("VALUES", memory.rows() as u32)
        .override_global("PORT", &AGGREGATOR.port(), true)
        .override_global("ADDRESS", &address, true)
        .override_global("EPOCH", &u32::from(EPOCH), true)
        .override_global("TEST_CLOCK", &u8::from(constants.test_clock), true)
        .override_global("REDIRECT_REPLIES", &u8::from(constants.redirect_replies), true)
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
