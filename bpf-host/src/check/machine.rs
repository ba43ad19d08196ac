//! What the kernel and this process can do, whatever the interface.

use std::fs;
use std::path::Path;

use agg_host::Finding;

/// The oldest kernel that has all that is used: redirecting to several interfaces at once (`BPF_F_BROADCAST`) is the
/// youngest of it.
const OLDEST: (u32, u32) = (5, 14);

/// Numbers of capabilities, of include/uapi/linux/capability.h.
const CAP_NET_ADMIN: u32 = 12;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_BPF: u32 = 39;

pub(super) fn findings() -> Vec<Finding> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let mut findings = vec![
        kernel(&read("/proc/sys/kernel/osrelease")),
        privileges(&read("/proc/self/status")),
        btf(Path::new("/sys/kernel/btf/vmlinux").exists()),
    ];
    findings.extend(jit(&read("/proc/sys/net/core/bpf_jit_enable")));
    findings.extend(memory(
        &read("/proc/sys/kernel/osrelease"),
        &read("/proc/self/limits"),
    ));
    findings
}

/// Major and minor number of `6.1.0-18-amd64`.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.trim().split(|symbol: char| !symbol.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn kernel(release: &str) -> Finding {
    let (major, minor) = OLDEST;
    let release = release.trim();
    match version(release) {
        Some(version) if version >= OLDEST => {
            Finding::good(format!("kernel {release}: {major}.{minor} or newer is needed"))
        }
        Some(_) => Finding::bad(format!(
            "kernel {release} is too old: one packet to several interfaces needs Linux {major}.{minor}; run a newer one, or \
             use udp-host"
        )),
        None => Finding::note(format!(
            "kernel version {release:?} is not understood: Linux {major}.{minor} or newer is needed"
        )),
    }
}

fn privileges(status: &str) -> Finding {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let Some(held) = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()) else {
        return Finding::note("the privileges of this process are unknown: /proc/self/status does not say");
    };
    let has = |capability: u32| held >> capability & 1 == 1;
    if has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_NET_ADMIN)) {
        return Finding::good("privileges suffice: CAP_BPF and CAP_NET_ADMIN, or CAP_SYS_ADMIN");
    }
    let missing = [(CAP_BPF, "CAP_BPF"), (CAP_NET_ADMIN, "CAP_NET_ADMIN")];
    let missing = missing.into_iter().filter(|(capability, _)| !has(*capability));
    let missing: Vec<&str> = missing.map(|(_, name)| name).collect();
    Finding::bad(format!(
        "privileges are missing: run as root, or give {} (setcap cap_bpf,cap_net_admin+ep, or AmbientCapabilities= of a \
         systemd unit)",
        missing.join(" and ")
    ))
}

fn btf(there: bool) -> Finding {
    if there {
        Finding::good("the kernel describes its types (BTF)")
    } else {
        Finding::note(
            "no /sys/kernel/btf/vmlinux: the program brings its own types, but the kernel must have been built with \
             CONFIG_BPF_SYSCALL and know BTF (4.18)",
        )
    }
}

/// The file is missing where the kernel always compiles.
fn jit(enabled: &str) -> Option<Finding> {
    match enabled.trim() {
        "" => None,
        "0" => Some(Finding::note(
            "the kernel interprets programs, which is many times slower: `sysctl net.core.bpf_jit_enable=1`",
        )),
        _ => Some(Finding::good("the kernel compiles programs (bpf_jit_enable)")),
    }
}

/// Before 5.11 maps are locked memory, of which a process without CAP_SYS_RESOURCE has what its limit says.
fn memory(release: &str, limits: &str) -> Option<Finding> {
    if version(release)? >= (5, 11) {
        return Some(Finding::good(
            "map memory counts to the process's control group, no limit of locked memory applies",
        ));
    }
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max locked memory"))?;
    let limit = line.split_whitespace().next()?;
    (limit != "unlimited").then(|| {
        Finding::note(format!(
            "maps count as locked memory before Linux 5.11, and {limit} bytes are allowed: `ulimit -l unlimited` (as root \
             bpf-host lifts it itself)"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers_not_text() {
        assert_eq!(version("6.1.0-18-amd64\n"), Some((6, 1)));
        assert_eq!(version("5.14+"), Some((5, 14)));
        assert_eq!(version("linux"), None);
        assert!(
            kernel("5.9.1")
                .to_string()
                .starts_with("NO    kernel 5.9.1 is too old")
        );
        assert!(kernel("5.14.0").to_string().starts_with("ok"));
        assert!(kernel("10.2").to_string().starts_with("ok"));
        assert!(kernel("").to_string().starts_with("note"));
    }

    #[test]
    fn either_all_rights_or_the_two_that_are_needed() {
        let with = |capabilities: &[u32]| {
            let bits = capabilities
                .iter()
                .fold(0_u64, |bits, capability| bits | 1 << capability);
            privileges(&format!("Name:\tx\nCapEff:\t{bits:016x}\n")).to_string()
        };
        assert!(with(&[CAP_SYS_ADMIN]).starts_with("ok"));
        assert!(with(&[CAP_BPF, CAP_NET_ADMIN]).starts_with("ok"));
        assert!(with(&[CAP_BPF]).contains("give CAP_NET_ADMIN ("));
        assert!(with(&[]).contains("give CAP_BPF and CAP_NET_ADMIN ("));
        assert!(privileges("").to_string().starts_with("note"));
    }

    #[test]
    fn what_is_slow_or_limited_is_noted() {
        assert_eq!(jit(""), None);
        assert!(jit("0\n").unwrap().to_string().starts_with("note"));
        assert!(jit("1\n").unwrap().to_string().starts_with("ok"));
        let limits = "Limit  Soft Hard Units\nMax locked memory         65536                65536                bytes\n";
        assert!(
            memory("5.10.0", limits)
                .unwrap()
                .to_string()
                .contains("65536 bytes are allowed")
        );
        assert!(memory("5.15.0", limits).unwrap().to_string().starts_with("ok"));
    }
}
