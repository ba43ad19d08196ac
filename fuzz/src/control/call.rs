//! What can happen to the control service, in steps that a fuzzer makes of bytes.

use arbitrary::Arbitrary;

/// A whole run.
#[derive(Arbitrary, Debug)]
pub struct Input {
    /// Of the host's shards: 1 to 4.
    pub shards: u8,
    /// Which of the chunk sizes the host has, a bit each; none is a broken host.
    pub lanes: u8,
    /// Slot memory of a shard, in units of 32 KiB.
    pub memory: u8,
    /// Receive buffer of a shard.
    pub receive_buffer: u32,
    /// Every how many admissions one fails for a reason of the host's own; 0: none.
    pub failing: u8,
    /// Worlds that may wait, and jobs that may be: 1 to 4.
    pub limits: (u8, u8),
    /// Whether data addresses may differ from that of the caller.
    pub any_address: bool,
    /// What happens.
    pub steps: Vec<Step>,
}

/// One thing that happens.
#[derive(Arbitrary, Debug)]
pub struct Step {
    /// The time since the step before, in units of 16 ms; clocks may run backwards.
    pub wait: i16,
    /// What.
    pub call: Call,
}

/// A request or another event.
#[derive(Arbitrary, Debug)]
pub enum Call {
    /// A registration that is more or less right.
    Register(Seat),
    /// All ranks of a world, alike but for their numbers.
    World(Seat),
    /// A registration of any bytes, from the address of a rank.
    RegisterBytes(u8, Vec<u8>),
    /// A heartbeat.
    Heartbeat(Sender, u64),
    /// One of any bytes.
    HeartbeatBytes(Vec<u8>),
    /// A rank leaves.
    Leave(Sender),
    /// The same of any bytes.
    LeaveBytes(Vec<u8>),
    /// A rank gives up.
    Abort(Sender, String),
    /// The same of any bytes.
    AbortBytes(Vec<u8>),
    /// Somebody looks for the outcome of a registration.
    Poll(u8),
    /// The time of a registration, in ms, is over.
    GiveUp(u8, u32),
    /// The caller of a registration has gone.
    Withdraw(u8),
    /// The aggregator looks for lost ranks.
    Tick,
    /// It takes no new worlds.
    Drain,
    /// It ends.
    Close,
    /// A client is answered with any bytes.
    Answer(Vec<u8>),
}

/// A rank that registers. Most numbers are few, so that ranks meet.
#[derive(Arbitrary, Debug)]
pub struct Seat {
    /// One of four names.
    pub world: u8,
    /// Ranks, 0 to 5, or 64 or 65.
    pub size: u8,
    /// Its rank.
    pub rank: u8,
    /// Which process it is, one of two; one in four has no nonce.
    pub process: u8,
    /// Its number of addresses, 0 to 4.
    pub streams: u8,
    /// One of some addresses that may not be its own, or nobody's, instead of its first.
    pub odd_address: Option<u8>,
    /// What its path carries.
    pub max_datagram: u16,
    /// Its receive buffer.
    pub receive_buffer: u32,
    /// The chunk size it asks for: none, one that exists, or any.
    pub lanes: Option<u16>,
    /// The window it asks for.
    pub window: Option<u32>,
}

/// Who says that it is a member.
#[derive(Arbitrary, Debug)]
pub struct Sender {
    /// Of all jobs that ever were, which.
    pub job: u8,
    /// Its rank.
    pub rank: u8,
    /// Its process.
    pub process: u8,
}
