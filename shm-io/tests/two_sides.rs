//! Both sides of a line, in one process or two.
#![cfg(target_os = "linux")]

use std::time::{Duration, Instant};

use shm_io::{
    Broken, Door, LONGEST_PACKET, PacketBuffer, Receiver, SMALLEST_RING, Sender, connect, wait_any,
};

/// Longer than anything takes, unless it hangs.
const LONG: Duration = Duration::from_secs(20);

type Ends = (Sender, Receiver);

/// The ends of who answered and of who called.
fn line(name: &str, ring: usize) -> (Ends, Ends) {
    let name = format!("shm-io-test-{}-{name}", std::process::id());
    let door = Door::open(&name).expect("a door");
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| connect(&name, 3, ring, LONG).expect("a line"));
        let call = door.accept(LONG).expect("a caller").expect("in time");
        assert_eq!(call.number(), 3);
        let here = call.answer(9, Ok).expect("a line");
        let there = caller.join().expect("a thread");
        assert_eq!((here.name(), there.name()), (9, 9));
        (here.split(), there.split())
    })
}

/// What packet number `number` holds, of a length of its own.
fn packet(number: u32) -> Vec<u8> {
    let len = 4 + number.wrapping_mul(2_654_435_761) as usize % 40_000;
    let mut bytes = vec![number as u8; len];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    bytes
}

#[test]
fn packets_of_every_length_pass_in_order_and_whole() {
    let ((mut send, _here), (_there, mut receive)) = line("lengths", SMALLEST_RING);
    let mut buffer = PacketBuffer::new(LONGEST_PACKET);
    assert_eq!(receive.receive(&mut buffer), Ok(None));
    for len in (0..200).chain([4095, 4096, 8192, 32824, 40_000, 65_000]) {
        let packet = vec![len as u8; len];
        assert!(send.push(&packet), "{len} bytes");
        assert_eq!(receive.receive(&mut buffer), Ok(None), "not published yet");
        send.publish();
        assert_eq!(receive.receive(&mut buffer), Ok(Some(&packet[..])));
        assert_eq!(receive.receive(&mut buffer), Ok(None));
    }
    assert!(!send.push(&vec![0; LONGEST_PACKET + 1]) && send.check().is_ok());
}

#[test]
fn a_full_ring_takes_nothing_and_loses_nothing() {
    let ((mut send, _here), (_there, mut receive)) = line("full", SMALLEST_RING);
    let mut buffer = PacketBuffer::new(LONGEST_PACKET);
    let (mut sent, mut received) = (0, 0);
    for _ in 0..50 {
        while send.push(&packet(sent)) {
            sent += 1;
        }
        assert!(sent > received);
        send.publish();
        for _ in 0..1 + received % 3 {
            if let Some(bytes) = receive.receive(&mut buffer).unwrap() {
                assert_eq!(bytes, packet(received));
                received += 1;
            }
        }
    }
    while let Some(bytes) = receive.receive(&mut buffer).unwrap() {
        assert_eq!(bytes, packet(received));
        received += 1;
    }
    assert_eq!(sent, received);
    assert!(sent > 50, "{sent}");
}

#[test]
fn what_was_not_committed_is_not_sent() {
    let ((mut send, _here), (_there, mut receive)) = line("uncommitted", SMALLEST_RING);
    let mut buffer = PacketBuffer::new(100);
    for round in 0..10_000_u32 {
        send.room(40_000).expect("room").fill(7);
        send.publish();
        send.room(100).expect("room")[..4].copy_from_slice(&round.to_le_bytes());
        send.commit(4);
        send.publish();
        assert_eq!(receive.receive(&mut buffer), Ok(Some(&round.to_le_bytes()[..])));
        assert_eq!(receive.receive(&mut buffer), Ok(None));
    }
}

#[test]
fn what_is_too_long_for_the_buffer_is_counted_and_passed_over() {
    let ((mut send, _here), (_there, mut receive)) = line("oversized", SMALLEST_RING);
    let mut buffer = PacketBuffer::new(10);
    for packet in [&[1; 11][..], &[2; 10], &[3; 5000]] {
        assert!(send.push(packet));
    }
    send.publish();
    assert_eq!(receive.receive(&mut buffer), Ok(Some(&[2; 10][..])));
    assert_eq!((receive.receive(&mut buffer), receive.oversized()), (Ok(None), 2));
}

/// Two threads, each of which sleeps whenever it finds nothing: a wake that is lost shows as a wait of [`LONG`].
#[test]
fn nobody_sleeps_through_a_packet() {
    const PACKETS: u32 = 60_000;
    let ((mut send, mut answers), (mut reply, mut receive)) = line("stress", SMALLEST_RING);
    let began = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut buffer = PacketBuffer::new(LONGEST_PACKET);
            let mut number = 0;
            while number < PACKETS {
                while let Some(bytes) = receive.receive(&mut buffer).unwrap() {
                    assert!(bytes == packet(number), "packet {number}");
                    number += 1;
                    // Now and then one answer for many.
                    if number % 1000 == 0 {
                        assert!(reply.push(&number.to_le_bytes()));
                    }
                }
                reply.publish();
                if number < PACKETS {
                    assert!(
                        wait_any(&[receive.line()], false, LONG).unwrap(),
                        "packet {number}"
                    );
                }
            }
        });
        let mut buffer = PacketBuffer::new(4);
        let (mut sent, mut answered) = (0, 0);
        while answered < PACKETS {
            let mut full = false;
            // Up to a thousand without an answer: then only the answer helps.
            while sent < PACKETS.min(answered + 1000) && !full {
                full = !send.push(&packet(sent));
                sent += u32::from(!full);
            }
            send.publish();
            let answer = answers.receive(&mut buffer).unwrap();
            match answer.and_then(|bytes| bytes.try_into().ok()) {
                Some(bytes) => answered = u32::from_le_bytes(bytes),
                None => assert!(
                    wait_any(&[send.line()], full, LONG).unwrap(),
                    "{sent} sent, {full}"
                ),
            }
        }
    });
    assert!(began.elapsed() < LONG);
}

