//! The part of the command line that every host has, and how its file is read.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use agg_control::{ControlConfig, ParentConfig};
use clap::Args;
use serde::de::DeserializeOwned;

use crate::SettingsError;

/// Where to serve and whom to send to. What is given here goes before what the configuration file says.
#[derive(Debug, Clone, Default, Args)]
pub struct HostArgs {
    /// A TOML file with these settings and those of the control service (TLS, timeouts).
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Where ranks register, over TCP [default: 0.0.0.0:4600].
    #[arg(long, value_name = "IP:PORT")]
    pub control_addr: Option<SocketAddr>,
    /// Where shard 0 receives, over UDP; shard s is on the s-th port after it [default: 0.0.0.0:4601].
    #[arg(long, value_name = "IP:PORT")]
    pub data_addr: Option<SocketAddr>,
    /// The control address of the aggregator of which this one is a leaf; its ranks are then those of the parent's world.
    #[arg(long, value_name = "HOST:PORT")]
    pub parent: Option<String>,
    /// Where Prometheus finds `/metrics`, over HTTP [default: nowhere].
    #[arg(long, value_name = "IP:PORT")]
    pub metrics: Option<SocketAddr>,
}

impl HostArgs {
    /// What the file says, or the defaults where none is named.
    ///
    /// # Errors
    /// The file cannot be read, or has a setting that does not exist or cannot be.
    pub fn file<T: DeserializeOwned + Default>(&self) -> Result<T, SettingsError> {
        self.config.as_deref().map_or_else(|| Ok(T::default()), read)
    }

    /// Puts what is given here in the place of what the file said.
    pub fn override_file(
        &self,
        control_addr: &mut SocketAddr,
        data_addr: &mut SocketAddr,
        control: &mut ControlConfig,
    ) {
        *control_addr = self.control_addr.unwrap_or(*control_addr);
        *data_addr = self.data_addr.unwrap_or(*data_addr);
        control.metrics = self.metrics.or(control.metrics);
        if let Some(address) = &self.parent {
            let tls = control.parent.take().and_then(|parent| parent.tls);
            control.parent = Some(ParentConfig {
                address: address.clone(),
                tls,
            });
        }
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, SettingsError> {
    let failed = |reason: String| SettingsError::File {
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
pub fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Settings {
        #[allow(dead_code)]
        shards: u16,
    }

    /// Also where the file itself has line breaks and what a terminal would obey.
    #[test]
    fn a_file_is_refused_on_one_line() {
        let path = std::env::temp_dir().join(format!("agg-host-config-{}.toml", std::process::id()));
        for (text, reason) in [
            ("shards = 2\nshard = 3", "line 2: unknown field `shard`"),
            (r#""a\u001b\n\rb" = 1"#, "line 1: unknown field `a   b`"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = read::<Settings>(&path).unwrap_err().to_string();
            assert!(
                error.contains(reason) && !error.contains(char::is_control),
                "{error:?}"
            );
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn a_parent_on_the_command_line_keeps_the_file_s_tls() {
        let mut control: ControlConfig =
            toml::from_str("[parent]\naddress = 'a:1'\n[parent.tls]\nca = 'ca.pem'").unwrap();
        let tls = control.parent.clone().unwrap().tls;
        assert!(tls.is_some());
        let args = HostArgs {
            parent: Some("b:2".to_owned()),
            ..HostArgs::default()
        };
        let mut address = SocketAddr::from(([127, 0, 0, 1], 1));
        args.override_file(&mut address.clone(), &mut address, &mut control);
        let address = "b:2".to_owned();
        assert_eq!(control.parent, Some(ParentConfig { address, tls }));
    }
}
