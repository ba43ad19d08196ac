//! A worker in the middle of an operation is fed anything: it does not panic, takes the results that it must and no
//! others, and all that it sends is what the document says.
#![no_main]

use agg_model::harness::{Feed, Meal};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    workers: u8,
    window: u8,
    first_round: u32,
    meals: Vec<Meal>,
}

fuzz_target!(|input: Input| {
    let mut feed = Feed::new(input.workers, input.window, input.first_round);
    for meal in &input.meals {
        feed.eat(meal);
    }
});
