//! Settings of the control service.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::seconds;

/// Settings of the control service. All durations are seconds in a configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ControlConfig {
    /// Mutual TLS; without it anybody who reaches the port can register jobs.
    pub tls: Option<TlsConfig>,
    /// The aggregator to which this one sends its sums; without it this one is a root.
    pub parent: Option<ParentConfig>,
    /// Where Prometheus finds `/metrics`, over HTTP without TLS; without it nowhere.
    pub metrics: Option<SocketAddr>,
    /// A rank that is not heard for this long ends its job; an ended job is remembered as long.
    #[serde(with = "seconds")]
    pub lost_after: Duration,
    /// How often ranks say that they are alive; at most half of `lost_after`.
    #[serde(with = "seconds")]
    pub heartbeat: Duration,
    /// The longest that a rank may wait for its world to be complete.
    #[serde(with = "seconds")]
    pub longest_wait: Duration,
    /// The longest that a rank may wait for the others to leave.
    #[serde(with = "seconds")]
    pub longest_linger: Duration,
    /// How long `shutdown` waits for calls that are being answered.
    #[serde(with = "seconds")]
    pub shutdown_grace: Duration,
    /// Accept data addresses that differ from the address a rank registers from. Off, because results go to them:
    /// anybody who may register could make the aggregator send to a third machine.
    pub allow_any_address: bool,
    /// Worlds that may wait for ranks at the same time.
    pub max_waiting_worlds: usize,
    /// Jobs that may run at the same time.
    pub max_jobs: usize,
}

impl Default for ControlConfig {
    fn default() -> Self {
        Self {
            tls: None,
            parent: None,
            metrics: None,
            lost_after: Duration::from_secs(10),
            heartbeat: Duration::from_secs(1),
            longest_wait: Duration::from_secs(3600),
            longest_linger: Duration::from_secs(300),
            shutdown_grace: Duration::from_secs(2),
            allow_any_address: false,
            max_waiting_worlds: 64,
            max_jobs: 64,
        }
    }
}

impl ControlConfig {
    /// For messages.
    pub(crate) fn parent_address(&self) -> String {
        self.parent
            .as_ref()
            .map(|parent| parent.address.clone())
            .unwrap_or_default()
    }

    /// Checks that the settings can work together.
    ///
    /// # Errors
    /// The first pair of settings that cannot.
    pub fn validate(&self) -> Result<(), ConfigError> {
        if self.heartbeat.is_zero() || self.heartbeat > self.lost_after / 2 {
            return Err(ConfigError::Heartbeat {
                heartbeat: self.heartbeat,
                lost_after: self.lost_after,
            });
        }
        for (name, value) in [
            ("max_waiting_worlds", self.max_waiting_worlds),
            ("max_jobs", self.max_jobs),
        ] {
            if value == 0 {
                return Err(ConfigError::NoRoom { name });
            }
        }
        Ok(())
    }
}

/// Settings that cannot work.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConfigError {
    /// Every heartbeat would come too late.
    #[error(
        "heartbeat = {} s does not suit lost_after = {} s: set heartbeat above 0 and to at most half of lost_after",
        heartbeat.as_secs_f64(),
        lost_after.as_secs_f64()
    )]
    Heartbeat {
        /// The heartbeat interval.
        heartbeat: Duration,
        /// The time after which a silent rank is lost.
        lost_after: Duration,
    },
    /// No job could ever run.
    #[error("{name} = 0 admits no job at all: set it to 1 or more")]
    NoRoom {
        /// The setting.
        name: &'static str,
    },
}

/// Files of the server's side of mutual TLS, in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// The aggregator's certificate chain.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// The authority whose certificates ranks must show.
    pub client_ca: PathBuf,
}

/// Where the parent aggregator is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ParentConfig {
    /// Address of its control service, as host:port.
    pub address: String,
    /// Mutual TLS towards it.
    pub tls: Option<ClientTls>,
}

/// Files of a rank's side of mutual TLS, in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientTls {
    /// The authority that signed the aggregator's certificate.
    pub ca: PathBuf,
    /// The rank's own certificate and private key; an aggregator with mutual TLS demands one.
    pub identity: Option<ClientIdentity>,
    /// The name in the aggregator's certificate, if it is not the address connected to.
    pub server_name: Option<String>,
}

/// A rank's certificate, in PEM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientIdentity {
    /// Certificate chain.
    pub cert: PathBuf,
    /// Private key.
    pub key: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_seconds_and_the_rest_has_defaults() {
        let text =
            "lost_after = 4\nheartbeat = 0.5\n[tls]\ncert = 'a.pem'\nkey = 'a.key'\nclient_ca = 'ca.pem'";
        let config: ControlConfig = toml::from_str(text).unwrap();
        assert_eq!(config.lost_after, Duration::from_secs(4));
        assert_eq!(config.heartbeat, Duration::from_millis(500));
        assert_eq!(config.tls.unwrap().client_ca, PathBuf::from("ca.pem"));
        assert_eq!(config.longest_wait, ControlConfig::default().longest_wait);
    }

    #[test]
    fn misspelt_settings_and_negative_times_are_refused() {
        assert!(toml::from_str::<ControlConfig>("lost_afer = 4").is_err());
        let error = toml::from_str::<ControlConfig>("lost_after = -4").unwrap_err();
        assert!(
            error.message().starts_with("-4 is not a number of seconds"),
            "{error}"
        );
    }

    #[test]
    fn a_heartbeat_that_always_comes_too_late_is_refused() {
        let config = ControlConfig {
            lost_after: Duration::from_secs(1),
            ..ControlConfig::default()
        };
        assert_eq!(
            config.validate().unwrap_err().to_string(),
            "heartbeat = 1 s does not suit lost_after = 1 s: set heartbeat above 0 and to at most half of lost_after"
        );
    }
}
