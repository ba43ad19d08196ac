//! A job: who may send what (R-VALID), and how it is cut into chunks.

use core::net::{IpAddr, SocketAddr};

use heapless::Vec;

use crate::round::{GENERATIONS, MAX_GENERATIONS};
use crate::wire::{Flags, Header, Kind, NO_MEMBER, Refusal};
use crate::{Counter, Epoch, Exponent, MAX_MEMBERS, MemberSet, Policy};

/// Where packets come from: an IPv6 address (IPv4 as mapped) and a UDP port.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Endpoint {
    /// The address in network byte order.
    pub ip: [u8; 16],
    /// The UDP port.
    pub port: u16,
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        let ip = match address.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
            IpAddr::V6(ip) => ip.octets(),
        };
        Self {
            ip,
            port: address.port(),
        }
    }
}

/// A member of a job: a worker, or a child aggregator that stands for several.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    /// The only address that it sends from (R-VALID-4).
    pub source: Endpoint,
    /// The set that its contributions hold: its own bit, or a child's whole local set.
    pub set: MemberSet,
    /// How many workers that set stands for.
    pub workers: u32,
}

/// The chunk sizes that exist, in 32-bit lanes. Each is a constant of its own code path (R-CHUNK-5).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum Lanes {
    /// 64 B: for tests and very small devices.
    L16 = 16,
    /// 1 KiB: fits any MTU from 1128 up.
    L256 = 256,
    /// 1408 B: fits an MTU of 1500 over IPv4.
    L352 = 352,
    /// 3392 B: the largest that native XDP takes on an interface without fragments.
    L848 = 848,
    /// 8 KiB: for jumbo frames.
    L2048 = 2048,
    /// 32 KiB: for loopback.
    L8192 = 8192,
}

impl Lanes {
    /// Every size, the smallest first.
    pub const ALL: [Self; 6] = [
        Self::L16,
        Self::L256,
        Self::L352,
        Self::L848,
        Self::L2048,
        Self::L8192,
    ];

    /// The size with this number of lanes, if there is one.
    pub fn from_count(count: u16) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|lanes| lanes.count() == usize::from(count))
    }

    /// The number of lanes.
    #[inline(always)]
    pub const fn count(self) -> usize {
        self as u16 as usize
    }
}

/// Where a leaf's sums go: the aggregator of which it is a member itself (R-LEAF).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Parent {
    /// The only address that the parent's packets come from.
    pub source: Endpoint,
    /// This leaf's number among the parent's members.
    pub member: u8,
    /// The parent's epoch, which packets to it carry.
    pub epoch: Epoch,
}

/// A job to be admitted.
#[derive(Clone, Debug)]
pub struct JobConfig {
    /// A random key, not 0; the same on every level of a tree.
    pub key: u64,
    /// This aggregator's epoch for the job, above that of every earlier one that its members have known (R-EPOCH-1).
    pub epoch: Epoch,
    /// The members in the order of their numbers.
    pub members: Vec<Member, MAX_MEMBERS>,
    /// The chunk size.
    pub lanes: Lanes,
    /// Chunks in flight: the number of slots, a power of two.
    pub window: u16,
    /// Rounds that a slot remembers, a power of two: [`crate::round::GENERATIONS`], under a quorum up to
    /// [`crate::round::MAX_GENERATIONS`] (R-QUORUM-3).
    pub generations: u16,
    /// When a slot is complete.
    pub policy: Policy,
    /// The next level; `None` at the root.
    pub parent: Option<Parent>,
    /// Chunks of near memory, where they are fewer than window times generations: the host has a store for the rest
    /// (R-SPILL). Not at a leaf, and not under a quorum.
    pub frames: Option<u32>,
}

/// Why a job was aborted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AbortCause {
    /// A member was not heard for too long.
    LostMember,
    /// A member gave up, or left while others went on.
    MemberFailed,
    /// The aggregator's operator ended the job.
    Ended,
}

/// The end of a job for all its members (R-JOB-2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Abort {
    /// Why.
    pub cause: AbortCause,
    /// The member that it is about, or [`crate::wire::NO_MEMBER`].
    pub member: u8,
}

