//! The lines of a trace's JSON file: first the set-up, then one event a line.

use std::net::SocketAddrV4;

use serde::{Deserialize, Serialize};

use crate::vectors::text::{Hex, Word};
use crate::{ModelJob, ModelMember, packet};

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
    /// The aggregator's epoch.
    pub epoch: u32,
    /// Its jobs, all admitted, their slots vacant.
    pub jobs: Vec<JobLine>,
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
    /// The counter that is raised by one; no other changes.
    pub counter: String,
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

impl JobLine {
    /// The job, as the model has it.
    pub fn job(&self) -> ModelJob {
        let member = |member: &MemberLine| ModelMember {
            source: source(member.address),
            set: packet::members(member.set.0),
            workers: member.workers,
        };
        ModelJob {
            key: self.key.0,
            members: self.members.iter().map(member).collect(),
            lanes: usize::from(self.lanes),
            window: self.window,
            aborted: None,
        }
    }
}

/// An IPv4 address as the model has sources.
pub fn source(address: SocketAddrV4) -> crate::Source {
    (address.ip().to_ipv6_mapped().octets(), address.port())
}
