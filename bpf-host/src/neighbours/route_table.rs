//! The kernel's IPv4 routes, as `/proc/net/route` has them.

use std::net::Ipv4Addr;

/// The first step of a way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hop {
    /// Name of the interface.
    pub(crate) interface: String,
    /// Who takes the frame: a gateway, or the destination itself.
    pub(crate) next: Ipv4Addr,
}

/// One line of the table.
struct Entry<'t> {
    interface: &'t str,
    destination: u32,
    gateway: Ipv4Addr,
    flags: u32,
    metric: u32,
    mask: u32,
}

/// Route flags of include/uapi/linux/route.h.
const UP: u32 = 1;
const GATEWAY: u32 = 2;
const REJECT: u32 = 0x200;

impl<'t> Entry<'t> {
    /// `Iface Destination Gateway Flags RefCnt Use Metric Mask …`: addresses in hexadecimal, as the machine reads the four
    /// bytes that are in network order.
    fn parse(line: &'t str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let mut next = || fields.next();
        let interface = next()?;
        let address = |field: &str| Some(u32::from_str_radix(field, 16).ok()?.to_ne_bytes());
        let destination = u32::from_be_bytes(address(next()?)?);
        let gateway = Ipv4Addr::from(address(next()?)?);
        let flags = u32::from_str_radix(next()?, 16).ok()?;
        let (_references, _uses) = (next()?, next()?);
        let metric = next()?.parse().ok()?;
        let mask = u32::from_be_bytes(address(next()?)?);
        Some(Self {
            interface,
            destination,
            gateway,
            flags,
            metric,
            mask,
        })
    }
}

/// The way to an address: of the longest prefix, then the smallest metric.
pub(crate) fn hop(table: &str, to: Ipv4Addr) -> Option<Hop> {
    let bits = u32::from(to);
    let entries = table.lines().filter_map(Entry::parse);
    let matching = entries.filter(|entry| entry.flags & UP != 0 && bits & entry.mask == entry.destination);
    let best = matching.min_by_key(|entry| {
        (
            entry.mask.leading_zeros() + entry.mask.trailing_zeros(),
            entry.metric,
        )
    })?;
    let next = if best.flags & GATEWAY != 0 {
        best.gateway
    } else {
        to
    };
    (best.flags & REJECT == 0).then(|| Hop {
        interface: best.interface.to_owned(),
        next,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a little-endian machine prints it.
    const TABLE: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth1\t0000000A\t00000000\t0001\t0\t0\t9\t00FFFFFF\t0\t0\t0
eth1\t0005000A\t0900000A\t0003\t0\t0\t0\t00FFFFFF\t0\t0\t0
*\t0006000A\t00000000\t0201\t0\t0\t0\t00FFFFFF\t0\t0\t0
eth2\t0700000A\t00000000\t0005\t0\t0\t0\tFFFFFFFF\t0\t0\t0
";

    #[cfg(target_endian = "little")]
    #[test]
    fn the_longest_prefix_wins_then_the_metric() {
        let hop = |to: [u8; 4]| hop(TABLE, Ipv4Addr::from(to)).map(|hop| (hop.interface, hop.next.octets()));
        let way = |interface: &str, next| Some((interface.to_owned(), next));
        assert_eq!(hop([10, 0, 0, 3]), way("eth0", [10, 0, 0, 3]));
        assert_eq!(hop([10, 0, 0, 7]), way("eth2", [10, 0, 0, 7]));
        assert_eq!(hop([10, 0, 5, 3]), way("eth1", [10, 0, 0, 9]));
        assert_eq!(hop([10, 0, 6, 3]), None, "rejected");
        assert_eq!(hop([192, 0, 2, 1]), way("eth0", [10, 0, 0, 1]));
    }

    #[test]
    fn nothing_but_a_table_gives_no_way() {
        for table in ["", "\n\n", "eth0 x", "eth0 00000000 00000000 0003 0 0"] {
            assert_eq!(hop(table, Ipv4Addr::LOCALHOST), None, "{table:?}");
        }
    }
}
