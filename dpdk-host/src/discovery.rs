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

/// Understands a frame, in which there may be an IP packet, at a port with these addresses. `None`: it is about something else.
pub fn hear(frame: &[u8], ethernet: &Ethernet, ip: Option<&Ip>, ours: (Mac, IpAddr)) -> Option<Heard> {
    match ip {
        Some(ip) => hear_nd(frame, ethernet, ip, ours),
        None if ethernet.kind == TYPE_ARP => hear_arp(frame, ethernet, ours),
        None => None,
    }
}

fn hear_arp(frame: &[u8], ethernet: &Ethernet, (mac, ip): (Mac, IpAddr)) -> Option<Heard> {
    let arp = Arp::read(frame.get(ethernet.len()..)?)?;
    let is_asked = arp.operation == Operation::Request && ip == arp.target.1;
    let (sender, who) = arp.sender;
    Some(Heard {
        said: Some((who.into(), sender)),
        answer: is_asked.then(|| arp.answer(mac).frame(tag(ethernet))),
    })
}

fn hear_nd(frame: &[u8], ethernet: &Ethernet, ip: &Ip, (mac, ours): (Mac, IpAddr)) -> Option<Heard> {
    Some(match Message::read(frame, ip)? {
        Message::Advertisement { target, mac } => Heard {
            said: Some((target.into(), mac)),
            answer: None,
        },
        Message::Solicitation { target, sender } => {
            let asker = sender.map(|(who, mac)| (mac.unwrap_or(ethernet.from), who));
            Heard {
                said: sender.and_then(|(who, mac)| Some((who.into(), mac?))),
                answer: (ours == target).then(|| nd::advertise((mac, target), asker, tag(ethernet))),
            }
        }
    })
}

/// The VLAN that a frame is in: a tag for the priority only is in none.
fn tag(ethernet: &Ethernet) -> Option<u16> {
    ethernet.vlan.filter(|vlan| *vlan != 0)
}

/// The frame that asks who has `who`; `None`: he is of the other family.
pub fn ask((mac, ours): (Mac, IpAddr), who: IpAddr, vlan: Option<u16>) -> Option<Vec<u8>> {
    match (ours, who) {
        (IpAddr::V4(ours), IpAddr::V4(who)) => Some(Arp::request((mac, ours), who).frame(vlan)),
        (IpAddr::V6(ours), IpAddr::V6(who)) => Some(nd::solicit((mac, ours), who, vlan)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(number: u8, is_ipv6: bool) -> (Mac, IpAddr) {
        let ip: IpAddr = match is_ipv6 {
            false => [10, 0, 0, number].into(),
            true => [0xfd00, 0, 0, 0, 0, 0, 0, u16::from(number)].into(),
        };
        ([2, 0, 0, 0, 0, number], ip)
    }

    fn heard(frame: &[u8], ours: (Mac, IpAddr)) -> Option<Heard> {
        let ethernet = Ethernet::read(frame)?;
        let ip = Ip::read(frame, &ethernet);
        hear(frame, &ethernet, ip.as_ref(), ours)
    }

    #[test]
    fn a_question_says_who_asks_and_its_answer_who_is_asked_for() {
        for (is_ipv6, vlan) in [(false, None), (false, Some(7)), (true, None), (true, Some(7))] {
            let (asker, asked) = (end(1, is_ipv6), end(2, is_ipv6));
            let question = ask(asker, asked.1, vlan).unwrap();
            let at_asked = heard(&question, asked).unwrap();
            assert_eq!(at_asked.said, Some((asker.1, asker.0)));
            let answer = at_asked.answer.unwrap();
            assert_eq!(Ethernet::read(&answer).unwrap().vlan, vlan);
            let at_asker = heard(&answer, asker).unwrap();
            assert_eq!(
                at_asker,
                Heard {
                    said: Some((asked.1, asked.0)),
                    answer: None
                }
            );
            assert_eq!(
                heard(&question, end(3, is_ipv6)).unwrap().answer,
                None,
                "somebody else is asked"
            );
        }
        assert_eq!(ask(end(1, true), end(2, false).1, None), None);
    }
}
