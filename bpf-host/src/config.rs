//! What the host is told at its start.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use agg_control::ControlConfig;
use agg_host::{DEFAULT_CONTROL_PORT, DEFAULT_DATA_PORT, in_range, is_straggler_time, same_family};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::HostError;

/// Where in the kernel the program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// In the driver, before the kernel makes anything of a frame: the fast way. Not every driver can.
    Native,
    /// In the network stack, for each packet that it was given: works with every interface, slower.
    Generic,
    /// Native where the driver can, else generic; the log says why.
    #[default]
    Auto,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Auto => "auto",
        })
    }
}

/// What the host is told at its start, as a TOML file has it too.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HostConfig {
    /// The interfaces by which the ranks and the parent are reached: each gets the program.
    pub interfaces: Vec<String>,
    /// Where in the kernel the program runs.
    pub mode: Mode,
    /// Slot memory in MiB, allocated in the kernel at the start.
    pub memory_mib: u64,
    /// Where the control service listens (TCP); port 0: the kernel chooses.
    pub control_addr: SocketAddr,
    /// Where data packets are received (UDP); 0.0.0.0: at every IPv4 address of the interfaces. Port 0: the kernel chooses.
    pub data_addr: SocketAddr,
    /// A rank for which slots have waited so long is named in the log, in seconds.
    pub straggler_after: f64,
    /// Settings of the control service.
    pub control: ControlConfig,
}

impl Default for HostConfig {
    fn default() -> Self {
        let any = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        Self {
            interfaces: Vec::new(),
            mode: Mode::Auto,
            memory_mib: 64,
            control_addr: SocketAddr::new(any, DEFAULT_CONTROL_PORT),
            data_addr: SocketAddr::new(any, DEFAULT_DATA_PORT),
            straggler_after: 1.0,
            control: ControlConfig::default(),
        }
    }
}

impl HostConfig {
    /// Checks what can be checked without the kernel.
    ///
    /// # Errors
    /// The first setting that cannot be.
    pub fn validate(&self) -> Result<(), HostError> {
        if self.interfaces.is_empty() {
            return Err(HostError::NoInterface);
        }
        for (number, name) in self.interfaces.iter().enumerate() {
            if self.interfaces[..number].contains(name) {
                return Err(HostError::Interface {
                    name: name.clone(),
                    reason: "it is given twice".to_owned(),
                });
            }
        }
        in_range(
            "memory_mib",
            self.memory_mib,
            "1 to 65536",
            (1..=65536).contains(&self.memory_mib),
        )?;
        is_straggler_time(self.straggler_after)?;
        if self.data_addr.is_ipv6() {
            return Err(HostError::Ipv6(self.data_addr));
        }
        Ok(same_family(self.control_addr, self.data_addr)?)
    }

    /// The IPv4 address that packets come to; 0.0.0.0: any.
    pub(crate) fn data_ip(&self) -> Ipv4Addr {
        match self.data_addr.ip() {
            IpAddr::V4(ip) => ip,
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let config: HostConfig = toml::from_str(text).unwrap();
        config.validate().unwrap_err().to_string()
    }

    #[test]
    fn a_setting_that_cannot_be_is_named_with_what_can() {
        assert_eq!(
            refused(""),
            "no interface is given: name those that lead to the ranks, with --interface eth0"
        );
        assert_eq!(
            refused("interfaces = ['a', 'b', 'a']"),
            "interface a cannot be used: it is given twice"
        );
        assert_eq!(
            refused("interfaces = ['a']\nmemory_mib = 0"),
            "memory_mib = 0 is out of range: give 1 to 65536"
        );
        assert_eq!(
            refused("interfaces = ['a']\ncontrol_addr = '[::]:1'\ndata_addr = '[::]:2'"),
            "data_addr = [::]:2 is IPv6, but this host sums IPv4 packets only: give an IPv4 address, or use udp-host"
        );
        assert!(refused("interfaces = ['a']\ncontrol_addr = '[::]:1'").contains("of the same family"));
    }

    #[test]
    fn the_example_is_one() {
        let config: HostConfig = toml::from_str(include_str!("../../packaging/xdp.toml")).unwrap();
        config.validate().unwrap();
        assert!(config.control.metrics.is_some());
    }

    #[test]
    fn modes_have_the_names_of_the_command_line() {
        for mode in [Mode::Native, Mode::Generic, Mode::Auto] {
            let config: HostConfig = toml::from_str(&format!("mode = '{mode}'")).unwrap();
            assert_eq!(config.mode, mode);
            assert_eq!(Mode::from_str(&mode.to_string(), false), Ok(mode));
        }
    }
}
