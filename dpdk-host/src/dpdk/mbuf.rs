//! One frame.

use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::slice;

use agg_host::frame::{Datagram, Ethernet, Framing};
use dpdk_sys::View;

/// What a driver says of a frame that has come, beside the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Arrival {
    /// It is spread over several mbufs.
    pub is_spread: bool,
    /// The VLAN of a tag that it has taken out of the frame.
    pub vlan: Option<u16>,
    /// The checksum of the IPv4 header is wrong. Most virtual devices do not look.
    pub has_bad_ip: bool,
    /// The checksum of UDP is wrong; some say so where there is none.
    pub has_bad_udp: bool,
}

impl Arrival {
    /// The VLAN that the frame is in, whether its tag is still there or not. A tag for the priority only is in none.
    pub fn vlan_of(&self, ethernet: &Ethernet) -> Option<u16> {
        ethernet.vlan.or(self.vlan).filter(|vlan| *vlan != 0)
    }

    /// Whether a datagram in the frame has a wrong checksum. IPv4 allows for none.
    pub fn is_damaged(&self, datagram: &Datagram, frame: &[u8]) -> bool {
        self.has_bad_udp && !datagram.has_no_checksum(frame)
    }
}

/// The part of a VLAN tag that says which.
const VLAN_ID: u16 = 0x0fff;

/// A frame in DPDK's memory. Who holds it owns it; dropped, it goes back to its pool.
#[derive(Debug)]
#[repr(transparent)]
pub struct Mbuf {
    mbuf: NonNull<c_void>,
}

// SAFETY: it is owned by one, and any thread may give an mbuf back.
unsafe impl Send for Mbuf {}

impl Mbuf {
    /// # Safety
    /// The mbuf must be owned by the caller alone, and its first segment's memory referred to by nothing else.
    pub(super) unsafe fn from_raw(mbuf: NonNull<c_void>) -> Self {
        Self { mbuf }
    }

    pub(super) fn into_raw(self) -> *mut c_void {
        let mbuf = self.mbuf.as_ptr();
        std::mem::forget(self);
        mbuf
    }

    fn view(&self) -> View {
        let mut view = MaybeUninit::uninit();
        // SAFETY: the mbuf is ours, and the shim writes the whole view.
        unsafe {
            dpdk_sys::shim_view(self.mbuf.as_ptr(), view.as_mut_ptr());
            view.assume_init()
        }
    }

    /// Mbufs that the packet is spread over. More than one: [`Self::bytes`] are only the first part.
    pub fn segments(&self) -> usize {
        self.view().segments.into()
    }

    /// What the driver says of it.
    #[inline]
    pub fn arrival(&self) -> Arrival {
        let mut arrival = dpdk_sys::Arrival::default();
        // SAFETY: the mbuf is ours, and the shim writes to `arrival` only.
        unsafe { dpdk_sys::shim_arrival(self.mbuf.as_ptr(), &raw mut arrival) };
        let says = |flag| arrival.flags & flag != 0;
        Arrival {
            is_spread: arrival.segments > 1,
            vlan: says(dpdk_sys::UNTAGGED).then_some(arrival.tag & VLAN_ID),
            has_bad_ip: says(dpdk_sys::BAD_IP),
            has_bad_udp: says(dpdk_sys::BAD_UDP),
        }
    }

    /// Says of it what a driver would, but for being spread: for ports that are no more than rings in this process.
    pub fn set_arrival(&mut self, arrival: Arrival) {
        let flag = |is: bool, flag| if is { flag } else { 0 };
        let arrival = dpdk_sys::Arrival {
            flags: flag(arrival.vlan.is_some(), dpdk_sys::UNTAGGED)
                | flag(arrival.has_bad_ip, dpdk_sys::BAD_IP)
                | flag(arrival.has_bad_udp, dpdk_sys::BAD_UDP),
            tag: arrival.vlan.unwrap_or(0),
            segments: 0,
        };
        // SAFETY: the mbuf is ours.
        unsafe { dpdk_sys::shim_set_arrival(self.mbuf.as_ptr(), &raw const arrival) }
    }

