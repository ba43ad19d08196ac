//! What one packet leads to.

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
    /// Counted, and nothing sent.
    pub fn quiet(counter: &'static str) -> Self {
        Self { counter, send: None }
    }
}
