//! What one packet leads to.

use crate::generation::Effect;

/// To whom a packet goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum To {
    /// Back to where the handled packet came from.
    Sender,
    /// To every member of the job with this key.
    Members(u64),
    /// To the parent of the job with this key.
    Parent(u64),
}

/// A packet to send.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelSend {
    /// To whom.
    pub to: To,
    /// The exact bytes.
    pub bytes: Vec<u8>,
}

/// What one packet leads to: exactly one counter is raised by one, and at most one packet is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ModelVerdict {
    /// The counter's name.
    pub counter: &'static str,
    /// What is sent.
    pub send: Option<ModelSend>,
}

impl ModelVerdict {
    /// What an effect is on the wire.
    pub(crate) fn of(effect: Effect) -> Self {
        let (counter, send) = match effect {
            Effect::Quiet(counter) => (counter, None),
            Effect::Reply(counter, packet) => (counter, Some((To::Sender, packet))),
            Effect::ToAll(counter, packet) => (counter, Some((To::Members(packet.key), packet))),
            Effect::Up(counter, packet) => (counter, Some((To::Parent(packet.key), packet))),
        };
        Self {
            counter,
            send: send.map(|(to, packet)| ModelSend {
                to,
                bytes: packet.emit(),
            }),
        }
    }

    /// Counted, and nothing sent.
    pub fn quiet(counter: &'static str) -> Self {
        Self { counter, send: None }
    }
}
