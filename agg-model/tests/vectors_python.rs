//! `docs/vectors/check.py`, the second reader of the golden traces: it agrees with them, and it can disagree.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn vectors() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/vectors")
}

/// Runs the script on a directory; none without Python.
fn check(directory: &Path) -> Option<Output> {
    let run = Command::new("python3")
        .arg(vectors().join("check.py"))
        .arg(directory)
        .output();
    match run {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: python3 does not run ({error})");
            None
        }
    }
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// A fresh directory with a copy of one trace.
fn copy(purpose: &str, name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("vectors-{purpose}"));
    fs::create_dir_all(&directory).unwrap();
    for extension in ["jsonl", "pcap"] {
        let file = format!("{name}.{extension}");
        fs::copy(vectors().join(&file), directory.join(&file)).unwrap();
    }
    directory
}

#[test]
fn python_agrees_with_every_trace() {
    let traces = fs::read_dir(vectors()).unwrap().filter(|entry| {
        let path = entry.as_ref().unwrap().path();
        path.extension().is_some_and(|extension| extension == "jsonl")
    });
    let traces = traces.count();
    let Some(output) = check(&vectors()) else { return };
    let text = printed(&output);
    assert!(output.status.success(), "{text}");
    let summary = text.lines().last().unwrap_or_default();
    assert!(summary.starts_with(&format!("{traces} traces, ")), "{text}");
    assert!(summary.ends_with(" 0 wrong"), "{text}");
}

/// A file is damaged, the script must fail and say where.
fn must_notice(purpose: &str, file: &str, complaint: &str, damage: impl Fn(Vec<u8>) -> Vec<u8>) {
    let directory = copy(purpose, "loss");
    let Some(before) = check(&directory) else { return };
    assert!(before.status.success(), "{}", printed(&before));
    let path = directory.join(file);
    fs::write(&path, damage(fs::read(&path).unwrap())).unwrap();
    let after = check(&directory).expect("it ran a moment ago");
    let text = printed(&after);
    assert_eq!(after.status.code(), Some(1), "{text}");
    assert!(text.contains(complaint), "expected {complaint:?}: {text}");
}

/// Changes the text of the expectations, at one place.
fn replace(from: &'static str, to: &'static str) -> impl Fn(Vec<u8>) -> Vec<u8> {
    move |bytes| {
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(from));
        text.replacen(from, to, 1).into_bytes()
    }
}

/// The first packet's values begin here: file and record header, frame headers, packet header.
const FIRST_VALUE: usize = 24 + 16 + 42 + 56;

#[test]
fn python_notices_one_flipped_byte() {
    must_notice("byte", "loss.pcap", "frame 1: UDP checksum", |mut bytes| {
        bytes[FIRST_VALUE] ^= 0x10;
        bytes
    });
}

/// Two bytes that are swapped keep the checksum of UDP: only the sum itself shows it.
#[test]
fn python_notices_a_wrong_value_under_a_right_checksum() {
    must_notice("value", "loss.pcap", "packet 10 ", |mut bytes| {
        let (low, high) = (FIRST_VALUE, FIRST_VALUE + 2);
        assert_ne!(bytes[low], bytes[high]);
        bytes.swap(low, high);
        bytes
    });
}

#[test]
fn python_notices_wrong_expectations() {
    let cases = [
        ("counter", "\"duplicates\"", "\"wants_sent\"", "packet 3 "),
        ("verdict", "\"broadcast\"", "\"reply\"", "packet 4 "),
        ("output", "\"output\":\"54", "\"output\":\"ff", "packet 4 "),
        (
            "time",
            "\"now\":1000400000",
            "\"now\":1000500000",
            "packet 3: time",
        ),
        ("epoch", "\"epoch\":7", "\"epoch\":8", "packet 1 "),
    ];
    for (purpose, from, to, complaint) in cases {
        must_notice(purpose, "loss.jsonl", complaint, replace(from, to));
    }
}

#[test]
fn python_notices_a_missing_frame() {
    must_notice("cut", "loss.pcap", "frame 11", |mut bytes| {
        bytes.truncate(bytes.len() - 1);
        bytes
    });
}
