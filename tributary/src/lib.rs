//! The parts of the `tributary` command line that can be used and tested without the command itself.

#![forbid(unsafe_code)]

pub mod demo;