impl Abort {
    /// As a refusal on the wire.
    #[inline(always)]
    pub const fn refusal(self) -> Refusal {
        match self.cause {
            AbortCause::LostMember => Refusal::LostMember,
            AbortCause::MemberFailed => Refusal::MemberFailed,
            AbortCause::Ended => Refusal::Ended,
        }
    }
}

/// Why a job cannot be admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AdmitError {
    /// Not 1 to 64 members, or a member whose set is empty.
    Members,
    /// The window is no power of two from 1 to 2^15.
    Window(u16),
    /// The generations are no power of two from 2 to 64, or more than 2 without a quorum.
    Generations(u16),
    /// Fewer than 2 frames, or a store at a leaf or under a quorum.
    Frames(u32),
    /// A quorum of no member or of more than there are, or at a leaf.
    Policy(Policy),
    /// The key is 0 or taken.
    Key,
    /// All places in the job table are taken.
    Jobs(usize),
    /// The slots do not fit: bytes needed and the largest free extent.
    Memory {
        /// Bytes that the job's slots take.
        needed: u64,
        /// Bytes of the largest free extent.
        free: u64,
    },
}

/// What an aggregator knows of a running job, besides its members and slots: a few words that an eBPF map holds.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Job {
    /// The job's epoch at this aggregator.
    pub epoch: Epoch,
    /// The members that a slot is complete with.
    pub expected: MemberSet,
    /// Members that were removed: they are refused, and not expected (R-QUORUM-5).
    pub excluded: MemberSet,
    /// Under a quorum the members that missed a slot and have not been in time since: no slot waits out its grace for
    /// them (R-QUORUM-1).
    pub late: MemberSet,
    /// The number of slots.
    pub window: u16,
    /// Rounds that a slot remembers.
    pub generations: u16,
    /// When a slot is complete.
    pub policy: Policy,
    /// The next level; `None` at the root.
    pub parent: Option<Parent>,
    /// It has fewer frames than generations, and a store (R-SPILL).
    pub spills: bool,
    /// The members are to register again (R-REFORM-1).
    pub suspended: bool,
    /// Set when the job was aborted.
    pub abort: Option<Abort>,
}

/// From where a packet comes to a job.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From a member.
    Up,
    /// From the parent.
    Down,
}

/// Why a packet does not reach a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rejection {
    /// Dropped and counted, never answered.
    Drop(Counter),
    /// Answered with a refusal.
    Refuse(Refusal),
}

impl JobConfig {
    /// Whether an aggregator can take it in at all, memory apart.
    pub fn check(&self) -> Result<(), AdmitError> {
        if self.members.is_empty() || self.members.iter().any(|member| member.set.is_empty()) {
            return Err(AdmitError::Members);
        }
        if !self.window.is_power_of_two() {
            return Err(AdmitError::Window(self.window));
        }
        self.check_policy()?;
        if self.key == 0 {
            return Err(AdmitError::Key);
        }
        Ok(())
    }

    /// R-QUORUM-1, R-QUORUM-3: what a policy needs of a job.
    fn check_policy(&self) -> Result<(), AdmitError> {
        let most = match self.policy {
            Policy::All => GENERATIONS,
            Policy::Quorum { members, .. } => {
                let possible = (1..=self.members.len()).contains(&usize::from(members));
                if !possible || self.parent.is_some() {
                    return Err(AdmitError::Policy(self.policy));
                }
                MAX_GENERATIONS
            }
        };
        if let Some(frames) = self.frames
            && (frames < 2 || self.parent.is_some() || self.policy.keeps_history())
        {
            return Err(AdmitError::Frames(frames));
        }
        if !self.generations.is_power_of_two() || !(GENERATIONS..=most).contains(&self.generations) {
            return Err(AdmitError::Generations(self.generations));
        }
        Ok(())
    }

    /// The job as it begins.
    pub fn job(&self) -> Job {
        let sets = self.members.iter().map(|member| member.set);
        Job {
            epoch: self.epoch,
            expected: sets.fold(MemberSet::EMPTY, MemberSet::union),
            excluded: MemberSet::EMPTY,
            late: MemberSet::EMPTY,
            window: self.window,
            generations: self.generations,
            policy: self.policy,
            parent: self.parent,
            spills: self.frames.is_some(),
            suspended: false,
            abort: None,
        }
    }
}

