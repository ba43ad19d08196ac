//! The address resolution protocol for IPv4 over Ethernet (RFC 826).

use std::net::Ipv4Addr;

use agg_host::frame::{ETHERNET, Mac};

/// EtherType of ARP.
pub const TYPE_ARP: u16 = 0x0806;

/// Bytes of a frame with an ARP packet, without padding.
pub const ARP_FRAME: usize = ETHERNET + 28;

/// Ethernet, IPv4, and the lengths of their addresses.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];

const BROADCAST: Mac = [0xff; 6];

/// Whether something is asked or said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Who has an address?
    Request = 1,
    /// I have it.
    Reply = 2,
}

/// An ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arp {
    /// Which.
    pub operation: Operation,
    /// Who sends it.
    pub sender: (Mac, Ipv4Addr),
    /// Whom it is about, or for. The Ethernet address is not known in a request.
    pub target: (Mac, Ipv4Addr),
}

impl Arp {
    /// Who has `target`?
    pub fn request(sender: (Mac, Ipv4Addr), target: Ipv4Addr) -> Self {
        Self {
            operation: Operation::Request,
            sender,
            target: ([0; 6], target),
        }
    }

    /// That we have what was asked for.
    pub fn answer(&self, ours: Mac) -> Self {
        Self {
            operation: Operation::Reply,
            sender: (ours, self.target.1),
            target: self.sender,
        }
    }

    /// Reads a frame whose type is [`TYPE_ARP`].
    pub fn read(frame: &[u8]) -> Option<Self> {
        let packet = frame.get(ETHERNET..)?.first_chunk::<28>()?;
        let end = |at: usize| {
            let ip: [u8; 4] = *packet[at + 6..].first_chunk()?;
            Some((*packet[at..].first_chunk()?, Ipv4Addr::from(ip)))
        };
        let operation = match packet[6..8] {
            [0, 1] => Operation::Request,
            [0, 2] => Operation::Reply,
            _ => return None,
        };
        if packet[..6] != KIND {
            return None;
        }
        Some(Self {
            operation,
            sender: end(8)?,
            target: end(18)?,
        })
    }

    /// The frame that it goes in.
    pub fn frame(&self) -> [u8; ARP_FRAME] {
        let mut frame = [0; ARP_FRAME];
        let (sender, target) = (self.sender, self.target);
        let to = match self.operation {
            Operation::Request => BROADCAST,
            Operation::Reply => target.0,
        };
        frame[..6].copy_from_slice(&to);
        frame[6..12].copy_from_slice(&sender.0);
        frame[12..14].copy_from_slice(&TYPE_ARP.to_be_bytes());
        frame[14..20].copy_from_slice(&KIND);
        frame[20..22].copy_from_slice(&(self.operation as u16).to_be_bytes());
        frame[22..28].copy_from_slice(&sender.0);
        frame[28..32].copy_from_slice(&sender.1.octets());
        frame[32..38].copy_from_slice(&target.0);
        frame[38..42].copy_from_slice(&target.1.octets());
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKER: (Mac, Ipv4Addr) = ([2, 0, 0, 0, 0, 1], Ipv4Addr::new(10, 0, 0, 1));
    const ASKED: (Mac, Ipv4Addr) = ([2, 0, 0, 0, 0, 2], Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn a_request_goes_to_all_and_its_answer_to_who_asked() {
        let request = Arp::request(ASKER, ASKED.1);
        let frame = request.frame();
        assert_eq!(Arp::read(&frame), Some(request));
        assert_eq!(frame[..6], BROADCAST);
        let answer = request.answer(ASKED.0);
        assert_eq!((answer.sender, answer.target), (ASKED, ASKER));
        assert_eq!(Arp::read(&answer.frame()), Some(answer));
        assert_eq!(answer.frame()[..6], ASKER.0);
    }

    #[test]
    fn other_kinds_are_nothing() {
        let frame = Arp::request(ASKER, ASKED.1).frame();
        for at in 14..22 {
            let mut other = frame;
            other[at] ^= 0x40;
            assert_eq!(Arp::read(&other), None, "byte {at}");
        }
        assert_eq!(Arp::read(&frame[..ARP_FRAME - 1]), None);
    }
}
