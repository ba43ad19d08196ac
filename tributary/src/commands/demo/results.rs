//! What a demo shows at its end.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tributary::demo::{
    Check, Run, WorkerReport, render_checks, render_counters, render_lateness, render_svg, render_table,
};

use crate::aggregator::Aggregator;
use crate::failure::Failure;
use crate::output;

/// The trainings of a demo and what they prove.
#[derive(Debug)]
pub struct Results {
    /// One process.
    pub single: WorkerReport,
    /// Worker processes.
    pub runs: Vec<Run>,
    /// What must hold.
    pub checks: Vec<Check>,
    /// The worker that is slow on purpose.
    pub slow: Option<usize>,
}

/// The file for the curves, made before the training: a place that cannot be written to should not cost a training.
pub fn curves_file(directory: Option<&Path>) -> Result<PathBuf, Failure> {
    let directory = directory.map_or_else(|| std::env::temp_dir().join("tributary-demo"), Path::to_owned);
    let path = directory.join("training.svg");
    match fs::create_dir_all(&directory).and_then(|()| fs::File::create(&path)) {
        Ok(_) => Ok(path),
        Err(source) => Err(Failure::Write { path, source }),
    }
}

impl Results {
    /// Draws the first run beside one process.
    pub fn write_curves(&self, path: &Path) -> Result<(), Failure> {
        let workers = self.runs.first().map_or(&[][..], |run| &run.workers);
        let svg = render_svg(&self.single, workers)?;
        fs::write(path, svg).map_err(|source| Failure::Write {
            path: path.to_owned(),
            source,
        })
    }

    /// Tables.
    pub fn print(&self, aggregator: &Aggregator, curves: &Path) -> Result<(), Failure> {
        let place = if aggregator.is_embedded() {
            "in this process, at"
        } else {
            "at"
        };
        let workers = self.runs.first().map_or(0, |run| run.workers.len());
        let WorkerReport {
            all_reduces,
            reduced_bytes,
            ..
        } = self.single;
        output::line(&format!(
            "{workers} worker processes, aggregator {place} {}\neach run: {all_reduces} all-reduces of {:.1} kB, {:.1} MB \
             a worker\n\n{}\n\nwhat the aggregator counted\n{}\n\n{}{}\n\ncurves: {}",
            aggregator.address(),
            reduced_bytes as f64 / all_reduces.max(1) as f64 / 1e3,
            reduced_bytes as f64 / 1e6,
            render_table(&self.single, &self.runs),
            render_counters(&self.runs),
            self.lateness(),
            render_checks(&self.checks),
            curves.display()
        ))
    }

    /// What a quorum and a straggler do, and a blank line; nothing where there are none.
    fn lateness(&self) -> String {
        let quorum = self.runs.iter().flat_map(|run| &run.workers);
        let quorum = quorum.clone().any(|worker| worker.lateness.is_some());
        let note = match (quorum, self.slow) {
            (false, None) => return String::new(),
            (false, Some(_)) => "",
            (true, _) => {
                "\nunder a quorum another order of arrival gives other bits, but the same ones to every worker"
            }
        };
        format!("{}{note}\n\n", render_lateness(&self.runs, self.slow))
    }

    /// One JSON object.
    pub fn print_json(&self, curves: &Path) -> Result<(), Failure> {
        let results = json!({
            "ok": self.failed() == 0,
            "one_process": self.single,
            "runs": self.runs,
            "checks": self.checks,
            "curves": curves.display().to_string(),
        });
        output::line(&results.to_string())
    }

    fn failed(&self) -> usize {
        self.checks.iter().filter(|check| !check.ok).count()
    }

    /// An error if a check failed.
    pub fn verdict(&self) -> Result<(), Failure> {
        match self.failed() {
            0 => Ok(()),
            failed => Err(Failure::Checks {
                failed,
                checks: self.checks.len(),
            }),
        }
    }
}
