//! What holds after every step.

use std::collections::BTreeSet;
use std::time::Instant;

use agg_control::fuzzing;

use super::Session;

/// Longest text that a rank is told, in bytes: a world's name, 64 ranks, and the words around them.
const LONGEST_TEXT: usize = 1000;

/// Tables are bounded, no outcome is kept that nobody will take, and the data plane holds what it must.
pub(super) fn check(session: &Session) {
    let (status, config) = (session.control.status(session.now()), &session.config);
    assert!(status.jobs.len() <= config.max_jobs, "jobs: {status:?}");
    assert_eq!(
        session.control.open_tickets(),
        session.tickets.len(),
        "outcomes that are kept"
    );
    let running = || status.jobs.iter().filter(|job| job.aborted.is_none());
    assert_eq!(running().count(), session.control.running_jobs());
    let names: BTreeSet<&str> = running().map(|job| job.name.as_str()).collect();
    assert_eq!(
        names.len(),
        running().count(),
        "two jobs of a name run: {status:?}"
    );

    let state = session.plane.state();
    assert!(
        state.held.len() <= status.jobs.len(),
        "slots that nobody knows of"
    );
    for name in &names {
        assert!(state.named(name).next().is_some(), "{name} runs without slots");
    }
    let used: u64 = state.held.iter().map(|held| held.spec.memory_per_shard()).sum();
    let about = &status.description;
    assert_eq!(
        used,
        about.host.memory_per_shard - about.memory_free,
        "the account of memory"
    );

    // A job is suspended exactly while a world of its name gathers its members again.
    let (again, new): (Vec<_>, Vec<_>) = status
        .waiting
        .iter()
        .partition(|world| names.contains(world.name.as_str()));
    assert!(new.len() <= config.max_waiting_worlds, "waiting: {status:?}");
    for world in again {
        let mut held = state.named(&world.name);
        assert!(held.any(|held| held.suspended), "two of a name: {status:?}");
        assert!(!world.queued && world.missing.len() <= world.size as usize);
    }
    for world in new {
        let missing = world.missing.len();
        assert!(
            missing < world.size as usize && (missing == 0) == world.queued,
            "waits or not: {world:?}"
        );
    }
    for name in names {
        let gathers = status.waiting.iter().any(|world| world.name == name);
        let suspended = state.named(name).any(|held| held.suspended);
        assert!(
            gathers || !suspended,
            "{name} is suspended and nobody ever goes on with it"
        );
    }
    drop(state);
    for job in &status.jobs {
        if let Some(reason) = &job.aborted {
            one_line(&reason.text);
        }
    }
    fuzzing::send_status(status);
}

/// Nobody has been heard for long: every job has ended.
pub(super) fn nobody_runs(session: &Session, end: Instant) {
    let status = session.control.status(end);
    assert_eq!(
        session.control.running_jobs(),
        0,
        "runs without anybody: {status:?}"
    );
    let held = &session.plane.state().held;
    assert!(held.is_empty(), "admitted and never released: {held:?}");
}

/// After the end nothing is held, and no job is remembered for ever.
pub(super) fn nothing_left(session: &Session, end: Instant) {
    let status = session.control.status(end);
    assert!(status.jobs.is_empty() && status.waiting.is_empty(), "{status:?}");
    assert_eq!(session.control.open_tickets(), 0);
    let held = &session.plane.state().held;
    assert!(held.is_empty(), "admitted and never released: {held:?}");
}

/// What is shown to a human is one line and no longer than it has to be.
pub(super) fn one_line(text: &str) {
    assert!(!text.contains(char::is_control), "not one line: {text:?}");
    assert!(
        (1..=LONGEST_TEXT).contains(&text.len()),
        "{} bytes: {text}",
        text.len()
    );
}
