//! What `dpdk-host` says of arguments and settings that it cannot serve with. Needs no card and no privileges.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

const EAL: &str = "--no-huge -m 64 --no-pci --no-shconf --no-telemetry --log-level 3 -l 0";

/// Settings in a file of this test's own.
struct Settings(PathBuf);

impl Settings {
    fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("trib-dpdk-{name}-{}.toml", std::process::id()));
        fs::write(&path, format!("data_addr = '10.0.0.1:4601'\n{text}")).expect("a file");
        Self(path)
    }

    fn check(&self, eal: &[&str]) -> Output {
        let mut check = Command::new(env!("CARGO_BIN_EXE_dpdk-host"));
        check.args(["check", "--config"]).arg(&self.0);
        if !eal.is_empty() {
            check.arg("--").args(EAL.split(' ')).args(eal);
        }
        check.output().expect("it starts")
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[test]
fn an_unknown_argument_of_dpdk_is_said_without_all_that_are_known() {
    let output = Command::new(env!("CARGO_BIN_EXE_dpdk-host"))
        .args([
            "serve",
            "--data-addr",
            "10.0.0.1:4601",
            "--",
            "--no-huge",
            "--nonsense",
        ])
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(
        output.stdout.is_empty(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    assert!(said.contains("unrecognized option '--nonsense'"), "{said}");
    assert!(said.contains("dpdk-host: DPDK does not start"), "{said}");
}

#[test]
fn a_client_of_memif_without_a_server_is_told_what_it_lacks() {
    let memif = format!("net_memif0,role=client,socket=trib-nobody-{}", std::process::id());
    let output = Command::new(env!("CARGO_BIN_EXE_dpdk-host"))
        .args([
            "serve",
            "--data-addr",
            "10.0.0.1:4601",
            "--control-addr",
            "127.0.0.1:0",
            "--",
        ])
        .args(EAL.split(' '))
        .args(["--vdev", &memif])
        .output()
        .expect("it starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    assert!(said.contains("its server must be there before"), "{said}");
}

#[test]
fn a_check_of_settings_says_which_ports_and_cores_are_not_there() {
    let settings = Settings::new("lacks", "ports = ['net_null7']\nshards = 2\n");
    let output = settings.check(&["--vdev", "net_null0"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!output.status.success());
    assert!(said.contains("ok    port net_null0"), "{said}");
    assert!(
        said.contains("NO    2 shards need as many cores, DPDK has 1"),
        "{said}"
    );
    assert!(
        said.contains("NO    device net_null7 cannot be used: No such device"),
        "{said}"
    );
}

#[test]
fn a_check_of_settings_that_can_be_is_without_a_no() {
    let eal: Vec<String> = EAL
        .split(' ')
        .chain(["--vdev", "net_null0"])
        .map(|word| format!("'{word}'"))
        .collect();
    let settings = Settings::new(
        "has",
        &format!("ports = ['net_null0']\neal = [{}]\n", eal.join(", ")),
    );
    let output = settings.check(&[]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && !said.contains("NO "), "{said}");
    let two = settings.check(&["--vdev", "net_null0", "--vdev", "net_null1"]);
    assert!(two.status.success(), "the port is named");
    let none = Settings::new("none", "").check(&["--vdev", "net_null0", "--vdev", "net_null1"]);
    let said = String::from_utf8_lossy(&none.stdout);
    assert!(
        said.contains("NO    DPDK has several ports (net_null0, net_null1)"),
        "{said}"
    );
}
