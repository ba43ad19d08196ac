//! Gloo, by PyTorch.

use std::net::TcpListener;
use std::process::Command;

use super::{PeerFigures, Task, figures, run_all};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

const PROGRAM: &str = include_str!("gloo.py");

pub(super) fn run(task: &Task, interrupt: &Interrupt) -> Result<Result<Vec<PeerFigures>, String>, Failure> {
    let mut import = Command::new(&task.python);
    import.args(["-c", "import torch.distributed"]);
    if let Err(reason) = run_all([import], interrupt)? {
        return Ok(Err(format!(
            "{} has no torch ({reason}): `pip install torch`, or name another with --python",
            task.python
        )));
    }
    // Freed at once: rank 0 takes it.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    let port = port.map_err(Failure::io("find a free port"))?.port();
    let commands = (0..task.ranks).map(|rank| {
        let mut command = Command::new(&task.python);
        command.args(["-c", PROGRAM, &task.dtype]).args(task.sizes());
        command
            .env("RANK", rank.to_string())
            .env("WORLD_SIZE", task.ranks.to_string())
            .env("MASTER_ADDR", "127.0.0.1")
            .env("MASTER_PORT", port.to_string())
            .env("GLOO_SOCKET_IFNAME", "lo");
        command
    });
    Ok(run_all(commands, interrupt)?.and_then(|said| figures(&said, task)))
}
