//! A host as a program: its log, Ctrl-C, and the last word.

use std::cell::Cell;
use std::fmt::Display;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use crate::{explained, say};

/// How long a host waits at once for what ends it; then it waits again.
const LONG: Duration = Duration::from_secs(3600);

/// Logs to standard error, runs `serve` with what waits for Ctrl-C or SIGTERM, and says on one line why it failed.
///
/// `RUST_LOG` chooses what is logged.
pub fn run<E: Display>(name: &str, serve: impl FnOnce(&dyn Fn()) -> Result<(), E>) -> ExitCode {
    run_hearing(name, |stopped| serve(&|| wait_for_stop(stopped)))
}

/// Waits as long as it takes until `stopped`, which waits at most so long, says that it is so.
pub fn wait_for_stop(stopped: impl Fn(Duration) -> bool) {
    while !stopped(LONG) {}
}

/// The same for who looks for Ctrl-C and SIGTERM also while it starts: what `serve` gets waits for them at most so long,
/// and returns whether one has come.
pub fn run_hearing<E: Display>(
    name: &str,
    serve: impl FnOnce(&dyn Fn(Duration) -> bool) -> Result<(), E>,
) -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_default_env()
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info")),
        )
        .init();
    let (stop, stopped) = std::sync::mpsc::channel();
    let watch = ctrlc::set_handler(move || {
        // A second signal while the first is being acted on changes nothing.
        let _ = stop.send(());
    });
    if let Err(error) = watch {
        say(&format!("{name}: cannot watch for Ctrl-C: {error}"));
        return ExitCode::FAILURE;
    }
    let heard = Cell::new(false);
    let stopped = |limit| {
        if !heard.get() {
            heard.set(!matches!(
                stopped.recv_timeout(limit),
                Err(RecvTimeoutError::Timeout)
            ));
        }
        heard.get()
    };
    match serve(&stopped) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("{name}: {}", explained(&error.to_string())));
            ExitCode::FAILURE
        }
    }
}

/// Says what was set up, waits until `stopped` returns, and says that the host ends.
pub fn until_stopped(summary: &str, stopped: impl FnOnce()) {
    say(&format!("aggregating: {summary}"));
    stopped();
    say("stopping: telling the ranks of running jobs");
}
