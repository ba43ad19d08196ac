//! One rank of a benchmark whose other ranks run elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::show::Show;
use crate::bench::{Message, Setup, measure};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output;

/// How often Ctrl-C is looked for, and how long the rank may then take to tell the others.
const LOOK_UP: Duration = Duration::from_millis(50);
const FAREWELL: Duration = Duration::from_secs(2);

pub fn run(setup: Setup, interrupt: &Interrupt, json: bool) -> Result<(), Failure> {
    let (rank, size) = (setup.rank, setup.size);
    let interrupted = interrupt.clone();
    let joined = Arc::new(AtomicBool::new(false));
    let has_joined = Arc::clone(&joined);
    let measuring = thread::Builder::new().name("rank".to_owned()).spawn(move || {
        let mut show = Show::new(json, setup.aggregators.join(", "));
        let go_on = || {
            has_joined.store(true, Ordering::Relaxed);
            interrupted.check()
        };
        measure(&setup, go_on, |message| match message {
            Message::Size(report) => show.report(&report),
            Message::Timing => Ok(()),
            Message::Lost { lost, left } => {
                Show::lost(&lost, left);
                Ok(())
            }
        })
    });
    let measuring = measuring.map_err(Failure::io("start a thread"))?;
    // A rank that waits for others cannot be asked to stop: after a while the process ends without it.
    while !measuring.is_finished() && !interrupt.wait_timeout(LOOK_UP) {}
    let interrupted_at = Instant::now();
    // Before it has joined nobody needs to be told.
    while !measuring.is_finished() && joined.load(Ordering::Relaxed) && interrupted_at.elapsed() < FAREWELL {
        thread::sleep(LOOK_UP);
    }
    if !measuring.is_finished() {
        return Err(Failure::Interrupted);
    }
    let ended = || Failure::Io {
        what: "measure".to_owned(),
        source: std::io::Error::other("its thread failed"),
    };
    measuring.join().unwrap_or_else(|_| Err(ended()))?;
    if rank != 0 {
        output::note(&format!(
            "rank {rank} of {size} is done: rank 0 shows the figures"
        ));
    }
    Ok(())
}
