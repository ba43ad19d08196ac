//! Packets that can do nothing any more.
//!
//! They are taken out of the network, or states would differ by their whole past. Whether a packet is dead is judged
//! by the state of one party, by rules stated here and *checked* at the end of an exploration
//! ([`crate::world::World::verify_dead`]): on every state of that party that was found, a packet that the rules call
//! dead changes nothing and brings nothing new, and on every state that follows it is called dead again.

use agg_core::Epoch;
use agg_core::wire::{Flags, Header, Kind, Refusal};

use crate::member::Member;
use crate::node::Node;

/// Whether a packet from an aggregator is dead to a member: of an older epoch, or of a round that it has the result
/// of. A Want of just that round is alive, for it is answered, and so is one of a higher epoch, which moves the member.
pub fn to_member(header: &Header, member: &Member) -> bool {
    let latest = member.latest(header.slot);
    let old = header.epoch < member.epoch();
    let past = latest.is_some_and(|latest| latest.is_after(header.round));
    match header.kind {
        Kind::Data => old || latest.is_some_and(|latest| !header.round.is_after(latest)),
        Kind::Want => old || (header.epoch == member.epoch() && past),
        Kind::Refusal => header.scale.0 == Refusal::Epoch.to_wire() && header.epoch <= member.epoch(),
    }
}

/// Whether a member's packet is dead to an aggregator of epoch `node` by the state of its sender: it is of an older
/// epoch and can bring only a refusal that is dead to the sender.
pub fn from_member(header: &Header, node: Epoch, member: &Member) -> bool {
    header.epoch < node && member.epoch() >= node
}

/// Whether a member's packet is dead to an aggregator: of an older round, of a complete generation (whose result went
/// to every member when it became complete), or a first send that is merged already.
///
/// After a restart all packets of the first epoch are: the model puts the refusals that they bring into the network
/// at once.
pub fn to_node(header: &Header, node: &Node, members: usize, restarted: bool) -> bool {
    if header.epoch != node.epoch() {
        return restarted && header.epoch < node.epoch();
    }
    let Some(held) = node.held(header) else {
        return false;
    };
    let complete = held.set.len() as usize == members;
    let first_send = !header.flags.has(Flags::RESEND) && !header.flags.has(Flags::RESULT);
    let merged = first_send && held.set.contains(header.member);
    held.round.is_after(header.round) || (held.round == header.round && (complete || merged))
}
