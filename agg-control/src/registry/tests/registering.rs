//! How a world comes together.

use super::*;
use crate::messages::Registration;
use crate::sizing::slot_memory;

#[test]
fn a_complete_world_gets_the_same_answer_and_the_data_plane_its_members() {
    let mut bench = Bench::new();
    let job = bench.start("x", 3).unwrap();
    assert_ne!(job.key, 0);
    assert_eq!((job.epoch, job.workers, job.streams), (7, 3, 2));
    // 4 MiB hold 3 x 512 packets of 2304 bytes; 256 is the most that is chosen.
    assert_eq!((job.lanes, job.window), (352, 256));
    let jobs = bench.plane.jobs.lock().unwrap();
    let spec = &jobs[&job.key];
    assert_eq!(spec.members[2].endpoints, request("x", 3, 2).endpoints);
    assert_eq!(
        (spec.lanes, spec.window, spec.streams, spec.name.as_str()),
        (352, 256, 2, "x")
    );
    assert_eq!(spec.memory_per_shard(), slot_memory(352, 256, 2));
}

#[test]
fn an_incomplete_world_waits() {
    let mut bench = Bench::new();
    let ticket = bench.register(&request("x", 2, 1)).unwrap();
    assert_eq!(bench.registry.poll(ticket), None);
    assert_eq!(bench.plane.admitted(), 0);
}

#[test]
fn the_narrowest_path_decides_the_chunk_size() {
    let mut bench = Bench::new();
    let job = bench.start_with(3, |rank| Registration {
        max_datagram: [8972, 1452, 8972][rank as usize],
        ..request("x", 3, rank)
    });
    assert_eq!(job.unwrap().lanes, 256);
}

#[test]
fn chunks_too_large_for_the_buffers_are_not_chosen() {
    let mut bench = Bench::new();
    // Two packets of 8192 lanes take 131584 bytes.
    let job = bench.start_with(2, |rank| Registration {
        max_datagram: 65507,
        receive_buffer: 131583,
        ..request("x", 2, rank)
    });
    let job = job.unwrap();
    assert_eq!((job.lanes, job.window), (2048, 4));
}

#[test]
fn requests_are_followed() {
    let mut bench = Bench::new();
    let job = bench.start_with(2, |rank| Registration {
        lanes: Some(256),
        window: Some(100),
        receive_buffer: 1,
        ..request("x", 2, rank)
    });
    let job = job.unwrap();
    assert_eq!((job.lanes, job.window), (256, 128));
}

#[test]
fn worlds_that_register_together_share_the_memory() {
    let mut bench = Bench::new();
    let large = |world: &str, size, rank| Registration {
        max_datagram: 65507,
        ..request(world, size, rank)
    };
    for other in ["a", "b", "c"] {
        bench.register(&large(other, 2, 0)).unwrap();
    }
    // 32 chunks fit the buffers and all of the memory, but a quarter of its 8 MiB holds only 31 slots of 8192 lanes.
    let job = bench.start_with(1, |rank| large("x", 1, rank)).unwrap();
    assert_eq!((job.lanes, job.window), (8192, 16));
}

#[test]
fn a_retry_of_the_same_process_replaces_its_earlier_call() {
    let mut bench = Bench::new();
    let first = bench.register(&request("x", 2, 0)).unwrap();
    let second = bench.register(&request("x", 2, 0)).unwrap();
    assert_eq!(
        bench.registry.poll(first).unwrap().unwrap_err().to_string(),
        "this registration of rank 0 for the world 'x' was replaced by a later one of the same process"
    );
    bench.registry.withdraw(first, bench.now);
    bench.register(&request("x", 2, 1)).unwrap();
    assert!(bench.registry.poll(second).unwrap().is_ok());
}

#[test]
fn a_retry_after_the_start_gets_the_same_answer() {
    let mut bench = Bench::new();
    let job = bench.start("x", 2).unwrap();
    let again = bench.register(&request("x", 2, 1)).unwrap();
    assert_eq!(
        bench.registry.poll(again).unwrap().unwrap(),
        Registered { member: 1, ..job }
    );
    assert_eq!(bench.plane.admitted(), 1);
    let mut moved = request("x", 2, 1);
    moved.endpoints[0].set_port(7000);
    assert!(
        bench.register(&moved).is_err(),
        "its addresses are bound to the job"
    );
}

#[test]
fn missing_ranks_are_named_at_the_deadline() {
    let mut bench = Bench::new();
    let first = bench.register(&request("x", 4, 0)).unwrap();
    let second = bench.register(&request("x", 4, 1)).unwrap();
    let mut give_up = |ticket| {
        bench
            .registry
            .give_up(ticket, Duration::from_secs(30), bench.now)
            .expect_err("is incomplete")
            .to_string()
    };
    assert_eq!(
        give_up(first),
        "world 'x' of 4: ranks 2, 3 did not register within 30 s"
    );
    assert_eq!(
        give_up(second),
        "world 'x' of 4: ranks 2, 3 did not register within 30 s (rank 0 gave up waiting)"
    );
    assert!(bench.registry.worlds.is_empty() && bench.registry.tickets.len() == 0);
}

#[test]
fn a_deadline_that_meets_the_last_rank_still_gives_the_answer() {
    let mut bench = Bench::new();
    let first = bench.register(&request("x", 2, 0)).unwrap();
    bench.register(&request("x", 2, 1)).unwrap();
    assert!(
        bench
            .registry
            .give_up(first, Duration::from_secs(30), bench.now)
            .is_ok()
    );
}

#[test]
fn a_caller_that_goes_away_is_withdrawn() {
    let mut bench = Bench::new();
    let gone = bench.register(&request("x", 2, 0)).unwrap();
    let waiting = bench.register(&request("x", 2, 1)).unwrap();
    // Complete: withdrawing now is too late, the job has started.
    bench.registry.withdraw(gone, bench.now);
    assert!(bench.registry.poll(waiting).unwrap().is_ok());

    let gone = bench.register(&request("y", 2, 0)).unwrap();
    bench.registry.withdraw(gone, bench.now);
    assert!(bench.registry.worlds.is_empty());
    let waiting = bench.register(&request("y", 3, 1)).unwrap();
    assert_eq!(
        bench.registry.poll(waiting),
        None,
        "a world that emptied may have another size"
    );
}

#[test]
fn the_others_wait_on_when_one_has_the_wrong_size() {
    let mut bench = Bench::new();
    let waiting = bench.register(&request("x", 2, 0)).unwrap();
    bench.register(&request("x", 3, 1)).unwrap_err();
    assert_eq!(bench.registry.poll(waiting), None);
    bench.register(&request("x", 2, 1)).unwrap();
    assert!(bench.registry.poll(waiting).unwrap().is_ok());
}

#[test]
fn a_refused_rank_leaves_no_trace() {
    let mut bench = Bench::new();
    bench.register(&request("x", 2, 0)).unwrap();
    bench.register(&request("x", 3, 1)).unwrap_err();
    bench
        .register(&Registration {
            nonce: 9,
            ..request("x", 2, 0)
        })
        .unwrap_err();
    assert_eq!(bench.registry.tickets.len(), 1);
    assert_eq!(bench.registry.status(bench.now).waiting[0].missing, [1]);
}
