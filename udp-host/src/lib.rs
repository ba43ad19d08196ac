//! udp-host
