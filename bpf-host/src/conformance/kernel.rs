//! The program in the kernel, driven as the host drives it, with a clock that the test sets.

use std::cell::Cell;
use std::collections::HashMap;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, OwnedFd};

use agg_core::slot::{Head, NO_FRAME};
use agg_core::{Abort, Counter, Job, JobConfig, MAX_MEMBERS, Member};
use agg_model::vectors::trace::AGGREGATOR;
use agg_model::{ModelSend, To};
use aya::Ebpf;
use aya::maps::{Array, Map, MapData, MapError};
use aya::programs::xdp::Xdp;
use bpf_layout::{JobEntry, MAX_JOBS, MemberEntry, Tally, member_index};

use super::affinity::{cpus, stay_on};
use super::frames;
use super::programs::{
    Constants, EPOCH, Run, XDP_DROP, XDP_PASS, XDP_REDIRECT, XDP_TX, program, programs, run,
};
use super::raw::{self, Raw};
use super::values::Values;
use crate::load::{DELIVER, PROGRAM};
use crate::maps::{KernelMaps, Maps};
use crate::memory::{Memory, Place};

/// The number of the loopback interface.
const LOOPBACK: u32 = 1;

/// Who a parent's route is for, beside the members' numbers: somebody behind the loopback interface.
const PARENT: u32 = 200;
const _: () = assert!(1 + PARENT % frames::INTERFACES == LOOPBACK);

/// The loaded program and its jobs.
pub(super) struct Kernel {
    programs: Ebpf,
    maps: KernelMaps,
    clock: Array<MapData, u64>,
    late: Array<MapData, u64>,
    values: Values,
    memory: Memory,
    jobs: HashMap<u64, Placed>,
    /// What had been counted when it was last reset.
    before: Vec<u64>,
    /// The program that addresses the clones, as it runs at each interface.
    deliver: Vec<OwnedFd>,
    redirects_replies: bool,
    /// With which probes are answered; 0: none are.
    pub(super) probe_epoch: u16,
    /// The number of the last frame for all members.
    number: Cell<u64>,
}

/// A running job.
pub(super) struct Placed {
    job: Job,
    members: Vec<Member>,
    entry: JobEntry,
    place: Place,
}

impl Kernel {
    /// Loads the program, with a clock that is to be set, and with so much memory.
    pub(super) fn load(bytes: u64) -> Self {
        Self::load_at(bytes, false)
    }

    /// The same, for a veth or not.
    pub(super) fn load_at(bytes: u64, redirects_replies: bool) -> Self {
        Self::load_with(bytes, redirects_replies, EPOCH)
    }

    /// The same, which answers probes of an epoch, or none.
    pub(super) fn load_with(bytes: u64, redirects_replies: bool, probe_epoch: u16) -> Self {
        let memory = Memory::of(bytes);
        // Turns are a CPU's own.
        stay_on(cpus()[0]);
        let constants = Constants {
            test_clock: true,
            redirect_replies: redirects_replies,
            probe_epoch,
        };
        let mut programs = programs(&memory, constants);
        let deliver = program(&programs, DELIVER)
            .fd()
            .and_then(|fd| Ok(fd.try_clone()?));
        let raw = Raw::over(&programs);
        let interfaces = 1..=frames::INTERFACES as i32;
        let at_interfaces = interfaces.map(|interface| raw.load_at_device(DELIVER, interface));
        let at_interfaces = at_interfaces.collect();
        let late = again(programs.map("LATE").expect("it has that map"));
        let mut take = |name: &str| {
            let missing = || MapError::InvalidName {
                name: name.to_owned(),
            };
            programs.take_map(name).ok_or_else(missing)
        };
        let Ok(Map::Array(values)) = take("VALUES") else {
            panic!("VALUES is an array");
        };
        let values = Values::map(values.fd().as_fd(), memory.rows()).expect("it can be mapped");
        let clock = take("CLOCK").and_then(Array::try_from).expect("the test's clock");
        let mut maps = KernelMaps::take(&mut take, deliver.expect("its descriptor")).expect("the maps");
        // Nothing is sent in a test run, which is one of the loopback interface: that will do.
        maps.add_device(LOOPBACK).expect("a device");
        for job in 0..MAX_JOBS as u32 {
            maps.set_broadcast(job, &[LOOPBACK; MAX_MEMBERS])
                .expect("a device map");
        }
        let before = maps.counters().expect("counters");
        Self {
            programs,
            maps,
            clock,
            late,
            values,
            memory,
            jobs: HashMap::new(),
            before,
            deliver: at_interfaces,
            redirects_replies,
            probe_epoch,
            number: Cell::new(0),
        }
    }

    /// The program that takes what arrives.
    pub(super) fn program(&self) -> &Xdp {
        program(&self.programs, PROGRAM)
    }

