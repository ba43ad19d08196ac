//! Everybody's figures to everybody, as one more sum.

use agg_worker::{Communicator, Error};

use crate::failure::Failure;

/// The figures of every rank below `ranks`, in order; all give equally many. To the others' zeros each rank adds its own, so
/// that the sum is exact. Ranks that are lost have zeros; also where they are lost just now.
pub fn gather(world: &mut Communicator, ranks: u32, mine: &[u64]) -> Result<Vec<Vec<u64>>, Failure> {
    loop {
        match gather_once(world, ranks, mine) {
            Err(Error::RanksLost { .. }) => {}
            outcome => return Ok(outcome?),
        }
    }
}

fn gather_once(world: &mut Communicator, ranks: u32, mine: &[u64]) -> Result<Vec<Vec<u64>>, Error> {
    let mut words = vec![0_i32; 2 * mine.len() * ranks as usize];
    let first = 2 * mine.len() * world.rank() as usize;
    for (pair, figure) in words[first..].chunks_exact_mut(2).zip(mine) {
        pair[0] = *figure as i32;
        pair[1] = (figure >> 32) as i32;
    }
    world.all_reduce(&mut words)?;
    let figures = |rank: usize| {
        let part = &words[2 * mine.len() * rank..2 * mine.len() * (rank + 1)];
        part.chunks_exact(2)
            .map(|pair| u64::from(pair[0] as u32) | u64::from(pair[1] as u32) << 32)
            .collect()
    };
    Ok((0..ranks as usize).map(figures).collect())
}

#[cfg(test)]
mod tests {
    use agg_worker::Config;
    use udp_host::{HostConfig, UdpHost};

    use super::*;

    #[test]
    fn every_rank_has_every_figure() {
        let host = UdpHost::start(&HostConfig::loopback()).unwrap();
        let figures = |rank: u64| vec![rank, u64::MAX - rank, 1 << 31];
        std::thread::scope(|scope| {
            for rank in 0..3 {
                let address = host.control_addr().to_string();
                scope.spawn(move || {
                    let config = Config::new("gather", rank, 3).with_aggregator(address);
                    let mut world = Communicator::connect(config).unwrap();
                    let all = gather(&mut world, 3, &figures(rank.into())).unwrap();
                    assert_eq!(all, [figures(0), figures(1), figures(2)]);
                    world.close().unwrap();
                });
            }
        });
    }
}