    /// Spreads the frame over what another mbuf has, too. Gives that back where there are too many.
    ///
    /// # Errors
    /// The other mbuf.
    pub fn append(&mut self, behind: Self) -> Result<(), Self> {
        // SAFETY: both are ours; the second one is the first's where this succeeds.
        let code = unsafe { dpdk_sys::shim_append(self.mbuf.as_ptr(), behind.mbuf.as_ptr()) };
        if code != 0 {
            return Err(behind);
        }
        behind.into_raw();
        Ok(())
    }

    /// Copies the frame, from all mbufs that it is spread over, into an empty one; `false`: it has no room.
    #[must_use]
    pub fn gather(&self, into: &mut Self) -> bool {
        // SAFETY: both are ours, and not the same.
        unsafe { dpdk_sys::shim_gather(self.mbuf.as_ptr(), into.mbuf.as_ptr()) == 0 }
    }

    /// Puts the tag of a VLAN into the frame, in front of its type; `false`: there is no room for it.
    #[must_use]
    pub fn insert_tag(&mut self, vlan: u16) -> bool {
        // SAFETY: the mbuf is ours.
        unsafe { dpdk_sys::shim_insert_tag(self.mbuf.as_ptr(), vlan) == 0 }
    }

    /// The frame, from the Ethernet header on.
    pub fn bytes(&self) -> &[u8] {
        let view = self.view();
        // SAFETY: so many bytes are there, written by a driver or by us.
        unsafe { slice::from_raw_parts(view.data, view.len.into()) }
    }

    /// The frame, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let view = self.view();
        // SAFETY: as above, and nobody else has the mbuf.
        unsafe { slice::from_raw_parts_mut(view.data, view.len.into()) }
    }

    /// All the room that a frame can have, to be written; then say by [`Self::set_len`] how much was.
    pub fn room_mut(&mut self) -> &mut [u8] {
        let view = self.view();
        // SAFETY: the memory is there and ours. A pool's memory is mapped anew, and so all zero before it is written:
        // no byte of it is uninitialised.
        unsafe { slice::from_raw_parts_mut(view.data, view.room.into()) }
    }

    /// The same, to be read: also what was written there before it had a length.
    pub fn room_bytes(&self) -> &[u8] {
        let view = self.view();
        // SAFETY: as for [`Self::room_mut`].
        unsafe { slice::from_raw_parts(view.data, view.room.into()) }
    }

    /// Notes a number in it, for who gets it next: that of the port it came from.
    pub fn set_port(&mut self, port: u16) {
        // SAFETY: the mbuf is ours.
        unsafe { dpdk_sys::shim_set_port(self.mbuf.as_ptr(), port) }
    }

    /// The number that was noted last.
    pub fn port(&self) -> u16 {
        // SAFETY: the mbuf is ours.
        unsafe { dpdk_sys::shim_port_of(self.mbuf.as_ptr()) }
    }

    /// Bytes that a frame can have.
    pub fn room(&self) -> usize {
        self.view().room.into()
    }

    /// Says how many bytes the frame has.
    ///
    /// # Panics
    /// There is no room for so many.
    pub fn set_len(&mut self, len: usize) {
        let view = self.view();
        assert!(
            len <= usize::from(view.room) && view.segments == 1,
            "{len} bytes, there is room for {} in each of {} segments",
            view.room,
            view.segments
        );
        // SAFETY: the mbuf is ours, and has the room.
        unsafe { dpdk_sys::shim_set_len(self.mbuf.as_ptr(), len as u16) }
    }

    /// Has the port write the checksums of the frame, which is UDP behind headers as [`agg_host::frame::Way`] writes them. Only
    /// where the port was started so.
    ///
    /// # Panics
    /// It has no room for these headers.
    pub fn offload_checksums(&mut self, framing: Framing) {
        assert!(
            self.bytes().len() >= framing.len(),
            "no headers to write checksums to"
        );
        let (ethernet, is_ipv6) = (framing.ethernet() as u16, framing.is_ipv6().into());
        // SAFETY: the mbuf is ours, and the headers that are written to are in it.
        unsafe { dpdk_sys::shim_offload_checksums(self.mbuf.as_ptr(), ethernet, is_ipv6) }
    }
}

impl Drop for Mbuf {
    fn drop(&mut self) {
        let mut mbuf = self.mbuf.as_ptr();
        // SAFETY: it is ours, and not used any more.
        unsafe { dpdk_sys::shim_free_bulk(&raw mut mbuf, 1) }
    }
}
