//! Lines whose other side writes whatever it likes.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use crate::line::Line;
use crate::memory::{Other, Own};
use crate::record::{TO_START, record_len};
use crate::{Broken, LONGEST_PACKET, PacketBuffer, Receiver, SMALLEST_RING, Sender};

/// A side, and the memory of the other one.
fn side() -> (Sender, Receiver, Own) {
    let (own, _file) = Own::new(SMALLEST_RING).unwrap();
    let (theirs, file) = Own::new(SMALLEST_RING).unwrap();
    let other = Other::new(file.as_fd()).unwrap();
    let (socket, _) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap();
    let (send, receive) = Line::new(own, other, socket, 1).split();
    (send, receive, theirs)
}

/// The other side has sent `sent` bytes, of which the first are `words`.
fn received(sent: u64, words: &[u64]) -> Result<Option<usize>, Broken> {
    let (_send, mut receive, theirs) = side();
    for (number, word) in words.iter().enumerate() {
        // SAFETY: nobody else borrows of it.
        let place = unsafe { theirs.part(8 * number, 8) }.unwrap();
        place.copy_from_slice(&word.to_ne_bytes());
    }
    theirs.sent().store(sent, Relaxed);
    let mut buffer = PacketBuffer::new(LONGEST_PACKET);
    Ok(receive.receive(&mut buffer)?.map(<[u8]>::len))
}

#[test]
fn a_record_is_taken_only_where_it_lies_in_what_was_sent() {
    let ring = SMALLEST_RING as u64;
    assert_eq!(received(64, &[56]), Ok(Some(56)));
    assert_eq!(received(64, &[0]), Ok(Some(0)));
    assert_eq!(received(ring, &[LONGEST_PACKET as u64]), Ok(Some(LONGEST_PACKET)));
    // Longer than what was sent, than the ring, than a number.
    for length in [57, 64, ring, ring + 1, u64::MAX - 1, u64::MAX - 64, 1 << 63] {
        assert_eq!(received(64, &[length]), Err(Broken), "{length}");
    }
    // More than the ring holds, less than nothing, parts of a record.
    for sent in [ring + 64, u64::MAX, u64::MAX - 63, 1, 63, 65] {
        assert_eq!(received(sent, &[0]), Err(Broken), "{sent}");
    }
    assert_eq!(
        received(64, &[TO_START]),
        Err(Broken),
        "the end of the ring was not sent"
    );
    assert_eq!(
        received(ring, &[TO_START]),
        Ok(None),
        "nothing but the way to the start"
    );
}

#[test]
fn the_end_of_the_ring_is_the_end_of_a_record() {
    let (_send, mut receive, theirs) = side();
    let last = SMALLEST_RING - 64;
    let put = |offset, length: u64| {
        // SAFETY: nobody else borrows of it.
        unsafe { theirs.part(offset, 8) }
            .unwrap()
            .copy_from_slice(&length.to_ne_bytes());
    };
    put(0, (last - 8) as u64 - 65_000);
    put(record_len(last - 8 - 65_000), 65_000 - 64);
    // It would go on behind the ring.
    put(last, 57);
    theirs.sent().store(last as u64 + 128, Relaxed);
    let mut buffer = PacketBuffer::new(LONGEST_PACKET);
    let mut taken = 0;
    let end = loop {
        match receive.receive(&mut buffer) {
            Ok(Some(bytes)) => taken += record_len(bytes.len()),
            end => break end,
        }
    };
    assert_eq!((end, taken <= last), (Err(Broken), true));
}

#[test]
fn who_says_to_have_taken_what_was_not_sent_gets_nothing_more() {
    for lie in [64, u64::MAX, 1 << 40] {
        let (mut send, _receive, theirs) = side();
        while send.push(&[0; 1000]) {}
        theirs.taken().store(lie, Relaxed);
        // Nothing was published.
        assert!(!send.push(&[0; 1000]));
        assert_eq!(send.check(), Err(Broken), "{lie}");
    }
}

/// Random words everywhere: whatever is returned, nothing is read or written outside, and nobody panics.
#[test]
fn any_words_at_all_may_be_there() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let (mut broken, mut packets) = (0, 0);
    for _ in 0..300 {
        let (mut send, mut receive, theirs) = side();
        let mut buffer = PacketBuffer::new(LONGEST_PACKET);
        for _ in 0..200 {
            let word = match random() % 4 {
                0 => random(),
                1 => TO_START,
                _ => random() % 3000,
            };
            let offset = random() as usize % (SMALLEST_RING / 64) * 64;
            // SAFETY: nobody else borrows of it.
            unsafe { theirs.part(offset, 8) }
                .unwrap()
                .copy_from_slice(&word.to_ne_bytes());
            match random() % 8 {
                0 => theirs.sent().store(random(), Relaxed),
                1 => theirs.taken().store(random() % 5000, Relaxed),
                2 => theirs.sleep().store(random() as u32, Relaxed),
                _ => theirs
                    .sent()
                    .store(theirs.sent().load(Relaxed) + random() % 100 * 64, Relaxed),
            }
            match receive.receive(&mut buffer) {
                Ok(Some(_)) => packets += 1,
                Ok(None) => {}
                Err(Broken) => broken += 1,
            }
            send.push(&vec![1; random() as usize % 9000]);
            send.publish();
        }
        assert_eq!(Arc::strong_count(receive.line()), 2);
    }
    assert!(broken > 1000 && packets > 1000, "{broken} {packets}");
}
