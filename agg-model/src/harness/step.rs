//! Steps of a test, small enough to read when a failing sequence was shrunk.

/// One step. Numbers that pick something (a job, a member, a slot) wrap around what there is.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Step {
    /// A contribution, correct but for its oddities.
    Contribute(Contribution),
    /// The packet sent that many packets ago comes once more.
    Again(u8),
    /// Bytes as they are, from a member of a job.
    Raw {
        /// The job.
        job: u8,
        /// The member.
        member: u8,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Time passes: this many times 250 µs, so that pauses of 1 ms end exactly, early and late.
    Wait(u8),
    /// A job is aborted.
    Abort {
        /// The job.
        job: u8,
        /// Which of the reasons.
        reason: u8,
        /// Whom it names.
        member: u8,
    },
    /// A leaf's parent sends something.
    Down(Down),
    /// The store says that it keeps what it was given so many puts ago.
    Stored(u8),
    /// It gives that back.
    Recalled(u8),
    /// A job's store is lost.
    StoreLost(u8),
    /// A job is suspended.
    Suspend(u8),
    /// A job is admitted anew, an epoch on, with empty slots.
    Reform(u8),
    /// A member is removed.
    Exclude {
        /// The job.
        job: u8,
        /// The member.
        member: u8,
    },
    /// A job is forgotten.
    Release(u8),
    /// A job of the setup comes (again).
    Admit(u8),
    /// The aggregator starts anew, a few epochs on, and takes all jobs in again.
    Restart(u8),
}

/// What a member contributes.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
#[expect(missing_docs, reason = "as in the packet")]
pub struct Contribution {
    pub job: u8,
    pub member: u8,
    pub slot: u8,
    pub round: RoundPick,
    pub resend: bool,
    pub next: i8,
    /// Of this its values are made.
    pub values: u8,
    pub oddities: Vec<Oddity>,
}

/// What a parent sends to a leaf.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
#[expect(missing_docs, reason = "as in the packet")]
pub struct Down {
    pub job: u8,
    pub slot: u8,
    pub round: RoundPick,
    pub says: Says,
    /// Among the parent's members.
    pub set: u64,
    /// Of this its values are made.
    pub values: u8,
    pub oddities: Vec<Oddity>,
}

/// What a packet from the parent is.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Says {
    /// A result.
    Result,
    /// A Want.
    Want,
    /// A refusal of this reason.
    Refusal(i8),
}

/// A round, as seen from the newest one of the slot.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum RoundPick {
    /// That one.
    Newest,
    /// So much after or before it.
    Off(i8),
    /// Half the round space on, and so much more or less (R-CHUNK-4).
    Half(i8),
    /// Any.
    Any(u32),
}

/// One thing that is not as a correct contribution has it. All but `Flip` keep the check right.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub enum Oddity {
    /// A RESULT with the whole expected set and all workers.
    Result,
    /// Not UP.
    Down,
    /// Another kind, known or unknown.
    Kind(u8),
    /// These flags are the other way round.
    Flags(u8),
    /// Another member's number, its source staying.
    Member(u8),
    /// The set of another member, its workers too.
    SetOf(u8),
    /// Any set.
    Set(u64),
    /// Any number of workers.
    Workers(u32),
    /// Another job's key.
    JobKey(u8),
    /// Any key.
    Key(u64),
    /// The source of another member.
    SourceOf(u8),
    /// The port is another one.
    Port(u16),
    /// An epoch before or after.
    Epoch(i8),
    /// Another operation.
    Op(u8),
    /// Another kind of operation, which may be none.
    OpKind(u8),
    /// Another number of the operation.
    OpSeq(u8),
    /// Another scale.
    Scale(i16),
    /// Any next exponent.
    Next(i16),
    /// Sent by the parent of another job, or by this one's.
    SourceOfParent(u8),
    /// The epoch of the parent.
    EpochOfParent,
    /// Values not finite.
    NonFinite,
    /// HEADER_ONLY turned round, with the values that fit it.
    OtherShape,
    /// Any slot.
    Slot(u16),
    /// So many bytes are missing at the end.
    Shorter(u16),
    /// So many bytes more at the end.
    Longer(u8),
    /// A bit of the packet is flipped on the way.
    Flip(u16),
    /// A bit of the header is wrong from the start, its check computed over it.
    Wrong(u16),
}
