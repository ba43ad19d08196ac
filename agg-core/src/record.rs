//! A job and its members as plain words, for memory that another program reads: an eBPF map, a shared segment.
//!
//! Their layout is C's, without padding, and any bytes at all can be read: nothing relies on two compilers laying out an
//! enumeration alike.

use bytemuck::{Pod, Zeroable};

use crate::job::{Abort, AbortCause, Job, Member, Parent};
use crate::{Endpoint, Epoch, MemberSet, Policy};

/// A [`Job`] in words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct JobRecord {
    expected: u64,
    excluded: u64,
    late: u64,
    /// Of a quorum.
    grace: u64,
    parent_ip: [u8; 16],
    epoch: u32,
    parent_epoch: u32,
    window: u16,
    generations: u16,
    parent_port: u16,
    /// 0: the policy is All.
    quorum: u8,
    parent_member: u8,
    /// Whether there is a parent.
    is_leaf: u8,
    suspended: u8,
    /// 0: it was not aborted.
    abort_cause: u8,
    abort_member: u8,
    spills: u8,
    reserved: [u8; 3],
}

/// A [`Member`] in words.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct MemberRecord {
    set: u64,
    ip: [u8; 16],
    workers: u32,
    port: u16,
    reserved: [u8; 2],
}

impl From<&Job> for JobRecord {
    fn from(job: &Job) -> Self {
        let (quorum, grace) = match job.policy {
            Policy::All => (0, 0),
            Policy::Quorum { members, grace } => (members, grace),
        };
        let mut record = Self {
            expected: job.expected.0,
            excluded: job.excluded.0,
            late: job.late.0,
            grace,
            epoch: job.epoch.0,
            window: job.window,
            generations: job.generations,
            quorum,
            suspended: u8::from(job.suspended),
            spills: u8::from(job.spills),
            ..Self::zeroed()
        };
        if let Some(parent) = &job.parent {
            record.is_leaf = 1;
            record.parent_ip = parent.source.ip;
            record.parent_port = parent.source.port;
            record.parent_member = parent.member;
            record.parent_epoch = parent.epoch.0;
        }
        if let Some(abort) = job.abort {
            record.abort_cause = match abort.cause {
                AbortCause::LostMember => 1,
                AbortCause::MemberFailed => 2,
                AbortCause::Ended => 3,
            };
            record.abort_member = abort.member;
        }
        record
    }
}

impl JobRecord {
    /// The job that the words state.
    #[inline(always)]
    pub fn job(&self) -> Job {
        let cause = match self.abort_cause {
            0 => None,
            1 => Some(AbortCause::LostMember),
            2 => Some(AbortCause::MemberFailed),
            _ => Some(AbortCause::Ended),
        };
        Job {
            epoch: Epoch(self.epoch),
            expected: MemberSet(self.expected),
            excluded: MemberSet(self.excluded),
            late: MemberSet(self.late),
            window: self.window,
            generations: self.generations,
            policy: if self.quorum == 0 {
                Policy::All
            } else {
                Policy::Quorum {
                    members: self.quorum,
                    grace: self.grace,
                }
            },
            parent: (self.is_leaf != 0).then_some(Parent {
                source: Endpoint {
                    ip: self.parent_ip,
                    port: self.parent_port,
                },
                member: self.parent_member,
                epoch: Epoch(self.parent_epoch),
            }),
            spills: self.spills != 0,
            suspended: self.suspended != 0,
            abort: cause.map(|cause| Abort {
                cause,
                member: self.abort_member,
            }),
        }
    }
}

impl From<&Member> for MemberRecord {
    fn from(member: &Member) -> Self {
        Self {
            set: member.set.0,
            ip: member.source.ip,
            workers: member.workers,
            port: member.source.port,
            reserved: [0; 2],
        }
    }
}

impl MemberRecord {
    /// The member that the words state.
    #[inline(always)]
    pub fn member(&self) -> Member {
        Member {
            source: Endpoint {
                ip: self.ip,
                port: self.port,
            },
            set: MemberSet(self.set),
            workers: self.workers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: Endpoint = Endpoint {
        ip: [7; 16],
        port: 0x1234,
    };

    #[test]
    fn a_job_is_read_as_it_was_written() {
        let plain = Job {
            epoch: Epoch(9),
            expected: MemberSet(0b111),
            excluded: MemberSet(0b1000),
            late: MemberSet(1),
            window: 256,
            generations: 64,
            policy: Policy::All,
            parent: None,
            spills: false,
            suspended: false,
            abort: None,
        };
        let parent = Some(Parent {
            source: SOURCE,
            member: 3,
            epoch: Epoch(4),
        });
        let policy = Policy::Quorum {
            members: 2,
            grace: 5_000_000_000,
        };
        let abort = |cause| Some(Abort { cause, member: 255 });
        for job in [
            plain,
            Job { parent, ..plain },
            Job { policy, ..plain },
            Job {
                spills: true,
                suspended: true,
                ..plain
            },
            Job {
                abort: abort(AbortCause::LostMember),
                ..plain
            },
            Job {
                abort: abort(AbortCause::MemberFailed),
                ..plain
            },
            Job {
                abort: abort(AbortCause::Ended),
                ..plain
            },
        ] {
            assert_eq!(JobRecord::from(&job).job(), job);
        }
    }

    #[test]
    fn a_member_is_read_as_it_was_written() {
        let member = Member {
            source: SOURCE,
            set: MemberSet(0xff00),
            workers: 8,
        };
        assert_eq!(MemberRecord::from(&member).member(), member);
    }
}
