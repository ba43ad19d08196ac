//! Jobs that come together again.

use super::*;
use crate::messages::{Boundary, Pulse, RankState};

fn shrinking(world: &str, size: u32, rank: u32) -> Registration {
    Registration {
        on_lost: OnLost::Shrink,
        ..request(world, size, rank)
    }
}

fn resuming(job: &Registered, size: u32, rank: u32, operations: u32) -> Registration {
    Registration {
        resume: resume(job, operations),
        ..request("x", size, rank)
    }
}

impl Bench {
    fn outcome(&mut self, ticket: Ticket) -> Registered {
        self.registry
            .poll(ticket)
            .expect("is complete")
            .expect("is accepted")
    }
}

#[test]
fn a_job_moves_to_another_aggregator() {
    let mut first = Bench::new();
    let mut second = Bench::new();
    let job = first.start("x", 2).unwrap();
    let moved = Registered {
        epoch: 40,
        ..job.clone()
    };
    let ticket = second.register(&resuming(&job, 2, 0, 3)).unwrap();
    assert_eq!(second.registry.poll(ticket), None);
    second.register(&resuming(&moved, 2, 1, 4)).unwrap();
    let again = second.outcome(ticket);
    assert_eq!(
        again,
        Registered {
            epoch: 41,
            member: 0,
            ..job.clone()
        },
        "all is kept but the epoch"
    );
    assert_eq!(second.plane.jobs.lock().unwrap()[&job.key].epoch, 41);
}

#[test]
fn a_job_that_does_not_fit_another_aggregator_is_refused_with_the_numbers() {
    let mut bench = Bench::new();
    let window = 4096;
    let job = Registered {
        window,
        ..Bench::new().start("x", 1).unwrap()
    };
    let ticket = bench.register(&resuming(&job, 1, 0, 0)).unwrap();
    let refusal = bench.registry.poll(ticket).unwrap().unwrap_err().to_string();
    assert!(
        refusal.starts_with(
            "the world 'x' needs 12058624 bytes per shard (lanes 352, window 4096), 8388608 are"
        )
    );
}

#[test]
fn a_job_forms_again_where_it_runs() {
    let mut bench = Bench::new();
    let job = bench.start("x", 3).unwrap();
    bench.wait(3.0);
    let ticket = bench.register(&resuming(&job, 3, 1, 3)).unwrap();
    assert!(bench.plane.suspended.lock().unwrap().contains(&job.key));
    assert_eq!(bench.heartbeat(&job, 0), Pulse::Reform);
    let status = bench.registry.status(bench.now);
    let states: Vec<_> = status.jobs[0].ranks.iter().map(|rank| rank.state).collect();
    assert_eq!(
        states,
        [RankState::Reforming, RankState::Registered, RankState::Reforming]
    );
    bench.register(&resuming(&job, 3, 0, 3)).unwrap();
    bench.register(&resuming(&job, 3, 2, 3)).unwrap();
    let again = bench.outcome(ticket);
    let expected = Registered {
        epoch: 8,
        member: 1,
        ..job.clone()
    };
    assert_eq!(again, expected);
    assert!(bench.plane.suspended.lock().unwrap().is_empty());
    assert_eq!(bench.heartbeat(&job, 0), Pulse::Ok);
    assert_eq!(
        bench.registry.status(bench.now).jobs[0].age,
        Duration::from_secs(3)
    );
    // An answer that got lost is given again; the job does not form once more.
    let late = bench.register(&resuming(&job, 3, 1, 3)).unwrap();
    assert_eq!(bench.outcome(late), expected);
    assert_eq!(bench.heartbeat(&job, 0), Pulse::Ok);
}

#[test]
fn whoever_does_not_come_again_ends_the_job() {
    let mut bench = Bench::new();
    let job = bench.start("x", 3).unwrap();
    let ticket = bench.register(&resuming(&job, 3, 1, 3)).unwrap();
    bench.wait(10.0);
    assert_eq!(bench.registry.poll(ticket), None);
    bench.wait(0.25);
    assert_eq!(
        bench.registry.poll(ticket).unwrap().unwrap_err().to_string(),
        "world 'x' of 3: ranks 0, 2 did not register within 10 s"
    );
    let Pulse::Aborted(reason) = bench.heartbeat(&job, 0) else {
        panic!()
    };
    assert_eq!(reason.text, "ranks 0, 2 did not register again within 10.0 s");
    assert!(bench.registry.worlds.is_empty());
    let late = bench.refusal(&resuming(&job, 3, 0, 3));
    assert_eq!(
        late,
        "the job of the world 'x' has ended: ranks 0, 2 did not register again within 10.0 s"
    );
}

