//! Where the command line is, for tests of other packages: only its own are told by cargo.

use std::path::PathBuf;

/// The `tributary` program: the one that `TRIBUTARY_BIN` names, or else the one that was built beside the test itself.
pub fn tributary() -> PathBuf {
    if let Some(path) = std::env::var_os("TRIBUTARY_BIN") {
        let path = PathBuf::from(path);
        assert!(
            path.is_file(),
            "TRIBUTARY_BIN: there is no program {}",
            path.display()
        );
        return path;
    }
    // Tests lie in `deps`, programs beside that.
    let test = std::env::current_exe().expect("this program");
    let path = test
        .ancestors()
        .nth(2)
        .expect("target/<profile>/deps")
        .join("tributary");
    let release = if cfg!(debug_assertions) { "" } else { " --release" };
    assert!(
        path.is_file(),
        "there is no {}: `cargo build{release} --package tributary` makes it, or name another in TRIBUTARY_BIN",
        path.display()
    );
    path
}
