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
    assert!(
        status.waiting.len() <= config.max_waiting_worlds,
        "waiting: {status:?}"
    );
    assert!(status.jobs.len() <= config.max_jobs, "jobs: {status:?}");
    assert_eq!(
        session.control.open_tickets(),
        session.tickets.len(),
        "outcomes that are kept"
    );
    for world in &status.waiting {
        let missing = world.missing.len();
        assert!(
            missing > 0 && missing < world.size as usize,
            "waits or not: {world:?}"
        );
    }

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
    for name in names {
        assert!(
            state.held.iter().any(|held| held.name == name),
            "{name} runs without slots"
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
