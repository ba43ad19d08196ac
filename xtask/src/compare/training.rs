//! What a training step takes: PyTorch's DDP over Gloo, and with its gradients summed in the network, by turns in the same
//! processes.

use serde_json::Value;
use testnet::Link;

use super::Compare;
use crate::field::Field;
use crate::running::all;
use crate::sides::{control, number, serve};

/// Steps of a turn.
const STEPS: usize = 5;

/// Pictures in each rank's batch.
const BATCH: usize = 32;

pub(super) fn measure(compare: &Compare) -> Result<(), String> {
    let Field {
        aggregator, ranks, ..
    } = &compare.field("trib-step", Link::default())?;
    let _serve = serve(aggregator, &[])?;
    let commands = ranks.iter().enumerate().map(|(rank, host)| {
        let mut step = host.command(&compare.python);
        step.arg("python/bench/step_time.py");
        step.args([compare.turns, STEPS, BATCH].map(|number| number.to_string()));
        step.env("RANK", rank.to_string())
            .env("WORLD_SIZE", ranks.len().to_string())
            .env("MASTER_ADDR", ranks[0].address().to_string())
            .env("MASTER_PORT", "29500")
            .env("GLOO_SOCKET_IFNAME", "eth0")
            .env("TRIBUTARY_AGGREGATORS", control(aggregator));
        step
    });
    let outputs = all(commands)?;
    println!(
        "{} ranks, {} a link, 25 MB of gradients in buckets of 4 MB: medians of {} steps",
        compare.ranks,
        compare.rate,
        compare.turns * STEPS
    );
    let text = String::from_utf8_lossy(&outputs[0].stdout);
    let mut gloo = None;
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let way: Value = serde_json::from_str(line).map_err(|error| format!("{error} in: {line}"))?;
        let name = way["way"].as_str().unwrap_or_default();
        let seconds = number(&way, "seconds")?;
        print!(
            "  {name:<10} {seconds:.4} s a step ({:.4} to {:.4})",
            number(&way, "fastest")?,
            number(&way, "slowest")?
        );
        if name == "gloo" {
            gloo = Some(seconds);
        }
        match gloo {
            Some(gloo) if name != "gloo" => println!(
                ", gloo / this {:.2}; communication {:.4} s, {:.0} % of it beside the backward pass",
                gloo / seconds,
                number(&way, "communication")?,
                100.0 * number(&way, "overlap")?
            ),
            _ => println!(),
        }
    }
    Ok(())
}
