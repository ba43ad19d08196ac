//! Requests to the control service, right, wrong and of any bytes, at any times: no panic, bounded tables, every caller
//! answered, and slots given back exactly once.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tributary_fuzz::control::{Input, Session};

fuzz_target!(|input: Input| {
    let mut session = Session::new(&input);
    for step in &input.steps {
        session.step(step);
    }
    session.finish();
});
