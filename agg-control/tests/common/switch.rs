//! A port that leads to one server, later to another, or to none: a host that dies, and starts again.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Default)]
struct State {
    target: Option<SocketAddr>,
    open: Vec<TcpStream>,
}

pub(crate) struct Switch {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Switch {
    pub(crate) fn to(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("is bound");
        let state = Arc::new(Mutex::new(State {
            target: Some(server),
            open: Vec::new(),
        }));
        let shared = state.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // Dropped if there is no server: the client sees a connection that breaks.
                let Some(target) = shared.lock().unwrap().target else {
                    continue;
                };
                let Ok(server) = TcpStream::connect(target) else {
                    continue;
                };
                shared
                    .lock()
                    .unwrap()
                    .open
                    .extend([client.try_clone().unwrap(), server.try_clone().unwrap()]);
                pump(client.try_clone().unwrap(), server.try_clone().unwrap());
                pump(server, client);
            }
        });
        Self { address, state }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The host is gone: all connections break.
    pub(crate) fn cut(&self) {
        let mut state = self.state.lock().unwrap();
        state.target = None;
        for stream in state.open.drain(..) {
            // One that has been closed by the other side is as good.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Another one is in its place.
    pub(crate) fn lead_to(&self, server: SocketAddr) {
        self.state.lock().unwrap().target = Some(server);
    }
}

fn pump(mut from: TcpStream, mut to: TcpStream) {
    thread::spawn(move || {
        // Both ways end together, as they do when a process dies.
        let _ = io::copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
    });
}
