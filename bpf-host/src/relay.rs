//! The few packets that the program passes on, since its answer is longer than what arrived.
//!
//! A header-only packet can ask for a chunk of values: a parent's Want for a result, a member's second send of a chunk that
//! had none. The frame it came in has no room for them. The program then leaves it to the stack, which gives it to the
//! socket here. The same program runs once more, on the same maps, over the packet in a frame that has room
//! (`BPF_PROG_TEST_RUN`), and what it makes of it is sent through the socket. Packets that came in fragments, which the
//! program does not see whole either, are answered the same way.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use agg_core::wire::Header;
use aya::programs::{TestRun, TestRunOptions};
use bpf_layout::MAX_FRAME;
use udp_io::local_ip_towards;

use crate::frame::{MAX_PACKET, unwrap, wrap};
use crate::load::Programs;
use crate::plane::Ways;

/// How long it waits at most before it looks whether it is to stop.
const STOP_INTERVAL: Duration = Duration::from_millis(100);

/// What the program wants done with a frame: `enum xdp_action` of include/uapi/linux/bpf.h.
const XDP_TX: u32 = 3;
const XDP_REDIRECT: u32 = 4;

/// Who runs the program over a frame.
pub(crate) trait Runner {
    /// The program's verdict; `out` holds the frame as it left it, of so many bytes.
    fn run(&self, frame: &[u8], out: &mut [u8]) -> io::Result<(u32, usize)>;
}

impl Runner for Arc<Mutex<Programs>> {
    fn run(&self, frame: &[u8], out: &mut [u8]) -> io::Result<(u32, usize)> {
        let programs = self.lock().unwrap_or_else(PoisonError::into_inner);
        let program = programs.program().ok_or(io::ErrorKind::NotFound)?;
        let run = TestRunOptions {
            data_in: Some(frame),
            data_out: Some(out),
            ..TestRunOptions::default()
        };
        let result = program.test_run(run).map_err(io::Error::other)?;
        Ok((result.return_value, result.data_size_out as usize))
    }
}

/// The socket and the program.
pub(crate) struct Relay<R> {
    pub(crate) socket: UdpSocket,
    pub(crate) local: SocketAddrV4,
    pub(crate) runner: R,
}

impl<R: Runner> Relay<R> {
    /// Answers until told to stop; `ways` says where a job's packets go.
    pub(crate) fn serve(&self, ways: impl Fn(u64) -> Option<Ways>, stop: &AtomicBool) -> io::Result<()> {
        self.socket.set_read_timeout(Some(STOP_INTERVAL))?;
        // One byte more: what is too long is seen.
        let mut packet = vec![0; MAX_PACKET + 1];
        while !stop.load(Ordering::Relaxed) {
            match self.socket.recv_from(&mut packet) {
                Ok((len, SocketAddr::V4(source))) => self.answer(source, &packet[..len], &ways),
                Ok(_) => {}
                // A timeout; or somebody refused what was sent to it, which changes nothing here.
                Err(error) if is_passing(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn answer(&self, source: SocketAddrV4, packet: &[u8], ways: impl Fn(u64) -> Option<Ways>) {
        let Some(frame) = wrap(source, self.local_for(source), packet) else {
            return;
        };
        let mut out = [0; MAX_FRAME];
        let (verdict, len) = match self.runner.run(&frame, &mut out) {
            Ok(run) => run,
            Err(error) => {
                tracing::error!(%error, "the kernel does not run the program over a packet that it passed on");
                return;
            }
        };
        let Some((to, packet)) = unwrap(&out[..len.min(MAX_FRAME)]) else {
            return;
        };
        match verdict {
            XDP_TX => self.send(packet, to.into()),
            // A reply as well.
            XDP_REDIRECT if to == source => self.send(packet, to.into()),
            XDP_REDIRECT => {
                let Ok((header, _)) = Header::split(packet) else {
                    return;
                };
                let Some(ways) = ways(header.key) else {
                    return;
                };
                // What goes to all members is still addressed as it came.
                match ways.parent {
                    Some((parent, _)) if parent == SocketAddr::V4(to) => self.send(packet, parent),
                    _ => ways
                        .members
                        .iter()
                        .for_each(|(member, _)| self.send(packet, *member)),
                }
            }
            _ => {}
        }
    }

    /// The address that a packet was sent to, as far as the program looks at it.
    fn local_for(&self, source: SocketAddrV4) -> SocketAddrV4 {
        if !self.local.ip().is_unspecified() {
            return self.local;
        }
        let ip = match local_ip_towards(source.into()) {
            Ok(IpAddr::V4(ip)) => ip,
            _ => Ipv4Addr::LOCALHOST,
        };
        SocketAddrV4::new(ip, self.local.port())
    }

    /// What is not sent is as good as lost, and asked for again.
    fn send(&self, packet: &[u8], to: SocketAddr) {
        let _ = self.socket.send_to(packet, to);
    }
}

/// Whether a socket goes on after this.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock,
    };
    matches!(
        error.kind(),
        WouldBlock | TimedOut | Interrupted | ConnectionRefused | HostUnreachable | NetworkUnreachable
    )
}

#[cfg(test)]
mod tests;
