//! What is not the aggregator's.

use std::net::{Ipv4Addr, SocketAddrV4};

use agg_model::vectors::frame;
use agg_model::vectors::trace::AGGREGATOR;

use super::kernel::Kernel;
use super::programs::{XDP_DROP, XDP_PASS};

const SOURCE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, 11), 5000);

/// A change of a frame that would be dropped and counted as it is.
type Change = fn(&mut Vec<u8>);

const CHANGES: &[(&str, Change)] = &[
    ("another port", |frame| frame[36] ^= 1),
    ("another address", |frame| frame[33] ^= 1),
    ("TCP", |frame| frame[23] = 6),
    ("IPv6", |frame| frame[12..14].copy_from_slice(&[0x86, 0xdd])),
    ("ARP", |frame| frame[12..14].copy_from_slice(&[8, 6])),
    ("a VLAN tag", |frame| {
        frame.splice(12..12, [0x81, 0, 0, 7]);
    }),
    ("IP options", |frame| frame[14] = 0x46),
    ("IP of another version", |frame| frame[14] = 0x65),
    ("the first of several fragments", |frame| frame[20] |= 0x20),
    ("a later fragment", |frame| frame[21] = 1),
    ("a length of UDP that is not IP's", |frame| frame[39] ^= 1),
    ("a frame that is cut off", |frame| frame.truncate(60)),
    ("no more than an Ethernet header", |frame| frame.truncate(14)),
];

#[test]
#[ignore = "needs root"]
fn what_is_not_ours_goes_to_the_stack_as_it_came_and_is_not_counted() {
    let kernel = Kernel::load(1 << 20);
    let ours = frame::write(SOURCE, AGGREGATOR, 1, &[0; 100]);
    for (what, change) in CHANGES {
        let mut frame = ours.clone();
        change(&mut frame);
        let run = kernel.run(&frame);
        assert_eq!((run.verdict, run.frame), (XDP_PASS, frame), "{what}");
    }
    assert_eq!(kernel.counted().all(), 0);
    assert_eq!(kernel.run(&ours).verdict, XDP_DROP);
    assert_eq!(kernel.counted().all(), 1);
}
