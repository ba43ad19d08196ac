//! A benchmark all on this machine: a process a rank.

use super::AllReduce;
use super::show::Show;
use crate::aggregator::Aggregator;
use crate::bench::{Message, Setup};
use crate::commands::bench_worker;
use crate::cpu::process_time;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::workers::Workers;

pub fn run(args: &AllReduce, interrupt: &Interrupt) -> Result<(), Failure> {
    let aggregator = Aggregator::find(&args.aggregator, args.streams.unwrap_or(1))?;
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
    let mut begun = process_time();
    Workers::spawn(bench_worker::NAME, &setups)?.run(interrupt, |_, line| {
        let message = serde_json::from_str(line).map_err(|reason| Failure::Protocol {
            line: line.to_owned(),
            reason,
        })?;
        match message {
            Message::Timing => {
                begun = process_time();
                Ok(())
            }
            Message::Lost { lost, left } => {
                Show::lost(&lost, left);
                Ok(())
            }
            Message::Size(mut report) => {
                let used = process_time().saturating_sub(begun).as_secs_f64();
                let each = used / f64::from(report.iterations.max(1));
                report.aggregator_cpu_seconds = aggregator.is_embedded().then_some(each);
                show.report(&report)
            }
        }
    })
}
