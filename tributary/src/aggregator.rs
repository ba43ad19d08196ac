//! The aggregator of a command: one in this process, or one that runs elsewhere.

use std::collections::BTreeMap;
use std::time::Duration;

use agg_control::ControlClient;
use udp_host::{HostConfig, UdpHost};

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// How long a command waits for an aggregator that was named: it should be there already.
const PATIENCE: Duration = Duration::from_secs(3);

/// An aggregator that answers.
#[derive(Debug)]
pub struct Aggregator {
    /// Where ranks register: the first one, and those that take over from it.
    addresses: Vec<String>,
    client: ControlClient,
    /// Stops with this value.
    embedded: Option<UdpHost>,
}

impl Aggregator {
    /// The first of `addresses`, or a new one in this process, on loopback, with this many shards; it polls for so many
    /// microseconds before it sleeps.
    pub fn find(
        addresses: &[String],
        shards: u16,
        busy_poll_us: u32,
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        let addresses = addresses.to_vec();
        interrupt.or(move || Self::reach(addresses, shards, busy_poll_us))
    }

    fn reach(addresses: Vec<String>, shards: u16, busy_poll_us: u32) -> Result<Self, Failure> {
        let (addresses, embedded) = match addresses[..] {
            [_, ..] => (addresses, None),
            [] => {
                let host = UdpHost::start(&HostConfig {
                    shards,
                    busy_poll_us,
                    ..HostConfig::loopback()
                })?;
                (vec![host.control_addr().to_string()], Some(host))
            }
        };
        let client = connect(&addresses[0])?;
        Ok(Self {
            addresses,
            client,
            embedded,
        })
    }

    /// Where ranks register.
    pub fn address(&self) -> &str {
        &self.addresses[0]
    }

    /// The same, and those that take over from it.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// Whether it is in this process.
    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    /// What it has counted, over all shards and jobs since it started.
    pub fn counters(&self) -> Result<BTreeMap<String, u64>, Failure> {
        Ok(self.client.status()?.total.into_iter().collect())
    }
}

/// Connects to an aggregator that should be running.
pub fn connect(address: &str) -> Result<ControlClient, Failure> {
    Ok(ControlClient::connect(address, None, PATIENCE)?)
}

/// What was counted between two looks, without what was not.
pub fn counted(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let since = |(name, after): (&String, &u64)| {
        let before = before.get(name).copied().unwrap_or(0);
        (name.clone(), after.wrapping_sub(before))
    };
    after.iter().map(since).filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_counted() {
        let look =
            |merged, wants| BTreeMap::from([("merged".to_owned(), merged), ("wants".to_owned(), wants)]);
        assert_eq!(
            counted(&look(3, 1), &look(10, 1)),
            BTreeMap::from([("merged".to_owned(), 7)])
        );
    }
}
