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
    /// A child aggregator that registers once more with each of its ranks that comes.
    Grow(Seat),
    /// A member that was answered registers again for its job.
    Resume(Again),
    /// All of them do.
    ResumeAll(Again),
    /// Ranks resume a job that never ran here, alike but for their numbers: those of the mask in `seat.ranks`.
    Strangers(Seat, Again),
    /// A registration of any bytes, from the address of a rank.
    RegisterBytes(u8, Vec<u8>),
    /// A heartbeat.
    Heartbeat(Sender, u64),
    /// All members of a job are alive.
    HeartbeatAll(u8),
    /// One of any bytes.
    HeartbeatBytes(Vec<u8>),
    /// A rank leaves.
    Leave(Sender),
    /// The same of any bytes.
    LeaveBytes(Vec<u8>),
    /// A rank gives up.
    Abort(Sender, String),
    /// A child aggregator passes on that its job ended.
    Relay(Sender, u32, String),
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

/// A rank or a child aggregator that registers. Most numbers are few, so that they meet.
#[derive(Arbitrary, Debug)]
pub struct Seat {
    /// One of four names.
    pub world: u8,
    /// Ranks, 0 to 5, or too many for one aggregator, or for any.
    pub size: u8,
    /// Its rank.
    pub rank: u8,
    /// Of a child aggregator: which ranks, a bit each; none stands for all.
    pub ranks: Option<u8>,
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
    /// Of a child aggregator: its slot memory, in units of 32 KiB.
    pub slot_memory: Option<u8>,
    /// The chunk size it asks for: none, one that exists, or any.
    pub lanes: Option<u16>,
    /// The window it asks for.
    pub window: Option<u32>,
    /// Members of a quorum, and its history in units of 32 KiB.
    pub quorum: Option<(u8, u8)>,
    /// The job goes on without lost ranks.
    pub shrinks: bool,
    /// Its weight; most are possible.
    pub weight: u16,
    /// One of four priorities.
    pub priority: u8,
}

/// How a member comes back to its job.
#[derive(Arbitrary, Debug)]
pub struct Again {
    /// Of all that were answered, which.
    pub member: u8,
    /// By which way.
    pub way: Way,
    /// Operations it has completed, beside its rank.
    pub operations: u8,
    /// What it states wrongly, if anything: one of some.
    pub wrong: u8,
    /// Added to its epoch; one value stands for the highest epochs.
    pub epoch: i8,
}

/// By which way a member comes back.
#[derive(Arbitrary, Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// As it came before.
    Same,
    /// As another process at another address.
    Restarted,
    /// Without the aggregator that stood for it, rank by rank.
    Directly,
    /// Behind another child aggregator.
    Behind,
}

/// Who says that it is a member: one that was answered, or nearly.
#[derive(Arbitrary, Debug)]
pub struct Sender {
    /// Of all that were answered, which.
    pub member: u8,
    /// What it states wrongly, if anything: its key, rank or nonce.
    pub wrong: u8,
}
