//! Which packets reach a slot (docs/protocol.md, R-VALID), in the document's order.

use std::collections::BTreeSet;

use crate::job::{ModelJob, Source};
use crate::kind::ModelKind;
use crate::packet::{DATA, FROM_AGGREGATOR, ModelPacket, REFUSAL, Unreadable};
use crate::verdict::{ModelSend, ModelVerdict, To};

/// A packet that passed every check.
#[derive(Clone, Debug)]
pub struct Valid {
    /// The packet.
    pub packet: ModelPacket,
    /// Its values; none where it has none.
    pub values: Vec<i32>,
    /// The registered set of the member that sent it; none where the parent did.
    pub sender: Option<BTreeSet<u8>>,
}

type Checked = Result<Valid, ModelVerdict>;

fn drop(counter: &'static str) -> Checked {
    Err(ModelVerdict::quiet(counter))
}

/// The packet, or the verdict of the first check that fails. `job` finds a job by its key.
pub fn check<'a>(bytes: &[u8], source: Source, job: impl Fn(u64) -> Option<&'a ModelJob>) -> Checked {
    // R-VALID-1
    let packet = match ModelPacket::parse(bytes) {
        Ok(packet) => packet,
        Err(Unreadable::Short) => return drop("dropped_bad_length"),
        Err(Unreadable::Foreign) => return drop("dropped_not_tributary"),
        Err(Unreadable::Check) => return drop("dropped_bad_checksum"),
    };
    // R-VALID-2
    match job(packet.key) {
        None => drop("dropped_unknown_job"),
        Some(job) if job.parent.is_some() && !packet.up => from_parent(packet, source, job),
        Some(job) => from_member(packet, source, job),
    }
}

/// R-VALID-3 to R-VALID-9.
fn from_member(packet: ModelPacket, source: Source, job: &ModelJob) -> Checked {
    // R-VALID-3
    let Some(member) = job.members.get(usize::from(packet.member)) else {
        return drop("dropped_wrong_source");
    };
    // R-VALID-4
    if member.source != source {
        return drop("dropped_wrong_source");
    }
    // R-VALID-5
    if packet.kind != DATA || !packet.up {
        return drop("dropped_wrong_direction");
    }
    // R-VALID-6
    if packet.epoch > job.epoch {
        return drop("dropped_wrong_epoch");
    }
    if packet.epoch < job.epoch {
        // It is about no member, also when the job is aborted.
        return refuse(&packet, job, "refused_old_epoch", 3, FROM_AGGREGATOR);
    }
    // R-VALID-7
    if let Some((reason, about)) = job.aborted {
        return refuse(&packet, job, "refused_job_aborted", reason, about);
    }
    if job.suspended {
        return refuse(&packet, job, "refused_job_reforming", 7, FROM_AGGREGATOR);
    }
    if !member.set.is_disjoint(&job.removed) {
        return refuse(&packet, job, "refused_member_removed", 8, FROM_AGGREGATOR);
    }
    // R-VALID-8
    if !packet.result && (&packet.set, packet.workers) != (&member.set, member.workers) {
        return drop("dropped_forbidden_set");
    }
    if packet.slot >= job.window {
        return drop("dropped_bad_slot");
    }
    if ModelKind::of(packet.op).is_none() {
        return drop("dropped_unknown_operation");
    }
    // R-VALID-9
    let Some(values) = packet.values(job.lanes) else {
        return drop("dropped_bad_length");
    };
    let sender = Some(member.set.clone());
    Ok(Valid {
        packet,
        values,
        sender,
    })
}

/// R-VALID-10.
fn from_parent(packet: ModelPacket, source: Source, job: &ModelJob) -> Checked {
    let parent = job.parent.expect("a leaf");
    if parent.source != source {
        return drop("dropped_wrong_source");
    }
    if parent.epoch != packet.epoch {
        return drop("dropped_wrong_epoch");
    }
    if job.aborted.is_some() || job.suspended {
        return drop("refused_job_aborted");
    }
    if packet.slot >= job.window {
        return drop("dropped_bad_slot");
    }
    if ModelKind::of(packet.op).is_none() {
        return drop("dropped_unknown_operation");
    }
    let values = match packet.kind {
        DATA => packet.values(job.lanes),
        _ => packet.rest.is_empty().then(Vec::new),
    };
    let Some(values) = values else {
        return drop("dropped_bad_length");
    };
    Ok(Valid {
        packet,
        values,
        sender: None,
    })
}

/// A refusal to the sender: its packet's own fields, with the current epoch, the reason and the member.
fn refuse(packet: &ModelPacket, job: &ModelJob, counter: &'static str, reason: i16, about: u8) -> Checked {
    let refusal = ModelPacket {
        kind: REFUSAL,
        member: about,
        epoch: job.epoch,
        scale: Some(reason),
        ..packet.without_flags()
    };
    Err(ModelVerdict {
        counter,
        send: Some(ModelSend {
            to: To::Sender,
            bytes: refusal.emit(),
        }),
    })
}
