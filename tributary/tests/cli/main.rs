//! The `tributary` command as a user meets it: exit status, output, and one line for each error.

mod arguments;
mod bench;
mod demo;
mod ends;
mod ranks;
mod status;
mod support;
