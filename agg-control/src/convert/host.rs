//! The host and its counters.

use super::{Unreadable, narrow, required};
use crate::messages::Description;
use crate::plane::{Capabilities, HostKind, ShardCounters};
use crate::proto;

impl From<Description> for proto::Host {
    fn from(description: Description) -> Self {
        let host = description.host;
        let kind = match host.kind {
            HostKind::Udp => proto::HostKind::Udp,
            HostKind::Dpdk => proto::HostKind::Dpdk,
            HostKind::Ebpf => proto::HostKind::Ebpf,
        };
        Self {
            kind: kind.into(),
            version: host.version,
            epoch: host.epoch,
            data_ip: host.data_ip.map(|ip| ip.to_string()).unwrap_or_default(),
            base_port: host.base_port.into(),
            shards: host.shards.into(),
            lanes: host.lanes.into_iter().map(u32::from).collect(),
            memory_per_shard: host.memory_per_shard,
            memory_free_per_shard: description.memory_free,
            receive_buffer: host.receive_buffer,
            receive_ring: host.receive_ring,
            answers_probes: host.answers_probes,
            shared_memory: host.shared_memory,
        }
    }
}

impl TryFrom<proto::Host> for Description {
    type Error = Unreadable;

    fn try_from(host: proto::Host) -> Result<Self, Unreadable> {
        let kind = match host.kind() {
            proto::HostKind::Udp => HostKind::Udp,
            proto::HostKind::Dpdk => HostKind::Dpdk,
            proto::HostKind::Ebpf => HostKind::Ebpf,
            proto::HostKind::Unspecified => {
                return Err(Unreadable(format!("host kind {} is unknown", host.kind)));
            }
        };
        let data_ip = match host.data_ip.as_str() {
            "" => None,
            text => Some(
                text.parse()
                    .map_err(|_| Unreadable(format!("data address {text:?} is not an IP address")))?,
            ),
        };
        let capabilities = Capabilities {
            kind,
            version: host.version,
            epoch: host.epoch,
            data_ip,
            base_port: narrow(host.base_port, "base port")?,
            shards: narrow(host.shards, "shards")?,
            lanes: host
                .lanes
                .into_iter()
                .map(|lanes| narrow(lanes, "lanes"))
                .collect::<Result<_, _>>()?,
            memory_per_shard: host.memory_per_shard,
            receive_buffer: host.receive_buffer,
            receive_ring: host.receive_ring,
            answers_probes: host.answers_probes,
            shared_memory: host.shared_memory,
        };
        Ok(Self {
            host: capabilities,
            memory_free: host.memory_free_per_shard,
        })
    }
}

impl TryFrom<proto::DescribeResponse> for Description {
    type Error = Unreadable;

    fn try_from(answer: proto::DescribeResponse) -> Result<Self, Unreadable> {
        required(answer.host, "the host's description")?.try_into()
    }
}

pub(super) fn to_counters(values: Vec<(String, u64)>) -> Vec<proto::Counter> {
    values
        .into_iter()
        .map(|(name, value)| proto::Counter { name, value })
        .collect()
}

pub(super) fn from_counters(counters: Vec<proto::Counter>) -> Vec<(String, u64)> {
    counters
        .into_iter()
        .map(|counter| (counter.name, counter.value))
        .collect()
}

impl From<ShardCounters> for proto::ShardCounters {
    fn from(shard: ShardCounters) -> Self {
        Self {
            shard: shard.shard.into(),
            counters: to_counters(shard.values),
        }
    }
}

impl TryFrom<proto::ShardCounters> for ShardCounters {
    type Error = Unreadable;

    fn try_from(shard: proto::ShardCounters) -> Result<Self, Unreadable> {
        Ok(Self {
            shard: narrow(shard.shard, "shard")?,
            values: from_counters(shard.counters),
        })
    }
}
