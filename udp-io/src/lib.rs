//! udp-io
