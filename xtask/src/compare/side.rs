//! Who takes turns: Tributary, and the peers that are asked for and there.

use std::time::Duration;

use super::{Compare, ITERATIONS};
use crate::field::Field;
use crate::running::median;
use crate::sides::control;
use crate::sides::gloo::{Gloo, slowest};
use crate::sides::openmpi::{Algorithm, OpenMpi};

/// Something else that sums tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Peer {
    /// PyTorch's, over TCP
    Gloo,
    /// Over TCP, with the algorithm that is the fastest
    Openmpi,
}

/// Who takes a turn.
pub(super) enum Side {
    Tributary,
    Gloo,
    OpenMpi(OpenMpi, Algorithm),
}

impl Side {
    /// Tributary and its peers. A missing Open MPI is told, and left out.
    pub(super) fn all(compare: &Compare, field: &Field) -> Result<Vec<Self>, String> {
        let mut sides = vec![Self::Tributary];
        if compare.peers.contains(&Peer::Gloo) {
            sides.push(Self::Gloo);
        }
        if compare.peers.contains(&Peer::Openmpi) {
            match OpenMpi::find() {
                Ok(found) => {
                    let algorithm = tuned(&found, compare, field)?;
                    sides.push(Self::OpenMpi(found, algorithm));
                }
                Err(reason) => eprintln!("openmpi is left out: {reason}"),
            }
        }
        Ok(sides)
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Tributary => "tributary",
            Self::Gloo => "gloo",
            Self::OpenMpi(..) => "openmpi",
        }
    }

    /// Median seconds of one turn; no two have the same number.
    pub(super) fn turn(&self, compare: &Compare, field: &Field, number: usize) -> Result<f64, String> {
        let before = field.sent()?;
        let seconds = match self {
            // It sends less than hosts by themselves can.
            Self::Tributary => return compare.tributary(&field.ranks, |_| control(&field.aggregator)),
            Self::Gloo => compare.gloo(&field.ranks, number)?,
            Self::OpenMpi(found, algorithm) => openmpi(found, *algorithm, compare, field)?,
        };
        crossed(
            self.name(),
            field.sent()? - before,
            least(compare.ranks, compare.bytes),
        )?;
        Ok(seconds)
    }
}

/// Median seconds of one turn of Open MPI.
fn openmpi(found: &OpenMpi, algorithm: Algorithm, compare: &Compare, field: &Field) -> Result<f64, String> {
    median(found.run(&field.ranks, compare.bytes, ITERATIONS, algorithm)?)
}

/// The algorithm that is the fastest here: which one depends on ranks and bytes, and Open MPI's own choice is for faster networks.
fn tuned(found: &OpenMpi, compare: &Compare, field: &Field) -> Result<Algorithm, String> {
    println!("openmpi, the fastest of whose algorithms takes part:");
    let mut turns = Vec::new();
    for algorithm in Algorithm::ALL {
        let seconds = openmpi(found, algorithm, compare, field)?;
        println!("  {:<18} {seconds:.4} s", algorithm.name);
        turns.push((algorithm, seconds));
    }
    fastest(&turns).ok_or_else(|| "Open MPI has no algorithm".into())
}

fn fastest(turns: &[(Algorithm, f64)]) -> Option<Algorithm> {
    let fastest = turns.iter().min_by(|one, other| one.1.total_cmp(&other.1));
    fastest.map(|(algorithm, _)| *algorithm)
}

impl Compare {
    /// Median seconds of one turn of Gloo.
    pub(super) fn gloo(&self, ranks: &[testnet::Host], turn: usize) -> Result<f64, String> {
        let gloo = Gloo {
            python: &self.python,
            bytes: self.bytes,
            iterations: ITERATIONS,
            delay: Duration::ZERO,
        };
        median(slowest(&gloo.run(ranks, turn)?))
    }
}

/// What hosts by themselves send at least in a turn, all of them together: 2 (n - 1) tensors an operation, whatever the algorithm.
fn least(ranks: usize, bytes: u64) -> u64 {
    // The operation before those that are measured is sent too.
    2 * (ranks as u64).saturating_sub(1) * bytes * (ITERATIONS as u64 + 1)
}

/// Where less has crossed the links, tensors went another way, which no rate limits.
fn crossed(side: &str, sent: u64, least: u64) -> Result<(), String> {
    if sent >= least {
        return Ok(());
    }
    Err(format!(
        "{side}'s ranks sent {sent} bytes by their links, and {least} at least are needed: it was not measured over them"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_algorithm_that_takes_part_is_the_fastest() {
        let [doubling, ring, ..] = Algorithm::ALL;
        assert_eq!(fastest(&[(doubling, 0.5), (ring, 0.25)]), Some(ring));
        assert_eq!(fastest(&[]), None);
    }

    #[test]
    fn tensors_that_pass_the_links_by_are_an_error() {
        // A ring of four sends 3/2 of the tensor from each, in each of four operations.
        let ring = 4 * 4 * (1 << 20) * 3 / 2;
        assert_eq!(least(4, 1 << 20), ring);
        assert_eq!(least(1, 1 << 20), 0);
        assert_eq!(crossed("gloo", ring, ring), Ok(()));
        let error = crossed("openmpi", 4096, ring).unwrap_err();
        assert!(error.contains("openmpi's ranks sent 4096 bytes") && error.contains(&ring.to_string()));
    }
}
