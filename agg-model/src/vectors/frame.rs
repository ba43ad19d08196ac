//! Ethernet frames around UDP over IPv4.

use std::net::{Ipv4Addr, SocketAddrV4};

/// Bytes of the three headers: Ethernet, IPv4 without options, UDP.
const HEADERS: usize = 14 + 20 + 8;
/// The shortest frame on a wire, without its check sequence; what is missing is padding.
const SHORTEST: usize = 60;
const IPV4: [u8; 2] = [0x08, 0x00];
const UDP: u8 = 17;

/// A frame with `payload` from `source` to `target`; `number` is its identification.
pub fn write(source: SocketAddrV4, target: SocketAddrV4, number: u16, payload: &[u8]) -> Vec<u8> {
    let udp_len = (8 + payload.len()) as u16;
    let mut ip = [0; 20];
    // Version 4, five words.
    ip[0] = 0x45;
    // ECN-capable (R-ECN-1).
    ip[1] = 0b10;
    ip[2..4].copy_from_slice(&(20 + udp_len).to_be_bytes());
    ip[4..6].copy_from_slice(&number.to_be_bytes());
    // Don't fragment; 64 hops.
    ip[6] = 0x40;
    ip[8] = 64;
    ip[9] = UDP;
    ip[12..16].copy_from_slice(&source.ip().octets());
    ip[16..20].copy_from_slice(&target.ip().octets());
    let sum = checksum(&[&ip]);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());

    let mut udp = [
        source.port().to_be_bytes(),
        target.port().to_be_bytes(),
        udp_len.to_be_bytes(),
        [0; 2],
    ]
    .concat();
    let sum = match checksum(&[&pseudo_header(&ip, udp_len), &udp, payload]) {
        // RFC 768: a sum of 0 is sent as its other form, as 0 says that there is none.
        0 => 0xffff,
        sum => sum,
    };
    udp[6..8].copy_from_slice(&sum.to_be_bytes());

    let mut frame = [
        &mac(*target.ip()),
        &mac(*source.ip()),
        IPV4.as_slice(),
        &ip,
        &udp,
        payload,
    ]
    .concat();
    frame.resize(frame.len().max(SHORTEST), 0);
    frame
}

/// The source and the payload of a frame of [`write()`]'s kind, whose checksums must be right.
pub fn read(frame: &[u8]) -> Option<(SocketAddrV4, &[u8])> {
    let (headers, rest) = frame.split_at_checked(HEADERS)?;
    let (ip, udp) = headers[14..].split_at(20);
    let number = |at: &[u8]| u16::from_be_bytes([at[0], at[1]]);
    let udp_len = number(&udp[4..6]);
    let payload = rest.get(..usize::from(udp_len).checked_sub(8)?)?;
    let known = headers[12..14] == IPV4 && ip[0] == 0x45 && ip[9] == UDP;
    let whole = number(&ip[2..4]) == 20 + udp_len;
    // A sum over data and its own checksum is 0.
    let sound = checksum(&[ip]) == 0 && checksum(&[&pseudo_header(ip, udp_len), udp, payload]) == 0;
    let address = Ipv4Addr::new(ip[12], ip[13], ip[14], ip[15]);
    (known && whole && sound).then(|| (SocketAddrV4::new(address, number(&udp[..2])), payload))
}

/// What UDP's checksum covers of the IPv4 header.
fn pseudo_header(ip: &[u8], udp_len: u16) -> Vec<u8> {
    [&ip[12..20], &[0, UDP], &udp_len.to_be_bytes()].concat()
}

/// RFC 1071; each part but the last has an even length.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let sum: u32 = words
        .map(|word| u32::from(u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// A locally administered MAC address that shows its IPv4 address.
fn mac(ip: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = ip.octets();
    [2, 0, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_by_hand() {
        let source = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 11), 5000);
        let target = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 1), 4601);
        let frame = write(source, target, 1, b"TRx");
        // Version and length, ECT(0), length, identification, do not fragment, 64 hops, UDP.
        let ip = "4502001f000140004011";
        let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(
            hex.starts_with(&format!("02000a4d000102000a4d000b0800{ip}")),
            "{hex}"
        );
        assert_eq!(frame.len(), 60);
        assert_eq!(read(&frame), Some((source, b"TRx".as_slice())));
        for at in [14, 16, 26, 34, 42, 44] {
            let mut damaged = frame.clone();
            damaged[at] ^= 1;
            assert_eq!(read(&damaged), None, "byte {at}");
        }
        assert_eq!(read(&frame[..44]), None);
    }
}
