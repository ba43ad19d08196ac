//! A worker in the middle of an operation is fed anything and given new places: it does not panic, takes the results that
//! it must and no others, under a quorum or not, keeps of its values what it must, and all that it sends is what the document
//! says.
#![no_main]

use agg_model::harness::{Feed, Guest, Meal};
use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    guest: Guest,
    meals: Vec<Meal>,
}

fuzz_target!(|input: Input| {
    let mut feed = Feed::new(&input.guest);
    for meal in &input.meals {
        feed.eat(meal);
    }
});
