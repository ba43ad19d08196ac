//! The maps of the loaded program, as the control side uses them: the one place that reads and writes them.

use std::io;
use std::ops::Range;

use agg_core::Counter;
use agg_core::slot::Head;
use aya::maps::xdp::{DevMap, DevMapHash, XdpMapError};
use aya::maps::{Array, ArrayOfMaps, HashMap, Map, MapData, MapError, PerCpuArray};
use aya::programs::ProgramFd;
use bpf_layout::{HeadEntry, JobEntry, MAX_JOBS, MemberEntry, TALLIES};
use bytemuck::Zeroable;
use thiserror::Error;

/// With the entry's lock held: BPF_F_LOCK of include/uapi/linux/bpf.h.
const LOCKED: u64 = 4;

/// BPF_MAP_TYPE_DEVMAP of the same file.
const DEVMAP: u32 = 14;

/// A map could not be read or written.
#[derive(Debug, Error)]
#[error("the kernel does not {what}: {reason}")]
pub struct MapsError {
    what: &'static str,
    reason: String,
}

/// For [`Result::map_err`].
fn failed<E: Into<MapError>>(what: &'static str) -> impl FnOnce(E) -> MapsError {
    move |error| {
        let error = error.into();
        let reason = match &error {
            MapError::SyscallError(call) => call.io_error.to_string(),
            other => other.to_string(),
        };
        MapsError { what, reason }
    }
}

/// What the control side does with the maps.
pub(crate) trait Maps: Send + 'static {
    /// Lets packets of a job in, or replaces what they are judged by. A run of the program that began before may go on with
    /// the entry that was.
    fn set_job(&mut self, key: u64, entry: &JobEntry) -> Result<(), MapsError>;

    /// Lets packets leave by an interface.
    fn add_device(&mut self, interface: u32) -> Result<(), MapsError>;

    /// From now on the job is unknown.
    fn remove_job(&mut self, key: u64) -> Result<(), MapsError>;

    /// Writes the entry of a member.
    fn set_member(&mut self, index: u32, entry: &MemberEntry) -> Result<(), MapsError>;

    /// Writes to which interfaces a job's results go, by member number. When it returns, no run of the program that began
    /// before goes on: the kernel waits for them, since they could use what was replaced.
    fn set_broadcast(&mut self, job: u32, interfaces: &[u32]) -> Result<(), MapsError>;

    /// No member of a job is late.
    fn clear_late(&mut self, job: u32) -> Result<(), MapsError>;

    /// Makes generations vacant.
    fn clear_heads(&mut self, heads: Range<usize>) -> Result<(), MapsError>;

    /// One generation.
    fn head(&self, index: usize) -> Result<Head, MapsError>;

    /// What was counted, over all CPUs, by place in the map.
    fn counters(&self) -> Result<Vec<u64>, MapsError>;
}

/// A value that lies in a map as it is.
#[derive(Clone, Copy)]
#[repr(transparent)]
struct Plain<T>(T);

// SAFETY: plain words without padding, of which any bytes are valid: that is what bytemuck's `Pod` says.
unsafe impl<T: bytemuck::Pod> aya::Pod for Plain<T> {}

/// The maps in the kernel.
pub(crate) struct KernelMaps {
    jobs: HashMap<MapData, u64, Plain<JobEntry>>,
    late: Array<MapData, u64>,
    members: Array<MapData, Plain<MemberEntry>>,
    heads: Array<MapData, Plain<HeadEntry>>,
    counters: PerCpuArray<MapData, u64>,
    broadcast: ArrayOfMaps<MapData, DevMap<MapData>>,
    devices: DevMapHash<MapData>,
    /// What `broadcast` holds, by the job's number.
    results: [Option<DevMap<MapData>>; MAX_JOBS],
    /// An entry of `jobs` was replaced or removed, and runs of the program that found it may still read it.
    given_up: bool,
    /// The program that addresses each clone to its member.
    deliver: ProgramFd,
}

