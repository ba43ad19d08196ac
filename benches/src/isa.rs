//! The same code compiled for several instruction sets, as hosts compile it: each alone, and chosen at run time.

use std::fmt;

use multiversion::multiversion;

/// An instruction set that code is compiled for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Isa {
    /// What every machine of this architecture has: SSE2 on x86-64.
    Baseline,
    /// AVX2.
    Avx2,
    /// AVX-512 F, BW and VL.
    Avx512,
    /// The best that the machine has, found at run time: what hosts use.
    Dispatched,
}

/// Work whose code is compiled anew for each instruction set: [`Work::work`] must be `#[inline(always)]`.
pub trait Work {
    /// Does it once.
    fn work(&mut self);
}

impl Isa {
    /// Those that this machine can run and that differ from the ones before.
    pub fn available() -> Vec<Self> {
        let mut found = vec![Self::Baseline];
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx2") {
                found.push(Self::Avx2);
            }
            // The crate takes AVX-512 from the generation on where it does not slow the whole core down.
            if is_x86_feature_detected!("avx512bw") && is_x86_feature_detected!("avx512vbmi2") {
                found.push(Self::Avx512);
            }
        }
        found.push(Self::Dispatched);
        found
    }

    /// Runs the version for this instruction set; where the machine lacks it, the baseline.
    pub fn run<W: Work>(self, work: &mut W) {
        match self {
            Self::Baseline => baseline(work),
            Self::Avx2 => avx2(work),
            Self::Avx512 => avx512(work),
            Self::Dispatched => dispatched(work),
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Baseline => "baseline",
            Self::Avx2 => "avx2",
            Self::Avx512 => "avx512",
            Self::Dispatched => "dispatched",
        })
    }
}

#[inline(never)]
fn baseline<W: Work>(work: &mut W) {
    work.work();
}

#[multiversion(targets("x86_64+avx2"))]
fn avx2<W: Work>(work: &mut W) {
    work.work();
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl"))]
fn avx512<W: Work>(work: &mut W) {
    work.work();
}

/// The list of `udp-host`.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2", "aarch64+neon"))]
fn dispatched<W: Work>(work: &mut W) {
    work.work();
}
