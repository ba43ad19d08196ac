//! One stream: the sans-IO worker behind one socket.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use agg_core::worker::StartError;
use agg_core::{Failure, Nanos, Operation, Tensor};
use udp_io::{Port, RecvBatch, SendBatch};

use crate::port::WorkerPort;
use crate::simd::{self, StreamWorker};

/// The longest sleep without a look whether the job has been ended from outside.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Trains of packets to the one aggregator: full ones and a short one.
const TRAINS: usize = 4;

pub(crate) struct Stream {
    pub(crate) worker: StreamWorker,
    pub(crate) port: Arc<WorkerPort>,
    pub(crate) aggregator: SocketAddr,
    /// The aggregator's socket is not bound to one address: it may answer from another than it was sent to, whichever its
    /// kernel picks. Its port and the job's key tell its packets then.
    aggregator_has_many_addresses: bool,
    received: RecvBatch,
    sending: SendBatch,
    packet: Box<[u8]>,
    clock: Instant,
}

/// Why an operation stopped on a stream.
pub(crate) enum Stopped {
    Failed(Failure),
    Ended,
    Socket(io::Error),
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::Socket(error)
    }
}

impl Stream {
    pub(crate) fn new(
        worker: StreamWorker,
        port: Arc<WorkerPort>,
        aggregator: SocketAddr,
        aggregator_has_many_addresses: bool,
        packet_len: usize,
        clock: Instant,
    ) -> Self {
        Self {
            received: RecvBatch::new(port.udp(), packet_len),
            sending: SendBatch::new(packet_len, TRAINS),
            packet: vec![0; packet_len].into_boxed_slice(),
            worker,
            port,
            aggregator,
            aggregator_has_many_addresses,
            clock,
        }
    }

    fn now(&self) -> Nanos {
        self.clock.elapsed().as_nanos() as Nanos
    }

    /// Runs an operation to its end. `ended` is asked now and then whether the job is over.
    pub(crate) fn run(
        &mut self,
        operation: Operation,
        elements: u64,
        tensor: &mut Tensor<'_>,
        ended: impl Fn() -> bool,
    ) -> Result<(), Stopped> {
        self.worker
            .start(operation, elements, self.now())
            .map_err(|error| match error {
                StartError::Failed(failure) => Stopped::Failed(failure),
                // The caller holds the stream from start to end, so that an operation under way was cut short.
                StartError::Busy | StartError::Abandoned => Stopped::Ended,
            })?;
        while self.worker.is_busy() {
            self.send_all(tensor)?;
            let heard = self.receive(tensor)? > 0;
            if ended() {
                return Err(Stopped::Ended);
            }
            let now = self.now();
            let due = self.worker.next_timeout().unwrap_or(now);
            if now >= due {
                self.worker.handle_timeout(now);
            } else if !heard {
                self.port
                    .wait_readable(Duration::from_nanos(due - now).min(LOOK_UP))?;
            }
        }
        match self.worker.failure() {
            Some(failure) => Err(Stopped::Failed(failure)),
            None => Ok(()),
        }
    }

    /// Takes in what has come between operations, and answers it.
    pub(crate) fn serve(&mut self) -> io::Result<()> {
        if self.receive(&mut Tensor::Empty)? > 0 {
            self.send_all(&Tensor::Empty)?;
        }
        Ok(())
    }

    fn send_all(&mut self, tensor: &Tensor<'_>) -> io::Result<()> {
        let now = self.now();
        while let Some(len) = simd::transmit(&mut self.worker, now, tensor, &mut self.packet) {
            self.port
                .send(&mut self.sending, self.aggregator, &self.packet[..len])?;
        }
        self.port.flush(&mut self.sending).map(|_| ())
    }

    /// Takes in what has come; returns how many packets were the aggregator's.
    fn receive(&mut self, tensor: &mut Tensor<'_>) -> io::Result<usize> {
        self.port.recv(&mut self.received)?;
        let now = self.now();
        let mut count = 0;
        for (source, packet) in self.received.packets() {
            let address_matters = !self.aggregator_has_many_addresses;
            if source.port() == self.aggregator.port() && !(address_matters && source != self.aggregator) {
                simd::handle(&mut self.worker, now, packet, tensor);
                count += 1;
            }
        }
        Ok(count)
    }

    /// Packets that the kernel did not take, and why it did not take the last.
    pub(crate) fn unsent(&self) -> (u64, Option<io::Error>) {
        (self.sending.counts().dropped, self.sending.last_error())
    }

    pub(crate) fn packets_sent(&self) -> u64 {
        self.sending.counts().sent
    }
}
