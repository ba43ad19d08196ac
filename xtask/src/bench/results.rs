//! What criterion measured, read from its files.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fs, io};

use serde_json::Value;

/// The times of all benchmarks in each round.
#[derive(Default)]
pub(super) struct Results {
    /// Nanoseconds for one packet, by the benchmark's name.
    rounds: Vec<BTreeMap<String, f64>>,
}

/// The median of what the rounds gave, and their extremes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spread {
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

impl Results {
    /// Reads the round that has just run.
    pub(super) fn add_round(&mut self, directory: &Path) -> io::Result<()> {
        let mut times = BTreeMap::new();
        collect(directory, &mut times)?;
        if times.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "nothing was measured"));
        }
        self.rounds.push(times);
        Ok(())
    }

    /// Nanoseconds that one packet takes.
    pub(super) fn time(&self, name: &str) -> Option<Spread> {
        Spread::of(self.rounds.iter().filter_map(|round| round.get(name).copied()))
    }

    /// How many times as fast as `other` a benchmark is; below 1 it is slower.
    pub(super) fn speed(&self, name: &str, other: &str) -> Option<Spread> {
        Spread::of(
            self.rounds
                .iter()
                .filter_map(|round| Some(round.get(other)? / round.get(name)?)),
        )
    }

    /// How many times as long as `other` a benchmark takes.
    pub(super) fn cost(&self, name: &str, other: &str) -> Option<Spread> {
        self.speed(other, name)
    }
}

impl Spread {
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let median = match values.len() {
            0 => return None,
            odd if odd % 2 == 1 => values[middle],
            _ => (values[middle - 1] + values[middle]) / 2.0,
        };
        Some(Self {
            median,
            least: values[0],
            most: values[values.len() - 1],
        })
    }
}

/// Finds the folders `new` that criterion writes, one a benchmark.
fn collect(directory: &Path, times: &mut BTreeMap<String, f64>) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name == "new") {
            let benchmark = read(&path.join("benchmark.json"))?;
            let estimates = read(&path.join("estimates.json"))?;
            let (name, time) = time_of(&benchmark, &estimates).ok_or_else(|| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("{}: another format", path.display()),
                )
            })?;
            times.insert(name, time);
        } else if path.is_dir() {
            collect(&path, times)?;
        }
    }
    Ok(())
}

fn read(path: &Path) -> io::Result<Value> {
    serde_json::from_slice(&fs::read(path)?).map_err(io::Error::from)
}

/// The name of a benchmark, and the median time of an iteration divided by its packets.
fn time_of(benchmark: &Value, estimates: &Value) -> Option<(String, f64)> {
    let name = benchmark.get("full_id")?.as_str()?.to_owned();
    let packets = benchmark.pointer("/throughput/Elements")?.as_f64()?;
    let median = estimates.pointer("/median/point_estimate")?.as_f64()?;
    Some((name, median / packets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_time_is_that_of_one_packet() {
        let benchmark = json!({ "full_id": "merge/cache/352/avx2/add", "throughput": { "Elements": 62 } });
        let estimates = json!({ "mean": { "point_estimate": 9e9 }, "median": { "point_estimate": 620.0 } });
        assert_eq!(
            time_of(&benchmark, &estimates),
            Some(("merge/cache/352/avx2/add".to_owned(), 10.0))
        );
        assert_eq!(time_of(&estimates, &benchmark), None);
    }

    /// Rounds that were slow as a whole do not change a ratio, and one bad round does not either.
    #[test]
    fn a_ratio_is_the_median_of_each_rounds_own() {
        let round = |a, b| BTreeMap::from([("a".to_owned(), a), ("b".to_owned(), b)]);
        let results = Results {
            rounds: vec![round(2.0, 1.0), round(20.0, 10.0), round(1.0, 10.0)],
        };
        let expected = Spread {
            median: 0.5,
            least: 0.5,
            most: 10.0,
        };
        assert_eq!(results.speed("a", "b"), Some(expected));
        assert_eq!(results.cost("b", "a"), Some(expected));
        assert_eq!(results.speed("a", "c"), None);
    }
}
