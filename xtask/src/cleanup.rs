//! Clears away what tests of ours left in the system.

use testnet::Net;

use crate::needs::is_root;

/// What the names of all our namespaces begin with.
const PREFIX: &str = "trib-";

/// Deletes the network namespaces that ended tests left behind.
pub(crate) fn namespaces() {
    // Only root can have made any. Without iproute2 there are none either.
    if !is_root() || !crate::needs::NAMESPACES.is_met() {
        return;
    }
    match Net::cleanup_stale(PREFIX) {
        Ok(deleted) if deleted.is_empty() => {}
        Ok(deleted) => println!("deleted left-over namespaces: {}", deleted.join(", ")),
        Err(error) => eprintln!("cannot delete left-over namespaces: {error}"),
    }
}
