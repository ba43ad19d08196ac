//! Programs of the object, loaded by the bare system call over the maps of those that are loaded already: it tells what the
//! verifier says, and what is for device maps can be made fit for a test run, too.

use std::collections::{HashMap, HashSet};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

use aya::Ebpf;
use aya::maps::{Map, MapData};
use aya_obj::generated::{bpf_attach_type, bpf_attr, bpf_cmd, bpf_insn, bpf_prog_type};
use aya_obj::{Object, ProgramSection};

use crate::load::OBJECT;

/// The object, made to use the maps of a loaded one.
pub(super) struct Raw(Object);

/// What the verifier said.
pub(super) struct Verified {
    /// Not there either where the log had too little room.
    pub(super) program: io::Result<OwnedFd>,
    pub(super) log: String,
    /// Bytes of the whole log, however much room there was.
    pub(super) log_size: u32,
}

/// What the verifier is to say: BPF_LOG_LEVEL2, BPF_LOG_STATS of include/linux/bpf_verifier.h.
pub(super) const EVERYTHING: u32 = 2 | 4;
pub(super) const STATISTICS: u32 = 4;

/// BPF_LDX | BPF_MEM | BPF_W, and BPF_ALU | BPF_MOV | BPF_K.
const LOAD_WORD: u8 = 0x61;
const MOVE_NUMBER: u8 = 0xb4;
/// Where `struct xdp_md` has it.
const EGRESS_IFINDEX: i16 = 20;

impl Raw {
    pub(super) fn over(loaded: &Ebpf) -> Self {
        let fds: HashMap<String, RawFd> = loaded
            .maps()
            .map(|(name, map)| (name.to_owned(), fd(map)))
            .collect();
        let mut object = Object::parse(OBJECT).expect("the kept object");
        let maps = object.maps.clone();
        let maps = maps.iter().map(|(name, map)| (name.as_str(), fds[name], map));
        let text: HashSet<usize> = object.functions.keys().map(|(section, _)| *section).collect();
        object.relocate_maps(maps, &text).expect("all maps are there");
        object.relocate_calls(&text).expect("all functions are there");
        Self(object)
    }

    /// Names of all its programs.
    pub(super) fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.0.programs.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }

    /// Loads a program of device maps as if it were one for interfaces, for the kernel runs only those over a test's frame. By
    /// which device the frame leaves, which no other may ask, is a constant then; all else is as it is.
    pub(super) fn load_at_device(&self, name: &str, device: i32) -> OwnedFd {
        let mut instructions = self.instructions(name).to_vec();
        let load = instructions
            .iter_mut()
            .find(|instruction| (instruction.code, instruction.off) == (LOAD_WORD, EGRESS_IFINDEX));
        // If it were another's, the verifier would refuse the one that is left.
        let load = load.expect("it asks for its device");
        (load.code, load.off, load.imm) = (MOVE_NUMBER, 0, device);
        load.set_src_reg(0);
        let verified = self.load(name, &instructions, 0, STATISTICS, 1 << 16);
        let program = verified.program;
        program.unwrap_or_else(|error| panic!("{name}: {error}: {}", verified.log))
    }

    fn instructions(&self, name: &str) -> &[bpf_insn] {
        &self.0.functions[&self.0.programs[name].function_key()].instructions
    }

    /// Loads a program with room for a log of this level.
    pub(super) fn verify(&self, name: &str, level: u32, room: usize) -> Verified {
        let kind = match &self.0.programs[name].section {
            ProgramSection::Xdp { attach_type, .. } => bpf_attach_type::from(*attach_type) as u32,
            other => panic!("{name} is of {other:?}"),
        };
        self.load(name, self.instructions(name), kind, level, room)
    }

    fn load(&self, name: &str, instructions: &[bpf_insn], kind: u32, level: u32, room: usize) -> Verified {
        let program = &self.0.programs[name];
        let mut log = vec![0_u8; room];
        // SAFETY: zeros are valid for a union of numbers, as the system call wants it.
        let mut attr: bpf_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the part of the union that BPF_PROG_LOAD is about; numbers only.
        let load = unsafe { &mut attr.__bindgen_anon_3 };
        load.prog_type = bpf_prog_type::BPF_PROG_TYPE_XDP as u32;
        load.expected_attach_type = kind;
        load.insn_cnt = instructions.len() as u32;
        load.insns = instructions.as_ptr() as u64;
        load.license = program.license.as_ptr() as u64;
        load.log_level = level;
        load.log_buf = log.as_mut_ptr() as u64;
        load.log_size = room as u32;
        // SAFETY: the addresses are of memory that outlives the call, with the lengths given.
        let done = unsafe { bpf(bpf_cmd::BPF_PROG_LOAD, &mut attr) };
        let text = CStr::from_bytes_until_nul(&log).unwrap_or_default();
        Verified {
            // SAFETY: the kernel has just given it.
            program: done.map(|program| unsafe { OwnedFd::from_raw_fd(program) }),
            log: text.to_string_lossy().into_owned(),
            // SAFETY: as above; the kernel writes it.
            log_size: unsafe { attr.__bindgen_anon_3.log_true_size },
        }
    }
}

/// Runs a program over a frame: its verdict, and the frame as it left it.
pub(super) fn run(program: &OwnedFd, frame: &[u8]) -> io::Result<(u32, Vec<u8>)> {
    repeat(program, frame, 1)
}

/// Runs a program so many times, each over what the one before left.
pub(super) fn repeat(program: &OwnedFd, frame: &[u8], times: u32) -> io::Result<(u32, Vec<u8>)> {
    let mut out = vec![0; super::frames::LONGEST];
    // SAFETY: as in `load`.
    let mut attr: bpf_attr = unsafe { std::mem::zeroed() };
    // SAFETY: the part of the union that BPF_PROG_TEST_RUN is about; numbers only.
    let test = unsafe { &mut attr.test };
    test.prog_fd = program.as_raw_fd() as u32;
    test.repeat = times;
    test.data_in = frame.as_ptr() as u64;
    test.data_size_in = frame.len() as u32;
    test.data_out = out.as_mut_ptr() as u64;
    test.data_size_out = out.len() as u32;
    // SAFETY: the addresses are of memory that outlives the call, with the lengths given.
    unsafe { bpf(bpf_cmd::BPF_PROG_TEST_RUN, &mut attr) }?;
    // SAFETY: as above; the kernel writes it.
    let (verdict, len) = unsafe { (attr.test.retval, attr.test.data_size_out) };
    out.truncate(len as usize);
    Ok((verdict, out))
}

/// # Safety
/// Addresses in `attr` are of memory that the call may read or write.
unsafe fn bpf(command: bpf_cmd, attr: &mut bpf_attr) -> io::Result<RawFd> {
    // SAFETY: the caller's.
    let done = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command as u32,
            &raw mut *attr,
            size_of::<bpf_attr>(),
        )
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(done as RawFd)
}

fn fd(map: &Map) -> RawFd {
    let data: &MapData = match map {
        Map::Array(data)
        | Map::ArrayOfMaps(data)
        | Map::DevMap(data)
        | Map::DevMapHash(data)
        | Map::HashMap(data)
        | Map::PerCpuArray(data)
        | Map::PerCpuHashMap(data) => data,
        other => panic!("a map of a kind that the program does not have: {other:?}"),
    };
    data.fd().as_fd().as_raw_fd()
}
