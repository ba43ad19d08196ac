//! What the verifier says of each program: how much work it has with it, and how much it writes.
//!
//! The ceilings are about twice of what was seen on Linux 6.18, so that growth shows long before a kernel refuses a program: the
//! limit is a million instructions, and every kernel counts a little differently.

use super::programs::{Constants, program, programs};
use super::raw::{EVERYTHING, Raw, STATISTICS};
use crate::load::{DELIVER, PROGRAM};
use crate::memory::Memory;

/// The most of each that a program may have.
struct Ceilings {
    /// That the verifier went through, each as often as it did.
    verified: u64,
    /// Bytes of what the verifier writes when it is to write everything.
    log: u32,
    /// Bytes of the program as the kernel keeps it.
    translated: u32,
    /// Bytes of machine code.
    jitted: u32,
}

/// Of the program that takes what arrives.
const TAKES: Ceilings = Ceilings {
    verified: 560_000,
    log: 1_300_000_000,
    translated: 140_000,
    jitted: 80_000,
};

/// Of one that addresses a clone.
const DELIVERS: Ceilings = Ceilings {
    verified: 8_000,
    log: 2_500_000,
    translated: 10_000,
    jitted: 6_000,
};

/// The number behind a word of the verifier's statistics.
fn number(log: &str, word: &str) -> u64 {
    let behind = log
        .split(word)
        .nth(1)
        .and_then(|rest| rest.split_whitespace().next());
    behind
        .and_then(|number| number.parse().ok())
        .unwrap_or_else(|| panic!("{word} is not in {log}"))
}

#[test]
#[ignore = "needs root"]
fn the_verifier_has_no_more_work_with_a_program_than_it_may() {
    let loaded = programs(&Memory::of(64 << 20), Constants::default());
    let raw = Raw::over(&loaded);
    let names = raw.names();
    assert_eq!(names, [DELIVER, PROGRAM], "each needs ceilings");
    let mut above = Vec::new();
    for name in names {
        let ceilings = if name == PROGRAM { TAKES } else { DELIVERS };
        let statistics = raw.verify(name, STATISTICS, 1 << 16);
        statistics.program.expect("it was loaded before");
        let verified = number(&statistics.log, "processed ");
        let states = number(&statistics.log, "total_states ");
        let log = raw.verify(name, EVERYTHING, 1 << 16).log_size;
        let info = program(&loaded, name).info().expect("what the kernel says of it");
        assert_eq!(
            info.verified_instruction_count().map(u64::from),
            Some(verified),
            "{name}"
        );
        let (translated, jitted) = (info.size_translated().unwrap_or(0), info.size_jitted());
        println!(
            "{name}: {verified} instructions and {states} states verified, a log of {log} bytes; {translated} bytes, {jitted} of \
             machine code"
        );
        let within = verified <= ceilings.verified
            && log <= ceilings.log
            && translated <= ceilings.translated
            && jitted <= ceilings.jitted;
        if !within {
            above.push(name.to_owned());
        }
    }
    assert!(above.is_empty(), "grown above their ceilings: {above:?}");
}
