//! Refusals as gRPC statuses.

use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

use crate::refusal::Refusal;

/// Metadata key of a refusal's word; a status without it does not come from the control service.
pub(crate) const WORD_KEY: &str = "tributary-refusal";

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let mut metadata = MetadataMap::new();
        metadata.insert(WORD_KEY, MetadataValue::from_static(refusal.word()));
        Status::with_metadata(code(&refusal), refusal.to_string(), metadata)
    }
}

fn code(refusal: &Refusal) -> Code {
    match refusal {
        Refusal::NameEmpty
        | Refusal::NameTooLong { .. }
        | Refusal::NameUnprintable { .. }
        | Refusal::SizeImpossible { .. }
        | Refusal::RanksImpossible { .. }
        | Refusal::NonceMissing { .. }
        | Refusal::WeightImpossible { .. }
        | Refusal::QuorumImpossible { .. }
        | Refusal::StreamsImpossible { .. }
        | Refusal::AddressUnusable { .. }
        | Refusal::LanesUnsupported { .. }
        | Refusal::Malformed { .. } => Code::InvalidArgument,
        Refusal::RankOutOfRange { .. } | Refusal::WindowTooLarge { .. } => Code::OutOfRange,
        Refusal::SizesDisagree { .. }
        | Refusal::RequestsDisagree { .. }
        | Refusal::StreamsDisagree { .. }
        | Refusal::QuorumInTree { .. }
        | Refusal::QuorumResumed { .. }
        | Refusal::ResumeImpossible { .. }
        | Refusal::ResumesDisagree { .. }
        | Refusal::JobEnded { .. }
        | Refusal::DatagramTooSmall { .. } => Code::FailedPrecondition,
        Refusal::RankTaken { .. } | Refusal::WorldRunning { .. } | Refusal::AddressTaken { .. } => {
            Code::AlreadyExists
        }
        Refusal::AddressForeign { .. } | Refusal::NotAMember { .. } => Code::PermissionDenied,
        Refusal::DoesNotFit { .. }
        | Refusal::NotAdmitted { .. }
        | Refusal::TooManyWaiting { .. }
        | Refusal::TooManyJobs { .. }
        | Refusal::TooManyMembers { .. }
        | Refusal::Queued { .. } => Code::ResourceExhausted,
        Refusal::Draining | Refusal::ShuttingDown | Refusal::ParentSilent { .. } => Code::Unavailable,
        Refusal::Superseded { .. } | Refusal::LeftOut { .. } => Code::Aborted,
        Refusal::ParentRefused { missing: false, .. } => Code::FailedPrecondition,
        Refusal::RanksMissing { .. } | Refusal::Minority { .. } | Refusal::ParentRefused { .. } => {
            Code::DeadlineExceeded
        }
        Refusal::UnknownJob => Code::NotFound,
    }
}
