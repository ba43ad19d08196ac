//! Where packets come from.

use agg_core::Endpoint;

/// The address and port that packets come from.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct TributaryEndpoint {
    /// An IPv6 address in network byte order; IPv4 as `::ffff:a.b.c.d`. On a link without either, whatever tells the
    /// members apart.
    pub ip: [u8; 16],
    /// The UDP port.
    pub port: u16,
}

impl From<TributaryEndpoint> for Endpoint {
    fn from(TributaryEndpoint { ip, port }: TributaryEndpoint) -> Self {
        Self { ip, port }
    }
}
