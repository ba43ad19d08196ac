//! What the limits of a process do to it. A file of its own, hence a process of its own.
#![cfg(target_os = "linux")]

use std::io;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use shm_io::{Door, SMALLEST_RING, connect};

const LONG: Duration = Duration::from_secs(20);

#[test]
fn a_limit_on_files_is_an_error_on_either_side_and_no_signal() {
    let name = format!("shm-io-limits-{}", std::process::id());
    let door = Door::open(&name).unwrap();
    let usual = getrlimit(Resource::Fsize);
    let short = Rlimit {
        current: Some(SMALLEST_RING as u64),
        maximum: usual.maximum,
    };
    let called = {
        let name = name.clone();
        std::thread::spawn(move || connect(&name, 0, SMALLEST_RING, LONG).map(|_| ()))
    };
    let call = door.accept(LONG).unwrap().expect("a caller");

    setrlimit(Resource::Fsize, short).unwrap();
    let answered = call.answer(1, |_| Ok(())).unwrap_err();
    let refused = called.join().unwrap().unwrap_err();
    let called = connect(&name, 0, SMALLEST_RING, LONG).map(|_| ()).unwrap_err();
    setrlimit(Resource::Fsize, usual).unwrap();

    for error in [&answered, &called] {
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("its limit is 131072"), "{error}");
    }
    assert_eq!(
        refused.to_string(),
        "the other side does not want a line, or has ended"
    );
}
