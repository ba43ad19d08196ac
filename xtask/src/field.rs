//! A test network to measure in: a host for the aggregator and one for each rank, joined by a bridge.

use testnet::{Host, Link, Net};

/// The hosts of a test network.
pub(crate) struct Field {
    pub(crate) aggregator: Host,
    pub(crate) ranks: Vec<Host>,
    // Dropped after the handles: it ends what still runs inside.
    _net: Net,
}

impl Field {
    /// A network of this name; each rank has one of the links.
    pub(crate) fn new(
        name: &str,
        aggregator: Link,
        ranks: impl IntoIterator<Item = Link>,
    ) -> Result<Self, String> {
        let mut net = Net::new(name).map_err(|error| error.to_string())?;
        let mut host = |name: &str, link| net.add_host(name, link).map_err(|error| error.to_string());
        let aggregator = host("agg", aggregator)?;
        let ranks = ranks.into_iter().enumerate();
        let ranks = ranks.map(|(rank, link)| host(&format!("r{rank}"), link));
        Ok(Self {
            ranks: ranks.collect::<Result<_, _>>()?,
            aggregator,
            _net: net,
        })
    }

    /// Bytes that all ranks have sent by their links so far.
    pub(crate) fn sent(&self) -> Result<u64, String> {
        let sent = |rank: &Host| rank.counters().map(|counters| counters.tx_bytes);
        let sent = self.ranks.iter().map(sent).sum::<Result<u64, _>>();
        sent.map_err(|error| error.to_string())
    }
}
