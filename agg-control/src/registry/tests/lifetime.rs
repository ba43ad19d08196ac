//! What happens to a job after its start.

use super::*;
use crate::messages::{Left, Pulse, RankState};
use crate::plane::{AbortKind, AbortReason};

fn aborted(pulse: Pulse) -> AbortReason {
    match pulse {
        Pulse::Aborted(reason) => reason,
        other => panic!("the job must be aborted, but: {other:?}"),
    }
}

#[test]
fn a_silent_rank_ends_the_job_and_is_named() {
    let mut bench = Bench::new();
    let job = bench.start("x", 3).unwrap();
    bench.wait(5.0);
    bench.heartbeat(&job, 0);
    bench.heartbeat(&job, 1);
    bench.wait(5.0);
    assert_eq!(
        bench.heartbeat(&job, 0),
        Pulse::Ok,
        "10 s are not longer than 10 s"
    );
    bench.wait(0.25);
    let reason = aborted(bench.heartbeat(&job, 0));
    assert_eq!(reason.text, "rank 2 (10.0.0.3:5000) not heard for 10.2 s");
    assert_eq!((reason.rank, reason.kind), (Some(2), AbortKind::Lost));
    assert_eq!(*bench.plane.aborted.lock().unwrap(), [reason]);
    assert_eq!(
        bench.plane.admitted(),
        1,
        "the slots stay, so that packets are refused with the reason"
    );
    assert_eq!(
        bench.registry.status(bench.now).jobs[0].ranks[2].state,
        RankState::Lost
    );
}

#[test]
fn an_ended_job_is_remembered_for_one_lost_after_then_released() {
    let mut bench = Bench::new();
    let job = bench.start("x", 2).unwrap();
    bench
        .registry
        .abort(member(&job, 1), "disk full", None, bench.now)
        .unwrap();
    bench.wait(9.9);
    assert_eq!(aborted(bench.heartbeat(&job, 0)).text, "rank 1 failed: disk full");
    bench.wait(0.1);
    assert_eq!(bench.heartbeat(&job, 0), Pulse::UnknownJob);
    assert_eq!(bench.plane.admitted(), 0);
}

#[test]
fn only_the_first_abort_counts() {
    let mut bench = Bench::new();
    let job = bench.start("x", 2).unwrap();
    bench
        .registry
        .abort(member(&job, 1), "out of\nmemory", None, bench.now)
        .unwrap();
    bench
        .registry
        .abort(member(&job, 0), "rank 1 is gone", None, bench.now)
        .unwrap();
    let reason = aborted(bench.heartbeat(&job, 0));
    assert_eq!(
        (reason.text.as_str(), reason.kind),
        ("rank 1 failed: out of memory", AbortKind::Reported)
    );
    assert_eq!(bench.plane.aborted.lock().unwrap().len(), 1);
}

#[test]
fn the_text_of_an_abort_is_bounded() {
    let mut bench = Bench::new();
    let job = bench.start("x", 1).unwrap();
    bench
        .registry
        .abort(member(&job, 0), &"ä".repeat(60_000), None, bench.now)
        .unwrap();
    assert!(aborted(bench.heartbeat(&job, 0)).text.len() < 512);
}

#[test]
fn a_job_whose_ranks_all_vanished_frees_its_slots_at_once() {
    let mut bench = Bench::new();
    let job = bench.start("x", 3).unwrap();
    bench.wait(11.0);
    assert_eq!(bench.plane.admitted(), 0);
    let reason = aborted(bench.heartbeat(&job, 1));
    assert_eq!(
        reason.text,
        "rank 0 (10.0.0.1:5000) not heard for 11.0 s, nor ranks 1, 2"
    );
    bench.wait(10.0);
    assert!(bench.registry.jobs.is_empty());
}

