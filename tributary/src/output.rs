//! Whole lines to standard output and error, without `println!`'s panic when the reader has gone.

use std::io::{self, ErrorKind, Write};

use crate::failure::Failure;

/// Writes a line at once. A reader that has gone (`| head`) is not an error.
pub fn line(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::io("write to standard output")(error))
        }
        _ => Ok(()),
    }
}

/// Writes a line to standard error in one piece: lines of several ranks on one terminal must not mix.
pub fn note(text: &str) {
    // Where nobody reads errors, nobody reads this one either.
    let _ = io::stderr().write_all(format!("{text}\n").as_bytes());
}
