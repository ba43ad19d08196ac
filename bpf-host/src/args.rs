//! The command line of `bpf-host serve`.

use agg_host::{HostArgs, until_stopped};
use clap::Args;

use crate::{BpfHost, HostConfig, HostError, Mode};

/// How to serve. What is given here goes before what the configuration file says.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    /// Where to serve and whom to send to.
    #[command(flatten)]
    pub host: HostArgs,
    /// An interface by which ranks or the parent are reached; may be given several times.
    #[arg(long = "interface", short, value_name = "NAME")]
    pub interfaces: Vec<String>,
    /// Where in the kernel the program runs [default: auto].
    #[arg(long, value_enum)]
    pub mode: Option<Mode>,
    /// Slot memory in MiB, allocated in the kernel at the start [default: 64].
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
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
        if !self.interfaces.is_empty() {
            config.interfaces.clone_from(&self.interfaces);
        }
        config.mode = self.mode.unwrap_or(config.mode);
        config.memory_mib = self.memory.unwrap_or(config.memory_mib);
        Ok(config)
    }
}

/// Starts an aggregator, says so on standard error, and waits until `stopped` returns.
///
/// # Errors
/// The host does not start.
pub fn serve(args: &ServeArgs, stopped: impl FnOnce()) -> Result<(), HostError> {
    let host = BpfHost::start(&args.host_config()?)?;
    until_stopped(&host.summary(), stopped);
    host.shutdown();
    Ok(())
}
