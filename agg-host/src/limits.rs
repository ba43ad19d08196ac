//! What fails since this process may have no more files open.

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

/// The error, on one line. Where the limit on open files is its cause, whatever it was about, that is what it says; its own
/// advice is about other causes then.
pub fn explained(error: &str) -> String {
    let error = error.replace('\n', " ");
    let reason = std::io::Error::from(Errno::MFILE).to_string();
    let Some((what, _)) = error.split_once(&reason) else {
        return error;
    };
    let what = what.trim_end_matches([' ', '(', ':']);
    let limit = getrlimit(Resource::Nofile).current;
    let limit = limit.map_or("no limit".to_owned(), |limit| limit.to_string());
    format!("{what}: too many open files: this process may have {limit}, raise that with ulimit -n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_is_said_instead_of_advice_about_other_causes() {
        let limit = getrlimit(Resource::Nofile).current.expect("there is one");
        let advice = format!("too many open files: this process may have {limit}, raise that with ulimit -n");
        let reason = std::io::Error::from_raw_os_error(24);
        for (error, what) in [
            (
                format!("cannot listen on [::]:4600 ({reason}): free the port"),
                "cannot listen on [::]:4600",
            ),
            (
                format!("cannot start worker 3: {reason}; is the limit on processes reached?"),
                "cannot start worker 3",
            ),
        ] {
            assert_eq!(explained(&error), format!("{what}: {advice}"));
        }
        assert_eq!(
            explained("cannot listen on [::]:4600\n(in use)"),
            "cannot listen on [::]:4600 (in use)"
        );
    }
}
