//! The kernel's IPv4 neighbours, as `/proc/net/arp` has them.

use std::net::Ipv4Addr;

use super::Mac;

/// The entry is complete: ATF_COM of include/uapi/linux/if_arp.h.
const COMPLETE: u32 = 2;

/// The Ethernet address of `next` at an interface, if the kernel knows it.
pub(crate) fn mac_of(table: &str, next: Ipv4Addr, interface: &str) -> Option<Mac> {
    let next = next.to_string();
    table.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [ip, kind, flags, mac, _mask, device] = fields.as_slice() else {
            return None;
        };
        let complete = number(flags)? & COMPLETE != 0;
        // 1: Ethernet.
        let ours = *ip == next && *device == interface && number(kind)? == 1;
        (ours && complete).then(|| parse_mac(mac))?
    })
}

fn number(field: &str) -> Option<u32> {
    u32::from_str_radix(field.strip_prefix("0x")?, 16).ok()
}

fn parse_mac(text: &str) -> Option<Mac> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        *byte = u8::from_str_radix(parts.next()?, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
IP address       HW type     Flags       HW address            Mask     Device
10.0.0.2         0x1         0x2         02:00:00:00:00:0a     *        eth0
10.0.0.2         0x1         0x6         02:00:00:00:00:0b     *        eth1
10.0.0.3         0x1         0x0         00:00:00:00:00:00     *        eth0
";

    #[test]
    fn only_complete_entries_of_the_same_interface_count() {
        let mac = |last, interface| mac_of(TABLE, Ipv4Addr::new(10, 0, 0, last), interface).map(|mac| mac[5]);
        assert_eq!(mac(2, "eth0"), Some(0x0a));
        assert_eq!(mac(2, "eth1"), Some(0x0b));
        assert_eq!(mac(2, "eth2"), None);
        assert_eq!(mac(3, "eth0"), None, "asked for, but not answered");
        assert_eq!(mac(4, "eth0"), None);
    }

    #[test]
    fn half_an_address_is_none() {
        assert_eq!(parse_mac("02:00:00:00:00"), None);
        assert_eq!(parse_mac("02:00:00:00:00:00:00"), None);
        assert_eq!(parse_mac("02:00:00:00:00:zz"), None);
    }
}
