//! New connections, also where for a while there can be none.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Sleep, sleep};
use tonic::codegen::tokio_stream::Stream;

/// A pause after a connection that could not be taken, as a process without a file to spare would try for ever, at once.
const PAUSE: Duration = Duration::from_millis(100);

/// Connections as `inner` takes them. Where the system does not let it, others wait with the kernel meanwhile.
pub(crate) struct Incoming<S> {
    inner: S,
    pause: Option<Pin<Box<Sleep>>>,
    /// The last one could not be taken, which was said.
    failing: bool,
}

impl<S> Incoming<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self {
            inner,
            pause: None,
            failing: false,
        }
    }
}

impl<T, S: Stream<Item = io::Result<T>> + Unpin> Stream for Incoming<S> {
    type Item = io::Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(pause) = &mut self.pause {
                std::task::ready!(pause.as_mut().poll(context));
                self.pause = None;
            }
            match std::task::ready!(Pin::new(&mut self.inner).poll_next(context)) {
                Some(Err(error)) if !is_of_the_caller(&error) => {
                    if !std::mem::replace(&mut self.failing, true) {
                        tracing::warn!(%error, "nobody can connect for now: raise the limit on open files (ulimit -n), or end processes");
                    }
                    self.pause = Some(Box::pin(sleep(PAUSE)));
                }
                other => {
                    self.failing = false;
                    return Poll::Ready(other);
                }
            }
        }
    }
}

/// Whether the connection was lost, rather than that none can be taken.
fn is_of_the_caller(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, Interrupted, TimedOut};
    matches!(
        error.kind(),
        BrokenPipe | ConnectionAborted | ConnectionReset | Interrupted | TimedOut
    )
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use tonic::codegen::tokio_stream::StreamExt;

    use super::*;

    /// What it hands out, and how often it was asked.
    struct Script(VecDeque<io::Result<u8>>, usize);

    impl Stream for Script {
        type Item = io::Result<u8>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            self.1 += 1;
            Poll::Ready(self.0.pop_front())
        }
    }

    #[test]
    fn without_a_file_to_spare_it_waits_and_goes_on() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let error = |number| Err(io::Error::from_raw_os_error(number));
        // EMFILE, ENOMEM, ECONNABORTED.
        let script = [error(24), error(12), Ok(1), error(103), Ok(2)];
        let mut incoming = Incoming::new(Script(script.into(), 0));
        runtime.block_on(async {
            std::future::poll_fn(|context| {
                assert!(Pin::new(&mut incoming).poll_next(context).is_pending());
                assert_eq!(incoming.inner.1, 1);
                Poll::Ready(())
            })
            .await;
            assert_eq!(incoming.next().await.unwrap().unwrap(), 1);
            let lost = incoming.next().await.unwrap().unwrap_err();
            assert_eq!(lost.kind(), io::ErrorKind::ConnectionAborted);
            assert_eq!(incoming.next().await.unwrap().unwrap(), 2);
            assert!(incoming.next().await.is_none());
        });
        assert_eq!(incoming.inner.1, 6);
    }
}