impl Job {
    /// Whether a packet may reach its slot, and which way it comes: [`Self::authorize`] or [`Self::authorize_down`].
    #[inline(always)]
    pub fn way(&self, header: &Header, member: Option<&Member>, source: &Endpoint) -> Result<Way, Rejection> {
        if self.parent.is_some() && !header.flags.has(Flags::UP) {
            return match self.authorize_down(header, source) {
                Ok(()) => Ok(Way::Down),
                Err(counter) => Err(Rejection::Drop(counter)),
            };
        }
        self.authorize(header, member, source).map(|()| Way::Up)
    }

    /// The answer to a packet that is refused before it reaches a slot: of an old epoch, or of a job that does not run.
    #[inline(always)]
    pub fn refusal(&self, header: &Header, refusal: Refusal) -> Header {
        let member = match self.abort {
            Some(abort) if abort.refusal().to_wire() == refusal.to_wire() => abort.member,
            _ => NO_MEMBER,
        };
        Header {
            kind: Kind::Refusal,
            flags: Flags::NONE,
            member,
            epoch: self.epoch,
            scale: Exponent(refusal.to_wire()),
            ..*header
        }
    }

    /// A member is no longer part of it: no slot waits for it any more, and its packets are refused (R-QUORUM-5).
    pub fn exclude(&mut self, member: &Member) {
        self.excluded = self.excluded.union(member.set);
        self.expected = self.expected.without(member.set);
    }

    /// Which generation of all that the job has a packet is for, counted slot by slot.
    #[inline(always)]
    pub const fn generation_of(&self, header: &Header) -> usize {
        header.slot as usize * self.generations as usize + header.round.generation(self.generations)
    }

    /// Whether this packet may reach its slot (R-VALID-3 to R-VALID-8, in this order). `member` is the entry of the
    /// sender that the header names, if there is one.
    #[inline(always)]
    pub fn authorize(
        &self,
        header: &Header,
        member: Option<&Member>,
        source: &Endpoint,
    ) -> Result<(), Rejection> {
        let Some(member) = member else {
            return Err(Rejection::Drop(Counter::DroppedSource));
        };
        if member.source.port != source.port || member.source.ip != source.ip {
            return Err(Rejection::Drop(Counter::DroppedSource));
        }
        if !matches!(header.kind, Kind::Data) || !header.flags.has(Flags::UP) {
            return Err(Rejection::Drop(Counter::DroppedDirection));
        }
        if header.epoch != self.epoch {
            return Err(if header.epoch < self.epoch {
                Rejection::Refuse(Refusal::Epoch)
            } else {
                Rejection::Drop(Counter::DroppedEpoch)
            });
        }
        if let Some(abort) = self.abort {
            return Err(Rejection::Refuse(abort.refusal()));
        }
        if self.suspended {
            return Err(Rejection::Refuse(Refusal::Reform));
        }
        if !member.set.is_disjoint(self.excluded) {
            return Err(Rejection::Refuse(Refusal::Excluded));
        }
        // A result's set and permission are the slot's to check: it knows whether it asked.
        let own = header.set == member.set && header.workers == member.workers;
        if !own && !header.flags.has(Flags::RESULT) {
            return Err(Rejection::Drop(Counter::DroppedSet));
        }
        if header.slot >= self.window {
            return Err(Rejection::Drop(Counter::DroppedSlot));
        }
        if !header.has_known_operation() {
            return Err(Rejection::Drop(Counter::DroppedOperation));
        }
        Ok(())
    }

    /// Whether this packet of the parent may reach its slot (R-VALID-10). It is never answered where it may not.
    #[inline(always)]
    pub fn authorize_down(&self, header: &Header, source: &Endpoint) -> Result<(), Counter> {
        let Some(parent) = &self.parent else {
            return Err(Counter::DroppedDirection);
        };
        if parent.source.port != source.port || parent.source.ip != source.ip {
            return Err(Counter::DroppedSource);
        }
        if header.epoch != parent.epoch {
            return Err(Counter::DroppedEpoch);
        }
        if self.abort.is_some() || self.suspended {
            return Err(Counter::RefusedAborted);
        }
        if header.slot >= self.window {
            return Err(Counter::DroppedSlot);
        }
        if !header.has_known_operation() {
            return Err(Counter::DroppedOperation);
        }
        Ok(())
    }
}
