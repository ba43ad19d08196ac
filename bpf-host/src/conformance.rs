//! The program in the kernel does just what `agg-core` does in user space, and what the model says: verdict, bytes, slot
//! memory and counters, after every packet.
//!
//! Packets go through the kernel by `BPF_PROG_TEST_RUN`, which runs the loaded program over a frame as an interface would,
//! and gives back what it made of it. The clock is the test's, so that times are compared, too.

mod affinity;
mod contribution;
mod frames;
mod kernel;
mod pair;
mod programs;
mod raw;
mod values;

mod cost;
mod golden_traces;
mod others;
mod random_sequences;
mod relayed;
mod replaced;
mod two_cpus;
mod verifier;
