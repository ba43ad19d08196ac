//! The groups of tests, cheapest first.

use std::time::Duration;

use clap::builder::PossibleValuesParser;

use crate::needs::{self, Need, is_root};
use crate::report::Report;
use crate::step::Step;
use crate::{bench, dependencies, ebpf, embedding, fuzz, no_std, python, suites};

struct Group {
    name: &'static str,
    about: &'static str,
    /// Building included, on two cores from nothing.
    limit: Duration,
    needs: &'static [&'static Need],
    /// Whether only root can run it.
    privileged: bool,
    run: fn(&mut Step),
}

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

const GROUPS: &[Group] = &[
    Group {
        name: "deps",
        about: "agg-core depends on its few allowed crates only",
        limit: minutes(2),
        needs: &[],
        privileged: false,
        run: dependencies::run,
    },
    Group {
        name: "no_std",
        about: "agg-core links without std and without an allocator",
        limit: minutes(5),
        needs: &[],
        privileged: false,
        run: no_std::run,
    },
    Group {
        name: "embedding",
        about: "the core on bare metal: C header, C program, and no panic in the aggregator",
        limit: minutes(15),
        needs: &[&needs::CC],
        privileged: false,
        run: embedding::run,
    },
    Group {
        name: "vectors",
        about: "the golden packet traces are what docs/protocol.md says, by a reader of its own",
        limit: minutes(1),
        needs: &[&needs::PYTHON],
        privileged: false,
        run: suites::vectors,
    },
    Group {
        name: "unit",
        about: "unit, property and documentation tests of all crates",
        limit: minutes(30),
        needs: &[],
        privileged: false,
        run: suites::unit,
    },
    Group {
        name: "models",
        about: "every history of small configurations of the core",
        limit: minutes(25),
        needs: &[],
        privileged: false,
        run: suites::models,
    },
    Group {
        name: "ebpf",
        about: "the kept XDP object is what its source gives",
        limit: ebpf::LIMIT,
        // What it says of the sources needs nothing, so it provides for the rest itself.
        needs: &[],
        privileged: false,
        run: ebpf::check,
    },
    Group {
        name: "end-to-end",
        about: "tests marked `#[ignore = \"needs root\"]`: whole jobs in network namespaces",
        limit: minutes(30),
        needs: &[
            &needs::NAMESPACES,
            &needs::ETHTOOL,
            &needs::NFTABLES,
            &needs::PING,
        ],
        privileged: true,
        run: suites::end_to_end,
    },
    Group {
        name: "demo",
        about: "`tributary demo` as a newcomer would run it",
        limit: minutes(15),
        needs: &[],
        privileged: false,
        run: suites::demo,
    },
    Group {
        name: "python",
        about: "the Python package: its wheel, with numpy and PyTorch, under torchrun",
        // Half a gigabyte of torch included.
        limit: minutes(30),
        needs: &[&needs::PYTHON, &needs::PYTHON_VENV, &needs::CC],
        privileged: false,
        run: python::run,
    },
    Group {
        name: "fuzz",
        about: "each fuzz target for a few seconds",
        limit: minutes(15),
        needs: &[&needs::CXX],
        privileged: false,
        run: fuzz::smoke,
    },
    Group {
        name: "bench",
        about: "the benchmarks of the core run; goals that are missed are told",
        limit: bench::Effort::Quick.limit(),
        needs: &[],
        privileged: false,
        run: bench::smoke,
    },
];

/// The names `--only` takes.
pub(crate) fn names() -> PossibleValuesParser {
    PossibleValuesParser::new(GROUPS.iter().map(|group| group.name))
}

/// Prints what there is.
pub(crate) fn list() {
    for Group { name, about, .. } in GROUPS {
        println!("{name:<12} {about}");
    }
}

/// Runs the groups named in `only`, or all.
pub(crate) fn run(only: &[String], report: &mut Report) {
    for group in GROUPS
        .iter()
        .filter(|group| only.is_empty() || only.iter().any(|name| name == group.name))
    {
        report.run(group.name, group.limit, |step| group.work(step));
    }
}

impl Group {
    fn work(&self, step: &mut Step) {
        if self.privileged && !is_root() {
            return step.skip("all of it: needs root; run `sudo -E env PATH=\"$PATH\" cargo xtask test`");
        }
        for need in self.needs {
            if let Err(why) = need.provide(step) {
                return step.skip(format!("all of it: {why}"));
            }
        }
        (self.run)(step);
    }
}
