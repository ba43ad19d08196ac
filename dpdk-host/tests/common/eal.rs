//! DPDK for a test: without privileges, huge pages, or anything shared with others.

use dpdk_host::dpdk::Eal;

/// Starts it with 64 MiB.
pub fn start() -> Eal {
    let arguments = "--no-huge -m 64 --no-pci --no-shconf --no-telemetry --log-level 3 -l 0";
    let arguments: Vec<&str> = arguments.split(' ').collect();
    Eal::start(&arguments).expect("DPDK starts")
}
