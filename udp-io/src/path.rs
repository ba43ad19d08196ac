//! What the kernel's routing says about the way to a peer.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
};

use crate::{MAX_DATAGRAM, error::wildcard};

/// The largest IP packet, headers included, that the kernel would send to `peer` unfragmented, in bytes: the
/// interface's MTU, or less where the kernel has learnt of a narrower path.
///
/// Errors: no route to `peer`; [`Unsupported`](io::ErrorKind::Unsupported) where the kernel has no `IP_MTU`.
pub fn path_mtu(peer: SocketAddr) -> io::Result<usize> {
    let socket = connected(peer)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        use rustix::net::sockopt::{ip_mtu, ipv6_mtu};
        let mtu = if peer.is_ipv4() {
            ip_mtu(&socket)
        } else {
            ipv6_mtu(&socket)
        }?;
        Ok(mtu as usize)
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    {
        let _ = socket;
        Err(io::Error::new(
            io::ErrorKind::Unsupported,
            "this system does not tell the MTU of a path",
        ))
    }
}

/// The largest UDP payload that reaches `peer` in one packet, in bytes: [`path_mtu`] less the headers, at most
/// [`MAX_DATAGRAM`]. Errors as [`path_mtu`].
pub fn path_payload(peer: SocketAddr) -> io::Result<usize> {
    // RFC 791 and RFC 8200 headers without options or extensions, and 8 bytes of UDP (RFC 768).
    let headers = if peer.is_ipv4() { 20 + 8 } else { 40 + 8 };
    Ok(path_mtu(peer)?.saturating_sub(headers).min(MAX_DATAGRAM))
}

/// The local address from which packets to `peer` leave, and so the one `peer` should answer to.
///
/// Errors: no route to `peer`.
pub fn local_ip_towards(peer: SocketAddr) -> io::Result<IpAddr> {
    Ok(connected(peer)?.local_addr()?.ip())
}

/// A throw-away socket with `peer` as its destination. Connecting a UDP socket sends nothing: it only makes the
/// kernel choose the route.
fn connected(peer: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(wildcard(SocketAddr::new(peer.ip(), 0)))?;
    // Port 0 is not routable on some systems; any other will do, as nothing is sent.
    let mut peer = peer;
    if peer.port() == 0 {
        peer.set_port(9);
    }
    socket.connect(peer)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_a_large_mtu_and_answers_from_itself() {
        let peer: SocketAddr = "127.0.0.1:4000".parse().unwrap();
        let payload = path_payload(peer).unwrap();
        assert!((1000..=MAX_DATAGRAM).contains(&payload), "payload {payload}");
        assert!(path_mtu(peer).unwrap() >= payload + 28);
        assert_eq!(local_ip_towards(peer).unwrap(), peer.ip());
    }
}
