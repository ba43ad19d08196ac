//! Waiting for any queue of a port. With epoll it costs the same however many there are; poll(2) over eight sockets
//! took a tenth of an aggregator's time where operations are small.

#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) use linux::Watch;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) use other::Watch;

#[cfg(any(target_os = "linux", target_os = "android"))]
mod linux {
    use std::{
        io,
        mem::MaybeUninit,
        os::fd::{BorrowedFd, OwnedFd},
        time::Duration,
    };

    use rustix::{
        event::{
            Timespec,
            epoll::{self, CreateFlags, EventData, EventFlags},
        },
        io::Errno,
    };

    use crate::{MAX_QUEUES, QueueSet, UdpPort};

    #[derive(Debug)]
    pub(crate) struct Watch {
        epoll: OwnedFd,
    }

    impl Watch {
        pub(crate) fn new(queues: &[UdpPort]) -> io::Result<Watch> {
            let epoll = epoll::create(CreateFlags::CLOEXEC)?;
            for (number, queue) in queues.iter().enumerate() {
                epoll::add(&epoll, queue, EventData::new_u64(number as u64), EventFlags::IN)?;
            }
            Ok(Watch { epoll })
        }

        pub(crate) fn also(&self, file: BorrowedFd<'_>, name: u64) -> io::Result<()> {
            let events = EventFlags::IN | EventFlags::RDHUP;
            Ok(epoll::add(&self.epoll, file, EventData::new_u64(name), events)?)
        }

        pub(crate) fn wait(
            &self,
            _: &[UdpPort],
            timeout: Duration,
            mut also: impl FnMut(u64),
        ) -> io::Result<QueueSet> {
            // A timeout beyond the type's range is as good as none.
            let timeout = Timespec::try_from(timeout).ok();
            let mut events = [MaybeUninit::uninit(); MAX_QUEUES];
            let mut ready = QueueSet::default();
            match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
                // Also an error, which is to be received too, or it would wake the caller for ever.
                Ok((events, _)) => events.iter().for_each(|event| match event.data.u64() {
                    queue if queue < MAX_QUEUES as u64 => ready.insert(queue as usize),
                    name => also(name),
                }),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            Ok(ready)
        }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
mod other {
    use std::{io, time::Duration};

    use crate::{Port, QueueSet, UdpPort};

    /// There is one queue only.
    #[derive(Debug)]
    pub(crate) struct Watch;

    impl Watch {
        pub(crate) fn new(_: &[UdpPort]) -> io::Result<Watch> {
            Ok(Watch)
        }

        pub(crate) fn wait(
            &self,
            queues: &[UdpPort],
            timeout: Duration,
            _: impl FnMut(u64),
        ) -> io::Result<QueueSet> {
            let mut ready = QueueSet::default();
            if queues[0].wait_readable(timeout)? {
                ready.insert(0);
            }
            Ok(ready)
        }
    }
}
