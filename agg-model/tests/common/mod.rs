//! What the property tests share.
#![allow(dead_code, unused_imports, reason = "each test binary uses a part of it")]

pub mod operations;

pub use agg_model::harness::strategies::*;
