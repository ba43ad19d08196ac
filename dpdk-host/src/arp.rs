//! The address resolution protocol for IPv4 over Ethernet (RFC 826).

use std::net::Ipv4Addr;

use agg_host::frame::{Ethernet, Mac};

/// EtherType of ARP.
pub(crate) const TYPE_ARP: u16 = 0x0806;

/// Bytes of a packet.
const PACKET: usize = 28;

/// Ethernet, IPv4, and the lengths of their addresses.
const KIND: [u8; 6] = [0, 1, 8, 0, 6, 4];

const BROADCAST: Mac = [0xff; 6];

/// Whether something is asked or said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Request = 1,
    Reply = 2,
}

/// An ARP packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arp {
    pub(crate) operation: Operation,
    /// Who sends it.
    pub(crate) sender: (Mac, Ipv4Addr),
    /// Whom it is about, or for. The Ethernet address is not known in a request.
    pub(crate) target: (Mac, Ipv4Addr),
}

impl Arp {
    /// Who has `target`?
    pub(crate) fn request(sender: (Mac, Ipv4Addr), target: Ipv4Addr) -> Self {
        Self {
            operation: Operation::Request,
            sender,
            target: ([0; 6], target),
        }
    }

    /// That we have what was asked for.
    pub(crate) fn answer(&self, ours: Mac) -> Self {
        Self {
            operation: Operation::Reply,
            sender: (ours, self.target.1),
            target: self.sender,
        }
    }

    /// Reads what is behind the header of a frame whose type is [`TYPE_ARP`].
    pub(crate) fn read(packet: &[u8]) -> Option<Self> {
        let packet = packet.first_chunk::<PACKET>()?;
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

    /// The frame that it goes in, without padding.
    pub(crate) fn frame(&self, vlan: Option<u16>) -> Vec<u8> {
        let (sender, target) = (self.sender, self.target);
        let header = Ethernet {
            to: match self.operation {
                Operation::Request => BROADCAST,
                Operation::Reply => target.0,
            },
            from: sender.0,
            vlan,
            kind: TYPE_ARP,
        };
        let mut frame = vec![0; header.len()];
        header.write(&mut frame);
        frame.extend(KIND);
        frame.extend((self.operation as u16).to_be_bytes());
        for (mac, ip) in [sender, target] {
            frame.extend(mac);
            frame.extend(ip.octets());
        }
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
        let frame = request.frame(None);
        assert_eq!(Arp::read(&frame[14..]), Some(request));
        assert_eq!((&frame[..6], frame.len()), (BROADCAST.as_slice(), 42));
        let answer = request.answer(ASKED.0);
        assert_eq!((answer.sender, answer.target), (ASKED, ASKER));
        let frame = answer.frame(Some(7));
        assert_eq!(Arp::read(&frame[18..]), Some(answer));
        assert_eq!(
            (&frame[..6], &frame[12..18]),
            (ASKER.0.as_slice(), [0x81, 0, 0, 7, 8, 6].as_slice())
        );
    }

    #[test]
    fn other_kinds_are_nothing() {
        let frame = Arp::request(ASKER, ASKED.1).frame(None);
        for at in 14..22 {
            let mut other = frame.clone();
            other[at] ^= 0x40;
            assert_eq!(Arp::read(&other[14..]), None, "byte {at}");
        }
        assert_eq!(Arp::read(&frame[14..41]), None);
    }
}
