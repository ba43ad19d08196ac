//! The command line of an aggregator, shared by `udp-host` and `tributary serve`.

use std::net::SocketAddr;
use std::time::Duration;

use agg_host::{Blocking, HostArgs, say, unless_stopped, until_stopped, wait_for_stop};
use clap::Args;

use crate::{HostConfig, HostError, UdpHost};

/// How to serve. What is given here goes before what the configuration file says.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// Where to serve and whom to send to.
    #[command(flatten)]
    pub host: HostArgs,
    /// Threads, each with a port and slots of its own [default: 1].
    #[arg(long, value_name = "N")]
    pub shards: Option<u16>,
    /// Receive queues of each shard, 2 to 64: jobs in different ones lose no packets to each other [default: 8].
    #[arg(long, value_name = "N")]
    pub queues: Option<u16>,
    /// Slot memory of each shard, in MiB, allocated at the start [default: 64].
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
    /// Deeper memory of each shard, in MiB, for windows larger than the slot memory holds [default: 0].
    #[arg(long, value_name = "MIB")]
    pub store: Option<u64>,
    /// Where that memory is lent (`tributary lend`), instead of being in this process. A prototype.
    #[arg(long, value_name = "IP:PORT", requires = "store")]
    pub lender: Option<SocketAddr>,
    /// Receive buffer of each of a shard's queues, in KiB [default: 8192].
    #[arg(long, value_name = "KIB")]
    pub receive_buffer: Option<usize>,
    /// How long a shard without packets looks for some before it sleeps, in microseconds: for a core of its own [default: 0].
    #[arg(long, value_name = "US")]
    pub busy_poll: Option<u32>,
    /// Attach no ranks of this machine by shared memory: all send by UDP.
    #[arg(long)]
    pub no_shared_memory: bool,
}

impl ServeArgs {
    /// The configuration that these arguments and the file they name make.
    ///
    /// # Errors
    /// The file cannot be read, or has a setting that does not exist or cannot be.
    pub fn host_config(&self) -> Result<HostConfig, HostError> {
        let mut config: HostConfig = self.host.file()?;
        let HostConfig {
            control_addr,
            data_addr,
            control,
            ..
        } = &mut config;
        self.host.override_file(control_addr, data_addr, control);
        config.shards = self.shards.unwrap_or(config.shards);
        config.queues = self.queues.unwrap_or(config.queues);
        config.memory_mib = self.memory.unwrap_or(config.memory_mib);
        config.store_mib = self.store.unwrap_or(config.store_mib);
        config.lender = self.lender.or(config.lender);
        config.receive_buffer_kib = self.receive_buffer.unwrap_or(config.receive_buffer_kib);
        config.busy_poll_us = self.busy_poll.unwrap_or(config.busy_poll_us);
        config.shared_memory &= !self.no_shared_memory;
        Ok(config)
    }
}

/// Starts an aggregator, says so on standard error, and waits until it is to stop: `stopped` waits for that at most so long,
/// and returns whether it is. Where that is before it has started, it is left behind, for the process to end.
///
/// # Errors
/// The host does not start.
pub fn serve(args: &ServeArgs, stopped: impl Fn(Duration) -> bool) -> Result<(), HostError> {
    let config = args.host_config()?;
    let starting = unless_stopped(move || UdpHost::start(&config), || stopped(Duration::ZERO));
    let host = match starting.map_err(|source| HostError::Thread { shard: 0, source })? {
        Blocking::Done(started) => started?,
        Blocking::Stopped => {
            say("stopping: it had not started yet");
            return Ok(());
        }
        Blocking::Panicked => return Err(HostError::Panicked),
    };
    until_stopped(&host.summary(), || wait_for_stop(stopped));
    host.shutdown();
    Ok(())
}
