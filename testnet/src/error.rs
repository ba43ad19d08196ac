//! What can go wrong when a network is made.

/// Why a test network could not be made or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is not there.
    #[error("cannot start `{program}`: {source}; install iproute2 (apt-get install iproute2)")]
    Start {
        /// The program that was to be started.
        program: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The program said no; without root that is the usual answer.
    #[error(
        "`{command}` failed: {message}; network namespaces need root, or CAP_SYS_ADMIN and CAP_NET_ADMIN"
    )]
    Refused {
        /// The whole command.
        command: String,
        /// Its error output, as one line.
        message: String,
    },
    /// The name of a host or a prefix would not make a namespace's name.
    #[error("`{0}` is no usable name: take letters, digits and `-` only, at most 32")]
    Name(String),
    /// All addresses of the network are taken.
    #[error("the network `{0}` is full: 10.77.0.0/24 has room for 254 hosts")]
    Full(String),
    /// A counter is not a number.
    #[error("the counters of `{namespace}` read `{text}`, not six numbers")]
    Counters {
        /// The namespace whose counters were read.
        namespace: String,
        /// What was read.
        text: String,
    },
}
