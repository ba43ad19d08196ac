//! One bar over all trainings of a demo; nothing where standard error is no terminal.

use indicatif::{ProgressBar, ProgressStyle};
use tributary::demo::EpochRecord;

/// The bar, a step an epoch.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar over this many epochs.
    pub fn new(epochs: usize) -> Self {
        let bar = ProgressBar::new(epochs as u64);
        let style = ProgressStyle::with_template("{bar:20} {percent:>3} %  {wide_msg}");
        bar.set_style(
            style
                .unwrap_or_else(|_| ProgressStyle::default_bar())
                .progress_chars("━╸─"),
        );
        Self(bar)
    }

    /// Says that a training starts.
    pub fn start(&self, training: &str) {
        self.0.set_message(format!("{training}: starting"));
        self.0.tick();
    }

    /// Says that a training's epoch is done.
    pub fn epoch(&self, training: &str, record: &EpochRecord) {
        let EpochRecord {
            epoch,
            epochs,
            loss,
            accuracy,
        } = record;
        self.0.set_message(format!(
            "{training}: epoch {epoch} of {epochs}, loss {loss:.4}, accuracy {:.1} %",
            100.0 * accuracy
        ));
        self.0.inc(1);
    }

    /// Makes room for the results.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // An error line must not be written behind half a bar.
        self.0.finish_and_clear();
    }
}
