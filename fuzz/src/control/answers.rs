//! What is true of every answer to a registration.

use std::collections::BTreeSet;

use agg_control::{JobSpec, Registered, Registration};

use super::plane::State;

/// A job that starts is the one that the data plane was given, and it is one that the member asked for. `request` is
/// none if any bytes were sent.
pub(super) fn check(answer: &Registered, request: Option<&Registration>, state: &State) {
    let admitted = state
        .admitted
        .iter()
        .rfind(|admitted| (admitted.spec.key, admitted.spec.epoch) == (answer.key, answer.epoch));
    let admitted = admitted.expect("a member has the key and epoch of a job that was admitted");
    let spec = &admitted.spec;
    as_admitted(answer, spec);
    if let Some(request) = request {
        as_asked(answer, request, spec);
    }
    if answer.boundary.is_some() {
        check_boundary(answer, request, admitted.new);
    }
}

fn as_admitted(answer: &Registered, spec: &JobSpec) {
    let shape = |key, lanes, window, generations, streams| (key, lanes, window, generations, streams);
    assert_eq!(
        shape(
            answer.key,
            answer.lanes,
            answer.window,
            answer.generations,
            answer.streams
        ),
        shape(spec.key, spec.lanes, spec.window, spec.generations, spec.streams)
    );
    let members = spec.members.iter().map(|member| &member.ranks);
    assert!(members.eq(&answer.members), "{answer:?} for {spec:?}");
    assert_eq!((answer.workers, answer.policy), (spec.workers, spec.policy));
}

fn as_asked(answer: &Registered, request: &Registration, spec: &JobSpec) {
    let own = &answer.members[usize::from(answer.member)];
    assert!(
        own.iter().all(|rank| request.ranks.contains(rank)),
        "{own:?} are not of {request:?}"
    );
    // A retry gets the earlier answer, whatever else it asks for.
    assert_eq!(request.world, spec.name);
    let Some(resume) = &request.resume else {
        return;
    };
    assert_eq!(answer.key, resume.key, "another job");
    assert!(
        answer.epoch > resume.epoch,
        "{} was used already: {request:?}",
        answer.epoch
    );
}

/// No rank has completed what fails, and none has used the chunks after it; none that is there is called lost.
fn check_boundary(answer: &Registered, request: Option<&Registration>, new: bool) {
    let Some(boundary) = &answer.boundary else { return };
    let there: BTreeSet<u32> = answer.members.iter().flatten().copied().collect();
    assert!(!boundary.lost.is_empty(), "{answer:?}");
    assert!(
        boundary.lost.is_sorted_by(|one, next| one < next),
        "the order of {boundary:?}"
    );
    assert!(
        boundary.lost.iter().all(|rank| !there.contains(rank)),
        "lost and there: {answer:?}"
    );
    assert_eq!(boundary.next_chunks.len(), usize::from(answer.streams));
    let Some(request) = request else { return };
    if new {
        assert!(
            answer.workers > request.size / 2,
            "a minority goes on where the job did not run: {answer:?}"
        );
    }
    if let Some(resume) = &request.resume {
        assert!(
            boundary.failed_operation >= resume.operations,
            "{boundary:?} for {resume:?}"
        );
        let mut chunks = boundary.next_chunks.iter().zip(&resume.next_chunks);
        assert!(
            chunks.all(|(next, own)| next >= own),
            "{boundary:?} for {resume:?}"
        );
    }
}
