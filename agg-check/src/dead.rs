//! Packets that can do nothing any more.
//!
//! They are taken out of the network, or states would differ by their whole past. Whether a packet is dead is judged
//! by the state of one party, by rules stated here and *checked* at the end of an exploration
//! ([`crate::world::World::verify_dead`]): on every state of that party that was found, a packet that the rules call
//! dead changes nothing and brings nothing new, and on every state that follows it is called dead again.

use agg_core::Epoch;
use agg_core::wire::{Flags, Header, Kind, Refusal};

use crate::member::Member;
use crate::node::{Held, Node, is_of};

/// Whether a packet from an aggregator is dead to a member: of an older epoch, or of a round that it has the result
/// of. A Want of just that round is alive, for it is answered, and so is one of a higher epoch, which moves the member.
pub fn to_member(header: &Header, member: &Member) -> bool {
    let latest = member.latest(header.slot);
    let old = header.epoch < member.epoch();
    let past = latest.is_some_and(|latest| latest.is_after(header.round));
    member.is_dead()
        || match (header.kind, Refusal::from_wire(header.scale.0)) {
            (Kind::Data, _) => old || latest.is_some_and(|latest| !header.round.is_after(latest)),
            (Kind::Want, _) => old || (header.epoch == member.epoch() && past),
            // That it is to register again the model says itself.
            (Kind::Refusal, Some(Refusal::Reform)) => true,
            (Kind::Refusal, Some(Refusal::Epoch)) => header.epoch <= member.epoch(),
            (Kind::Refusal, _) => false,
        }
}

/// Whether a member's packet is dead to an aggregator of epoch `node` by the state of its sender: it is of an older
/// epoch and can bring only a refusal that is dead to the sender.
pub fn from_member(header: &Header, node: Epoch, member: &Member) -> bool {
    header.epoch < node && member.epoch() >= node
}

/// Whether a packet of the member `sender` is dead to an aggregator: of an older round, of a complete generation (whose
/// result went to every member when it became complete), or a first send that is merged already. Under a quorum it must
/// also have said all that it says of its sender's past, and what is merged may yet let a generation go. Where there is a
/// store, a generation can be emptied in its round, so that only older rounds are dead.
///
/// Where the model has replaced an aggregator, all packets of older epochs are: it puts the refusals that they bring
/// into the network at once. What comes from nobody who is a member is, too.
pub fn to_node(header: &Header, node: &Node, sender: Option<u8>) -> bool {
    let job = node.job();
    let Some(sender) = sender.filter(|sender| !job.suspended && !job.excluded.contains(*sender)) else {
        return true;
    };
    if header.member != sender || header.epoch != job.epoch {
        return header.member != sender || node.topology() > 0 && header.epoch < job.epoch;
    }
    let Some(held) = node.held(header) else {
        return false;
    };
    let quorum = job.policy.keeps_history();
    let past = |held: Held| !header.round.is_after(held.round) || held.past.contains(sender);
    if quorum && !node.used(header.slot).all(past) {
        return false;
    }
    let first_send = !header.flags.has(Flags::RESEND) && !header.flags.has(Flags::RESULT);
    // After a death a chunk can be of another operation, or another one of it, than in another history.
    let same = held.is_of == is_of(header);
    let merged = !quorum && same && first_send && held.set.contains(sender);
    let settled = !job.spills && (held.complete || merged);
    held.round.is_after(header.round) || (held.round == header.round && settled)
}

/// Whether what a store says is dead to its aggregator: it is of an older round.
pub fn from_store(header: &Header, node: &Node) -> bool {
    node.held(header)
        .is_some_and(|held| held.round.is_after(header.round))
}

/// Whether a packet of the parent is dead to a leaf: of another epoch or an older round, or the result of a generation that is
/// complete.
pub fn to_leaf(header: &Header, node: &Node) -> bool {
    let job = node.job();
    let Some(parent) = job.parent.filter(|_| !job.suspended) else {
        return true;
    };
    let known = header.kind == Kind::Refusal && Refusal::from_wire(header.scale.0) == Some(Refusal::Epoch);
    if header.epoch != parent.epoch || known {
        return header.epoch <= parent.epoch;
    }
    node.held(header).is_some_and(|held| {
        let complete = header.kind == Kind::Data && held.complete;
        held.round.is_after(header.round) || (held.round == header.round && complete)
    })
}
