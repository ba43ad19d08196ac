//! The command line of `dpdk-host serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use agg_host::{HostArgs, until_stopped};
use clap::Args;

use crate::{DpdkHost, HostConfig, HostError, Idle};

/// How to serve. What is given here goes before what the configuration file says.
#[derive(Debug, Clone, Default, Args)]
pub struct ServeArgs {
    /// Where to serve and whom to send to.
    #[command(flatten)]
    pub host: HostArgs,
    /// A port, by the name that DPDK has for its device; again for each more [default: the only one].
    #[arg(long, value_name = "DEVICE")]
    pub port: Vec<String>,
    /// Independent aggregators, each with the next UDP port and a core of its own from DPDK's `-l` [default: 1].
    #[arg(long, value_name = "COUNT")]
    pub shards: Option<u16>,
    /// Bits of the data address that all of the ports' network have in common [default: 24, with IPv6 64].
    #[arg(long, value_name = "BITS")]
    pub prefix: Option<u8>,
    /// Who passes on what goes to other networks.
    #[arg(long, value_name = "IP")]
    pub gateway: Option<IpAddr>,
    /// The VLAN that frames are sent and received in [default: frames have no tags].
    #[arg(long, value_name = "ID")]
    pub vlan: Option<u16>,
    /// Bytes of the largest IP packet [default: what the port says; virtual devices may carry more].
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<u16>,
    /// Room of an mbuf, in bytes; longer frames come in several where the port can [default: 2048].
    #[arg(long, value_name = "BYTES")]
    pub mbuf_room: Option<u16>,
    /// What the cores do while no frames come [default: yield].
    #[arg(long, value_enum)]
    pub idle: Option<Idle>,
    /// Slot memory of each shard in MiB, allocated at the start [default: 64].
    #[arg(long, value_name = "MIB")]
    pub memory: Option<u64>,
    /// The arguments of DPDK in one string, in the place of those behind `--`.
    #[arg(
        long,
        value_name = "ARGUMENTS",
        allow_hyphen_values = true,
        conflicts_with = "eal_last"
    )]
    pub eal: Option<String>,
    /// DPDK's own arguments, as `dpdk-testpmd` takes them.
    #[arg(last = true, value_name = "EAL")]
    pub eal_last: Vec<String>,
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
        if let Some(eal) = &self.eal {
            config.eal = eal.split_whitespace().map(str::to_owned).collect();
        } else if !self.eal_last.is_empty() {
            config.eal.clone_from(&self.eal_last);
        }
        if !self.port.is_empty() {
            config.ports.clone_from(&self.port);
        }
        config.shards = self.shards.unwrap_or(config.shards);
        config.prefix = self.prefix.or(config.prefix);
        config.gateway = self.gateway.or(config.gateway);
        config.vlan = self.vlan.or(config.vlan);
        config.mtu = self.mtu.or(config.mtu);
        config.mbuf_room = self.mbuf_room.unwrap_or(config.mbuf_room);
        config.idle = self.idle.unwrap_or(config.idle);
        config.memory_mib = self.memory.unwrap_or(config.memory_mib);
        Ok(config)
    }
}

/// What to look at.
#[derive(Debug, Clone, Default, Args)]
pub struct CheckArgs {
    /// A TOML file with the settings of `serve`, which has DPDK's arguments.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// DPDK's own arguments, as `dpdk-testpmd` takes them.
    #[arg(last = true, value_name = "EAL")]
    pub eal: Vec<String>,
}

impl CheckArgs {
    /// DPDK's arguments, and the settings if a file has them. What is given here goes before what the file says.
    ///
    /// # Errors
    /// The file cannot be read, or cannot be served with.
    pub fn settings(&self) -> Result<(Vec<String>, Option<HostConfig>), HostError> {
        if self.config.is_none() {
            return Ok((self.eal.clone(), None));
        }
        let args = ServeArgs {
            host: HostArgs {
                config: self.config.clone(),
                ..HostArgs::default()
            },
            eal_last: self.eal.clone(),
            ..ServeArgs::default()
        };
        let config = args.host_config()?;
        config.validate()?;
        Ok((config.eal.clone(), Some(config)))
    }
}

/// Starts an aggregator, says so on standard error, and waits until `stopped` returns.
///
/// # Errors
/// The host does not start.
pub fn serve(args: &ServeArgs, stopped: impl FnOnce()) -> Result<(), HostError> {
    let host = DpdkHost::start(&args.host_config()?)?;
    until_stopped(&host.summary(), stopped);
    host.shutdown();
    Ok(())
}
