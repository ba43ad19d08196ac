//! What the two sides say to each other first: a few numbers and a file in memory.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::sockopt::{self, Timeout};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use rustix::process::geteuid;

/// So that programs of another version are not understood by half.
const MAGIC: [u8; 8] = *b"TRIBSHM1";

/// Bytes of a greeting.
const LEN: usize = 24;

/// What one side says first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Greeting {
    /// Of who calls: what the line is for. Of who answers: its name.
    pub(crate) number: u64,
    /// Of who calls: bytes of the ring that it would like to be answered by.
    pub(crate) ring: u64,
}

impl Greeting {
    fn bytes(self) -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.number.to_le_bytes());
        bytes[16..].copy_from_slice(&self.ring.to_le_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let (words, rest) = bytes.as_chunks::<8>();
        let [MAGIC, number, ring] = words else {
            return None;
        };
        rest.is_empty().then(|| Self {
            number: u64::from_le_bytes(*number),
            ring: u64::from_le_bytes(*ring),
        })
    }

    /// Sends it with a file.
    pub(crate) fn send(self, socket: BorrowedFd<'_>, file: BorrowedFd<'_>) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        let files = [file];
        if !control.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        sendmsg(
            socket,
            &[IoSlice::new(&self.bytes())],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    /// Waits for the other side's.
    pub(crate) fn receive(socket: BorrowedFd<'_>) -> io::Result<(Self, OwnedFd)> {
        let unfit = |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("the other side {what}"));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        // A byte more, to see whether it is longer.
        let mut bytes = [0; LEN + 1];
        let received = recvmsg(
            socket,
            &mut [IoSliceMut::new(&mut bytes)],
            &mut control,
            RecvFlags::CMSG_CLOEXEC,
        )?;
        let mut files = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                files.extend(some);
            }
        }
        if received.bytes == 0 {
            return Err(unfit("does not want a line, or has ended"));
        }
        let greeting = Self::read(&bytes[..received.bytes]);
        let greeting = greeting.ok_or_else(|| unfit("is a program of another version"))?;
        // There is room for two, as the kernel aligns it.
        let file = files.pop().filter(|_| files.is_empty());
        match (file, received.flags.contains(ReturnFlags::CTRUNC)) {
            (Some(file), false) => Ok((greeting, file)),
            _ => Err(unfit("has handed over no file, or several")),
        }
    }
}

/// Bounds how long a send, a receive, a connect or an accept waits.
pub(crate) fn set_patience(socket: BorrowedFd<'_>, patience: Duration) -> io::Result<()> {
    // Zero would be for ever.
    let patience = Some(patience.max(Duration::from_millis(1)));
    sockopt::set_socket_timeout(socket, Timeout::Recv, patience)?;
    sockopt::set_socket_timeout(socket, Timeout::Send, patience)?;
    Ok(())
}

/// Refuses processes of other users.
pub(crate) fn check_user(socket: BorrowedFd<'_>) -> io::Result<()> {
    check_users(socket, is_trusted)
}

/// Refuses processes of users that are not `admitted`: told which user theirs is of, and then this one.
pub(crate) fn check_users(socket: BorrowedFd<'_>, admitted: impl FnOnce(u32, u32) -> bool) -> io::Result<()> {
    let theirs = sockopt::socket_peercred(socket.as_fd())?.uid.as_raw();
    let ours = geteuid().as_raw();
    if admitted(theirs, ours) {
        return Ok(());
    }
    let text = format!("the other side is a process of user {theirs}, this one is of user {ours}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

/// A user's memory is open to its own processes and to root's anyway.
fn is_trusted(theirs: u32, ours: u32) -> bool {
    theirs == ours || theirs == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_users_are_refused_but_for_root() {
        let table = [
            (1000, 1000, true),
            (0, 1000, true),
            (0, 0, true),
            (1000, 0, false),
            (1001, 1000, false),
        ];
        for (theirs, ours, trusted) in table {
            assert_eq!(is_trusted(theirs, ours), trusted, "{theirs} at {ours}");
        }
        // What the kernel says of a process of another user in a namespace of its own.
        assert!(!is_trusted(65534, 1000));
    }

    #[test]
    fn a_greeting_has_just_one_file() {
        let (here, there) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .unwrap();
        let greeting = Greeting { number: 1, ring: 2 };
        let file = std::fs::File::open("/dev/null").unwrap();
        for count in 0..4 {
            let files = vec![file.as_fd(); count];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            assert!(count == 0 || control.push(SendAncillaryMessage::ScmRights(&files)));
            let bytes = greeting.bytes();
            sendmsg(&here, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL).unwrap();
            let received = Greeting::receive(there.as_fd()).map(|(greeting, _)| greeting);
            assert_eq!(received.ok(), (count == 1).then_some(greeting), "{count} files");
        }
    }

    #[test]
    fn only_a_whole_greeting_is_one() {
        let greeting = Greeting {
            number: 1 << 63 | 5,
            ring: 7,
        };
        let bytes = greeting.bytes();
        assert_eq!(Greeting::read(&bytes), Some(greeting));
        assert_eq!(Greeting::read(&bytes[..LEN - 1]), None);
        assert_eq!(Greeting::read(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(Greeting::read(&[0; LEN]), None);
    }
}
