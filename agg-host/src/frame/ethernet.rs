//! Ethernet headers (IEEE 802.3) with or without a VLAN tag (IEEE 802.1Q).

use super::split;

/// An Ethernet address.
pub type Mac = [u8; 6];

/// Bytes of an Ethernet header without a tag.
pub const ETHERNET: usize = 14;
/// Bytes of a VLAN tag.
pub const VLAN_TAG: usize = 4;

/// EtherType of IPv4.
pub const TYPE_IPV4: u16 = 0x0800;
/// EtherType of IPv6.
pub const TYPE_IPV6: u16 = 0x86dd;
const TYPE_VLAN: u16 = 0x8100;
/// The part of a tag that says which VLAN; the others are a priority.
const VLAN_ID: u16 = 0x0fff;

/// An Ethernet header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ethernet {
    /// Whom the frame is for.
    pub to: Mac,
    /// Who sent it.
    pub from: Mac,
    /// The VLAN of its tag, if it has one; 0 where the tag is for the priority only.
    pub vlan: Option<u16>,
    /// The type of what follows.
    pub kind: u16,
}

impl Ethernet {
    /// Reads the header of a frame. `None`: it is cut off.
    #[inline]
    pub fn read(frame: &[u8]) -> Option<Self> {
        let (header, rest) = frame.split_first_chunk::<ETHERNET>()?;
        let (to, from) = (*header.first_chunk()?, *header[6..].first_chunk()?);
        let (vlan, kind) = match u16::from_be_bytes([header[12], header[13]]) {
            TYPE_VLAN => {
                let [tag @ .., a, b] = *rest.first_chunk::<VLAN_TAG>()?;
                (
                    Some(u16::from_be_bytes(tag) & VLAN_ID),
                    u16::from_be_bytes([a, b]),
                )
            }
            kind => (None, kind),
        };
        Some(Self { to, from, vlan, kind })
    }

    /// Its bytes: where what follows begins.
    #[allow(clippy::len_without_is_empty)]
    pub const fn len(&self) -> usize {
        match self.vlan {
            Some(_) => ETHERNET + VLAN_TAG,
            None => ETHERNET,
        }
    }

    /// Writes it, and gives the room behind it.
    ///
    /// # Panics
    /// There is too little room.
    #[inline]
    pub fn write<'f>(&self, into: &'f mut [u8]) -> &'f mut [u8] {
        let (header, mut rest) = split::<ETHERNET>(into);
        header[..6].copy_from_slice(&self.to);
        header[6..12].copy_from_slice(&self.from);
        let Some(vlan) = self.vlan else {
            header[12..].copy_from_slice(&self.kind.to_be_bytes());
            return rest;
        };
        header[12..].copy_from_slice(&TYPE_VLAN.to_be_bytes());
        let tag;
        (tag, rest) = split::<VLAN_TAG>(rest);
        tag[..2].copy_from_slice(&vlan.to_be_bytes());
        tag[2..].copy_from_slice(&self.kind.to_be_bytes());
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again_with_and_without_a_tag() {
        for vlan in [None, Some(0), Some(1), Some(4094)] {
            let header = Ethernet {
                to: [2, 0, 0, 0, 0, 1],
                from: [2, 0, 0, 0, 0, 2],
                vlan,
                kind: TYPE_IPV6,
            };
            let mut frame = [0xa5; 20];
            assert_eq!(header.write(&mut frame).len(), 20 - header.len());
            assert_eq!(Ethernet::read(&frame), Some(header));
            for len in 0..header.len() {
                assert_eq!(Ethernet::read(&frame[..len]), None, "{len} bytes");
            }
        }
    }

    #[test]
    fn a_priority_is_no_part_of_the_vlan() {
        let frame = [&[2; 12][..], &[0x81, 0, 0xe0, 7, 8, 0]].concat();
        let header = Ethernet::read(&frame).unwrap();
        assert_eq!((header.vlan, header.kind), (Some(7), TYPE_IPV4));
    }
}
