//! Jobs of roots, leaves and quorums, packets of members and parents right and wrong, aborts, suspensions, removed members,
//! releases and restarts: the real aggregator does just what the model does.
#![no_main]

use agg_model::harness::{Script, Setup, Step};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    setup: Setup,
    steps: Vec<Step>,
}

fuzz_target!(|input: Input| {
    let mut script = Script::new(&input.setup);
    for step in &input.steps {
        script.apply(step);
    }
});
