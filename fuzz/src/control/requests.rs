//! Requests as ranks and child aggregators send them, more or less right.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use agg_control::{OnLost, Policy, Registered, Registration, Resume};

use super::session::LANES;
use super::{Again, Seat, Way};

/// Addresses that some rank, or none, may use.
const ODD_ADDRESSES: [&str; 6] = [
    "10.0.0.1:5100",
    "[::ffff:10.0.0.2]:5100",
    "0.0.0.0:5100",
    "255.255.255.255:5100",
    "[ff02::1]:5100",
    "10.0.0.1:0",
];
const NAMES: [&str; 4] = ["a", "resnet", "", "two\nlines"];
/// Most worlds are small. 65 workers are too many for one aggregator, 4097 for a tree.
const SIZES: [u32; 8] = [0, 1, 2, 3, 4, 5, 65, 4097];
/// Keys of jobs that never ran here: those have the highest bit.
const STRANGE_KEYS: [u64; 2] = [0, 5];

/// The address of a rank.
pub(super) fn ip(rank: u32) -> IpAddr {
    IpAddr::from([10, 0, 0, rank as u8 + 1])
}

pub(super) fn first_registration(seat: &Seat) -> Registration {
    let size = SIZES[usize::from(seat.size % 8)];
    let rank = u32::from(seat.rank % 6);
    let child = seat.ranks.is_some();
    let ranks = match seat.ranks {
        None => vec![rank],
        Some(mask) => masked(mask, size),
    };
    let first = ranks.first().copied().unwrap_or(0);
    let policy = match seat.quorum {
        None => Policy::All,
        Some((members, history)) => Policy::Quorum {
            members: members % 8,
            grace: Duration::from_millis(5),
            history_bytes: u64::from(history) << 15,
        },
    };
    Registration {
        world: NAMES[usize::from(seat.world) % NAMES.len()].into(),
        size,
        nonce: nonce(first, child, seat.process),
        endpoints: addresses(first, child, seat.process, seat).collect(),
        ranks,
        child,
        max_datagram: seat.max_datagram.into(),
        receive_buffer: seat.receive_buffer.into(),
        slot_memory: seat
            .slot_memory
            .filter(|_| child)
            .map(|units| u64::from(units) << 15),
        lanes: seat.lanes.map(|lanes| match lanes {
            0..=4 => LANES[usize::from(lanes)].into(),
            other => other.into(),
        }),
        window: seat.window,
        policy,
        on_lost: if seat.shrinks {
            OnLost::Shrink
        } else {
            OnLost::Abort
        },
        weight: seat.weight % 1002,
        priority: seat.priority % 4,
        wait: Duration::from_secs(1),
        resume: None,
    }
}

/// All ranks of a world, one by one, or those of the mask.
pub(super) fn each_rank(seat: &Seat, mask: Option<u8>) -> Vec<Registration> {
    let mut alike = first_registration(seat);
    alike.child = false;
    let ranks = mask.map_or_else(
        || (0..alike.size.min(65)).collect(),
        |mask| masked(mask, alike.size),
    );
    let with = |rank: u32| Registration {
        ranks: vec![rank],
        nonce: nonce(rank, false, seat.process),
        endpoints: addresses(rank, false, seat.process, seat).collect(),
        ..alike.clone()
    };
    ranks.into_iter().map(with).collect()
}

