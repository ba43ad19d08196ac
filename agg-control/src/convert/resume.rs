//! Jobs that go on elsewhere or without some ranks.

use super::{Unreadable, narrow};
use crate::messages::{Boundary, Resume};
use crate::proto;

impl From<Resume> for proto::Resume {
    fn from(resume: Resume) -> Self {
        Self {
            key: resume.key,
            epoch: resume.epoch,
            lanes: resume.lanes.into(),
            window: resume.window.into(),
            generations: resume.generations.into(),
            streams: resume.streams.into(),
            operations: resume.operations,
            next_chunks: resume.next_chunks,
        }
    }
}

impl TryFrom<proto::Resume> for Resume {
    type Error = Unreadable;

    fn try_from(resume: proto::Resume) -> Result<Self, Unreadable> {
        Ok(Self {
            key: resume.key,
            epoch: resume.epoch,
            lanes: narrow(resume.lanes, "lanes")?,
            window: narrow(resume.window, "window")?,
            generations: narrow(resume.generations, "generations")?,
            streams: narrow(resume.streams, "streams")?,
            operations: resume.operations,
            next_chunks: resume.next_chunks,
        })
    }
}

impl From<Boundary> for proto::Boundary {
    fn from(boundary: Boundary) -> Self {
        Self {
            failed_operation: boundary.failed_operation,
            next_chunks: boundary.next_chunks,
            lost: boundary.lost,
        }
    }
}

impl From<proto::Boundary> for Boundary {
    fn from(boundary: proto::Boundary) -> Self {
        Self {
            failed_operation: boundary.failed_operation,
            next_chunks: boundary.next_chunks,
            lost: boundary.lost,
        }
    }
}
