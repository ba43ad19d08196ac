//! Checks of the reductions that make the exploration small, after it, on every step that it took.

use std::collections::BTreeSet;
use std::sync::Arc;

use agg_core::wire::{Kind, Refusal};

use super::{MemberId, NodeId, Step, Steps, World};
use crate::member::Event;
use crate::network::ClassId;
use crate::packets::PacketId;
use crate::topology::Party;

impl World {
    /// Checks that packets of one class do the same to each member that one of them met, so that one may stand for
    /// all; returns how often that was tried.
    pub fn verify_classes(&self) -> usize {
        let classes = |step: &Step<MemberId>| -> BTreeSet<_> {
            step.first
                .iter()
                .chain(&step.again)
                .map(|packet| self.packets.class(*packet))
                .collect()
        };
        let mut tried = 0;
        for ((id, event), step) in recorded(&self.member_steps) {
            let Event::Take(number) = event else { continue };
            for other in self.packets.all(self.packets.class(number)) {
                let same = self.member_step(id, Event::Take(other));
                let packet = self.packets.packet(other);
                assert_eq!(
                    same.next, step.next,
                    "{packet:?} is not as the others of its class"
                );
                assert_eq!(
                    classes(&same),
                    classes(&step),
                    "{packet:?} is not as the others of its class"
                );
                tried += 1;
            }
        }
        tried
    }

    /// Checks the rules of [`crate::dead`] on every state of a party that was found: what they call dead changes
    /// nothing and brings nothing new, and stays dead in every state that follows. Returns how often one applied.
    pub fn verify_dead(&self) -> usize {
        let classes: Vec<_> = (0..self.packets.classes())
            .map(|class| ClassId(class as u16))
            .collect();
        let mut applied = 0;
        for ((before, _), step) in recorded(&self.member_steps) {
            let (was, is) = (self.member(before), self.member(step.next));
            for class in classes
                .iter()
                .filter(|class| self.is_dead_by_member(**class, &was, was.number()))
            {
                applied += 1;
                assert!(
                    self.is_dead_by_member(*class, &is, was.number()),
                    "{class:?} came to life again"
                );
                self.verify_dead_to_member(before, *class);
            }
        }
        for ((before, _), step) in recorded(&self.node_steps) {
            let (was, is) = (self.nodes.value(before.0), self.nodes.value(step.next.0));
            for class in classes.iter().filter(|class| self.is_dead_by_node(**class, &was)) {
                applied += 1;
                assert!(self.is_dead_by_node(*class, &is), "{class:?} came to life again");
                self.verify_dead_to_node(before, *class);
            }
        }
        applied
    }

    fn verify_dead_to_member(&self, id: MemberId, class: ClassId) {
        for packet in self.packets.all(class) {
            if matches!(self.packets.packet(packet).to, Party::Worker(_)) {
                let step = self.member_step(id, Event::Take(packet));
                assert!(
                    step.next == id && step.first.is_empty(),
                    "{class:?} is not dead to {:?}",
                    self.member(id)
                );
            }
        }
    }

    /// What a dead packet brings was brought before: the result of its own slot and round, or a refusal of its epoch; or
    /// it is a refusal that says what the model says itself.
    fn verify_dead_to_node(&self, id: NodeId, class: ClassId) {
        let dead = self.packets.first(class);
        let header = self.packets.packet(dead).header();
        let is_old = |answer: &PacketId| {
            let answer = self.packets.packet(*answer).header();
            match (answer.kind, Refusal::from_wire(answer.scale.0)) {
                (Kind::Data, _) => (answer.slot, answer.round) == (header.slot, header.round),
                (Kind::Refusal, Some(Refusal::Reform | Refusal::Excluded)) => true,
                (Kind::Refusal, _) => header.epoch < answer.epoch,
                (Kind::Want, _) => false,
            }
        };
        for event in self.ways(dead) {
            let step = self.node_step(id, event);
            assert!(
                step.next == id && step.first.iter().all(is_old),
                "{:?} is not dead to {:?}",
                self.packets.packet(dead),
                self.nodes.value(id.0)
            );
        }
    }
}

fn recorded<C: Copy, I>(steps: &Steps<C, I>) -> Vec<(C, Arc<Step<I>>)> {
    let steps = steps.read().expect("no panic under the lock");
    steps
        .iter()
        .map(|(cause, step)| (*cause, Arc::clone(step)))
        .collect()
}
