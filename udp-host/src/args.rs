//! The command line of an aggregator, shared by `udp-host` and `tributary serve`.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use agg_control::ParentConfig;
use clap::Args;

use crate::{HostConfig, HostError, UdpHost};

/// How to serve. What is given here goes before what the configuration file says.
#[derive(Debug, Clone, Args)]
pub struct ServeArgs {
    /// A TOML file with these settings and those of the control service (TLS, timeouts).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where ranks register, over TCP [default: 0.0.0.0:4600].
    #[arg(long, value_name = "IP:PORT")]
    pub control_addr: Option<SocketAddr>,
    /// Where shard 0 receives, over UDP; shard s is on the s-th port after it [default: 0.0.0.0:4601].
    #[arg(long, value_name = "IP:PORT")]
    pub data_addr: Option<SocketAddr>,
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
    /// The control address of the aggregator of which this one is a leaf; its ranks are then those of the parent's world.
    #[arg(long, value_name = "HOST:PORT")]
    pub parent: Option<String>,
    /// Receive buffer of each of a shard's queues, in KiB [default: 8192].
    #[arg(long, value_name = "KIB")]
    pub receive_buffer: Option<usize>,
}

impl ServeArgs {
    /// The configuration that these arguments and the file they name make.
    ///
    /// # Errors
    /// The file cannot be read, or has a setting that does not exist or cannot be.
    pub fn host_config(&self) -> Result<HostConfig, HostError> {
        let mut config = self
            .config
            .as_deref()
            .map_or_else(|| Ok(HostConfig::default()), read)?;
        config.control_addr = self.control_addr.unwrap_or(config.control_addr);
        config.data_addr = self.data_addr.unwrap_or(config.data_addr);
        config.shards = self.shards.unwrap_or(config.shards);
        config.queues = self.queues.unwrap_or(config.queues);
        config.memory_mib = self.memory.unwrap_or(config.memory_mib);
        config.store_mib = self.store.unwrap_or(config.store_mib);
        config.lender = self.lender.or(config.lender);
        if let Some(address) = &self.parent {
            let tls = config.control.parent.and_then(|parent| parent.tls);
            config.control.parent = Some(ParentConfig {
                address: address.clone(),
                tls,
            });
        }
        config.receive_buffer_kib = self.receive_buffer.unwrap_or(config.receive_buffer_kib);
        Ok(config)
    }
}

fn read(path: &Path) -> Result<HostConfig, HostError> {
    let failed = |reason: String| HostError::File {
        path: path.to_owned(),
        reason,
    };
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    toml::from_str(&text).map_err(|error: toml::de::Error| {
        let before = error.span().map_or(0, |span| span.start.min(text.len()));
        let line = 1 + text.as_bytes()[..before]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        failed(format!(
            "line {line}: {}",
            error.message().replace(char::is_control, " ")
        ))
    })
}

/// A line on standard error, which may be closed: a service goes on without its log.
fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Starts an aggregator, says so on standard error, and waits until `stopped` returns.
///
/// # Errors
/// The host does not start.
pub fn serve(args: &ServeArgs, stopped: impl FnOnce()) -> Result<(), HostError> {
    let host = UdpHost::start(&args.host_config()?)?;
    say(&format!("aggregating: {}", host.summary()));
    stopped();
    say("stopping: telling the ranks of running jobs");
    host.shutdown();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Also where the file itself has line breaks and what a terminal would obey.
    #[test]
    fn a_file_is_refused_on_one_line() {
        let path = std::env::temp_dir().join(format!("udp-host-config-{}.toml", std::process::id()));
        for (text, reason) in [
            ("shards = 2\nshard = 3", "line 2: unknown field `shard`"),
            (r#""a\u001b\n\rb" = 1"#, "line 1: unknown field `a   b`"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(
                error.contains(reason) && !error.contains(char::is_control),
                "{error:?}"
            );
        }
        std::fs::remove_file(&path).unwrap();
    }
}