#[test]
fn a_job_shrinks_by_a_lost_rank() {
    let mut bench = Bench::new();
    let job = bench.start_with(3, |rank| shrinking("x", 3, rank)).unwrap();
    for _ in 0..3 {
        bench.wait(4.0);
        bench.heartbeat(&job, 0);
        bench.heartbeat(&job, 2);
    }
    assert_eq!(bench.heartbeat(&job, 0), Pulse::Reform, "rank 1 was lost");
    let again = |rank, operations| Registration {
        on_lost: OnLost::Shrink,
        ..resuming(&job, 3, rank, operations)
    };
    let last = bench.register(&again(2, 5)).unwrap();
    bench.register(&again(0, 4)).unwrap();
    let answer = bench.outcome(last);
    assert_eq!(answer.members, [[0], [2]]);
    assert_eq!((answer.member, answer.workers, answer.epoch), (1, 2, 8));
    let boundary = Boundary {
        failed_operation: 5,
        next_chunks: vec![60, 60],
        lost: vec![1],
    };
    assert_eq!(answer.boundary, Some(boundary));
    // The lost rank is told, however it comes back.
    let Pulse::Excluded(reason) = bench.heartbeat(&job, 1) else {
        panic!()
    };
    assert_eq!(
        reason.text,
        "rank 1 (10.0.0.2:5000) not heard for 12.0 s: the job goes on without it"
    );
    assert_eq!(
        bench.refusal(&again(1, 4)),
        "the world 'x' goes on without this registration of rank 1: it was lost before, has left, or registered \
         elsewhere later"
    );
    assert_eq!(bench.heartbeat(&job, 0), Pulse::Ok, "that disturbs nobody");
    // A child aggregator with the lost rank among its ranks is taken without it.
    let moved = bench
        .register(&Registration {
            on_lost: OnLost::Shrink,
            resume: resume(&answer, 5),
            ..child("x", 3, 50, &[0, 1, 2])
        })
        .unwrap();
    assert_eq!(bench.outcome(moved).members, [[0, 2]]);
}

#[test]
fn two_worlds_cannot_resume_the_same_job() {
    let mut bench = Bench::new();
    let job = Bench::new().start("x", 2).unwrap();
    let other = |rank| Registration {
        world: "y".into(),
        ..resuming(&job, 2, rank, 3)
    };
    let first = bench.register(&resuming(&job, 2, 0, 3)).unwrap();
    let second = bench.register(&other(0)).unwrap();
    bench.register(&resuming(&job, 2, 1, 3)).unwrap();
    let again = bench.outcome(first);
    bench.refusal(&other(1));
    for _ in 0..2 {
        bench.wait(5.1);
        bench.heartbeat(&again, 0);
        bench.heartbeat(&again, 1);
    }
    assert!(bench.registry.poll(second).unwrap().is_err());
    assert_eq!(bench.plane.admitted(), 1);
}

#[test]
fn an_only_child_that_is_lost_does_not_end_the_job_at_once() {
    let mut bench = Bench::new();
    let ticket = bench.register(&child("x", 2, 50, &[0, 1])).unwrap();
    let job = bench.outcome(ticket);
    bench.wait(10.1);
    assert!(bench.plane.suspended.lock().unwrap().contains(&job.key));
    let shown = bench.registry.status(bench.now).waiting.remove(0);
    assert_eq!((shown.size, shown.missing), (2, vec![0, 1]));
    let ticket = bench.register(&resuming(&job, 2, 1, 2)).unwrap();
    bench.register(&resuming(&job, 2, 0, 2)).unwrap();
    assert_eq!(bench.outcome(ticket).members, [[0], [1]]);
}

#[test]
fn a_job_that_shrinks_goes_on_without_those_that_do_not_come_again() {
    let mut bench = Bench::new();
    let job = bench.start_with(3, |rank| shrinking("x", 3, rank)).unwrap();
    let again = Registration {
        on_lost: OnLost::Shrink,
        ..resuming(&job, 3, 1, 3)
    };
    let ticket = bench.register(&again).unwrap();
    bench.wait(10.1);
    let answer = bench.outcome(ticket);
    assert_eq!((answer.workers, answer.boundary.unwrap().lost), (1, vec![0, 2]));
    let Pulse::Excluded(reason) = bench.heartbeat(&job, 2) else {
        panic!()
    };
    assert_eq!(
        reason.text,
        "it did not register again in time: the job goes on without it"
    );
}

