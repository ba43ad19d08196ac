//! A benchmark all on this machine: a process a rank.

use super::show::Show;
use super::{AllReduce, compare};
use crate::aggregator::Aggregator;
use crate::bench::{Message, Setup};
use crate::commands::bench_worker;
use crate::cpu::process_time;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::loopback;
use crate::workers::Workers;

pub fn run(args: &AllReduce, interrupt: &Interrupt) -> Result<(), Failure> {
    let (shards, busy_poll) = (args.streams.unwrap_or(1), args.terms.busy_poll);
    let aggregator = Aggregator::find(&args.aggregator, shards, busy_poll, interrupt)?;
    let place = if aggregator.is_embedded() {
        "in this process"
    } else {
        aggregator.address()
    };
    let mut show = Show::new(args.json, place.to_owned());
    let world = format!("bench-{}", std::process::id());
    let setup = |rank| args.setup(rank, args.workers, world.clone(), aggregator.addresses().to_vec());
    let setups: Vec<Setup> = (0..args.workers).map(setup).collect();
    setups.iter().try_for_each(Setup::check)?;
    // This process does little else than aggregate: its time is the aggregator's.
    let mut begun = (process_time(), loopback::sent());
    let mut reports = Vec::new();
    Workers::spawn(bench_worker::NAME, &setups)?.run(interrupt, |_, line| {
        let message = serde_json::from_str(line).map_err(|reason| Failure::Protocol {
            line: line.to_owned(),
            reason,
        })?;
        match message {
            Message::Timing => {
                begun = (process_time(), loopback::sent());
                Ok(())
            }
            Message::Lost { lost, left } => {
                Show::lost(&lost, left);
                Ok(())
            }
            Message::Size(mut report) => {
                let used = process_time().saturating_sub(begun.0).as_secs_f64();
                let sent = loopback::sent().saturating_sub(begun.1);
                let iterations = report.iterations.max(1);
                if aggregator.is_embedded() {
                    report.aggregator_cpu_seconds = Some(used / f64::from(iterations));
                    report.loopback_bytes = Some(sent / u64::from(iterations));
                }
                show.report(&report)?;
                reports.push(*report);
                Ok(())
            }
        }
    })?;
    // Their processors are free now.
    drop(aggregator);
    compare::run(args, &reports, interrupt)
}
