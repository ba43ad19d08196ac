//! Neighbour discovery for IPv6 over Ethernet (RFC 4861): who has an address, and that we have it.

use std::net::Ipv6Addr;

use agg_host::frame::{Ethernet, Ip, Mac, Pair, Sum};

/// ICMPv6, of which this is a part.
pub(crate) const PROTOCOL_ICMPV6: u8 = 58;

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;

/// Packets from elsewhere have taken a hop, and so have less (section 7.1).
const HOPS: u8 = 255;

/// Bytes of a message up to its options.
const MESSAGE: usize = 24;
/// Bytes of an option with an Ethernet address, and the unit that the lengths of options are in.
const OPTION: usize = 8;

/// Options: the sender's Ethernet address, or that which is asked for.
const SOURCE: u8 = 1;
const TARGET: u8 = 2;

/// Flags of an advertisement (section 4.4): it answers, and goes before what was known.
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The group that asks for an address (RFC 4291, section 2.7.1).
pub(crate) fn solicited_node(of: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = of.octets();
    Ipv6Addr::new(
        0xff02,
        0,
        0,
        0,
        0,
        1,
        0xff00 | u16::from(a),
        u16::from_be_bytes([b, c]),
    )
}

/// The Ethernet address of a group (RFC 2464, section 7).
fn group(address: Ipv6Addr) -> Mac {
    let [.., a, b, c, d] = address.octets();
    [0x33, 0x33, a, b, c, d]
}

/// A message, as far as it is of use here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message {
    /// Who has `target`?
    Solicitation {
        target: Ipv6Addr,
        /// Who asks, and his Ethernet address if he says it. `None`: nobody yet, who wants to have the address.
        sender: Option<(Ipv6Addr, Option<Mac>)>,
    },
    /// This Ethernet address has `target`.
    Advertisement { target: Ipv6Addr, mac: Mac },
}

impl Message {
    /// Reads what is in an IPv6 packet, with all that section 7.1 wants to be looked at.
    pub(crate) fn read(frame: &[u8], ip: &Ip) -> Option<Self> {
        let Pair::V6 { from, to } = ip.pair else {
            return None;
        };
        let message = frame.get(ip.payload.clone())?;
        let (head, options) = message.split_first_chunk::<MESSAGE>()?;
        let sum = ip.pair.sum(PROTOCOL_ICMPV6, message.len()).and(Sum::of(message));
        let target = Ipv6Addr::from(*head[8..].first_chunk::<16>()?);
        let is_sound =
            ip.protocol == PROTOCOL_ICMPV6 && ip.hops == HOPS && head[1] == 0 && sum.checksum() == 0;
        if !is_sound || target.is_multicast() {
            return None;
        }
        match head[0] {
            SOLICITATION if from.is_unspecified() => {
                let is_sound = to == solicited_node(target) && option(options, SOURCE)?.is_none();
                is_sound.then_some(Self::Solicitation { target, sender: None })
            }
            SOLICITATION => {
                let sender = Some((from, option(options, SOURCE)?));
                Some(Self::Solicitation { target, sender })
            }
            ADVERTISEMENT if to.is_multicast() && head[4] & SOLICITED != 0 => None,
            ADVERTISEMENT => {
                let mac = option(options, TARGET)??;
                Some(Self::Advertisement { target, mac })
            }
            _ => None,
        }
    }
}

/// The Ethernet address in an option of this kind; the outer `None`: the options are not sound.
#[allow(clippy::option_option)]
fn option(mut options: &[u8], kind: u8) -> Option<Option<Mac>> {
    let mut found = None;
    while let [this, units, ..] = *options {
        let len = OPTION * usize::from(units);
        if len == 0 {
            return None;
        }
        let (option, rest) = options.split_at_checked(len)?;
        if this == kind && len == OPTION {
            found = found.or(option[2..].first_chunk().copied());
        }
        options = rest;
    }
    options.is_empty().then_some(found)
}

/// Asks who has `target`.
pub(crate) fn solicit((mac, from): (Mac, Ipv6Addr), target: Ipv6Addr, vlan: Option<u16>) -> Vec<u8> {
    let to = solicited_node(target);
    let pair = Pair::V6 { from, to };
    frame(
        (mac, group(to)),
        vlan,
        pair,
        [SOLICITATION, 0],
        target,
        [SOURCE, 1],
    )
}

/// Says that `mac` has `target` to somebody who asked; to all if it was nobody yet.
pub(crate) fn advertise(
    (mac, target): (Mac, Ipv6Addr),
    asker: Option<(Mac, Ipv6Addr)>,
    vlan: Option<u16>,
) -> Vec<u8> {
    let (to_mac, to, flags) = match asker {
        Some((mac, ip)) => (mac, ip, SOLICITED | OVERRIDE),
        None => (group(ALL_NODES), ALL_NODES, OVERRIDE),
    };
    let pair = Pair::V6 { from: target, to };
    frame(
        (mac, to_mac),
        vlan,
        pair,
        [ADVERTISEMENT, flags],
        target,
        [TARGET, 1],
    )
}

