//! A packet as it arrives: Ethernet, IPv4, UDP, then ours.

use agg_core::Endpoint;
use agg_core::wire::{Ecn, HEADER_LEN};
use aya_ebpf::programs::XdpContext;
use bpf_layout::{FRAMING, Route};

use crate::maps;

/// What lies before a packet of ours, and its header.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Front {
    pub(crate) framing: Framing,
    pub(crate) header: [u8; HEADER_LEN],
}

/// Ethernet, IPv4 and UDP, byte by byte: a frame is aligned to nothing.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Framing {
    mac_to: [u8; 6],
    mac_from: [u8; 6],
    ether_type: [u8; 2],
    version: u8,
    service: u8,
    total: [u8; 2],
    id: [u8; 2],
    fragment: [u8; 2],
    hops: u8,
    protocol: u8,
    ip_sum: [u8; 2],
    from: [u8; 4],
    to: [u8; 4],
    from_port: [u8; 2],
    to_port: [u8; 2],
    udp_len: [u8; 2],
    udp_sum: [u8; 2],
}

const _: () = assert!(size_of::<Framing>() == FRAMING && align_of::<Front>() == 1);

const IPV4: [u8; 2] = [8, 0];
const UDP: u8 = 17;
/// The IP identification of frames that are to be addressed yet.
const NUMBERED: [u8; 2] = [0, 1];
/// Version 4, and a header of five words: no options.
const PLAIN: u8 = 0x45;

/// What lies at the beginning of a frame, if there is enough of it.
#[inline(always)]
fn at_start<T>(context: &XdpContext) -> Option<&'static mut T> {
    let start = context.data();
    if start + size_of::<T>() > context.data_end() {
        return None;
    }
    // SAFETY: these bytes lie between `data` and `data_end`, as was just checked. `T` is made of bytes. The caller uses it
    // only until the frame's ends move.
    Some(unsafe { &mut *(start as *mut T) })
}

/// The framing of a frame whose UDP packet is for us, and how many bytes the UDP packet carries. Fragments, IP options and
/// what is cut off are the stack's.
#[inline(always)]
pub(crate) fn ours(context: &XdpContext) -> Option<(&'static mut Framing, usize)> {
    let framing: &mut Framing = at_start(context)?;
    if framing.ether_type != IPV4 || framing.version != PLAIN || framing.protocol != UDP {
        return None;
    }
    // All but the bit that forbids fragments.
    if u16::from_be_bytes(framing.fragment) & !0x4000 != 0 {
        return None;
    }
    let address = maps::address();
    if u16::from_be_bytes(framing.to_port) != maps::port()
        || (address != 0 && u32::from_ne_bytes(framing.to) != address)
    {
        return None;
    }
    let total = usize::from(u16::from_be_bytes(framing.total));
    let udp = usize::from(u16::from_be_bytes(framing.udp_len));
    if total != udp + 20 || udp < 8 || 14 + total > context.data_end() - context.data() {
        return None;
    }
    Some((framing, udp - 8))
}

/// The framing and the header of a frame, if it is long enough for both.
#[inline(always)]
pub(crate) fn front(context: &XdpContext) -> Option<&'static mut Front> {
    at_start(context)
}

impl Framing {
    /// Where it came from.
    #[inline(always)]
    pub(crate) fn source(&self) -> Endpoint {
        let mut ip = [0; 16];
        ip[10] = 0xff;
        ip[11] = 0xff;
        ip[12] = self.from[0];
        ip[13] = self.from[1];
        ip[14] = self.from[2];
        ip[15] = self.from[3];
        Endpoint {
            ip,
            port: u16::from_be_bytes(self.from_port),
        }
    }

    /// Back to where it came from.
    #[inline(always)]
    pub(crate) fn turn(&mut self) {
        core::mem::swap(&mut self.mac_to, &mut self.mac_from);
        core::mem::swap(&mut self.from, &mut self.to);
        core::mem::swap(&mut self.from_port, &mut self.to_port);
    }

