//! Racks whose links to the root are slower than what is in them: where sums are made before these links, they carry one
//! tensor each way, whatever the number of workers below.

use testnet::{Host, Link, Net, Switch};

use super::Compare;
use crate::running::median;
use crate::sides::{control, serve};

const RACKS: usize = 2;

pub(super) fn measure(compare: &Compare) -> Result<(), String> {
    let (mut tree, mut flat, mut gloo) = (Vec::new(), Vec::new(), Vec::new());
    let mut carried = [0; 3];
    let field = Field::new(compare)?;
    let in_rack = compare.ranks.div_ceil(RACKS);
    for turn in 0..compare.turns {
        let _root = serve(&field.root, &[])?;
        let leaf = |rack: &Switch| serve(rack, &["--parent", &control(&field.root)]);
        let _leaves = field.racks.iter().map(leaf).collect::<Result<Vec<_>, _>>()?;
        let before = field.carried()?;
        tree.push(compare.tributary(&field.ranks, |rank| control(&field.racks[rank / in_rack]))?);
        let after_tree = field.carried()?;
        flat.push(compare.tributary(&field.ranks, |_| control(&field.root))?);
        let after_flat = field.carried()?;
        gloo.push(compare.gloo(&field.ranks, turn)?);
        let after_gloo = field.carried()?;
        carried[0] += after_tree - before;
        carried[1] += after_flat - after_tree;
        carried[2] += after_gloo - after_flat;
    }
    compare.about();
    println!(
        "  in {RACKS} racks, each with {} to the root; carried: up one rack's link, in tensors an operation",
        compare.rack_rate
    );
    // The operation before those that are measured is carried too.
    let operations = (compare.turns * (super::ITERATIONS + 1)) as f64;
    let times = [median(tree)?, median(flat)?, median(gloo)?];
    for ((side, seconds), carried) in ["tree", "flat", "gloo"].iter().zip(times).zip(carried) {
        compare.row(side, seconds);
        println!(
            "             carried {:.2}",
            carried as f64 / operations / compare.bytes as f64
        );
    }
    let [tree, flat, gloo] = times;
    println!(
        "  ratios     flat / tree {:.2}, gloo / tree {:.2}",
        flat / tree,
        gloo / tree
    );
    Ok(())
}

struct Field {
    root: Host,
    racks: Vec<Switch>,
    ranks: Vec<Host>,
    _net: Net,
}

impl Field {
    fn new(compare: &Compare) -> Result<Self, String> {
        if compare.ranks < RACKS {
            return Err(format!(
                "--ranks {} does not fill {RACKS} racks: give {RACKS} or more",
                compare.ranks
            ));
        }
        let text = |error: testnet::Error| error.to_string();
        let mut net = Net::new("trib-tree").map_err(text)?;
        let root = net.add_host("root", Link::default()).map_err(text)?;
        let mut racks = Vec::new();
        for rack in 0..RACKS {
            let link = Link::with_rate(&compare.rack_rate);
            racks.push(net.add_switch(&format!("leaf{rack}"), link).map_err(text)?);
        }
        let mut ranks = Vec::new();
        for rank in 0..compare.ranks {
            let rack = &racks[rank / compare.ranks.div_ceil(RACKS)];
            ranks.push(
                net.add_host_at(rack, &format!("r{rank}"), compare.link())
                    .map_err(text)?,
            );
        }
        Ok(Self {
            root,
            racks,
            ranks,
            _net: net,
        })
    }

    /// Bytes that the first rack has sent up so far.
    fn carried(&self) -> Result<u64, String> {
        let counters = self.racks[0].counters();
        Ok(counters.map_err(|error| error.to_string())?.tx_bytes)
    }
}
