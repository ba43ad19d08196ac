//! Worlds of workers and child aggregators.

use super::*;
use crate::plane::MemberSpec;

#[test]
fn a_world_is_complete_when_its_members_have_all_ranks() {
    let mut bench = Bench::new();
    let high = bench.register(&child("x", 6, 50, &[3, 5])).unwrap();
    let low = bench.register(&child("x", 6, 51, &[1, 4])).unwrap();
    let worker = bench.register(&request("x", 6, 0)).unwrap();
    assert_eq!(bench.registry.poll(high), None);
    assert_eq!(bench.registry.status(bench.now).waiting[0].missing, [2]);
    let last = bench.register(&request("x", 6, 2)).unwrap();
    let answer = bench.registry.poll(high).unwrap().unwrap();
    // Numbered by their lowest ranks.
    assert_eq!(answer.members, [vec![0], vec![1, 4], vec![2], vec![3, 5]]);
    assert_eq!((answer.member, answer.workers), (3, 6));
    for (ticket, member) in [(worker, 0), (low, 1), (last, 2)] {
        assert_eq!(bench.registry.poll(ticket).unwrap().unwrap().member, member);
    }
    let jobs = bench.plane.jobs.lock().unwrap();
    let spec = &jobs[&answer.key];
    assert_eq!(
        spec.members[3],
        MemberSpec {
            endpoints: child("x", 6, 50, &[3, 5]).endpoints,
            workers: 2,
            ranks: vec![3, 5],
        }
    );
    assert_eq!((spec.workers, spec.epoch, spec.parent.is_none()), (6, 7, true));
}

#[test]
fn a_child_that_grows_supersedes_its_earlier_call() {
    let mut bench = Bench::new();
    let first = bench.register(&child("x", 3, 50, &[1])).unwrap();
    let second = bench.register(&child("x", 3, 50, &[0, 1])).unwrap();
    let refusal = bench.registry.poll(first).unwrap().unwrap_err();
    assert_eq!(refusal.word(), "superseded");
    bench.registry.withdraw(first, bench.now);
    bench.register(&request("x", 3, 2)).unwrap();
    let answer = bench.registry.poll(second).unwrap().unwrap();
    assert_eq!(answer.members, [vec![0, 1], vec![2]]);
}

#[test]
fn a_rank_that_comes_by_another_way_has_moved() {
    let mut bench = Bench::new();
    let first = bench.register(&child("x", 3, 50, &[0, 1])).unwrap();
    let second = bench.register(&child("x", 3, 51, &[1, 2])).unwrap();
    let answer = bench.registry.poll(first).unwrap().unwrap();
    assert_eq!(answer.members, [vec![0], vec![1, 2]]);
    assert_eq!(bench.registry.poll(second).unwrap().unwrap().member, 1);

    let first = bench.register(&child("y", 3, 50, &[0])).unwrap();
    bench.register(&child("y", 3, 51, &[0, 1])).unwrap();
    let refusal = bench.registry.poll(first).unwrap().unwrap_err();
    assert_eq!(refusal.word(), "left-out");
}

#[test]
fn the_smallest_childs_memory_bounds_the_window() {
    let mut bench = Bench::new();
    let bounded = |nonce, ranks: &[u32], window| Registration {
        slot_memory: Some(9 * 2 * (4 * 352 + 64)),
        window,
        lanes: Some(352),
        ..child("x", 2, nonce, ranks)
    };
    let ticket = bench.register(&bounded(50, &[0], None)).unwrap();
    bench.register(&bounded(51, &[1], None)).unwrap();
    assert_eq!(bench.registry.poll(ticket).unwrap().unwrap().window, 8);

    let mut bench = Bench::new();
    let ticket = bench.register(&bounded(50, &[0], Some(16))).unwrap();
    bench.register(&bounded(51, &[1], Some(16))).unwrap();
    assert_eq!(
        bench.registry.poll(ticket).unwrap().unwrap_err().to_string(),
        "the world 'x' needs 47104 bytes per shard (lanes 352, window 16), 26496 are free at the child aggregator of \
         rank 0: request a smaller window or wait for other jobs to end"
    );
}

#[test]
fn an_aggregator_has_at_most_64_members() {
    let mut bench = Bench::new();
    for rank in 0..64 {
        bench.register(&request("x", 100, rank)).unwrap();
    }
    assert_eq!(
        bench.refusal(&request("x", 100, 64)),
        "rank 64 of the world 'x' of 100 finds 64 members here already, the most that are possible: spread the ranks \
         over child aggregators"
    );
    assert_eq!(bench.registry.tickets.len(), 64);
}

#[test]
fn many_missing_ranks_are_named_in_part() {
    let mut bench = Bench::new();
    let ticket = bench.register(&request("x", 4096, 0)).unwrap();
    let refusal = bench.registry.give_up(ticket, Duration::from_secs(30), bench.now);
    let text = refusal.unwrap_err().to_string();
    assert!(text.starts_with("world 'x' of 4096: ranks 1, 2, 3,"), "{text}");
    assert!(
        text.ends_with("31, 32 and 4063 more did not register within 30 s"),
        "{text}"
    );
}

#[test]
fn the_abort_of_a_child_keeps_its_reason() {
    let mut bench = Bench::new();
    let ticket = bench.register(&child("x", 2, 50, &[0, 1])).unwrap();
    let job = bench.registry.poll(ticket).unwrap().unwrap();
    let sender = Member {
        key: job.key,
        rank: 0,
        nonce: 50,
    };
    let reason = crate::AbortReason {
        rank: Some(1),
        kind: crate::AbortKind::Reported,
        text: "rank 1 failed: disk full".into(),
    };
    bench
        .registry
        .abort(sender, "", Some(reason.clone()), bench.now)
        .unwrap();
    assert_eq!(*bench.plane.aborted.lock().unwrap(), [reason]);
}

#[test]
fn a_child_that_gives_no_reason_is_named() {
    let mut bench = Bench::new();
    let ticket = bench.register(&child("x", 2, 50, &[0, 1])).unwrap();
    let job = bench.registry.poll(ticket).unwrap().unwrap();
    let sender = Member {
        key: job.key,
        rank: 0,
        nonce: 50,
    };
    let reason = crate::AbortReason {
        rank: Some(1),
        kind: crate::AbortKind::Lost,
        text: String::new(),
    };
    bench.registry.abort(sender, "", Some(reason), bench.now).unwrap();
    let shown = bench.plane.aborted.lock().unwrap()[0].text.clone();
    assert_eq!(shown, "the aggregator of ranks 0, 1 gave no reason");
}

#[test]
fn the_status_names_lags_and_children() {
    let mut bench = Bench::new();
    bench.register(&child("x", 3, 50, &[0, 2])).unwrap();
    bench.register(&request("x", 3, 1)).unwrap();
    let status = bench.registry.status(bench.now);
    let job = &status.jobs[0];
    assert_eq!((job.size, job.workers, job.generations, job.weight), (3, 3, 2, 1));
    assert_eq!(
        (job.ranks[0].ranks.as_slice(), job.ranks[0].child),
        ([0, 2].as_slice(), true)
    );
    let second = &job.ranks[1];
    assert_eq!(
        (second.rank, second.lag_chunks, second.lag),
        (1, 10, Duration::from_millis(1))
    );
}
