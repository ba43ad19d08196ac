//! The UDP socket.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    os::fd::{AsFd, BorrowedFd},
    time::Duration,
};

use quinn_udp::{UdpSockRef, UdpSocketState};
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};

use crate::{Held, Port, PortError, RecvBatch, SendBatch, timestamps};

/// How much the kernel should buffer for a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortConfig {
    /// Receive buffer to ask for, in bytes. It must absorb what all peers may have in flight at once while the
    /// receiving thread is not scheduled.
    pub receive_buffer: usize,
    /// Send buffer to ask for, in bytes.
    pub send_buffer: usize,
    /// How long the kernel should look into the interface's queues itself when a receive finds nothing, to the microsecond
    /// (`SO_BUSY_POLL`; Documentation/networking/napi.rst). Only drivers of real NICs have it, and only a process with
    /// `CAP_NET_ADMIN` may ask for more than `net.core.busy_read`: where it is refused nothing changes. Zero: as the system has it.
    pub busy_poll: Duration,
}

impl Default for PortConfig {
    /// 8 MiB and 4 MiB: some milliseconds of a 10 Gb/s link.
    fn default() -> PortConfig {
        PortConfig {
            receive_buffer: 8 << 20,
            send_buffer: 4 << 20,
            busy_poll: Duration::ZERO,
        }
    }
}

/// Whether other sockets of this user may have the same port (`SO_REUSEPORT`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sharing {
    Never,
    /// Those bound after this one. As it does not ask for sharing when it is bound itself, it is refused a port that
    /// anyone has: so two processes cannot come to share one by accident, each taking part of the other's packets.
    Later,
    /// It is one of those.
    Joins,
}

/// A bound, non-blocking UDP socket with segmentation offloads and IP fragmentation forbidden.
///
/// Its operations are those of [`Port`].
#[derive(Debug)]
pub struct UdpPort {
    socket: UdpSocket,
    pub(crate) state: UdpSocketState,
    local_addr: SocketAddr,
    receive_buffer: usize,
    send_buffer: usize,
}

impl UdpPort {
    /// Opens a socket on `addr`; port 0 lets the kernel choose. An IPv6 socket carries IPv6 only, so that a peer
    /// has one address and not also a mapped one.
    ///
    /// The buffers are forced past the system's limits where the process may (`SO_RCVBUFFORCE`), else the kernel
    /// clips them to `net.core.rmem_max` and `wmem_max` silently: compare [`receive_buffer`](Self::receive_buffer).
    pub fn bind(addr: SocketAddr, config: &PortConfig) -> Result<UdpPort, PortError> {
        Self::open(addr, config, Sharing::Never)
    }

