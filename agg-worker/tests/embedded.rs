//! Without a configured aggregator rank 0 starts one on this machine, whichever rank comes first.

use std::time::Duration;

use agg_worker::{Communicator, Config};

#[test]
fn rank_0_starts_the_aggregator_of_a_world_on_one_machine() {
    std::thread::scope(|scope| {
        for rank in 0..3_u32 {
            scope.spawn(move || {
                // Rank 0 last: the others look for its aggregator until it is there.
                std::thread::sleep(Duration::from_millis(if rank == 0 { 300 } else { 0 }));
                let mut world = Communicator::connect(Config::new("embedded", rank, 3)).unwrap();
                let mut values = [rank as f32 + 0.5; 1000];
                world.all_reduce(&mut values).unwrap();
                assert_eq!(values, [4.5; 1000]);
                world.close().unwrap();
            });
        }
    });
}
