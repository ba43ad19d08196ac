//! A number that one process has for others of its user, on this machine: a socket, no memory.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, bind, recv, send};

use crate::door::{Door, address, dial, socket};
use crate::greeting::{check_users, set_patience};

/// So that programs of another version are not understood by half.
const MAGIC: [u8; 8] = *b"TRIBNUM1";

/// How long one who asks has to take the answer: it waits for it.
const ANSWER: Duration = Duration::from_millis(500);

impl Door {
    /// Waits for somebody who [`ask`]s, at most for `limit`, and tells it `number`; `false` if nobody came.
    ///
    /// # Errors
    /// Who asked is another user's, or gone. The door works on.
    pub fn tell(&self, limit: Duration, number: u64) -> io::Result<bool> {
        let Some(socket) = self.caller(limit)? else {
            return Ok(false);
        };
        check_same_user(&socket)?;
        set_patience(socket.as_fd(), ANSWER)?;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..].copy_from_slice(&number.to_le_bytes());
        send(&socket, &bytes, SendFlags::NOSIGNAL)?;
        Ok(true)
    }
}

/// Asks at the door of this name for the number that is told there, and waits for it, at most for `patience` with each step.
///
/// # Errors
/// `ConnectionRefused`: there is no such door, or not in this network namespace. `PermissionDenied`: it is another user's, of
/// which the error says the number. `InvalidData`: something else was said. Anything else may pass.
pub fn ask(name: &str, patience: Duration) -> io::Result<u64> {
    let socket = call(name, patience)?;
    let mut bytes = [0; 17];
    let (_, len) = recv(&socket, &mut bytes, RecvFlags::empty())?;
    if len == 0 {
        return Err(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the other side has ended",
        ));
    }
    match bytes[..len].as_chunks::<8>() {
        ([MAGIC, number], []) => Ok(u64::from_le_bytes(*number)),
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the other side is a program of another version",
        )),
    }
}

/// Who has the name of a door, for a process that would like to have it: `Ok` is a process of the same user.
///
/// # Errors
/// As of [`ask`]; `ConnectionRefused` also of a process that has the name and does not listen.
pub fn holder(name: &str, patience: Duration) -> io::Result<()> {
    call(name, patience).map(drop)
}

/// Whether some process has the name, listening or not.
///
/// # Errors
/// The name is too long, or there can be no sockets.
pub fn is_taken(name: &str) -> io::Result<bool> {
    match bind(&socket()?, &address(name)?) {
        Ok(()) => Ok(false),
        Err(Errno::ADDRINUSE) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

fn call(name: &str, patience: Duration) -> io::Result<OwnedFd> {
    let socket = dial(name, patience)?;
    check_same_user(&socket)?;
    Ok(socket)
}

/// Root's processes too are refused: what is told is for those of one job.
fn check_same_user(socket: &OwnedFd) -> io::Result<()> {
    check_users(socket.as_fd(), |theirs, ours| theirs == ours)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn everybody_is_told_the_same() {
        let name = format!("shm-io-notice-{}", std::process::id());
        assert_eq!(
            ask(&name, LONG).unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        assert!(!is_taken(&name).unwrap());
        let door = Door::open(&name).unwrap();
        assert!(is_taken(&name).unwrap());
        holder(&name, LONG).unwrap();
        let asked = [(); 3].map(|()| {
            let name = name.clone();
            std::thread::spawn(move || ask(&name, LONG))
        });
        // One that was there only to look is gone.
        let mut told = 0;
        while told < 3 {
            told += u32::from(door.tell(LONG, 1 << 40).is_ok_and(|told| told));
            if asked.iter().all(std::thread::JoinHandle::is_finished) {
                break;
            }
        }
        for asked in asked {
            assert_eq!(asked.join().unwrap().unwrap(), 1 << 40);
        }
        assert!(!door.tell(Duration::ZERO, 1).unwrap());
    }

    #[test]
    fn a_name_that_is_held_without_listening_is_taken() {
        let name = format!("shm-io-mute-{}", std::process::id());
        let mute = socket().unwrap();
        bind(&mute, &address(&name).unwrap()).unwrap();
        assert_eq!(
            ask(&name, LONG).unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        assert!(is_taken(&name).unwrap());
        assert_eq!(Door::open(&name).unwrap_err().kind(), io::ErrorKind::AddrInUse);
    }
}