    pub(crate) fn open(
        addr: SocketAddr,
        config: &PortConfig,
        sharing: Sharing,
    ) -> Result<UdpPort, PortError> {
        let failed = |action| move |source| PortError::new(addr, action, source);
        let share = |socket: &Socket| {
            sockopt::set_socket_reuseport(socket, true)
                .map_err(|errno| PortError::new(addr, "share the port of a UDP socket", errno.into()))
        };
        let socket = Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))
            .map_err(failed("open a UDP socket"))?;
        if addr.is_ipv6() {
            socket
                .set_only_v6(true)
                .map_err(failed("restrict the socket to IPv6"))?;
        }
        if sharing == Sharing::Joins {
            share(&socket)?;
        }
        socket.bind(&addr.into()).map_err(failed("bind a UDP socket"))?;
        if sharing == Sharing::Later {
            share(&socket)?;
        }
        let socket = UdpSocket::from(socket);
        let state = UdpSocketState::new(UdpSockRef::from(&socket)).map_err(failed("set up a UDP socket"))?;
        timestamps::switch_off(socket.as_fd()).map_err(failed("do without time stamps"))?;
        let receive_buffer = grant_receive_buffer(&socket, config.receive_buffer)
            .map_err(failed("size the receive buffer of a UDP socket"))?;
        let send_buffer = grant_send_buffer(&socket, config.send_buffer)
            .map_err(failed("size the send buffer of a UDP socket"))?;
        ask_for_busy_poll(&socket, config.busy_poll);
        let local_addr = socket
            .local_addr()
            .map_err(failed("read the address of a UDP socket"))?;
        Ok(UdpPort {
            socket,
            state,
            local_addr,
            receive_buffer,
            send_buffer,
        })
    }

    /// The bound address, with the port number the kernel chose if 0 was asked for.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The receive buffer the kernel granted, in bytes, by its own account. Linux doubles what is asked for and
    /// charges each packet's bookkeeping to it (socket(7)): small packets may use several times their length.
    pub fn receive_buffer(&self) -> usize {
        self.receive_buffer
    }

    /// The send buffer the kernel granted, in bytes, by the same account as
    /// [`receive_buffer`](Self::receive_buffer).
    pub fn send_buffer(&self) -> usize {
        self.send_buffer
    }

    /// How long the kernel looks for packets itself: see [`PortConfig::busy_poll`]. Zero where it does not, or cannot say.
    pub fn busy_poll(&self) -> Duration {
        #[cfg(target_os = "linux")]
        let granted = socket2::SockRef::from(&self.socket).busy_poll().unwrap_or(0);
        #[cfg(not(target_os = "linux"))]
        let granted = 0;
        Duration::from_micros(granted.into())
    }

    /// Packets one send can carry (GSO); 1 where the kernel or, as found while sending, the NIC cannot. Packets
    /// longer than [`path_payload`](crate::path_payload) are refused, and on older kernels look like such a NIC.
    pub fn gso_segments(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Packets one receive buffer may hold (GRO); 1 where the kernel does not coalesce.
    pub fn gro_segments(&self) -> usize {
        self.state.gro_segments()
    }

    pub(crate) fn sock_ref(&self) -> UdpSockRef<'_> {
        UdpSockRef::from(&self.socket)
    }
}

impl AsFd for UdpPort {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Port for UdpPort {
    #[inline]
    fn recv(&self, batch: &mut RecvBatch) -> io::Result<usize> {
        batch.fill_from(self, usize::MAX)
    }

    #[inline]
    fn flush(&self, batch: &mut SendBatch) -> io::Result<usize> {
        self.transmit(batch)
    }

    #[inline]
    fn udp(&self) -> &UdpPort {
        self
    }

    #[inline]
    fn poll_held(&self) -> io::Result<Held> {
        Ok(Held::Nothing)
    }
}

#[cfg(target_os = "linux")]
fn ask_for_busy_poll(socket: &UdpSocket, time: Duration) {
    let micros = i32::try_from(time.as_micros()).unwrap_or(i32::MAX);
    if micros > 0 {
        // Refused it only costs time: see `UdpPort::busy_poll`.
        let _ = socket2::SockRef::from(socket).set_busy_poll(micros as u32);
    }
}

#[cfg(not(target_os = "linux"))]
fn ask_for_busy_poll(_: &UdpSocket, _: Duration) {}

/// The kernel stores buffer sizes, doubled, in an `int`.
const MAX_BUFFER: usize = i32::MAX as usize / 2;

fn grant_receive_buffer(socket: &UdpSocket, bytes: usize) -> io::Result<usize> {
    let bytes = bytes.min(MAX_BUFFER);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let forced = sockopt::set_socket_recv_buffer_size_force(socket, bytes).is_ok();
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let forced = false;
    if !forced {
        sockopt::set_socket_recv_buffer_size(socket, bytes)?;
    }
    Ok(sockopt::socket_recv_buffer_size(socket)?)
}

fn grant_send_buffer(socket: &UdpSocket, bytes: usize) -> io::Result<usize> {
    let bytes = bytes.min(MAX_BUFFER);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let forced = sockopt::set_socket_send_buffer_size_force(socket, bytes).is_ok();
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let forced = false;
    if !forced {
        sockopt::set_socket_send_buffer_size(socket, bytes)?;
    }
    Ok(sockopt::socket_send_buffer_size(socket)?)
}