#[test]
fn where_a_job_did_not_run_a_minority_does_not_go_on() {
    // The world of four, the ranks that come, and whether they go on.
    for (ranks, go_on) in [(1, false), (2, false), (3, true)] {
        let job = Bench::new()
            .start_with(4, |rank| shrinking("x", 4, rank))
            .unwrap();
        let mut stand_by = Bench::new();
        let again = |rank| Registration {
            on_lost: OnLost::Shrink,
            ..resuming(&job, 4, rank, 3)
        };
        let tickets: Vec<_> = (0..ranks)
            .map(|rank| stand_by.register(&again(rank)).unwrap())
            .collect();
        stand_by.wait(10.1);
        for ticket in tickets {
            let outcome = stand_by.registry.poll(ticket).expect("it is over");
            match outcome {
                Ok(answer) => {
                    assert!(go_on, "{ranks} went on");
                    assert_eq!((answer.workers, answer.boundary.unwrap().lost), (3, vec![3]));
                }
                Err(refusal) => {
                    assert!(!go_on, "{refusal}");
                    assert_eq!(refusal.word(), "ranks-missing");
                    let missing = if ranks == 1 { "1, 2, 3" } else { "2, 3" };
                    assert_eq!(
                        refusal.to_string(),
                        format!(
                            "world 'x' of 4: ranks {missing} did not register again within 10 s, and only {ranks} did: \
                             the others may go on elsewhere, so more than half must be here to go on without them"
                        )
                    );
                }
            }
        }
        assert_eq!(stand_by.plane.admitted(), usize::from(go_on));
    }
}

#[test]
fn the_ranks_of_a_lost_child_come_by_another_way() {
    let mut bench = Bench::new();
    let ticket = bench.register(&child("x", 4, 50, &[0, 1])).unwrap();
    bench.register(&child("x", 4, 51, &[2, 3])).unwrap();
    let job = bench.outcome(ticket);
    let beat = |bench: &mut Bench| {
        let sender = Member {
            key: job.key,
            rank: 0,
            nonce: 50,
        };
        bench.registry.heartbeat(sender, 0, bench.now).unwrap()
    };
    for _ in 0..3 {
        bench.wait(4.0);
        beat(&mut bench);
    }
    assert_eq!(beat(&mut bench), Pulse::Reform, "the other child is lost");
    bench.wait(5.0);
    let resumed = |ranks: &[u32], nonce| Registration {
        resume: resume(&job, 2),
        ..child("x", 4, nonce, ranks)
    };
    let stays = bench.register(&resumed(&[0, 1], 50)).unwrap();
    bench.register(&resuming(&job, 4, 3, 2)).unwrap();
    bench.register(&resuming(&job, 4, 2, 2)).unwrap();
    let answer = bench.outcome(stays);
    assert_eq!(answer.members, [vec![0, 1], vec![2], vec![3]]);
    assert_eq!((answer.workers, answer.boundary), (4, None));
}

#[test]
fn a_quorum_goes_on_without_a_lost_rank_until_too_few_are_left() {
    let mut bench = Bench::new();
    let job = bench
        .start_with(3, |rank| Registration {
            policy: quorum(2),
            ..shrinking("x", 3, rank)
        })
        .unwrap();
    for _ in 0..3 {
        bench.wait(4.0);
        bench.heartbeat(&job, 0);
        bench.heartbeat(&job, 2);
    }
    assert_eq!(bench.heartbeat(&job, 0), Pulse::Ok);
    assert_eq!(*bench.plane.excluded.lock().unwrap(), [(job.key, 1)]);
    let Pulse::Excluded(reason) = bench.heartbeat(&job, 1) else {
        panic!()
    };
    assert_eq!(
        reason.text,
        "rank 1 (10.0.0.2:5000) not heard for 12.0 s: the job goes on without it"
    );
    assert_eq!(bench.registry.status(bench.now).jobs[0].workers, 2);
    for _ in 0..3 {
        bench.wait(4.0);
        bench.heartbeat(&job, 0);
    }
    let Pulse::Aborted(reason) = bench.heartbeat(&job, 0) else {
        panic!()
    };
    assert_eq!(
        reason.text,
        "rank 2 (10.0.0.3:5000) not heard for 12.0 s: 1 members remain, the quorum needs 2: start the job again"
    );
}

