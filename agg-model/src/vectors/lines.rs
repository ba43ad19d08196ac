//! The lines of a trace's JSON file: first the set-up, then one event a line.

use std::net::SocketAddrV4;

use serde::{Deserialize, Serialize};

use crate::vectors::text::{Hex, Word};
use crate::{ModelJob, ModelMember, ModelParent, ModelQuorum, packet};

/// The only format so far.
pub const FORMAT: u32 = 1;

/// The first line: the aggregator and its jobs before the first packet.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// [`FORMAT`].
    pub format: u32,
    /// What the trace shows.
    pub about: String,
    /// How many packets it has.
    pub packets: usize,
    /// The epoch of jobs that do not say another.
    pub epoch: u32,
    /// The aggregator's jobs, all admitted, their slots vacant.
    pub jobs: Vec<JobLine>,
}

impl Setup {
    /// The jobs as the model admits them.
    pub fn admitted(&self) -> Vec<ModelJob> {
        self.jobs.iter().map(|job| job.job(self.epoch)).collect()
    }
}

/// A job.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobLine {
    /// Its key.
    pub key: Word,
    /// Lanes of a chunk.
    pub lanes: u16,
    /// Its number of slots.
    pub window: u16,
    /// Its members, in the order of their numbers.
    pub members: Vec<MemberLine>,
    /// Its epoch; the set-up's where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u32>,
    /// The generations of a slot; 2 where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generations: Option<u16>,
    /// Its policy; All where it is missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quorum: Option<QuorumLine>,
    /// The next level, at a leaf.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<ParentLine>,
    /// Chunks of near memory, in a job with a store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u32>,
}

/// The policy Quorum.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QuorumLine {
    /// So many members are enough,
    pub members: u8,
    /// once so many ns have passed.
    pub grace: u64,
}

/// A leaf's parent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParentLine {
    /// Where it sends from.
    pub address: SocketAddrV4,
    /// The leaf's number there.
    pub member: u8,
    /// Its epoch.
    pub epoch: u32,
}

/// A member.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberLine {
    /// Where it sends from.
    pub address: SocketAddrV4,
    /// The set of its contributions.
    pub set: Word,
    /// The workers that it stands for.
    pub workers: u32,
}

/// A further line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Event {
    /// The next packet of the pcap file arrives.
    Packet(Expectation),
    /// A job is aborted.
    Abort(Abort),
    /// A job is suspended.
    Suspend(Suspend),
    /// A member is removed from a job.
    Exclude(Exclude),
    /// A job is admitted.
    Admit(Admit),
    /// A store has confirmed.
    Stored(Stored),
    /// A store gives back.
    Recalled(Recalled),
    /// A store is lost.
    StoreLost(StoreLost),
}

/// A packet, and what must come of it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Its number in the pcap file, from 1.
    pub packet: usize,
    /// When it arrives, in ns.
    pub now: u64,
    /// The rule that it shows.
    pub rule: String,
    /// What it is, in words.
    pub about: String,
    /// The counter that is raised by one; no other changes but `also`, and those of requests to a store.
    pub counter: String,
    /// Another that is raised by one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub also: Option<String>,
    /// To whom a packet is sent, if one is.
    pub verdict: VerdictKind,
    /// That packet, as the payload of a UDP datagram.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Hex>,
}

/// To whom a packet is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum VerdictKind {
    /// To nobody.
    Quiet,
    /// To where the packet came from.
    Reply,
    /// To every member of the job that the output's key names.
    Broadcast,
    /// To the parent of that job.
    Forward,
}

/// The end of a job (R-JOB-2).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Abort {
    /// The job's key.
    pub abort: Word,
    /// The refusal's reason: 4, 5 or 6.
    pub reason: i16,
    /// The member that it is about; 255 for none.
    pub member: u8,
}

/// The members of a job are to register again (R-REFORM-1).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suspend {
    /// The job's key.
    pub suspend: Word,
}

/// A member is expected no more (R-QUORUM-5).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exclude {
    /// The job's key.
    pub exclude: Word,
    /// The member's number.
    pub member: u8,
}

/// A job comes, with vacant slots; one of that key that is there goes (R-REFORM-2).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admit {
    /// The job.
    pub admit: JobLine,
}

/// The store of a job has confirmed that it keeps a sum, as it was when it was put: since the last packet (R-SPILL-2).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stored {
    /// The job's key.
    pub stored: Word,
    /// The slot.
    pub slot: u16,
    /// Its round.
    pub round: u32,
    /// Whose sum.
    pub set: Word,
}

/// The store of a job gives back what it last confirmed of this slot and round (R-SPILL-3).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recalled {
    /// The job's key.
    pub recalled: Word,
    /// The slot.
    pub slot: u16,
    /// Its round.
    pub round: u32,
    /// Whose sum.
    pub set: Word,
    /// When, in ns.
    pub now: u64,
    /// The rule that it shows.
    pub rule: String,
    /// What it is, in words.
    pub about: String,
    /// The counter that is raised by one.
    pub counter: String,
    /// To whom a packet is sent, if one is.
    pub verdict: VerdictKind,
    /// That packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Hex>,
}

/// The store of a job is lost (R-SPILL-4).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoreLost {
    /// The job's key.
    pub store_lost: Word,
}

impl JobLine {
    /// The job, as the model has it; `epoch` is the set-up's.
    pub fn job(&self, epoch: u32) -> ModelJob {
        let member = |member: &MemberLine| ModelMember {
            source: source(member.address),
            set: packet::members(member.set.0),
            workers: member.workers,
        };
        let members = self.members.iter().map(member).collect();
        let mut job = ModelJob::new(self.key.0, members, usize::from(self.lanes), self.window);
        job.epoch = self.epoch.unwrap_or(epoch);
        job.generations = self.generations.unwrap_or(job.generations);
        job.quorum = self.quorum.as_ref().map(|quorum| ModelQuorum {
            members: quorum.members,
            grace: quorum.grace,
        });
        job.frames = self.frames;
        job.parent = self.parent.as_ref().map(|parent| ModelParent {
            source: source(parent.address),
            member: parent.member,
            epoch: parent.epoch,
        });
        job
    }
}

/// An IPv4 address as the model has sources.
pub fn source(address: SocketAddrV4) -> crate::Source {
    (address.ip().to_ipv6_mapped().octets(), address.port())
}
