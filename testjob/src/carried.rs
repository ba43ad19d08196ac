//! What links carry, for tests that count tensors.

use testnet::Host;

/// Bytes that each host's link has carried so far, up and down.
pub fn carried<'h>(hosts: impl IntoIterator<Item = &'h Host>) -> Vec<[u64; 2]> {
    let counters = hosts.into_iter().map(|host| host.counters().expect("counters"));
    counters
        .map(|counters| [counters.tx_bytes, counters.rx_bytes])
        .collect()
}