impl KernelMaps {
    /// Takes them from the loaded object by their names.
    pub(crate) fn take(
        mut map: impl FnMut(&'static str) -> Result<Map, MapError>,
        deliver: ProgramFd,
    ) -> Result<Self, MapError> {
        Ok(Self {
            jobs: map("JOBS")?.try_into()?,
            late: map("LATE")?.try_into()?,
            members: map("MEMBERS")?.try_into()?,
            heads: map("HEADS")?.try_into()?,
            counters: map("COUNTERS")?.try_into()?,
            broadcast: map("BROADCAST")?.try_into()?,
            devices: map("DEVICES")?.try_into()?,
            results: [const { None }; MAX_JOBS],
            given_up: false,
            deliver,
        })
    }

    /// Waits until no run of the program goes on that began before, where one could read what is given up. The kernel would
    /// give its memory to the next entry at once, under the eyes of that run (`htab_elem_free` of kernel/bpf/hashtab.c, since
    /// Linux 6.1).
    fn settle(&mut self) -> Result<(), MapsError> {
        let mut held = (0..).zip(&self.results);
        let held = held.find_map(|(job, devices)| Some((job, devices.as_ref()?)));
        if let Some((job, devices)) = held
            && self.given_up
        {
            // It waits whatever is written.
            self.broadcast
                .set(job, devices, 0)
                .map_err(failed("wait for the packets at hand"))?;
            self.given_up = false;
        }
        Ok(())
    }

    /// No run of the program goes on: there is nothing to wait for.
    #[cfg(test)]
    pub(crate) fn nothing_runs(&mut self) {
        self.given_up = false;
    }

    /// What is redirected there goes nowhere from now on.
    #[cfg(test)]
    pub(crate) fn remove_device(&mut self, interface: u32) -> Result<(), MapsError> {
        self.devices
            .remove(interface)
            .map_err(failed("forget an interface"))
    }

    fn devices(&self, interfaces: &[u32]) -> Result<DevMap<MapData>, MapError> {
        // The value is an interface and a program, 4 bytes each.
        let most = agg_core::MAX_MEMBERS as u32;
        let object = aya_obj::Map::new_from_params(DEVMAP, 4, 8, most, 0);
        let data = MapData::create(object, "members", None)?;
        let mut devices = DevMap::try_from(Map::DevMap(data))?;
        for (member, interface) in (0..).zip(interfaces) {
            devices
                .set(member, *interface, Some(&self.deliver), 0)
                .map_err(plain)?;
        }
        Ok(devices)
    }
}

/// An error of a device map as one of any map.
fn plain(error: XdpMapError) -> MapError {
    match error {
        XdpMapError::MapError(error) => error,
        other => MapError::InvalidName {
            name: other.to_string(),
        },
    }
}

impl Maps for KernelMaps {
    fn add_device(&mut self, interface: u32) -> Result<(), MapsError> {
        let added = self
            .devices
            .insert(interface, interface, Some(&self.deliver), 0)
            .map_err(plain);
        added.map_err(failed("send by an interface"))
    }

    fn set_job(&mut self, key: u64, entry: &JobEntry) -> Result<(), MapsError> {
        if entry.parent.interface != 0 {
            self.add_device(entry.parent.interface)?;
        }
        self.settle()?;
        self.given_up = true;
        self.jobs
            .insert(key, Plain(*entry), 0)
            .map_err(failed("take a job in"))
    }

    fn remove_job(&mut self, key: u64) -> Result<(), MapsError> {
        self.given_up = true;
        match self.jobs.remove(&key) {
            Err(MapError::SyscallError(call)) if call.io_error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(failed("forget a job")),
        }
    }

    fn set_member(&mut self, index: u32, entry: &MemberEntry) -> Result<(), MapsError> {
        self.members
            .set(index, Plain(*entry), 0)
            .map_err(failed("take a member in"))
    }

    fn set_broadcast(&mut self, job: u32, interfaces: &[u32]) -> Result<(), MapsError> {
        for interface in interfaces {
            self.add_device(*interface)?;
        }
        let devices = self.devices(interfaces).and_then(|devices| {
            self.broadcast.set(job, &devices, 0)?;
            Ok(devices)
        });
        let devices = devices.map_err(failed("take in where a job's results go"))?;
        self.given_up = false;
        if let Some(held) = self.results.get_mut(job as usize) {
            *held = Some(devices);
        }
        Ok(())
    }

    fn clear_late(&mut self, job: u32) -> Result<(), MapsError> {
        self.late.set(job, 0, 0).map_err(failed("clear who is late"))
    }

    fn clear_heads(&mut self, heads: Range<usize>) -> Result<(), MapsError> {
        for head in heads {
            self.heads
                .set(head as u32, Plain(HeadEntry::zeroed()), LOCKED)
                .map_err(failed("empty a slot"))?;
        }
        Ok(())
    }

    fn head(&self, index: usize) -> Result<Head, MapsError> {
        let entry = self
            .heads
            .get(&(index as u32), LOCKED)
            .map_err(failed("show a slot"))?;
        Ok(head_of(&entry.0))
    }

    fn counters(&self) -> Result<Vec<u64>, MapsError> {
        let counter = |index: u32| {
            let cpus = self
                .counters
                .get(&index, 0)
                .map_err(failed("show its counters"))?;
            Ok(cpus.iter().fold(0_u64, |sum, count| sum.wrapping_add(*count)))
        };
        (0..TALLIES as u32).map(counter).collect()
    }
}

/// The head that an entry holds.
fn head_of(entry: &HeadEntry) -> Head {
    // SAFETY: of the same size. The bytes are zeros, which are a vacant head, or those of a head that the program wrote under
    // the lock with which they were read: both sides compile the same source, `repr(C)` with enumerations of `repr(u8)`.
    unsafe { std::mem::transmute::<[u64; 8], Head>(entry.head) }
}

/// The counters by name: the core's, then the program's own.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let core = Counter::ALL.iter().map(|counter| counter.name());
    core.chain(bpf_layout::Tally::ALL.into_iter().map(bpf_layout::Tally::name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_are_a_vacant_head() {
        assert_eq!(head_of(&HeadEntry::zeroed()).waiting(), None);
    }

    #[test]
    fn each_counter_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<_> = names().collect();
        assert_eq!(names.len(), TALLIES);
    }
}
