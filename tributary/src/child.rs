//! The worker's side of the pipes to its parent: a setup comes in, lines of JSON go out.

use std::io::{self, IsTerminal, Read};
use std::thread;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::failure::Failure;
use crate::output;

/// The setup that the parent wrote. From then on this process ends when the parent does, however that ends: the pipe
/// closes with it.
pub fn setup<S: DeserializeOwned>() -> Result<S, Failure> {
    let mut line = String::new();
    let by_hand = io::stdin().is_terminal();
    if by_hand
        || io::stdin()
            .read_line(&mut line)
            .map_err(Failure::io("read the worker's setup"))?
            == 0
    {
        return Err(Failure::NotForHands);
    }
    let setup = serde_json::from_str(&line).map_err(|reason| Failure::Protocol { line, reason })?;
    thread::Builder::new()
        .name("parent-watch".to_owned())
        .spawn(|| {
            // The parent writes nothing more: this returns when the pipe closes.
            let _ = io::stdin().read_to_end(&mut Vec::new());
            std::process::exit(1);
        })
        .map_err(Failure::io("start a thread"))?;
    Ok(setup)
}

/// Tells the parent something.
pub fn say<M: Serialize>(message: &M) -> Result<(), Failure> {
    let line = serde_json::to_string(message).map_err(|reason| Failure::Protocol {
        line: "a message to be written".to_owned(),
        reason,
    })?;
    output::line(&line)
}
