//! Ethernet frames around UDP over IPv4 or IPv6, with or without a VLAN tag, for hosts that see whole frames.

mod ethernet;
mod ip;
mod sum;
mod udp;
mod way;

pub use ethernet::{ETHERNET, Ethernet, Mac, TYPE_IPV4, TYPE_IPV6, VLAN_TAG};
pub use ip::{IPV4, IPV6, Ip, Pair};
pub use sum::{Sum, checksum};
pub use udp::Datagram;
pub use way::{End, Framing, Way};

/// The first so many bytes of a buffer, and those behind them.
///
/// # Panics
/// It has fewer: whoever writes headers makes the room for them first.
fn split<const N: usize>(bytes: &mut [u8]) -> (&mut [u8; N], &mut [u8]) {
    let len = bytes.len();
    match bytes.split_first_chunk_mut() {
        Some(parts) => parts,
        None => panic!("{len} bytes have no room for a header of {N}"),
    }
}