    /// To a member or a parent.
    #[inline(always)]
    pub(crate) fn address(&mut self, to: &Endpoint, route: &Route) {
        self.mac_to = route.to;
        self.mac_from = route.from;
        self.from = route.source;
        self.to = [to.ip[12], to.ip[13], to.ip[14], to.ip[15]];
        self.from_port = route.port.to_be_bytes();
        self.to_port = to.port.to_be_bytes();
    }

    /// Marks a frame to be addressed where it leaves: a serial number where the Ethernet addresses will be, and an IP
    /// identification, which no frame of ours has that is addressed.
    #[inline(always)]
    pub(crate) fn number(&mut self, serial: u64) {
        let [a, b, c, d, e, f, g, h] = serial.to_ne_bytes();
        self.mac_to = [a, b, c, d, e, f];
        self.mac_from = [g, h, 0, 0, 0, 0];
        self.id = NUMBERED;
    }

    /// The number that is there; it is taken off. `None`: the frame is addressed.
    #[inline(always)]
    pub(crate) fn take_number(&mut self) -> Option<u64> {
        if self.id != NUMBERED {
            return None;
        }
        self.id = [0; 2];
        let [a, b, c, d, e, f] = self.mac_to;
        Some(u64::from_ne_bytes([
            a,
            b,
            c,
            d,
            e,
            f,
            self.mac_from[0],
            self.mac_from[1],
        ]))
    }

    /// Of so many bytes of ours, which add up to `sum`.
    #[inline(always)]
    pub(crate) fn measure(&mut self, len: usize, sum: u64) {
        self.udp_len = (len as u16 + 8).to_be_bytes();
        self.udp_sum = fold(sum).to_ne_bytes();
        self.total = (len as u16 + 28).to_be_bytes();
        self.version = PLAIN;
        // Who gets it heeds marks; one of the frame that was here has been taken in (R-ECN-1).
        self.service = Ecn::ECT_0;
        self.id = [0; 2];
        // Not to be fragmented: no identification is needed then (RFC 6864).
        self.fragment = [0x40, 0];
        self.hops = 64;
        self.protocol = UDP;
    }

    /// Whether the network has marked it.
    #[inline(always)]
    pub(crate) fn ecn(&self) -> Ecn {
        Ecn::from_traffic_class(self.service)
    }

    /// The checksums of IP and UDP, when all else is there. In the machine's byte order, which does not matter to them
    /// (RFC 1071). UDP over IPv4 could do without, but receivers join packets into trains only if they have one.
    #[inline(always)]
    pub(crate) fn sum(&mut self) {
        let word = |bytes: [u8; 2]| u64::from(u16::from_ne_bytes(bytes));
        let addresses = word([self.from[0], self.from[1]])
            + word([self.from[2], self.from[3]])
            + word([self.to[0], self.to[1]])
            + word([self.to[2], self.to[3]]);
        let ip = addresses
            + word([self.version, self.service])
            + word(self.total)
            + word(self.id)
            + word(self.fragment)
            + word([self.hops, self.protocol]);
        self.ip_sum = (!fold(ip)).to_ne_bytes();
        // The length counts twice: in the header, and in what UDP adds of IP's.
        let udp = addresses
            + word([0, self.protocol])
            + 2 * word(self.udp_len)
            + word(self.from_port)
            + word(self.to_port)
            + word(self.udp_sum);
        // Zero would say that there is none.
        self.udp_sum = match !fold(udp) {
            0 => [0xff; 2],
            sum => sum.to_ne_bytes(),
        };
    }
}

/// What the words of a header of ours add up to.
#[inline(always)]
pub(crate) fn header_sum(header: &[u8; HEADER_LEN]) -> u64 {
    let mut sum = 0;
    for word in header.as_chunks::<4>().0 {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    sum
}

/// A sum of words of 16 or 32 bits, with what is carried added at the other end.
#[inline(always)]
fn fold(sum: u64) -> u16 {
    let sum = (sum & 0xffff_ffff) + (sum >> 32);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}