#[test]
fn a_quorum_does_not_form_again() {
    let mut bench = Bench::new();
    let job = bench
        .start_with(2, |rank| Registration {
            policy: quorum(1),
            ..request("x", 2, rank)
        })
        .unwrap();
    assert_eq!(
        bench.refusal(&resuming(&job, 2, 0, 1)),
        "a job under a quorum cannot move to another aggregator or to a restarted one: start the world 'x' again"
    );
    assert!(bench.plane.suspended.lock().unwrap().is_empty());
}

#[test]
fn a_rank_that_has_left_stays_a_member_for_its_results() {
    let mut bench = Bench::new();
    let job = bench.start("x", 3).unwrap();
    bench.registry.leave(member(&job, 0), bench.now).unwrap();
    let first = bench.register(&resuming(&job, 3, 1, 3)).unwrap();
    assert_eq!(bench.registry.poll(first), None);
    // Another one leaves while the job forms again.
    bench.registry.leave(member(&job, 2), bench.now).unwrap();
    let answer = bench.outcome(first);
    assert_eq!(answer.members, [[0], [1], [2]]);
    assert_eq!(answer.workers, 3);
    assert_eq!(bench.registry.left(job.key).remaining, 1);
    bench.registry.leave(member(&job, 1), bench.now).unwrap();
    assert_eq!(bench.plane.admitted(), 0);
}

#[test]
fn an_abort_answers_those_that_wait_for_the_job_to_form() {
    let mut bench = Bench::new();
    let job = bench.start("x", 2).unwrap();
    let ticket = bench.register(&resuming(&job, 2, 0, 3)).unwrap();
    bench
        .registry
        .abort(member(&job, 1), "disk full", None, bench.now)
        .unwrap();
    assert_eq!(
        bench.registry.poll(ticket).unwrap().unwrap_err().to_string(),
        "the job of the world 'x' has ended: rank 1 failed: disk full"
    );
}

#[test]
fn a_job_to_which_nobody_comes_back_ends() {
    let mut bench = Bench::new();
    let job = bench.start("x", 2).unwrap();
    let ticket = bench.register(&resuming(&job, 2, 0, 3)).unwrap();
    bench.registry.withdraw(ticket, bench.now);
    assert_eq!(
        bench.heartbeat(&job, 1),
        Pulse::Reform,
        "the job is not forgotten"
    );
    bench.wait(10.1);
    assert!(matches!(bench.heartbeat(&job, 1), Pulse::Aborted(_)));
    bench.wait(10.1);
    assert_eq!(bench.plane.admitted(), 0);
}

#[test]
fn a_job_known_by_another_shape_is_not_resumed() {
    let mut bench = Bench::new();
    let job = bench.start("x", 2).unwrap();
    let other = Registered {
        window: 2,
        ..job.clone()
    };
    let text = bench.refusal(&resuming(&other, 2, 0, 3));
    assert!(
        text.contains("it has lanes 352, window 2, generations 2, streams 2, the job 352, 256, 2, 2"),
        "{text}"
    );
    let stranger = Registered {
        key: 5,
        ..job.clone()
    };
    let text = bench.refusal(&resuming(&stranger, 2, 0, 3));
    assert!(text.starts_with("the world 'x' is already running"), "{text}");
    assert_eq!(bench.heartbeat(&job, 0), Pulse::Ok);
}

#[test]
fn no_epoch_of_a_job_is_used_twice() {
    let mut bench = Bench::new();
    let job = bench.start("x", 1).unwrap();
    let last_but_one = Registered {
        epoch: u32::MAX - 1,
        ..job.clone()
    };
    let ticket = bench.register(&resuming(&last_but_one, 1, 0, 3)).unwrap();
    assert_eq!(bench.outcome(ticket).epoch, u32::MAX);
    let elsewhere = Registration {
        nonce: 77,
        ..resuming(&job, 1, 0, 3)
    };
    let ticket = bench.register(&elsewhere).unwrap();
    assert_eq!(
        bench.registry.poll(ticket).unwrap().unwrap_err().to_string(),
        "rank 0 cannot resume the job of the world 'x' here: the job's epoch 4294967295 has no successor; start the \
         world again"
    );
    assert_eq!(bench.registry.running_jobs(), 0);
}

#[test]
fn draining_lets_a_job_form_again() {
    let mut bench = Bench::new();
    let job = bench.start("x", 2).unwrap();
    let ticket = bench.register(&resuming(&job, 2, 0, 3)).unwrap();
    bench.registry.drain();
    bench.register(&resuming(&job, 2, 1, 3)).unwrap();
    assert_eq!(bench.outcome(ticket).epoch, 8);
}
