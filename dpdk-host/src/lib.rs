//! The Tributary aggregator on cores that poll their network cards with DPDK.
//!
//! [`dpdk`] is what this host uses of DPDK, safe to call.

pub mod dpdk;
