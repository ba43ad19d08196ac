//! Asking for Ethernet addresses, and answering who asks: by ARP for IPv4, by neighbour discovery for IPv6.

use std::net::IpAddr;

use agg_host::frame::{Ethernet, Ip, Mac};

use crate::arp::{Arp, Operation, TYPE_ARP};
use crate::nd::{self, Message};

/// What somebody says of his Ethernet address, or asks of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// Who has which.
    pub said: Option<(IpAddr, Mac)>,
    /// The frame that answers, if ours is asked for.
    pub answer: Option<Vec<u8>>,
}

/// A port's addresses, and the VLAN that its frames are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ours {
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its IP address.
    pub ip: IpAddr,
    /// The VLAN; `None`: frames have no tags.
    pub vlan: Option<u16>,
}

/// Understands a frame, in which there may be an IP packet, at a port. `None`: it is about something else.
pub fn hear(frame: &[u8], ethernet: &Ethernet, ip: Option<&Ip>, ours: &Ours) -> Option<Heard> {
    let heard = match ip {
        Some(ip) => hear_nd(frame, ethernet, ip, ours),
        None if ethernet.kind == TYPE_ARP => hear_arp(frame.get(ethernet.len()..)?, ours),
        None => None,
    }?;
    // RFC 1812, section 3.3.2: nobody has the address of a group. Else one frame could have all results sent to everybody.
    let is_one = heard.said.is_none_or(|(_, mac)| mac[0] & 1 == 0);
    is_one.then_some(heard)
}

fn hear_arp(packet: &[u8], ours: &Ours) -> Option<Heard> {
    let arp = Arp::read(packet)?;
    let is_asked = arp.operation == Operation::Request && ours.ip == arp.target.1;
    let (sender, who) = arp.sender;
    Some(Heard {
        said: Some((who.into(), sender)),
        answer: is_asked.then(|| arp.answer(ours.mac).frame(ours.vlan)),
    })
}

fn hear_nd(frame: &[u8], ethernet: &Ethernet, ip: &Ip, ours: &Ours) -> Option<Heard> {
    Some(match Message::read(frame, ip)? {
        Message::Advertisement { target, mac } => Heard {
            said: Some((target.into(), mac)),
            answer: None,
        },
        Message::Solicitation { target, sender } => {
            let asker = sender.map(|(who, mac)| (mac.unwrap_or(ethernet.from), who));
            let is_asked = ours.ip == target;
            Heard {
                said: sender.and_then(|(who, mac)| Some((who.into(), mac?))),
                answer: is_asked.then(|| nd::advertise((ours.mac, target), asker, ours.vlan)),
            }
        }
    })
}

/// The frame that asks who has `who`; `None`: he is of the other family.
pub fn ask(ours: &Ours, who: IpAddr) -> Option<Vec<u8>> {
    match (ours.ip, who) {
        (IpAddr::V4(ip), IpAddr::V4(who)) => Some(Arp::request((ours.mac, ip), who).frame(ours.vlan)),
        (IpAddr::V6(ip), IpAddr::V6(who)) => Some(nd::solicit((ours.mac, ip), who, ours.vlan)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn port(number: u8, is_ipv6: bool, vlan: Option<u16>) -> Ours {
        let ip = match is_ipv6 {
            false => [10, 0, 0, number].into(),
            true => [0xfd00, 0, 0, 0, 0, 0, 0, u16::from(number)].into(),
        };
        let mac = [2, 0, 0, 0, 0, number];
        Ours { mac, ip, vlan }
    }

    fn heard(frame: &[u8], ours: &Ours) -> Option<Heard> {
        let ethernet = Ethernet::read(frame)?;
        let ip = Ip::read(frame, &ethernet);
        hear(frame, &ethernet, ip.as_ref(), ours)
    }

    #[test]
    fn a_question_says_who_asks_and_its_answer_who_is_asked_for() {
        for (is_ipv6, vlan) in [(false, None), (false, Some(7)), (true, None), (true, Some(7))] {
            let [asker, asked, other] = [1, 2, 3].map(|number| port(number, is_ipv6, vlan));
            let question = ask(&asker, asked.ip).unwrap();
            let at_asked = heard(&question, &asked).unwrap();
            assert_eq!(at_asked.said, Some((asker.ip, asker.mac)));
            let answer = at_asked.answer.unwrap();
            assert_eq!(Ethernet::read(&answer).unwrap().vlan, vlan);
            let said = Some((asked.ip, asked.mac));
            assert_eq!(heard(&answer, &asker), Some(Heard { said, answer: None }));
            assert_eq!(heard(&question, &other).unwrap().answer, None);
        }
        assert_eq!(ask(&port(1, true, None), port(2, false, None).ip), None);
    }
    #[test]
    fn nobody_has_the_ethernet_address_of_a_group() {
        for is_ipv6 in [false, true] {
            let [asker, asked] = [1, 2].map(|number| port(number, is_ipv6, None));
            for mac in [[0xff; 6], [1, 0, 0x5e, 0, 0, 1], [0x33, 0x33, 0, 0, 0, 1]] {
                let question = ask(&Ours { mac, ..asker }, asked.ip).unwrap();
                assert_eq!(heard(&question, &asked), None, "{mac:x?} asks");
                let question = ask(&asker, asked.ip).unwrap();
                let answer = heard(&question, &Ours { mac, ..asked }).unwrap().answer.unwrap();
                assert_eq!(heard(&answer, &asker), None, "{mac:x?} answers");
            }
        }
    }
}
