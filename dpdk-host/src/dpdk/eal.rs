//! DPDK's environment: started once in a process.

use std::ffi::{CStr, CString, c_char, c_int};
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use super::DpdkError;
use super::error::{c_text, said};

/// Whether somebody has started it, or tried to.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Proof that DPDK runs in this process. It does so until the process ends: mbufs can be anywhere until then.
///
/// The thread that starts it is DPDK's main core from then on, and it stays there: pools give mbufs quickly to DPDK's cores only.
#[derive(Debug)]
pub struct Eal {
    // Not Send: see above.
    thread: PhantomData<*const ()>,
}

impl Eal {
    /// Starts DPDK with arguments as `dpdk-testpmd` takes them, without a program's name.
    ///
    /// # Errors
    /// What DPDK said, and what to do. After an error another attempt in the same process is [`DpdkError::Twice`].
    pub fn start<S: AsRef<str>>(arguments: &[S]) -> Result<Self, DpdkError> {
        let program = std::iter::once(Ok(c"tributary".to_owned()));
        let given = arguments.iter().map(|argument| c_text(argument.as_ref()));
        let arguments: Vec<CString> = program.chain(given).collect::<Result<_, _>>()?;
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(DpdkError::Twice);
        }
        // DPDK keeps pointers to them and changes their order: they are never freed.
        let mut pointers: Vec<*mut c_char> = arguments.into_iter().map(CString::into_raw).collect();
        let count = pointers.len() as c_int;
        pointers.push(ptr::null_mut());
        let pointers = Vec::leak(pointers);
        let mut log = ptr::null_mut();
        // SAFETY: `pointers` is an array of `count` strings and a null as main() has it, and lives on.
        let code = unsafe { dpdk_sys::shim_eal_init(count, pointers.as_mut_ptr(), &raw mut log) };
        let log = take_log(log);
        if code < 0 {
            return Err(refused(&log, code));
        }
        for line in log.lines() {
            eprintln!("{line}");
        }
        Ok(Self { thread: PhantomData })
    }

    /// DPDK's version, as `DPDK 22.11.11`.
    pub fn version() -> String {
        // SAFETY: a constant of DPDK's.
        let text = unsafe { CStr::from_ptr(dpdk_sys::shim_version()) };
        text.to_string_lossy().into_owned()
    }
}

fn take_log(log: *mut c_char) -> String {
    if log.is_null() {
        return String::new();
    }
    // SAFETY: a string that is ours until it is freed.
    let text = unsafe { CStr::from_ptr(log) }.to_string_lossy().into_owned();
    // SAFETY: it came from the shim, and nothing points to it any more.
    unsafe { dpdk_sys::shim_log_free(log) };
    text
}

/// What the log says of a failure, and what to do about the reasons that are met in practice.
fn refused(log: &str, code: i32) -> DpdkError {
    let failed = |line: &&str| {
        let line = line.to_lowercase();
        [
            "cannot",
            "fail",
            "no free",
            "invalid",
            "error",
            "permission",
            "unable",
        ]
        .iter()
        .any(|word| line.contains(word))
    };
    let lines: Vec<&str> = log.lines().map(str::trim).filter(failed).collect();
    let said = if lines.is_empty() {
        said(code)
    } else {
        lines.join("; ")
    };
    DpdkError::Start {
        advice: advice(log),
        said: said.replace(char::is_control, " "),
    }
}

fn advice(log: &str) -> &'static str {
    let log = log.to_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| log.contains(word));
    if has(&["hugepage", "huge page", "hugetlb"]) {
        "reserve huge pages (`echo 512 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages` as root), or try it \
         out without with --no-huge -m 256"
    } else if has(&["permission", "runtime directory", "lock"]) {
        "start it as root, or as the owner of the devices with XDG_RUNTIME_DIR set; another process may run with the same \
         --file-prefix"
    } else if has(&["memory"]) {
        "give it less with -m, or free memory on that NUMA node (--socket-mem)"
    } else {
        "check the arguments behind `--`: they are DPDK's own"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_the_log_says_and_what_to_do() {
        let log = "EAL: Detected CPU lcores: 2\nEAL: No free 2048 kB hugepages reported on node 0\n\
                   EAL: FATAL: Cannot get hugepage information.\n";
        let text = refused(log, -13).to_string();
        assert!(
            text.starts_with(
                "DPDK does not start: EAL: No free 2048 kB hugepages reported on node 0; EAL: FATAL: Cannot get \
                 hugepage information.: reserve huge pages"
            ),
            "{text}"
        );
        assert!(
            refused("", -22)
                .to_string()
                .starts_with("DPDK does not start: Invalid argument: check")
        );
    }

    #[test]
    fn an_argument_cannot_have_a_zero_byte() {
        let error = Eal::start(&["-l\0"]).unwrap_err();
        assert_eq!(error, DpdkError::Zero("-l\0".to_owned()));
    }
}
