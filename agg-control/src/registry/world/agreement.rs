//! What all members of a world must agree on.

use super::World;
use crate::messages::{OnLost, Policy};
use crate::refusal::Refusal;
use crate::registry::applicant::Applicant;

impl World {
    /// Compared with one other member: those that are seated already agree. A rank alone may change its mind.
    pub(super) fn check_agreement(&mut self, new: &Applicant) -> Result<(), Refusal> {
        let Some(other) = self.others(new).next() else {
            self.gave_up.clear();
            return Ok(());
        };
        let (world, rank) = (self.name.clone(), new.rank());
        if new.size != other.size {
            let (size, other_size) = (new.size, other.size);
            return Err(Refusal::SizesDisagree {
                world,
                rank,
                size,
                other: other.rank(),
                other_size,
            });
        }
        if new.endpoints.len() != other.endpoints.len() {
            let (streams, other_streams) = (new.endpoints.len(), other.endpoints.len());
            return Err(Refusal::StreamsDisagree {
                world,
                rank,
                streams,
                other: other.rank(),
                other_streams,
            });
        }
        for ((what, asked), (_, other_asked)) in requests(new).into_iter().zip(requests(other)) {
            if asked != other_asked {
                return Err(Refusal::RequestsDisagree {
                    world,
                    what,
                    rank,
                    asked,
                    other: other.rank(),
                    other_asked,
                });
            }
        }
        // A departed member's seat has no `resume`, or an older one.
        let resumed = self.waiting_seats().map(|seat| &seat.applicant);
        let resumed = resumed.filter(|other| other.nonce != new.nonce);
        for other in resumed {
            if !resume_alike(new, other) {
                let other = other.rank();
                return Err(Refusal::ResumesDisagree { world, rank, other });
            }
        }
        Ok(())
    }

    pub(super) fn check_addresses(&self, new: &Applicant) -> Result<(), Refusal> {
        for other in self.others(new) {
            if let Some(address) = new
                .endpoints
                .iter()
                .find(|address| other.endpoints.contains(address))
            {
                return Err(Refusal::AddressTaken {
                    rank: new.rank(),
                    address: *address,
                    other: other.rank(),
                });
            }
        }
        Ok(())
    }
}

/// What is asked for and must be the same, as text.
fn requests(applicant: &Applicant) -> [(&'static str, String); 6] {
    let automatic = |asked: Option<u16>| asked.map_or("automatic".into(), |value| value.to_string());
    let policy = match applicant.policy {
        Policy::All => "all".into(),
        Policy::Quorum {
            members,
            grace,
            history_bytes,
        } => format!("quorum of {members} with {grace:?} of grace and {history_bytes} bytes of history"),
    };
    let on_lost = match applicant.on_lost {
        OnLost::Abort => "abort",
        OnLost::Shrink => "shrink",
    };
    [
        ("lanes", automatic(applicant.lanes)),
        ("window", automatic(applicant.window)),
        ("policy", policy),
        ("on_lost", on_lost.into()),
        ("weight", applicant.weight.to_string()),
        ("priority", applicant.priority.to_string()),
    ]
}

/// Both resume the same job, with the same shape, or none does.
fn resume_alike(one: &Applicant, other: &Applicant) -> bool {
    let shape = |applicant: &Applicant| {
        let resume = applicant.resume.as_ref()?;
        Some((
            resume.key,
            resume.lanes,
            resume.window,
            resume.generations,
            resume.streams,
        ))
    };
    shape(one) == shape(other)
}
