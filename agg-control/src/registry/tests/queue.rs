//! Weights, priorities and histories: how worlds share the memory.

use super::*;
use crate::sizing::slot_memory;

/// A world of one rank that takes half of the memory, and a bit.
fn large(world: &str, priority: u8) -> Registration {
    Registration {
        lanes: Some(2048),
        max_datagram: 65507,
        window: Some(256),
        priority,
        ..request(world, 1, 0)
    }
}

#[test]
fn a_world_that_does_not_fit_now_waits_for_memory() {
    let mut bench = Bench::new();
    let first = bench.start_with(1, |_| large("a", 0)).unwrap();
    let waiting = bench.register(&large("b", 0)).unwrap();
    assert_eq!(bench.registry.poll(waiting), None);
    let shown = bench.registry.status(bench.now).waiting;
    assert!(shown[0].queued && shown[0].missing.is_empty());
    bench.registry.leave(member(&first, 0), bench.now).unwrap();
    assert!(bench.registry.poll(waiting).unwrap().is_ok());
}

#[test]
fn a_world_that_waited_in_vain_is_told_the_numbers() {
    let mut bench = Bench::new();
    bench.start_with(1, |_| large("a", 0)).unwrap();
    let waiting = bench.register(&large("b", 3)).unwrap();
    let behind = bench.register(&large("c", 3)).unwrap();
    let mut give_up = |ticket| {
        let outcome = bench.registry.give_up(ticket, Duration::from_secs(30), bench.now);
        outcome.unwrap_err().to_string()
    };
    assert_eq!(
        give_up(behind),
        "the world 'c' of priority 3 waited behind 'b', which waits for memory: wait for other jobs to end or \
         register with a higher priority"
    );
    let (needed, free) = (
        slot_memory(2048, 256, 2),
        plane::MEMORY - slot_memory(2048, 256, 2),
    );
    assert_eq!(
        give_up(waiting),
        format!(
            "the world 'b' needs {needed} bytes per shard (lanes 2048, window 256), {free} are free: request a smaller \
             window or wait for other jobs to end"
        )
    );
    assert!(bench.registry.worlds.is_empty() && bench.registry.tickets.len() == 0);
}

#[test]
fn the_queue_is_by_priority_then_by_age_and_nobody_overtakes() {
    let mut bench = Bench::new();
    let first = bench.start_with(1, |_| large("a", 0)).unwrap();
    let mut tickets = Vec::new();
    for (name, priority) in [("old", 1), ("young", 1), ("urgent", 2)] {
        bench.wait(1.0);
        tickets.push(bench.register(&large(name, priority)).unwrap());
    }
    let small = bench
        .register(&Registration {
            window: Some(2),
            ..large("small", 0)
        })
        .unwrap();
    assert_eq!(
        bench.registry.poll(small),
        None,
        "it would fit, but may not overtake"
    );
    let mut last = first;
    let mut order = Vec::new();
    for _ in 0..3 {
        bench.registry.leave(member(&last, 0), bench.now).unwrap();
        let started = tickets
            .iter()
            .position(|ticket| bench.registry.tickets.world_of(*ticket).is_none())
            .expect("one starts");
        let ticket = tickets.remove(started);
        last = bench.registry.poll(ticket).unwrap().unwrap();
        order.push(bench.plane.jobs.lock().unwrap()[&last.key].name.clone());
    }
    assert_eq!(order, ["urgent", "old", "young"]);
    assert!(
        bench.registry.poll(small).unwrap().is_ok(),
        "it starts beside the last"
    );
}

#[test]
fn the_first_in_the_queue_may_give_up_for_the_next() {
    let mut bench = Bench::new();
    bench.start_with(1, |_| large("a", 0)).unwrap();
    let first = bench.register(&large("b", 1)).unwrap();
    let small = bench
        .register(&Registration {
            window: Some(2),
            ..large("small", 0)
        })
        .unwrap();
    assert_eq!(bench.registry.poll(small), None);
    bench.registry.withdraw(first, bench.now);
    assert!(bench.registry.poll(small).unwrap().is_ok());
}

#[test]
fn unasked_windows_take_the_memory_by_weight() {
    let mut bench = Bench::new();
    let weighted = |world: &str, size, weight| Registration {
        lanes: Some(2048),
        max_datagram: 65507,
        receive_buffer: 0,
        weight,
        ..request(world, size, 0)
    };
    // 8 MiB hold 509 slots of 2048 lanes; 79 packets are as much as should be in flight.
    bench.register(&weighted("other", 2, 31)).unwrap();
    let job = bench.start_with(1, |_| weighted("x", 1, 1)).unwrap();
    assert_eq!(job.window, 8, "a 32nd of 509 slots");
    let job = bench.start_with(1, |_| weighted("y", 1, 8)).unwrap();
    assert_eq!(job.window, 64, "8 of 40 parts");
}

#[test]
fn a_quorum_has_as_many_generations_as_its_history_holds() {
    let mut bench = Bench::new();
    let job = bench
        .start_with(3, |rank| Registration {
            policy: quorum(2),
            lanes: Some(256),
            window: Some(16),
            ..request("x", 3, rank)
        })
        .unwrap();
    assert_eq!((job.generations, job.policy), (32, quorum(2)));
    assert!(slot_memory(256, 16, 32) <= 1 << 20 && slot_memory(256, 16, 64) > 1 << 20);
    assert_eq!(bench.plane.jobs.lock().unwrap()[&job.key].generations, 32);
}
