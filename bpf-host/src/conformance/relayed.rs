//! Packets whose answer has no room in their frame: they are passed on, and come again in one that has.

use agg_core::wire::Flags;
use agg_core::{Counter, Endpoint, Epoch, JobConfig, Lanes, Member, MemberSet, Parent, Policy};

use bpf_layout::Tally;

use super::frames;
use super::kernel::Kernel;
use super::programs::{XDP_PASS, XDP_REDIRECT, XDP_TX};

const KEY: u64 = 0x1eaf;
const MEMBER: agg_model::Source = ([0xfd; 16], 2000);
const PARENT: agg_model::Source = ([0xfe; 16], 4601);

fn endpoint(source: agg_model::Source) -> Endpoint {
    let (ip, port) = frames::v4(source);
    Endpoint { ip, port }
}

/// A leaf with one member.
fn leaf() -> JobConfig {
    let member = Member {
        source: endpoint(MEMBER),
        set: MemberSet(1),
        workers: 1,
    };
    JobConfig {
        key: KEY,
        epoch: Epoch(1),
        members: std::iter::once(member).collect(),
        lanes: Lanes::L352,
        window: 1,
        generations: 2,
        policy: Policy::All,
        parent: Some(Parent {
            source: endpoint(PARENT),
            member: 3,
            epoch: Epoch(1),
        }),
        frames: None,
    }
}

/// A packet of the member's, with values or without.
fn contribution(flags: Flags) -> Vec<u8> {
    super::contribution::contribution(KEY, flags, Lanes::L352.count())
}

/// A leaf goes silent for a while once it has sent its sum up. What is passed on has sent nothing, and must not silence what
/// comes in its place.
#[test]
#[ignore = "needs root"]
fn what_is_passed_on_for_want_of_room_leaves_its_slot_as_it_was() {
    let mut kernel = Kernel::load(1 << 20);
    kernel.admit(&leaf());
    kernel.set_clock(1_000_000_000);
    let source = frames::address(frames::v4(MEMBER));
    let first = kernel.run(&frames::bare(source, &contribution(Flags::NONE)));
    assert_eq!(first.verdict, XDP_REDIRECT, "the sum goes up");

    kernel.set_clock(1_001_000_000);
    let before = kernel.heads(KEY);
    let again = contribution(Flags::RESEND.with(Flags::HEADER_ONLY));
    assert_eq!(
        kernel.run(&frames::bare(source, &again)).verdict,
        XDP_PASS,
        "the sum has no room"
    );
    assert_eq!(kernel.heads(KEY), before);
    let run = kernel.run(&frames::padded(source, &again));
    assert_eq!(run.verdict, XDP_REDIRECT, "it goes up again");
    assert_eq!(
        run.frame.len(),
        frames::bare(source, &contribution(Flags::NONE)).len()
    );
}

/// At a veth replies are redirected to where their packets came from. What was passed on comes again by no interface at all.
#[test]
#[ignore = "needs root"]
fn what_was_passed_on_is_replied_to_at_a_veth_too() {
    let mut kernel = Kernel::load_at(1 << 20, true);
    kernel.admit(&JobConfig {
        parent: None,
        ..leaf()
    });
    kernel.forget_loopback();
    kernel.set_clock(1_000_000_000);
    let source = frames::address(frames::v4(MEMBER));
    let first = kernel.run(&frames::padded(source, &contribution(Flags::NONE)));
    assert_eq!(first.verdict, XDP_REDIRECT, "the result for all members");
    let again = kernel.run(&frames::padded(source, &contribution(Flags::RESEND)));
    assert_eq!(again.verdict, XDP_TX, "the result once more");
    assert_eq!(frames::target(&again.frame), *source.ip());
    assert_eq!(kernel.counted().of(Counter::Replayed), 1);
    assert_eq!(kernel.counted().tally(Tally::Unsent), 0);
}
