//! Placeholder while the core is written.
#![no_std]
