//! Writes the golden traces of `docs/vectors`, or says which files differ from what it would write.
//!
//!     cargo run -p agg-model --example vectors             # compares
//!     cargo run -p agg-model --example vectors -- --write

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use agg_model::vectors::scenarios;

fn main() -> ExitCode {
    let write = match env::args().skip(1).collect::<Vec<_>>().as_slice() {
        [] => false,
        [flag] if flag == "--write" => true,
        other => {
            eprintln!("unknown arguments {other:?}: --write is the only one");
            return ExitCode::FAILURE;
        }
    };
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/vectors");
    let mut differing = 0;
    for trace in scenarios::all() {
        for (name, bytes) in trace.files() {
            let path = directory.join(&name);
            if fs::read(&path).is_ok_and(|kept| kept == bytes) {
                continue;
            }
            if !write {
                differing += 1;
                println!("{name} differs");
            } else if let Err(error) = fs::write(&path, bytes) {
                eprintln!("cannot write {} ({error}): check its directory", path.display());
                return ExitCode::FAILURE;
            } else {
                println!("{name} written");
            }
        }
    }
    if differing > 0 {
        println!("--write brings {differing} files up to date");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