    /// Another handle of it, for another thread.
    pub(super) fn again(&self) -> OwnedFd {
        let program = self.program().fd().expect("its descriptor");
        program.as_fd().try_clone_to_owned().expect("another of it")
    }

    /// As in the daemon, which lets nothing leave by the interface that test runs are of.
    pub(super) fn forget_loopback(&mut self) {
        self.maps.remove_device(LOOPBACK).expect("a device");
    }

    /// Writes a job's entry anew, as it is, while the program may run.
    pub(super) fn replace(&mut self, key: u64) {
        let entry = self.jobs[&key].entry;
        self.maps.set_job(key, &entry).expect("the job");
    }

    /// Without jobs, and with nothing counted.
    pub(super) fn reset(&mut self) {
        for key in self.jobs.keys().copied().collect::<Vec<_>>() {
            self.release(key);
        }
        self.before = self.maps.counters().expect("counters");
    }

    pub(super) fn set_clock(&mut self, now: u64) {
        self.clock.set(0, now, 0).expect("the clock is set");
    }

    /// Takes a job in, or takes it in anew.
    pub(super) fn admit(&mut self, config: &JobConfig) {
        let place = self.memory.find(config).expect("there is room");
        self.memory.take(config.key, place.clone());
        let index = match self.jobs.get(&config.key) {
            Some(placed) => placed.entry.index,
            None => {
                let is_free = |index: &u32| self.jobs.values().all(|placed| placed.entry.index != *index);
                (0..MAX_JOBS as u32).find(is_free).expect("a free number")
            }
        };
        let job = config.job();
        let entry = JobEntry {
            record: (&job).into(),
            parent: frames::route(index, PARENT),
            index,
            members: config.members.len() as u32,
            lanes: config.lanes.count() as u32,
            first_head: place.heads.start as u32,
            heads: place.heads.len() as u32,
            first_row: place.rows.start as u32,
        };
        self.maps.clear_late(index).expect("who is late");
        self.maps.clear_heads(place.heads.clone()).expect("slots");
        for (number, member) in (0..).zip(&config.members) {
            let entry = MemberEntry {
                record: member.into(),
                route: frames::route(index, u32::from(number)),
            };
            self.maps
                .set_member(member_index(index, number), &entry)
                .expect("a member");
        }
        self.maps.nothing_runs();
        self.maps.set_job(config.key, &entry).expect("the job");
        let members = config.members.to_vec();
        self.jobs.insert(
            config.key,
            Placed {
                job,
                members,
                entry,
                place,
            },
        );
    }

    pub(super) fn abort(&mut self, key: u64, abort: Abort) {
        self.change(key, |placed| {
            placed.job.abort.get_or_insert(abort);
        });
    }

    pub(super) fn suspend(&mut self, key: u64) {
        self.change(key, |placed| placed.job.suspended = true);
    }

    pub(super) fn exclude(&mut self, key: u64, member: u8) {
        self.change(key, |placed| {
            if let Some(member) = placed.members.get(usize::from(member)) {
                placed.job.exclude(member);
            }
        });
    }

    fn change(&mut self, key: u64, what: impl FnOnce(&mut Placed)) {
        if let Some(placed) = self.jobs.get_mut(&key) {
            what(placed);
            placed.entry.record = (&placed.job).into();
            self.maps.nothing_runs();
            self.maps.set_job(key, &placed.entry).expect("the job");
        }
    }

    pub(super) fn release(&mut self, key: u64) {
        if self.jobs.remove(&key).is_some() {
            self.maps.remove_job(key).expect("the job");
            self.memory.release(key);
        }
    }

    /// Runs the program over a frame.
    pub(super) fn run(&self, frame: &[u8]) -> Run {
        run(self.program(), frame)
    }

    /// What was sent, by the verdict and the frame; the frame must be right from its first byte to its last.
    pub(super) fn sent(&self, source: SocketAddrV4, run: &Run) -> Option<ModelSend> {
        if run.verdict == XDP_DROP {
            return None;
        }
        let packet = run.frame.get(bpf_layout::FRAMING..).expect("a frame of ours");
        let key = || u64::from_le_bytes(packet[8..16].try_into().expect("8 bytes"));
        let to = match run.verdict {
            XDP_TX if !self.redirects_replies => {
                assert_eq!(run.frame, frames::reply(source, packet), "a reply");
                To::Sender
            }
            XDP_REDIRECT if frames::target(&run.frame) == *AGGREGATOR.ip() => {
                let number = frames::number(&run.frame);
                assert!(number > self.number.replace(number), "a number of its own");
                let expected = frames::for_all(source, packet, number);
                assert_eq!(frames::without_sums(&run.frame), expected, "for all members");
                To::Members(key())
            }
            XDP_REDIRECT if self.redirects_replies && !is_up(packet) => {
                assert_eq!(run.frame, frames::reply(source, packet), "a reply");
                self.leave(&run.frame);
                To::Sender
            }
            XDP_REDIRECT => {
                let placed = &self.jobs[&key()];
                let parent = placed.job.parent.expect("it has a parent");
                let to = frames::of_endpoint(&parent.source);
                assert_eq!(
                    run.frame,
                    frames::routed(&placed.entry.parent, to, packet),
                    "for the parent"
                );
                self.leave(&run.frame);
                To::Parent(key())
            }
            other => panic!("verdict {other}"),
        };
        let bytes = packet.to_vec();
        Some(ModelSend { to, bytes })
    }

