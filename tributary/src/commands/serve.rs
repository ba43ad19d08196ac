//! `tributary serve`: an aggregator until Ctrl-C.

use std::io::IsTerminal;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};

use clap::Args;
use tracing_subscriber::EnvFilter;
use udp_host::ServeArgs;

use crate::failure::Failure;
use crate::interrupt::Interrupt;

/// The arguments of `tributary serve`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  tributary serve
  tributary serve --control-addr 127.0.0.1:4600 --data-addr 127.0.0.1:4601
  tributary serve --data-addr 10.0.0.1:4601 --shards 2 --memory 256
  tributary serve --data-addr 10.0.1.1:4601 --parent 10.0.0.1:4600")]
pub struct Serve {
    #[command(flatten)]
    serve: ServeArgs,
}

impl Serve {
    /// Serves until the user wants it to end.
    pub fn run(&self) -> Result<(), Failure> {
        self.check_parent()?;
        let interrupt = Interrupt::watch()?;
        let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
        tracing_subscriber::fmt()
            .with_writer(std::io::stderr)
            .with_ansi(std::io::stderr().is_terminal())
            .with_env_filter(filter)
            .init();
        Ok(udp_host::serve(&self.serve, |limit| {
            interrupt.wait_timeout(limit)
        })?)
    }

    /// An aggregator that is its own parent would register its worlds with itself.
    fn check_parent(&self) -> Result<(), Failure> {
        let config = self.serve.host_config()?;
        let Some(parent) = config.control.parent else {
            return Ok(());
        };
        // An address that cannot be resolved now is refused later, or was given for a name that is yet to come.
        let mut addresses = parent.address.to_socket_addrs().into_iter().flatten();
        match addresses.find(|address| is_own(*address, config.control_addr)) {
            Some(_) => Err(Failure::OwnParent(parent.address)),
            None => Ok(()),
        }
    }
}

/// Whether one who listens on `own` is reached at `address`.
fn is_own(address: SocketAddr, own: SocketAddr) -> bool {
    // Nothing can be bound to an address of another machine.
    let is_here = || UdpSocket::bind((address.ip(), 0)).is_ok();
    address.port() == own.port() && (address.ip() == own.ip() || (own.ip().is_unspecified() && is_here()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_own_address_is_known_however_it_is_written() {
        let own = |address: &str, own: &str| is_own(address.parse().unwrap(), own.parse().unwrap());
        assert!(own("127.0.0.1:4600", "127.0.0.1:4600"));
        assert!(own("127.0.0.1:4600", "0.0.0.0:4600"));
        assert!(!own("127.0.0.1:4601", "0.0.0.0:4600"));
        assert!(!own("192.0.2.1:4600", "0.0.0.0:4600"), "another machine's");
        assert!(!own("127.0.0.2:4600", "127.0.0.1:4600"));
    }
}
