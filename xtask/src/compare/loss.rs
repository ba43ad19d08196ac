//! The same loss for all sides: each host drops a share of what arrives, whatever protocol it is (nftables).
//!
//! A sender's offloads would have a train of many TCP segments, up to 64 KiB, pass a virtual link as one packet, and the rule
//! would drop it as one. So they are off while this measures, with and without loss, and the rule's own counters say whether
//! packets were as long as the link's MTU at most.

use testnet::{Host, Link};

use super::Compare;
use super::side::Side;
use crate::running::{all, median};
use crate::sides::serve;

/// Of so many packets the rule drops some: the finest share there is.
const OF: u32 = 10_000;

/// The shares that are measured, in ten-thousandths; without any there is nothing to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loss(u32);

impl std::str::FromStr for Loss {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
        let percent = number.ok().filter(|percent| (0.01..=20.0).contains(percent));
        let percent = percent.ok_or_else(|| format!("'{text}' is no share like 0.1%, from 0.01% to 20%"))?;
        Ok(Self((percent * f64::from(OF) / 100.0).round() as u32))
    }
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&format!("{} %", f64::from(self.0) * 100.0 / f64::from(OF)))
    }
}

/// What the rules of all hosts have seen.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    packets: u64,
    bytes: u64,
    dropped: u64,
}

/// What a side did under one share of loss.
#[derive(Clone, Default)]
struct Cell {
    seconds: Vec<f64>,
    seen: Seen,
}

/// Each side without loss and with each share of it, in turns.
pub(super) fn measure(compare: &Compare) -> Result<(), String> {
    let field = compare.field("trib-cmp", Link::default())?;
    let hosts: Vec<&Host> = field.ranks.iter().chain([&field.aggregator]).collect();
    offloads_off(&hosts)?;
    let sides = Side::all(compare, &field)?;
    let shares: Vec<Loss> = std::iter::once(Loss(0))
        .chain(compare.loss.iter().copied())
        .collect();
    let mut rows = vec![vec![Cell::default(); sides.len()]; shares.len()];
    for turn in 0..compare.turns {
        for (number, (loss, row)) in shares.iter().zip(&mut rows).enumerate() {
            let _serve = serve(&field.aggregator, &[])?;
            for (side, cell) in sides.iter().zip(row) {
                lose(&hosts, *loss)?;
                cell.seconds
                    .push(side.turn(compare, &field, turn * shares.len() + number)?);
                cell.seen.add(&look(&hosts)?);
            }
        }
    }
    compare.about();
    println!("  each host drops a share of all packets that arrive; segmentation offloads are off");
    let mut without = vec![0.0; sides.len()];
    for (loss, row) in shares.iter().zip(rows) {
        for ((side, cell), without) in sides.iter().zip(row).zip(&mut without) {
            let seconds = median(cell.seconds)?;
            if *loss == Loss(0) {
                *without = seconds;
            }
            println!(
                "  loss {loss:<7} {:<10} {seconds:.4} s  {:.4} GB/s  {:.2} of its rate without loss  ({} packets of {:.0} bytes, {:.3} % dropped)",
                side.name(),
                compare.bytes as f64 / seconds / 1e9,
                *without / seconds,
                cell.seen.packets,
                cell.seen.mean(),
                cell.seen.share() * 100.0,
            );
            if cell.seen.mean() > f64::from(compare.link().mtu) {
                return Err(format!(
                    "the rule saw packets of {:.0} bytes on average: trains, not packets; offloads are not off",
                    cell.seen.mean()
                ));
            }
        }
    }
    Ok(())
}

/// No packet leaves a host as a train of segments, or is joined to one when it arrives.
fn offloads_off(hosts: &[&Host]) -> Result<(), String> {
    let commands = hosts.iter().map(|host| {
        let mut ethtool = host.command("ethtool");
        ethtool.args(["-K", "eth0", "tso", "off", "gso", "off", "gro", "off"]);
        ethtool.args(["tx-udp-segmentation", "off"]);
        ethtool
    });
    all(commands).map(drop)
}

/// From now on each host drops this share of what arrives; the counters begin anew.
fn lose(hosts: &[&Host], loss: Loss) -> Result<(), String> {
    let commands = hosts.iter().map(|host| {
        let mut nft = host.command("nft");
        nft.arg(rules(loss));
        nft
    });
    all(commands)
        .map(drop)
        .map_err(|error| format!("nft refuses the rule ({error}): it needs the package nftables"))
}

/// The table does not exist at first: it is made, so that it can be deleted, and made anew.
fn rules(loss: Loss) -> String {
    let Loss(share) = loss;
    format!(
        "add table inet trib; delete table inet trib; add table inet trib; \
         add chain inet trib in {{ type filter hook input priority 0 ; }}; \
         add rule inet trib in iifname \"eth0\" counter; \
         add rule inet trib in iifname \"eth0\" numgen random mod {OF} < {share} counter drop"
    )
}

fn look(hosts: &[&Host]) -> Result<Seen, String> {
    let commands = hosts.iter().map(|host| {
        let mut nft = host.command("nft");
        nft.args(["list", "table", "inet", "trib"]);
        nft
    });
    let mut sum = Seen::default();
    for output in all(commands)? {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        sum.add(&Seen::read(&text).ok_or_else(|| format!("no counters in: {text}"))?);
    }
    Ok(sum)
}

impl Seen {
    /// The two counters of the rules: of all packets, and of those dropped.
    fn read(text: &str) -> Option<Self> {
        let mut counters = text.lines().filter_map(|line| {
            let mut words = line.split_whitespace().skip_while(|word| *word != "counter");
            words.next()?;
            let mut number = |name: &str| {
                let named = words.next().is_some_and(|word| word == name);
                words.next().filter(|_| named)?.parse::<u64>().ok()
            };
            Some((number("packets")?, number("bytes")?))
        });
        let ((packets, bytes), (dropped, _)) = (counters.next()?, counters.next()?);
        Some(Self {
            packets,
            bytes,
            dropped,
        })
    }

    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.dropped += other.dropped;
    }

    /// Bytes of a packet.
    fn mean(&self) -> f64 {
        self.bytes as f64 / self.packets.max(1) as f64
    }

    fn share(&self) -> f64 {
        self.dropped as f64 / self.packets.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_and_shown() {
        for (text, share, shown) in [("0.1%", 10, "0.1 %"), ("1", 100, "1 %"), ("0.01%", 1, "0.01 %")] {
            let loss: Loss = text.parse().unwrap();
            assert_eq!((loss, loss.to_string().as_str()), (Loss(share), shown));
        }
        for text in ["0%", "21%", "-1", "x", "NaN", ""] {
            assert!(text.parse::<Loss>().is_err(), "{text}");
        }
        assert!(rules(Loss(10)).contains("mod 10000 < 10 counter drop"));
    }

    #[test]
    fn counters_are_those_of_the_two_rules() {
        let text = "table inet trib {\n\tchain in {\n\t\ttype filter hook input priority filter; policy accept;\n\
                    \t\tiifname \"eth0\" counter packets 2000 bytes 3000000\n\
                    \t\tiifname \"eth0\" numgen random mod 10000 < 10 counter packets 3 bytes 4500 drop\n\t}\n}\n";
        let seen = Seen::read(text).unwrap();
        assert_eq!((seen.packets, seen.mean(), seen.share()), (2000, 1500.0, 0.0015));
        assert_eq!(Seen::read("table inet trib {\n}\n"), None);
    }
}
