//! The daemon's counters among DPDK's own telemetry. It writes to DPDK's run-time folder, which only root and a user's own
//! session have, so it makes one.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send,
    socket_with,
};

/// How long DPDK may take to start.
const LIMIT: Duration = Duration::from_secs(30);

/// The longest answer: MAX_OUTPUT_LEN of lib/telemetry/telemetry.c.
const LONGEST: usize = 16 << 10;

struct Daemon(Child);

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    let socket = socket_with(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn hear(socket: &OwnedFd) -> String {
    let mut answer = vec![0; LONGEST];
    let (_, len) = recv(socket, &mut answer[..], RecvFlags::empty()).expect("an answer");
    answer.truncate(len);
    String::from_utf8(answer).expect("JSON")
}

fn ask(socket: &OwnedFd, command: &str) -> String {
    send(socket, command.as_bytes(), SendFlags::empty()).expect("it is asked");
    hear(socket)
}

/// Where the daemon's telemetry is when it is there.
fn wait_for(path: &Path, daemon: &mut Daemon) -> OwnedFd {
    let deadline = Instant::now() + LIMIT;
    loop {
        let error = match open(path) {
            Ok(socket) => return socket,
            Err(error) => error,
        };
        let ended = daemon.0.try_wait().expect("a child");
        assert!(ended.is_none(), "the daemon has ended: {ended:?}");
        assert!(Instant::now() < deadline, "{}: {error}", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn dpdk_telemetry_answers_with_the_counters_of_all_shards_or_of_one() {
    let folder = std::env::temp_dir().join(format!("dpdk-telemetry-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let prefix = format!("tributary-{}", std::process::id());
    let eal = format!("--no-huge -m 64 --no-pci --file-prefix {prefix} --log-level 3 -l 0 --vdev net_null0");
    let daemon = Command::new(env!("CARGO_BIN_EXE_dpdk-host"))
        .args([
            "serve",
            "--data-addr",
            "10.255.0.1:4601",
            "--control-addr",
            "127.0.0.1:0",
        ])
        .args(["--eal", &eal])
        .env("XDG_RUNTIME_DIR", &folder)
        .env("RUNTIME_DIRECTORY", &folder)
        .stderr(Stdio::null())
        .spawn();
    let mut daemon = Daemon(daemon.expect("it starts"));
    // RUNTIME_DIRECTORY is what a service manager says; DPDK prefers it to /var/run (eal_create_runtime_dir).
    let path: PathBuf = folder.join("dpdk").join(&prefix).join("dpdk_telemetry.v2");
    let socket = wait_for(&path, &mut daemon);
    assert!(hear(&socket).contains("DPDK"), "it says who it is first");
    let deadline = Instant::now() + LIMIT;
    while !ask(&socket, "/").contains("\"/tributary/counters\"") {
        assert!(Instant::now() < deadline, "the command is not there");
        std::thread::sleep(Duration::from_millis(20));
    }
    for command in ["/tributary/counters", "/tributary/counters,0"] {
        let answer = ask(&socket, command);
        for counter in [
            "\"frames_received\":",
            "\"frames_sent\":0",
            "\"dropped_bad_checksum\":0",
        ] {
            assert!(
                answer.contains(counter),
                "{counter} is not in {command}: {answer}"
            );
        }
    }
    // Also numbers of which an int has only the lower part.
    for nobody in [
        "9",
        "x",
        "-1",
        "65536",
        "4294967295",
        "4294967296",
        "99999999999999999999",
    ] {
        let answer = ask(&socket, &format!("/tributary/counters,{nobody}"));
        assert_eq!(answer, r#"{"/tributary/counters":null}"#, "{nobody}");
    }
    let help = ask(&socket, "/help,/tributary/counters");
    assert!(help.contains("at all shards, or at one"), "{help}");
    drop(daemon);
    std::fs::remove_dir_all(&folder).expect("the folder is ours");
}
