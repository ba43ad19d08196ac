//! A socket, with or without injected faults.

use std::io;

use udp_io::{FaultConfig, FaultyPort, Held, Port, RecvBatch, SendBatch, UdpPort};

pub(crate) enum WorkerPort {
    Plain(UdpPort),
    Faulty(Box<FaultyPort>),
}

impl WorkerPort {
    pub(crate) fn new(port: UdpPort, faults: FaultConfig) -> Self {
        if faults.is_none() {
            Self::Plain(port)
        } else {
            Self::Faulty(Box::new(FaultyPort::new(port, faults)))
        }
    }

    /// Packets that the injected faults have lost.
    pub(crate) fn lost(&self) -> u64 {
        match self {
            Self::Plain(_) => 0,
            Self::Faulty(port) => port.faults().sent.lost + port.faults().received.lost,
        }
    }
}

impl Port for WorkerPort {
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
