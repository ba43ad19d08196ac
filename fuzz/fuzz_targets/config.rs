//! Any bytes as an aggregator's configuration file: it is refused on one line that names the file, or it is the same
//! after it was written and read again.
#![no_main]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::{env, fs, process};

use libfuzzer_sys::fuzz_target;
use udp_host::{HostArgs, HostConfig, ServeArgs};

/// A file without a name that is read like any other.
static FILE: LazyLock<(File, PathBuf)> = LazyLock::new(|| {
    // In memory where there is such a place: a disk would be most of the time.
    let memory = PathBuf::from("/dev/shm");
    let directory = if memory.is_dir() { memory } else { env::temp_dir() };
    let name = directory.join(format!("tributary-fuzz-config-{}", process::id()));
    let file = File::create_new(&name).expect("a new file among the temporary ones");
    fs::remove_file(&name).expect("it was made a moment ago");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    (file, path)
});

/// As `tributary serve --config` reads it, or the error that it prints.
fn read(bytes: &[u8]) -> Result<HostConfig, String> {
    let path = &FILE.1;
    fs::write(path, bytes).expect("the file is ours");
    let args = ServeArgs {
        host: HostArgs {
            config: Some(path.clone()),
            ..HostArgs::default()
        },
        shards: None,
        queues: None,
        memory: None,
        store: None,
        lender: None,
        receive_buffer: None,
        busy_poll: None,
        no_shared_memory: false,
    };
    args.host_config().map_err(|error| error.to_string())
}

fn one_line(text: &str) {
    assert!(!text.contains(char::is_control), "not one line: {text:?}");
}

fuzz_target!(|bytes: &[u8]| {
    match read(bytes) {
        Ok(config) => {
            let written = toml::to_string(&config).expect("what was read can be written");
            assert_eq!(read(written.as_bytes()).as_ref(), Ok(&config), "{written}");
            if let Err(error) = config.control.validate() {
                one_line(&error.to_string());
            }
        }
        Err(error) => {
            one_line(&error);
            let file = FILE.1.display().to_string();
            assert!(error.contains(&file), "which file? {error}");
        }
    }
});
