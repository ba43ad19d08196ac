//! The ratios that the core is held to.

use std::fmt;

use super::results::{Results, Spread};

/// One ratio or time, and what it must be.
pub(super) struct Goal {
    what: &'static str,
    found: Option<Spread>,
    bound: Bound,
}

enum Bound {
    AtLeast(f64),
    AtMost(f64),
    /// In nanoseconds.
    Within(f64),
}

/// The invalid packets that are measured.
pub(super) const INVALID: [&str; 7] = ["magic", "short", "checksum", "key", "source", "length", "stale"];

/// All goals, for code as hosts run it: dispatched at run time, chunks of 352 lanes.
pub(super) fn all(results: &Results) -> Vec<Goal> {
    let speed = |what, name: &str, other: &str, bound| Goal {
        what,
        found: results.speed(name, other),
        bound: Bound::AtLeast(bound),
    };
    let cost = |what, place: &str| Goal {
        what,
        found: results.cost(
            &format!("handle/{place}/352/dispatched/middle"),
            &format!("handle/{place}/352/dispatched/merge"),
        ),
        bound: Bound::AtMost(1.3),
    };
    let worst = INVALID
        .iter()
        .filter_map(|kind| results.time(&format!("invalid/cache/352/dispatched/{kind}")))
        .max_by(|one, other| one.median.total_cmp(&other.median));
    vec![
        speed(
            "merge against a plain loop that adds, out of cache (speed)",
            "merge/memory/352/dispatched/accept",
            "merge/memory/352/dispatched/add",
            0.95,
        ),
        speed(
            "the same in first-level cache",
            "merge/cache/352/dispatched/accept",
            "merge/cache/352/dispatched/add",
            0.95,
        ),
        cost(
            "`handle` of a middle contribution against its merge alone, out of cache (time)",
            "memory",
        ),
        cost("the same in cache", "cache"),
        Goal {
            what: "the most expensive invalid packet",
            found: worst,
            bound: Bound::Within(30.0),
        },
        speed(
            "quantise and dequantise against copies there and back, out of cache (speed)",
            "fixed_point/memory/352/dispatched/both",
            "fixed_point/memory/352/there_and_back",
            0.5,
        ),
    ]
}

impl Goal {
    /// Whether the median keeps to the bound; not, where nothing was measured.
    pub(super) fn is_met(&self) -> bool {
        self.found.is_some_and(|Spread { median, .. }| match self.bound {
            Bound::AtLeast(bound) => median >= bound,
            Bound::AtMost(bound) | Bound::Within(bound) => median <= bound,
        })
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtLeast(bound) => write!(f, "≥ {bound}"),
            Self::AtMost(bound) => write!(f, "≤ {bound}"),
            Self::Within(bound) => write!(f, "≤ {bound} ns"),
        }
    }
}

impl fmt::Display for Goal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.found {
            Some(found) => write!(f, "{}: {:.2}, goal {}", self.what, found.median, self.bound),
            None => write!(f, "{}: not measured, goal {}", self.what, self.bound),
        }
    }
}

/// The goals as a table.
pub(super) fn table(goals: &[Goal]) -> String {
    let mut text = "| goal | bound | median | least to most | met |\n|---|---|---:|---:|---|\n".to_owned();
    for Goal { what, found, bound } in goals {
        let numbers = found.map_or("– | –".to_owned(), |Spread { median, least, most }| {
            format!("{median:.2} | {least:.2} to {most:.2}")
        });
        text += &format!("| {what} | {bound} | {numbers} | ");
        text += if goals.iter().any(|goal| goal.what == *what && goal.is_met()) {
            "yes |\n"
        } else {
            "**no** |\n"
        };
    }
    text
}
