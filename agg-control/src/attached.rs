//! The addresses of members that are attached to their host by shared memory, and send no datagrams.
//!
//! They are of the discard-only prefix 100::/64 (RFC 6666), of which a host takes no datagram: so no packet of the network
//! can pass for one of theirs. The rest of the address is the name that the host gave, a random number: who does not know
//! it cannot register it.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The upper half of an address.
const PREFIX: u64 = 0x0100_0000_0000_0000;

/// A port that is none in particular.
const PORT: u16 = 1;

/// The address of a member that its host has named so.
pub fn attached_address(name: u64) -> SocketAddr {
    let bits = u128::from(PREFIX) << 64 | u128::from(name);
    SocketAddr::new(IpAddr::V6(Ipv6Addr::from_bits(bits)), PORT)
}

/// What its host has named the member at this address; `None` for addresses of the network.
pub fn attached_name(address: &SocketAddr) -> Option<u64> {
    let IpAddr::V6(ip) = address.ip() else {
        return None;
    };
    let bits = ip.to_bits();
    ((bits >> 64) as u64 == PREFIX).then_some(bits as u64)
}

/// A member's address as people read it: the name of one that is attached is its own business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct At(pub SocketAddr);

impl fmt::Display for At {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match attached_name(&self.0) {
            Some(_) => f.write_str("shared memory"),
            None => self.0.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_discard_only_prefix_is_one_of_theirs() {
        for name in [0, 1, 1 << 63, u64::MAX] {
            assert_eq!(attached_name(&attached_address(name)), Some(name));
        }
        assert_eq!(attached_address(0x1234).to_string(), "[100::1234]:1");
        assert_eq!(At(attached_address(0x1234)).to_string(), "shared memory");
        for address in [
            "10.0.0.1:1",
            "[100:0:0:1::1]:1",
            "[::1]:1",
            "[::ffff:100.0.0.0]:1",
        ] {
            assert_eq!(attached_name(&address.parse().unwrap()), None, "{address}");
            assert_eq!(
                At(address.parse().unwrap()).to_string().parse(),
                address.parse::<SocketAddr>()
            );
        }
    }
}
