//! The relay with programs that are not in the kernel.

use std::net::SocketAddrV4;
use std::time::Duration;

use agg_core::wire::{Flags, HEADER_LEN, Header, Kind};
use agg_core::{Epoch, Exponent, MemberSet, Round};
use bpf_layout::{FRAMING, Route};

use super::*;

const KEY: u64 = 77;

/// What a program does: a verdict, and where the frame goes if not where it came to.
#[derive(Clone, Copy)]
struct Fake(u32, Option<SocketAddrV4>);

impl Runner for Fake {
    fn run(&self, frame: &[u8], out: &mut [u8]) -> io::Result<(u32, usize)> {
        out.copy_from_slice(frame);
        if let Some(to) = self.1 {
            out[14 + 16..14 + 20].copy_from_slice(&to.ip().octets());
            out[14 + 22..14 + 24].copy_from_slice(&to.port().to_be_bytes());
        }
        Ok((self.0, FRAMING + HEADER_LEN))
    }
}

fn packet() -> [u8; HEADER_LEN] {
    let header = Header {
        kind: Kind::Data,
        flags: Flags::UP,
        member: 0,
        slot: 1,
        key: KEY,
        epoch: Epoch(1),
        round: Round(0),
        set: MemberSet::single(0),
        workers: 1,
        scale: Exponent::NONE,
        next: Exponent::NONE,
        op: 1 << 56,
        op_seq: 0,
    };
    header.emit()
}

fn socket() -> (UdpSocket, SocketAddrV4) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let SocketAddr::V4(local) = socket.local_addr().unwrap() else {
        unreachable!("bound to an IPv4 address");
    };
    (socket, local)
}

fn got(socket: &UdpSocket) -> bool {
    let mut packet = [0; 100];
    socket.recv(&mut packet).is_ok_and(|len| len == HEADER_LEN)
}

/// Who of sender, member 1 and parent gets what the program makes of a packet of the sender, who is member 0.
fn sent(verdict: u32, to: impl FnOnce(SocketAddrV4, SocketAddrV4) -> Option<SocketAddrV4>) -> [bool; 3] {
    let [sender, member, parent] = [socket(), socket(), socket()];
    let (own, local) = socket();
    let relay = Relay {
        socket: own,
        local,
        runner: Fake(verdict, to(sender.1, parent.1)),
    };
    let way = |peer: SocketAddrV4| (SocketAddr::V4(peer), Route::default());
    let ways = Ways {
        members: vec![way(sender.1), way(member.1)],
        parent: Some(way(parent.1)),
    };
    relay.answer(sender.1, &packet(), |key| (key == KEY).then(|| ways.clone()));
    [sender, member, parent].map(|(socket, _)| got(&socket))
}

#[test]
fn what_the_program_decided_is_done() {
    assert_eq!(sent(XDP_TX, |sender, _| Some(sender)), [true, false, false]);
    assert_eq!(
        sent(XDP_REDIRECT, |_, _| None),
        [true, true, false],
        "to all members"
    );
    assert_eq!(sent(XDP_REDIRECT, |_, parent| Some(parent)), [false, false, true]);
    const XDP_DROP: u32 = 1;
    const XDP_PASS: u32 = 2;
    assert_eq!(sent(XDP_DROP, |_, _| None), [false; 3]);
    assert_eq!(
        sent(XDP_PASS, |_, _| None),
        [false; 3],
        "or it would go round and round"
    );
}

#[test]
fn it_stops_when_told_to() {
    let (own, local) = socket();
    let relay = Relay {
        socket: own,
        local,
        runner: Fake(XDP_TX, None),
    };
    let stop = AtomicBool::new(true);
    relay.serve(|_| None, &stop).unwrap();
}
