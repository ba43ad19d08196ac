//! The command line of `dpdk-worker allreduce`.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use agg_worker::{Config, Transport};
use clap::{Args, ValueEnum};
use dpdk_host::Idle;
use dpdk_worker::{Dpdk, PortConfig, PortError};

/// What is summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dtype {
    /// Block fixed point.
    F32,
    /// Wrapping sums, every one checked.
    I32,
}

/// Which rank this is, what it does, and through which port.
#[derive(Debug, Args)]
#[command(after_help = "\
A rank of two, the other one elsewhere:
  dpdk-worker allreduce --aggregator 10.0.0.1:4600 --rank 0 --size 2 --address 10.0.0.2:4700 -- -l 3 -a 0000:01:00.0 \
                  --in-memory")]
pub(crate) struct AllReduce {
    /// The aggregator's control address, again for one that takes over.
    #[arg(long, value_name = "HOST:PORT", required = true)]
    aggregator: Vec<String>,
    /// Name of the world, the same for all ranks.
    #[arg(long, value_name = "NAME", default_value = "dpdk")]
    world: String,
    /// This rank, from 0.
    #[arg(long, value_name = "R")]
    rank: u32,
    /// Ranks in the world.
    #[arg(long, value_name = "N")]
    size: u32,
    /// Bytes of the tensor, a multiple of 4.
    #[arg(long, value_name = "BYTES", default_value_t = 100 << 20)]
    pub(crate) bytes: u64,
    /// Type of the elements.
    #[arg(long, value_enum, default_value_t = Dtype::F32)]
    pub(crate) dtype: Dtype,
    /// Sums that are measured.
    #[arg(long, value_name = "K", default_value_t = 3)]
    pub(crate) repeat: u32,
    /// Sums before those.
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub(crate) warmup: u32,
    /// Values in a chunk: 256, 352, 848, 2048 or 8192 [default: the largest that the port carries].
    #[arg(long, value_name = "N")]
    lanes: Option<u32>,
    /// Chunks in flight on each stream [default: what the buffers hold].
    #[arg(long, value_name = "N")]
    window: Option<u32>,
    /// Streams, each with a shard of the aggregator [default: as many as it has].
    #[arg(long, value_name = "N")]
    streams: Option<u16>,
    /// Seconds in which an operation may make no progress.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    timeout: u64,
    /// One JSON object instead of a line of text, and one for each sum.
    #[arg(long)]
    pub(crate) json: bool,
    /// The port's own address, which the kernel need not have, and the UDP port of the first stream.
    #[arg(long, value_name = "IP:PORT", required_unless_present = "kernel")]
    address: Option<SocketAddr>,
    /// The port, by the name that DPDK has for its device [default: the only one].
    #[arg(long, value_name = "DEVICE")]
    port: Option<String>,
    /// Bits of the address that all of the port's network have in common [default: 24, or 64 for IPv6].
    #[arg(long, value_name = "BITS", value_parser = clap::value_parser!(u8).range(..=128))]
    prefix: Option<u8>,
    /// Who passes on what goes to other networks.
    #[arg(long, value_name = "IP")]
    gateway: Option<IpAddr>,
    /// The VLAN that frames are in [default: none].
    #[arg(long, value_name = "ID", value_parser = clap::value_parser!(u16).range(1..=4094))]
    vlan: Option<u16>,
    /// Queues of the port at most [default: one for each stream, with net_memif one]. Both ends of net_memif must have as many.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    queues: Option<u16>,
    /// Bytes of the largest IP packet [default: what the port says].
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(576..=16000))]
    mtu: Option<u16>,
    /// What the core does in an operation while no frames come.
    #[arg(long, value_enum, default_value = "yield")]
    idle: Idle,
    /// Through sockets of the kernel instead, to compare.
    #[arg(long, conflicts_with_all = ["address", "port", "gateway", "vlan", "queues", "mtu", "eal"])]
    kernel: bool,
    /// DPDK's own arguments, as `dpdk-testpmd` takes them.
    #[arg(last = true, value_name = "EAL")]
    eal: Vec<String>,
}

impl AllReduce {
    /// What the communicator is told. Starts DPDK.
    pub(crate) fn config(&self) -> Result<Config, PortError> {
        let transport = match self.address {
            Some(address) => Some(Arc::new(Dpdk::start(self.port(address))?) as Arc<dyn Transport>),
            None => None,
        };
        Ok(Config {
            aggregators: self.aggregator.clone(),
            lanes: self.lanes,
            window: self.window,
            streams: self.streams,
            timeout: Duration::from_secs(self.timeout),
            transport,
            ..Config::new(self.world.clone(), self.rank, self.size)
        })
    }

    fn port(&self, address: SocketAddr) -> PortConfig {
        let usual = PortConfig::new(address);
        PortConfig {
            eal: self.eal.clone(),
            device: self.port.clone(),
            prefix: self.prefix.unwrap_or(usual.prefix),
            gateway: self.gateway,
            vlan: self.vlan,
            queues: self.queues,
            mtu: self.mtu,
            // An Ethernet header with a tag is in front.
            mbuf_room: usual.mbuf_room.max(self.mtu.unwrap_or(0) + 18),
            idle: self.idle,
            ..usual
        }
    }
}