#[test]
fn a_job_is_released_when_all_have_left() {
    let mut bench = Bench::new();
    let job = bench.start("x", 2).unwrap();
    bench.registry.leave(member(&job, 0), bench.now).unwrap();
    assert_eq!(
        bench.registry.left(job.key),
        Left {
            remaining: 1,
            aborted: None
        }
    );
    bench.registry.leave(member(&job, 1), bench.now).unwrap();
    assert_eq!(
        bench.registry.left(job.key),
        Left {
            remaining: 0,
            aborted: None
        }
    );
    assert!(bench.registry.jobs.is_empty());
    assert_eq!(bench.plane.admitted(), 0);
    assert_eq!(
        bench.registry.leave(member(&job, 1), bench.now),
        Err(Refusal::UnknownJob)
    );
}

#[test]
fn a_rank_that_has_left_cannot_be_lost() {
    let mut bench = Bench::new();
    let job = bench.start("x", 2).unwrap();
    bench.registry.leave(member(&job, 0), bench.now).unwrap();
    for _ in 0..5 {
        bench.wait(5.0);
        assert_eq!(bench.heartbeat(&job, 1), Pulse::Ok);
    }
}

#[test]
fn who_leaves_an_aborted_job_learns_why_it_ended() {
    let mut bench = Bench::new();
    let job = bench.start("x", 2).unwrap();
    bench
        .registry
        .abort(member(&job, 1), "disk full", None, bench.now)
        .unwrap();
    bench.registry.leave(member(&job, 0), bench.now).unwrap();
    let left = bench.registry.left(job.key);
    assert_eq!((left.remaining, left.aborted.unwrap().rank), (1, Some(1)));
    bench.registry.leave(member(&job, 1), bench.now).unwrap();
    assert_eq!(
        bench.plane.admitted(),
        0,
        "nobody is left to be told by the data plane"
    );
    assert_eq!(bench.registry.left(job.key).aborted.unwrap().rank, Some(1));
}

#[test]
fn an_aborted_world_can_start_again_under_its_name_and_in_its_memory() {
    let mut bench = Bench::new();
    let all_memory = |rank| crate::Registration {
        window: Some(2048),
        ..request("x", 2, rank)
    };
    let first = bench.start_with(2, all_memory).unwrap();
    bench
        .registry
        .abort(member(&first, 1), "disk full", None, bench.now)
        .unwrap();
    let second = bench.start_with(2, all_memory).unwrap();
    assert_ne!(first.key, second.key);
    assert_eq!(
        aborted(bench.heartbeat(&first, 0)).rank,
        Some(1),
        "the old ranks are still told"
    );
    bench.wait(10.0);
    assert_eq!(bench.plane.admitted(), 1);
}

#[test]
fn closing_ends_everything() {
    let mut bench = Bench::new();
    let job = bench.start("x", 2).unwrap();
    let waiting = bench.register(&request("y", 2, 0)).unwrap();
    bench.registry.close(bench.now);
    assert_eq!(bench.registry.poll(waiting), Some(Err(Refusal::ShuttingDown)));
    assert_eq!(aborted(bench.heartbeat(&job, 0)).kind, AbortKind::Shutdown);
    assert_eq!(bench.plane.admitted(), 0);
    assert!(bench.register(&request("z", 1, 0)).is_err());
}

#[test]
fn the_status_shows_what_each_rank_does() {
    let mut bench = Bench::new();
    let job = bench.start("x", 3).unwrap();
    bench.register(&request("y", 3, 1)).unwrap();
    bench.heartbeat(&job, 1);
    bench.registry.leave(member(&job, 2), bench.now).unwrap();
    bench.wait(2.0);
    let status = bench.registry.status(bench.now);
    let ranks = &status.jobs[0].ranks;
    let states: Vec<_> = ranks.iter().map(|rank| rank.state).collect();
    assert_eq!(
        states,
        [RankState::Registered, RankState::Running, RankState::Left]
    );
    assert_eq!((ranks[1].progress, ranks[1].heard), (5, Duration::from_secs(2)));
    assert_eq!(status.jobs[0].age, Duration::from_secs(2));
    assert_eq!(status.waiting[0].missing, [0, 2]);
    assert_eq!(status.total, [("merged".to_string(), 21)]);
    assert_eq!(
        status.description.host.memory_per_shard - status.description.memory_free,
        crate::slot_memory(job.lanes, job.window, 2)
    );
}