/// What a member that was answered sends when it comes back: more than one registration if it was a child aggregator
/// and its ranks come directly.
pub(super) fn again(before: &Registration, answer: &Registered, again: &Again) -> Vec<Registration> {
    let resume = Some(resume(answer, before.rank(), again));
    let moved = |ranks: Vec<u32>, child: bool| {
        let first = ranks.first().copied().unwrap_or(0);
        let count = before.endpoints.len() as u16;
        Registration {
            nonce: nonce(first, child, 2),
            endpoints: (0..count)
                .map(|stream| SocketAddr::new(ip(first), port(child, 2) + stream))
                .collect(),
            ranks,
            child,
            resume: resume.clone(),
            ..before.clone()
        }
    };
    match again.way {
        Way::Same => vec![Registration {
            resume,
            ..before.clone()
        }],
        Way::Restarted => vec![moved(before.ranks.clone(), before.child)],
        Way::Directly => before
            .ranks
            .iter()
            .take(6)
            .map(|rank| moved(vec![*rank], false))
            .collect(),
        Way::Behind => {
            let mut ranks = before.ranks.clone();
            // It has another rank as well, which may be lost, or elsewhere.
            ranks.extend(
                ranks
                    .last()
                    .map(|last| last + 1)
                    .filter(|next| *next < before.size),
            );
            vec![moved(ranks, true)]
        }
    }
}

/// What ranks know of a job that ran elsewhere.
pub(super) fn of_a_stranger(request: &Registration, again: &Again) -> Resume {
    let terms = Registered {
        key: STRANGE_KEYS[usize::from(again.member != 0)],
        epoch: 3,
        member: 0,
        members: vec![request.ranks.clone()],
        workers: 1,
        lanes: LANES[usize::from(again.member) % LANES.len()],
        window: 2 << (again.member % 4),
        generations: 2,
        streams: request.endpoints.len() as u16,
        heartbeat: Duration::from_secs(1),
        lost_after: Duration::from_secs(10),
        policy: Policy::All,
        boundary: None,
    };
    resume(&terms, request.rank(), again)
}

fn resume(answer: &Registered, rank: u32, again: &Again) -> Resume {
    let operations = u32::from(again.operations) + rank % 2;
    let epoch = match again.epoch {
        i8::MIN..-120 => u32::MAX - u32::from(again.epoch.unsigned_abs() % 4),
        change => answer.epoch.saturating_add_signed(change.into()),
    };
    let mut resume = Resume {
        key: answer.key,
        epoch,
        lanes: answer.lanes,
        window: answer.window,
        generations: answer.generations,
        streams: answer.streams,
        operations,
        next_chunks: vec![10 * u64::from(operations); answer.streams.into()],
    };
    match again.wrong {
        1 => resume.key ^= 1 << 63,
        2 => resume.window = resume.window.wrapping_mul(2),
        3 => resume.lanes = LANES[usize::from(again.member) % LANES.len()],
        4 => resume.generations = resume.generations.wrapping_mul(2),
        5 => resume.streams = resume.streams.wrapping_add(1),
        6 => resume.next_chunks.push(3),
        7 => resume.next_chunks.fill(u64::MAX),
        8 => resume.operations = u32::MAX,
        _ => {}
    }
    resume
}

/// The ranks below `size` whose bit is set; if none is, all.
fn masked(mask: u8, size: u32) -> Vec<u32> {
    if mask == 0 {
        return (0..size.min(65)).collect();
    }
    (0..size.min(8)).filter(|rank| mask & 1 << rank != 0).collect()
}

/// The data addresses of a member, which follow from its process.
fn addresses(rank: u32, child: bool, process: u8, seat: &Seat) -> impl Iterator<Item = SocketAddr> {
    let first = port(child, process);
    let odd = seat
        .odd_address
        .map(|pick| ODD_ADDRESSES[usize::from(pick) % ODD_ADDRESSES.len()]);
    (0..u16::from(seat.streams % 5)).map(move |stream| {
        let own = SocketAddr::new(ip(rank), first + stream);
        let odd = odd.filter(|_| stream == 0).and_then(|text| text.parse().ok());
        odd.unwrap_or(own)
    })
}

fn port(child: bool, process: u8) -> u16 {
    5000 + 1000 * u16::from(child) + 100 * u16::from(process % 4 / 2)
}

/// A process is one rank's, or an aggregator, which keeps its nonce as its ranks grow.
fn nonce(rank: u32, child: bool, process: u8) -> u64 {
    match (process % 4, child) {
        (3, _) => 0,
        (process, true) => 9000 + u64::from(process / 2),
        (process, false) => 100 * (1 + u64::from(process / 2)) + u64::from(rank),
    }
}
