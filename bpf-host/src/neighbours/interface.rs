//! What the kernel says of an interface: its number, Ethernet address, MTU, whether it is up, and its driver.
//!
//! By `ioctl`, which asks about the namespace that the process is in; what is in `/sys` may be another's.

use std::io;
use std::mem::zeroed;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;

use super::Mac;

/// An Ethernet interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    /// Its name.
    pub(crate) name: String,
    /// Its number in the kernel.
    pub(crate) index: u32,
    /// Its Ethernet address; `None`: it is no Ethernet interface.
    pub(crate) mac: Option<Mac>,
    /// Largest IP packet, in bytes.
    pub(crate) mtu: u32,
    /// It is up.
    pub(crate) up: bool,
    /// Its driver's name; empty where it does not say.
    pub(crate) driver: String,
    /// Frames that its receive ring holds; 0: unknown.
    pub(crate) ring: u32,
}

/// Ethernet's number among hardware types: ARPHRD_ETHER of include/uapi/linux/if_arp.h.
const ARPHRD_ETHER: u16 = 1;

impl Interface {
    /// The interface with this name.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn find(name: &str) -> io::Result<Self> {
        // The kernel wants any socket at all to ask it.
        let socket = UdpSocket::bind(("0.0.0.0", 0))?;
        let index = ask(&socket, name, libc::SIOCGIFINDEX)?;
        let hardware = ask(&socket, name, libc::SIOCGIFHWADDR)?;
        let mtu = ask(&socket, name, libc::SIOCGIFMTU)?;
        let flags = ask(&socket, name, libc::SIOCGIFFLAGS)?;
        // SAFETY: each was filled in by the request that fills in this member, and all of them are plain numbers.
        let (index, hardware, mtu, flags) = unsafe {
            (
                index.ifr_ifru.ifru_ifindex,
                hardware.ifr_ifru.ifru_hwaddr,
                mtu.ifr_ifru.ifru_mtu,
                flags.ifr_ifru.ifru_flags,
            )
        };
        let is_ethernet = hardware.sa_family == ARPHRD_ETHER;
        let mut mac: Mac = [0; 6];
        for (byte, given) in mac.iter_mut().zip(hardware.sa_data) {
            *byte = given as u8;
        }
        let driver = driver(&socket, name).unwrap_or_default();
        Ok(Self {
            ring: receive_ring(&socket, name, &driver).unwrap_or(0),
            name: name.to_owned(),
            index: index as u32,
            mac: is_ethernet.then_some(mac),
            mtu: mtu as u32,
            up: i32::from(flags) & libc::IFF_UP != 0,
            driver,
        })
    }
}

/// Asks one thing about an interface.
fn ask(socket: &UdpSocket, name: &str, what: libc::Ioctl) -> io::Result<libc::ifreq> {
    let mut request = request(name)?;
    // SAFETY: the socket is open, and the request is an `ifreq`, which all of these read and write.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), what, &raw mut request) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(request)
}

/// A request about the interface with this name.
fn request(name: &str) -> io::Result<libc::ifreq> {
    // SAFETY: an `ifreq` is plain numbers and, in a union, a pointer that may be null.
    let mut request: libc::ifreq = unsafe { zeroed() };
    // One byte stays zero: the end of the name.
    if name.is_empty() || name.len() >= request.ifr_name.len() || name.contains('\0') {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, byte) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = byte as libc::c_char;
    }
    Ok(request)
}

/// `struct ethtool_drvinfo` of include/uapi/linux/ethtool.h.
#[repr(C)]
struct DriverInfo {
    command: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// ETHTOOL_GDRVINFO of the same file.
const GET_DRIVER_INFO: u32 = 3;

/// `struct ethtool_ringparam` of the same file.
#[repr(C)]
struct RingParameters {
    command: u32,
    rest: [u32; 4],
    receive: u32,
    others: [u32; 3],
}

/// ETHTOOL_GRINGPARAM of the same file.
const GET_RING_PARAMETERS: u32 = 0x10;

/// VETH_RING_SIZE of drivers/net/veth.c; its driver does not tell.
const VETH_RING: u32 = 256;

/// SIOCETHTOOL of include/uapi/linux/sockios.h.
const SIOCETHTOOL: libc::Ioctl = 0x8946;

fn driver(socket: &UdpSocket, name: &str) -> io::Result<String> {
    let mut info = DriverInfo {
        command: GET_DRIVER_INFO,
        driver: [0; 32],
        rest: [0; 160],
    };
    // SAFETY: this command writes 196 bytes, the size of the structure.
    unsafe { ask_driver(socket, name, &mut info) }?;
    let end = info
        .driver
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(info.driver.len());
    Ok(String::from_utf8_lossy(&info.driver[..end]).into_owned())
}

/// Frames that a ring of the interface takes in.
fn receive_ring(socket: &UdpSocket, name: &str, driver: &str) -> io::Result<u32> {
    if driver == "veth" {
        return Ok(VETH_RING);
    }
    let mut ring = RingParameters {
        command: GET_RING_PARAMETERS,
        rest: [0; 4],
        receive: 0,
        others: [0; 3],
    };
    // SAFETY: this command writes 36 bytes, the size of the structure.
    unsafe { ask_driver(socket, name, &mut ring) }?;
    Ok(ring.receive)
}

/// Asks the interface's driver.
///
/// # Safety
/// `about` begins with a command that writes no more than its size.
unsafe fn ask_driver<T>(socket: &UdpSocket, name: &str, about: &mut T) -> io::Result<()> {
    let mut request = request(name)?;
    request.ifr_ifru.ifru_data = (&raw mut *about).cast();
    // SAFETY: the socket is open, and the request points to as much memory as the command writes: the caller's promise.
    let status = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

const _: () = assert!(size_of::<DriverInfo>() == 196 && size_of::<RingParameters>() == 36);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_there_and_no_ethernet() {
        let loopback = Interface::find("lo").unwrap();
        assert_eq!((loopback.mac, loopback.name.as_str()), (None, "lo"));
        assert!(loopback.index > 0 && loopback.mtu > 0);
    }

    #[test]
    fn names_that_no_interface_has_are_errors() {
        for name in ["", "no-such-if", "a-name-that-is-too-long-for-any", "a\0b"] {
            assert!(Interface::find(name).is_err(), "{name:?}");
        }
    }
}
