//! Datagrams through sockets of the kernel, with or without injected faults.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use agg_core::wire::Ecn;
use udp_io::{
    FaultConfig, FaultyPort, Held, Port, PortConfig, RecvBatch, SendBatch, UdpPort, local_ip_towards,
    path_payload, wait_any,
};

use crate::Config;
use crate::transport::{Link, LinkCounts, Ports, Transport, TransportError, Way};

/// Trains of packets to the one aggregator: full ones and a short one.
const TRAINS: usize = 4;

/// Sockets of the kernel.
#[derive(Debug)]
pub(crate) struct Udp {
    rank: u32,
    receive_buffer: usize,
    busy_poll: Duration,
    faults: FaultConfig,
}

impl Udp {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            rank: config.rank,
            receive_buffer: config.receive_buffer,
            busy_poll: config.busy_poll,
            faults: config.faults,
        }
    }
}

impl Transport for Udp {
    fn way(&self, aggregator: SocketAddr) -> Result<Way, TransportError> {
        let no_route = |error| format!("no route to {aggregator}: {error}");
        Ok(Way {
            aggregator,
            local_ip: local_ip_towards(aggregator).map_err(no_route)?,
            max_datagram: path_payload(aggregator).map_err(no_route)?,
        })
    }

    fn open(&self, way: &Way, streams: u16) -> Result<Arc<dyn Ports>, TransportError> {
        let buffers = PortConfig {
            receive_buffer: self.receive_buffer,
            busy_poll: self.busy_poll,
            ..PortConfig::default()
        };
        let sockets = (0..streams).map(|stream| {
            let port = UdpPort::bind(SocketAddr::new(way.local_ip, 0), &buffers)?;
            let mut faults = self.faults;
            // Streams and ranks must not lose the same packets.
            faults.seed = faults.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
                ^ (u64::from(self.rank) << 16 | u64::from(stream));
            Ok(Arc::new(UdpSocket::new(port, faults)))
        });
        let sockets = sockets.collect::<Result<Vec<_>, TransportError>>()?;
        Ok(Arc::new(UdpPorts {
            addresses: sockets.iter().map(|socket| socket.local_addr()).collect(),
            sockets,
        }))
    }
}

/// The sockets of a rank.
struct UdpPorts {
    sockets: Vec<Arc<UdpSocket>>,
    addresses: Vec<SocketAddr>,
}

impl Ports for UdpPorts {
    fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    fn receive_buffer(&self) -> u64 {
        let buffers = self.sockets.iter();
        let buffers = buffers.map(|socket| socket.udp().receive_buffer() as u64);
        buffers.min().unwrap_or(0)
    }

    fn link(&self, stream: usize, max_packet: usize) -> Box<dyn Link> {
        let socket = &self.sockets[stream];
        Box::new(UdpLink {
            received: RecvBatch::new(socket.udp(), max_packet),
            sending: SendBatch::new(max_packet, TRAINS),
            packet: vec![0; max_packet].into_boxed_slice(),
            socket: Arc::clone(socket),
        })
    }

    fn wait(&self, limit: Duration) -> io::Result<()> {
        let sockets: Vec<_> = self.sockets.iter().map(AsRef::as_ref).collect();
        wait_any(&sockets, limit).map(|_| ())
    }
}

/// The socket of a stream, with the packets that go in and out.
struct UdpLink {
    socket: Arc<UdpSocket>,
    received: RecvBatch,
    sending: SendBatch,
    packet: Box<[u8]>,
}

impl Link for UdpLink {
    fn room(&mut self) -> Option<&mut [u8]> {
        Some(&mut self.packet)
    }

    fn send(&mut self, len: usize, to: SocketAddr) -> io::Result<()> {
        self.socket.send(&mut self.sending, to, &self.packet[..len])
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush(&mut self.sending).map(|_| ())
    }

    fn receive(&mut self, each: &mut dyn FnMut(SocketAddr, &[u8], Ecn)) -> io::Result<()> {
        self.socket.recv(&mut self.received)?;
        for arrival in self.received.arrivals() {
            each(arrival.source, arrival.bytes, Ecn::marked(arrival.congested));
        }
        Ok(())
    }

    fn wait(&mut self, limit: Duration) -> io::Result<()> {
        self.socket.wait_readable(limit).map(|_| ())
    }

    fn counts(&self) -> LinkCounts {
        let counts = self.sending.counts();
        LinkCounts {
            sent: counts.sent,
            unsent: counts.dropped,
            lost: self.socket.lost(),
            too_long: self.received.oversized(),
        }
    }

    fn last_error(&self) -> Option<io::Error> {
        self.sending.last_error()
    }
}

/// A socket, with or without injected faults.
enum UdpSocket {
    Plain(UdpPort),
    Faulty(Box<FaultyPort>),
}

impl UdpSocket {
    fn new(port: UdpPort, faults: FaultConfig) -> Self {
        if faults.is_none() {
            Self::Plain(port)
        } else {
            Self::Faulty(Box::new(FaultyPort::new(port, faults)))
        }
    }

    /// Packets that the injected faults have lost.
    fn lost(&self) -> u64 {
        match self {
            Self::Plain(_) => 0,
            Self::Faulty(port) => port.faults().sent.lost + port.faults().received.lost,
        }
    }
}

impl Port for UdpSocket {
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        match self {
            Self::Plain(port) => port.recv(batch),
            Self::Faulty(port) => port.recv(batch),
        }
    }

    fn flush(&self, batch: &mut SendBatch) -> io::Result<usize> {
        match self {
            Self::Plain(port) => port.flush(batch),
            Self::Faulty(port) => port.flush(batch),
        }
    }

    fn udp(&self) -> &UdpPort {
        match self {
            Self::Plain(port) => port,
            Self::Faulty(port) => port.udp(),
        }
    }

    fn poll_held(&self) -> io::Result<Held> {
        match self {
            Self::Plain(port) => port.poll_held(),
            Self::Faulty(port) => port.poll_held(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_longer_than_the_job_s_packets_is_counted() {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let udp = Udp::new(&Config::new("udp", 0, 1));
        let way = udp.way(socket.local_addr().unwrap()).unwrap();
        let ports = udp.open(&way, 1).unwrap();
        for packet in [&[1; 100][..], &[2; 101], &[3; 9]] {
            socket.send_to(packet, ports.addresses()[0]).unwrap();
        }
        let mut link = ports.link(0, 100);
        let mut came = Vec::new();
        // At loopback all are there when they are sent; how many are received at once is up to the kernel.
        for _ in 0..3 {
            link.receive(&mut |_, packet, _| came.push(packet.to_vec()))
                .unwrap();
        }
        assert_eq!(came, [vec![1; 100], vec![3; 9]]);
        assert_eq!(link.counts().too_long, 1);
    }
}
