//! The thread that is DPDK's core: it starts DPDK, polls until it is told to stop, and closes the port.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::Sender;

use agg_host::frame::Framing;

use crate::dpdk::{Device, DpdkError, Eal, Pool, Port, PortConfig, PortInfo};
use crate::{HostConfig, HostError, Link, Poller, Shard};

/// The longest frame of an ordinary Ethernet, which virtual devices say whatever they carry.
const ORDINARY: u32 = 1518;

/// What there is to know of a port that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) name: String,
    pub(crate) driver: String,
    pub(crate) mac: [u8; 6],
    /// Bytes of the largest IP packet that is received and sent.
    pub(crate) mtu: u16,
    /// Frames that the receive queue holds.
    pub(crate) ring: u16,
}

/// Starts DPDK and a port, says what it is or why not, and works there for a shard until told to stop.
pub(crate) fn work(
    config: &HostConfig,
    local: SocketAddr,
    shard: &Shard,
    stop: &AtomicBool,
    said: &Sender<Result<About, HostError>>,
) {
    match start(config, local) {
        Ok((about, mut poller, _port)) => {
            // Whoever waits for it may have given up: then `stop` is set, too.
            let _ = said.send(Ok(about));
            poller.run(shard, config.idle, stop);
        }
        Err(error) => {
            let _ = said.send(Err(error));
        }
    }
}

fn start(config: &HostConfig, local: SocketAddr) -> Result<(About, Poller, Port), HostError> {
    let eal = Eal::start(&config.eal)?;
    let device = find(&eal, config.port.as_deref())?;
    let info = device.info()?;
    let ethernet = Framing::new(&local, config.vlan).ethernet();
    let mtu = mtu(config, &info, ethernet);
    let name = device.name().to_owned();
    let pool = Pool::new(&eal, "frames", config.mbufs, config.mbuf_room, info.node)?;
    let port_config = PortConfig {
        queues: 1,
        receive_ring: config.receive_ring,
        send_ring: config.send_ring,
        // A virtual device refuses it, and carries it unasked.
        mtu: config.mtu.filter(|_| info.max_frame > ORDINARY),
        checksums: info.has_checksums,
    };
    let (port, queues) = Port::start(device, &pool, &port_config)?;
    let queue = queues.into_iter().next().ok_or(HostError::Core)?;
    let mac = info.mac;
    let link = Link {
        queue,
        mac,
        checksums: info.has_checksums,
    };
    let about = About {
        name,
        driver: info.driver,
        mac,
        mtu,
        ring: port.receive_ring(),
    };
    let poller = Poller::new(vec![link], pool, local, config.vlan);
    Ok((about, poller, port))
}

/// The port that is meant.
fn find(eal: &Eal, name: Option<&str>) -> Result<Device, HostError> {
    if let Some(name) = name {
        return Ok(Device::find(eal, name)?);
    }
    match Device::names(eal).as_slice() {
        [] => Err(DpdkError::NoPort.into()),
        [name] => Ok(Device::find(eal, name)?),
        names => Err(HostError::Ports(names.join(", "))),
    }
}

/// What the port carries and an mbuf holds.
fn mtu(config: &HostConfig, info: &PortInfo, ethernet: usize) -> u16 {
    let room = u32::from(config.mbuf_room) - ethernet as u32;
    let wanted = u32::from(config.mtu.unwrap_or(info.mtu));
    wanted.min(room) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_fit_the_port_and_the_mbufs() {
        let info = |mtu| PortInfo {
            driver: String::new(),
            mac: [0; 6],
            mtu,
            max_frame: ORDINARY,
            max_queues: 1,
            node: None,
            has_checksums: false,
        };
        let config = |mtu| HostConfig {
            mtu,
            ..HostConfig::default()
        };
        assert_eq!(mtu(&config(None), &info(1500), 14), 1500);
        assert_eq!(mtu(&config(Some(1800)), &info(1500), 14), 1800);
        assert_eq!(mtu(&config(None), &info(9000), 18), 2030);
    }
}