    /// Has each member's clone of a frame for all addressed, in the order in which the kernel makes them, and looks at them.
    pub(super) fn deliver(&self, key: u64, frame: &[u8]) {
        let placed = &self.jobs[&key];
        let packet = &frame[bpf_layout::FRAMING..];
        for (number, member) in (0..).zip(&placed.members) {
            let route = frames::route(placed.entry.index, number);
            let to = frames::of_endpoint(&member.source);
            let clone = self.deliver_at(route.interface, frame);
            let expected = (XDP_PASS, frames::routed(&route, to, packet));
            assert_eq!(clone, expected, "for member {number}");
        }
        for interface in 1..=frames::INTERFACES {
            let (verdict, _) = self.deliver_at(interface, frame);
            assert_eq!(verdict, XDP_DROP, "for a member that there is not");
        }
    }

    /// What is addressed leaves as it is.
    fn leave(&self, frame: &[u8]) {
        assert_eq!(self.deliver_at(LOOPBACK, frame), (XDP_PASS, frame.to_vec()));
    }

    fn deliver_at(&self, interface: u32, frame: &[u8]) -> (u32, Vec<u8>) {
        raw::run(&self.deliver[interface as usize - 1], frame).expect("it runs")
    }

    /// How often something was counted since the last reset.
    pub(super) fn counted(&self) -> Counted {
        let now = self.maps.counters().expect("counters");
        Counted(
            now.iter()
                .zip(&self.before)
                .map(|(now, before)| now - before)
                .collect(),
        )
    }

    /// Which members of a job are late.
    pub(super) fn late(&self, key: u64) -> u64 {
        self.late
            .get(&self.jobs[&key].entry.index, 0)
            .expect("who is late")
    }

    /// The generations of a job. As the core has them: in a job without frames, it notes none, where zeros are here.
    pub(super) fn heads(&self, key: u64) -> Vec<Head> {
        let heads = self.jobs[&key].place.heads.clone();
        heads
            .map(|index| without_frame(self.maps.head(index).expect("a slot")))
            .collect()
    }

    /// The values of a job, one chunk behind the other.
    pub(super) fn values(&self, key: u64) -> Vec<i32> {
        let placed = &self.jobs[&key];
        let mut values = Vec::new();
        for (row, lanes) in rows(placed) {
            values.extend(self.values.row(row, lanes));
        }
        values
    }

    /// Overwrites them, before the first packet.
    pub(super) fn set_values(&mut self, key: u64, mut values: &[i32]) {
        for (row, lanes) in rows(&self.jobs[&key]) {
            let (first, rest) = values.split_at(lanes);
            self.values.set_row(row, first);
            values = rest;
        }
    }
}

/// What was counted.
pub(super) struct Counted(Vec<u64>);

impl Counted {
    pub(super) fn of(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Everything.
    pub(super) fn all(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(super) fn tally(&self, tally: Tally) -> u64 {
        self.0[tally.index() as usize]
    }
}

/// The rows of a job, each with how many of its lanes are used.
fn rows(placed: &Placed) -> impl Iterator<Item = (usize, usize)> {
    let lanes = placed.entry.lanes as usize;
    let chunks = bpf_layout::ROW_LANES / lanes;
    let all = placed.place.heads.len();
    let rows = placed.place.rows.clone().enumerate();
    rows.map(move |(number, row)| (row, lanes * chunks.min(all - number * chunks)))
}

/// Whether a packet is for a parent, by its flags.
fn is_up(packet: &[u8]) -> bool {
    packet[4] & 1 != 0
}

/// Another handle of an array.
fn again(map: &Map) -> Array<MapData, u64> {
    let Map::Array(data) = map else {
        panic!("{map:?} is no array");
    };
    let id = data.info().expect("its number").id();
    let data = MapData::from_id(id).expect("the same map");
    Array::try_from(Map::Array(data)).expect("numbers")
}

fn without_frame(head: Head) -> Head {
    // SAFETY: of one size. A head is 64 bytes without padding, and any words of a head with another frame are a head.
    unsafe {
        let mut words = std::mem::transmute::<Head, [u32; 16]>(head);
        words[15] = NO_FRAME;
        std::mem::transmute::<[u32; 16], Head>(words)
    }
}