/// A frame with a message whose option has the Ethernet address that it comes from.
fn frame(
    (from, to): (Mac, Mac),
    vlan: Option<u16>,
    pair: Pair,
    [kind, flags]: [u8; 2],
    target: Ipv6Addr,
    option: [u8; 2],
) -> Vec<u8> {
    const LEN: usize = MESSAGE + OPTION;
    let mut message = [0; LEN];
    message[0] = kind;
    message[4] = flags;
    message[8..24].copy_from_slice(&target.octets());
    message[24..26].copy_from_slice(&option);
    message[26..].copy_from_slice(&from);
    let sum = pair.sum(PROTOCOL_ICMPV6, LEN).and(Sum::of(&message)).checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let ethernet = Ethernet {
        to,
        from,
        vlan,
        kind: pair.kind(),
    };
    let mut frame = vec![0; ethernet.len() + agg_host::frame::IPV6 + LEN];
    let rest = ethernet.write(&mut frame);
    pair.write(PROTOCOL_ICMPV6, HOPS, LEN, rest)
        .copy_from_slice(&message);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKER: (Mac, Ipv6Addr) = (
        [2, 0, 0, 0, 0, 1],
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0x1234, 0x5678),
    );
    const ASKED: (Mac, Ipv6Addr) = (
        [2, 0, 0, 0, 0, 2],
        Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0xab12, 0x3456),
    );

    fn read(frame: &[u8]) -> Option<Message> {
        let ip = Ip::read(frame, &Ethernet::read(frame)?)?;
        Message::read(frame, &ip)
    }

    /// Changes a message, and makes its checksum right again.
    fn changed(frame: &[u8], change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut frame = frame.to_vec();
        change(&mut frame);
        let len = (frame.len() - 54) as u16;
        frame[18..20].copy_from_slice(&len.to_be_bytes());
        frame[56..58].fill(0);
        let ip = Ip::read(&frame, &Ethernet::read(&frame).unwrap()).unwrap();
        let message = &frame[ip.payload.clone()];
        let sum = ip
            .pair
            .sum(ip.protocol, message.len())
            .and(Sum::of(message))
            .checksum();
        frame[56..58].copy_from_slice(&sum.to_be_bytes());
        frame
    }

    #[test]
    fn a_solicitation_goes_to_those_with_the_same_end_and_its_answer_to_who_asked() {
        let frame = solicit(ASKER, ASKED.1, None);
        assert_eq!(frame[..6], [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
        let (target, sender) = (ASKED.1, Some((ASKER.1, Some(ASKER.0))));
        assert_eq!(read(&frame), Some(Message::Solicitation { target, sender }));
        let ip = Ip::read(&frame, &Ethernet::read(&frame).unwrap()).unwrap();
        assert_eq!(ip.to(), "ff02::1:ff12:3456".parse::<Ipv6Addr>().unwrap());

        let frame = advertise(ASKED, Some(ASKER), Some(7));
        assert_eq!(
            (&frame[..6], &frame[12..16]),
            (ASKER.0.as_slice(), [0x81, 0, 0, 7].as_slice())
        );
        let mac = ASKED.0;
        assert_eq!(read(&frame), Some(Message::Advertisement { target, mac }));
    }

    #[test]
    fn who_has_no_address_yet_is_answered_through_all() {
        let asks = changed(
            &solicit((ASKER.0, Ipv6Addr::UNSPECIFIED), ASKED.1, None),
            |frame| {
                frame.truncate(54 + MESSAGE);
            },
        );
        let target = ASKED.1;
        assert_eq!(read(&asks), Some(Message::Solicitation { target, sender: None }));
        let frame = advertise(ASKED, None, None);
        assert_eq!(frame[..6], [0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(frame[58], OVERRIDE, "nobody has asked by name");
        // Who has no address has no Ethernet address to be kept either.
        assert_eq!(
            read(&solicit((ASKER.0, Ipv6Addr::UNSPECIFIED), ASKED.1, None)),
            None
        );
    }

    #[test]
    fn what_comes_from_elsewhere_or_is_damaged_is_nothing() {
        let sound = solicit(ASKER, ASKED.1, None);
        assert!(read(&changed(&sound, |_| {})).is_some());
        let mut damaged = sound.clone();
        damaged[70] ^= 1;
        assert_eq!(read(&damaged), None, "its checksum");
        type Change = fn(&mut Vec<u8>);
        let refused: [(&str, Change); 7] = [
            ("a hop", |frame| frame[21] = 254),
            ("a code", |frame| frame[55] = 1),
            ("another kind", |frame| frame[54] = 134),
            ("a group as target", |frame| frame[62] = 0xff),
            ("an option without length", |frame| frame[79] = 0),
            ("an option that is cut off", |frame| frame[79] = 2),
            ("half an option", |frame| frame.truncate(frame.len() - 7)),
        ];
        for (what, change) in refused {
            assert_eq!(read(&changed(&sound, change)), None, "{what}");
        }
        let other = changed(&sound, |frame| {
            frame.splice(78..78, [14, 1, 0, 0, 0, 0, 0, 0]);
        });
        assert_eq!(read(&other), read(&sound), "an unknown option is skipped");
        let answer = advertise(ASKED, Some(ASKER), None);
        let to_all = changed(&answer, |frame| frame[38] = 0xff);
        assert_eq!(read(&to_all), None, "an answer to all");
        assert_eq!(
            read(&changed(&answer, |frame| frame[78] = SOURCE)),
            None,
            "no address"
        );
    }
}
