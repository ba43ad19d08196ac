//! Registering again for a job that runs: at the same aggregator, or at the next that admits it (R-REFORM-1).

use std::sync::TryLockError;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use agg_control::{ControlClient, ControlError, OnLost, Registered, Registration, Resume};

use crate::arrival::arrive;
use crate::keeper::CALL;
use crate::moves::Report;
use crate::place::Place;
use crate::shared::Shared;

/// Pause after every aggregator was asked in vain.
const PAUSE: Duration = Duration::from_millis(100);

/// How long to sleep before looking again whether a stream has said how far it is.
const LOOK_UP: Duration = Duration::from_millis(2);

/// How long to wait for an aggregator's answer before looking whether the communicator is dropped.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// The least time that others have to come to the same aggregator.
const SHORTEST_WAIT: Duration = Duration::from_secs(1);

/// Holds the streams until an aggregator has admitted the job, asking each in turn from the one numbered `first`. The
/// deadlines of operations go on meanwhile; without one this goes on until the communicator is dropped.
pub(crate) fn register_again(shared: &Shared, place: &Place, first: usize) {
    shared.moves.hold();
    match find_place(shared, place, first) {
        Some(next) => {
            tracing::info!(
                world = shared.config.world,
                rank = shared.config.rank,
                aggregator = shared.addresses[next.index],
                epoch = next.membership.epoch.0,
                workers = next.membership.workers,
                "the job goes on"
            );
            if let Some(boundary) = &next.boundary {
                shared.lose(boundary);
            }
            shared.moves.publish(next);
        }
        None => shared.moves.release(),
    }
}

fn find_place(shared: &Shared, place: &Place, first: usize) -> Option<Place> {
    let resume = resume(shared, place)?;
    let count = shared.addresses.len();
    let mut index = first;
    loop {
        match attempt(shared, place, index, &resume) {
            Ok(next) => return Some(next),
            Err(Refused { said, is_final: true }) => {
                shared.end(said);
                return None;
            }
            Err(Refused { said, .. }) => {
                tracing::debug!(aggregator = shared.addresses[index], said, "not admitted");
                shared.moves.tried(&shared.addresses[index], said);
            }
        }
        index = (index + 1) % count;
        if index == first % count {
            std::thread::sleep(PAUSE);
        }
        if shared.is_over() {
            return None;
        }
    }
}

/// How far this rank is; `None` if the communicator is dropped meanwhile.
fn resume(shared: &Shared, place: &Place) -> Option<Resume> {
    let reports: Option<Vec<Report>> = (0..shared.streams.len())
        .map(|stream| report(shared, stream))
        .collect();
    let reports = reports?;
    let epochs = reports.iter().map(|report| report.epoch);
    Some(Resume {
        key: shared.member.key,
        epoch: epochs.max().unwrap_or(place.membership.epoch).0,
        lanes: shared.terms.lanes,
        window: shared.terms.window,
        generations: shared.terms.generations,
        streams: shared.terms.streams,
        // An operation is complete when all its parts are.
        operations: reports
            .iter()
            .map(|report| report.position.operations)
            .min()
            .unwrap_or(0),
        next_chunks: reports.iter().map(|report| report.position.next_chunk).collect(),
    })
}

/// How far a held stream is: an operation under way says so by itself, an idle stream is asked.
fn report(shared: &Shared, stream: usize) -> Option<Report> {
    loop {
        match shared.streams[stream].try_lock() {
            Ok(mut idle) => {
                idle.follow();
            }
            Err(TryLockError::Poisoned(idle)) => {
                idle.into_inner().follow();
            }
            Err(TryLockError::WouldBlock) => {}
        }
        if let Some(report) = shared.moves.reported(stream) {
            return Some(report);
        }
        if shared.is_over() {
            return None;
        }
        std::thread::sleep(LOOK_UP);
    }
}

/// Why an aggregator does not admit the job.
struct Refused {
    said: String,
    /// Nor will another.
    is_final: bool,
}

impl From<String> for Refused {
    fn from(said: String) -> Self {
        let is_final = false;
        Self { said, is_final }
    }
}

fn attempt(shared: &Shared, place: &Place, index: usize, resume: &Resume) -> Result<Place, Refused> {
    let config = &shared.config;
    let (address, lanes) = (&shared.addresses[index], Some(shared.terms.lanes.into()));
    let arrival = arrive(config, address, Some(place), lanes, CALL)?;
    let registration = arrival.registration(config, shared.member.nonce, wait(shared), Some(resume.clone()));
    let registered = register(shared, arrival.control.clone(), registration)?;
    let registered = registered.map_err(|error| Refused {
        is_final: match &error {
            // The job goes on without this rank.
            ControlError::Refused { word, .. } if word == "left-out" => true,
            // Elsewhere that may be about an earlier stay of the job there.
            ControlError::Refused { word, .. } => word == "job-ended" && index == place.index,
            _ => false,
        },
        said: error.to_string(),
    })?;
    let same_terms = (
        registered.key,
        registered.lanes,
        registered.window,
        registered.streams,
    ) == (resume.key, resume.lanes, resume.window, resume.streams);
    if !same_terms {
        let said = "it answered with another job's key, lanes, window or streams";
        return Err(said.to_owned().into());
    }
    Ok(Place::new(place.generation + 1, index, arrival, registered))
}

/// How long others may take to come to the same aggregator. Not all of an operation's time: if ranks went to different ones,
/// as when one has only stalled, they must find together before an operation's deadline, or before they count as lost.
fn wait(shared: &Shared) -> Duration {
    let wait = (shared.timeout / 2)
        .min(shared.terms.lost_after / 2)
        .max(SHORTEST_WAIT);
    match shared.config.on_lost {
        OnLost::Abort => wait,
        // Long enough to be there when the aggregator gives a rank up.
        OnLost::Shrink => wait.max(shared.terms.lost_after + SHORTEST_WAIT),
    }
}

/// Registers on a thread of its own, so that a communicator that is dropped need not wait for other ranks. The thread ends
/// with the call, whose time is bounded.
fn register(
    shared: &Shared,
    control: ControlClient,
    registration: Registration,
) -> Result<Result<Registered, ControlError>, String> {
    let (done, answer) = channel();
    std::thread::Builder::new()
        .name("tributary-register".into())
        .spawn(move || {
            // Nobody may wait any more.
            let _ = done.send(control.register(&registration));
        })
        .map_err(|error| format!("cannot start a thread: {error}"))?;
    loop {
        match answer.recv_timeout(STOP_INTERVAL) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Timeout) if shared.is_over() => {
                return Err("this rank did not wait for its answer".into());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                return Err("the thread that asked it is gone".into());
            }
        }
    }
}