/// One thread takes the packets, another one only waits for them, as who looks after idle streams does.
#[test]
fn one_who_only_waits_takes_no_wake_from_one_who_receives() {
    const ROUNDS: u32 = 20_000;
    let ((mut send, mut answers), (mut reply, mut receive)) = line("waiters", SMALLEST_RING);
    let done = std::sync::atomic::AtomicBool::new(false);
    let line = std::sync::Arc::clone(receive.line());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                wait_any(&[&line], false, Duration::from_millis(1)).unwrap();
            }
        });
        scope.spawn(move || {
            let mut buffer = PacketBuffer::new(4);
            for round in 0..ROUNDS {
                let packet = loop {
                    match receive.receive(&mut buffer).unwrap() {
                        Some(packet) => break packet,
                        None => assert!(wait_any(&[receive.line()], false, LONG).unwrap(), "round {round}"),
                    }
                };
                assert!(reply.push(packet));
                reply.publish();
            }
        });
        let mut buffer = PacketBuffer::new(4);
        for round in 0..ROUNDS {
            assert!(send.push(&round.to_le_bytes()));
            send.publish();
            while answers.receive(&mut buffer).unwrap() != Some(&round.to_le_bytes()[..]) {
                assert!(wait_any(&[answers.line()], false, LONG).unwrap(), "round {round}");
            }
        }
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[test]
fn the_end_of_the_other_side_is_seen_and_waiting_goes_on() {
    let ((mut send, receive), there) = line("end", SMALLEST_RING);
    assert!(!receive.line().has_hung_up());
    drop(there);
    assert!(send.push(&[1]));
    send.publish();
    assert!(
        wait_any(&[receive.line()], false, LONG).unwrap(),
        "the socket has something"
    );
    receive.line().answer();
    assert!(receive.line().has_hung_up());
    let began = Instant::now();
    let short = Duration::from_millis(30);
    assert!(!wait_any(&[receive.line()], false, short).unwrap() && began.elapsed() >= short);
}

#[test]
fn a_door_that_is_not_there_is_said_at_once_and_its_name_is_free_again() {
    let name = format!("shm-io-test-{}-gone", std::process::id());
    assert!(connect(&name, 0, SMALLEST_RING, LONG).is_err());
    let door = Door::open(&name).unwrap();
    assert!(Door::open(&name).is_err(), "taken");
    drop(door);
    assert!(connect(&name, 0, SMALLEST_RING, LONG).is_err());
    Door::open(&name).unwrap();
}

#[test]
fn who_is_not_let_in_is_told() {
    let name = format!("shm-io-test-{}-refused", std::process::id());
    let door = Door::open(&name).unwrap();
    std::thread::scope(|scope| {
        let caller = scope.spawn(|| connect(&name, 0, SMALLEST_RING, LONG));
        drop(door.accept(LONG).unwrap().unwrap());
        let error = caller.join().unwrap().unwrap_err();
        assert_eq!(
            error.to_string(),
            "the other side does not want a line, or has ended"
        );
    });
    // One that says something else is no reason to stop.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            use rustix::net::{AddressFamily, SendFlags, SocketAddrUnix, SocketType, connect, send, socket};
            let socket = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
            connect(
                &socket,
                &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap(),
            )
            .unwrap();
            send(&socket, b"TRIBSHM1 is not all", SendFlags::empty()).unwrap();
        });
        let error = door.accept(LONG).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the other side is a program of another version"
        );
    });
    assert!(door.accept(Duration::ZERO).unwrap().is_none());
}

/// A child of this test that is killed: nothing of it stays.
#[test]
fn a_process_that_is_killed_leaves_nothing_behind() {
    let name = format!("shm-io-test-{}-killed", std::process::id());
    if let Ok(name) = std::env::var("SHM_IO_CHILD") {
        let door = Door::open(&name).unwrap();
        let _line = door.accept(LONG).unwrap().unwrap().answer(1, Ok).unwrap();
        std::thread::sleep(LONG);
        return;
    }
    let test = "a_process_that_is_killed_leaves_nothing_behind";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env("SHM_IO_CHILD", &name)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let began = Instant::now();
    let line = loop {
        match connect(&name, 0, SMALLEST_RING, LONG) {
            Ok(line) => break line,
            Err(error) => assert!(began.elapsed() < LONG, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(wait_any(&[&line], false, LONG).unwrap());
    line.answer();
    assert!(line.has_hung_up());
    Door::open(&name).expect("the name is free");
    let open = |what: &str| {
        let files = std::fs::read_dir("/proc/self/fd").unwrap();
        let names = files.filter_map(|file| std::fs::read_link(file.ok()?.path()).ok());
        names.filter(|name| name.to_string_lossy().contains(what)).count()
    };
    // The mappings last without them.
    assert_eq!(open("tributary-ring"), 0);
    let (mut send, mut receive) = line.split();
    let mut buffer = PacketBuffer::new(10);
    while send.push(&[0; 5000]) {}
    assert_eq!(
        receive.receive(&mut buffer),
        Ok(None),
        "and what it wrote can be read"
    );
}

#[test]
fn broken_says_what_to_do() {
    assert!(Broken.to_string().contains("nonsense"));
}
