//! Ports that do not run yet.

use std::ffi::CStr;

use dpdk_sys as sys;

use super::error::{c_text, said};
use super::{DpdkError, Eal};

/// A port that does not run yet.
#[derive(Debug)]
pub struct Device {
    pub(super) port: u16,
    pub(super) name: String,
}

/// What a port is and can.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    /// The driver's name.
    pub driver: String,
    /// Its Ethernet address.
    pub mac: [u8; 6],
    /// Bytes of the largest IP packet.
    pub mtu: u16,
    /// Bytes of the longest frame that the driver says it receives.
    pub max_frame: u32,
    /// Pairs of queues that it can have.
    pub max_queues: u16,
    /// Its NUMA node.
    pub node: Option<u32>,
    /// Whether it can write IPv4 and UDP checksums.
    pub has_checksums: bool,
    /// Whether it can receive frames longer than an mbuf, each into several, and says so. Some virtual devices do so unasked.
    pub has_scatter: bool,
}

/// The longest frame of an ordinary Ethernet, with a tag, which virtual devices say whatever they carry.
const ORDINARY: u32 = 1522;

/// The driver of shared memory between two processes.
const MEMIF: &str = "net_memif";

impl PortInfo {
    /// Whether it says of the longest frame what every Ethernet does, which says nothing of a virtual device.
    pub fn is_ordinary(&self) -> bool {
        self.max_frame <= ORDINARY
    }

    /// Whether it is shared memory between two processes.
    pub fn is_memif(&self) -> bool {
        self.driver == MEMIF
    }

    /// The MTU to start it with where one is wanted. A virtual device refuses it, and carries it unasked.
    pub fn mtu_to_set(&self, wanted: Option<u16>) -> Option<u16> {
        wanted.filter(|_| !self.is_ordinary())
    }

    /// How many queues so many users get, at least one: `wanted`, or one each. A queue of net_memif that the peer does not have is
    /// taken for its first one: so it has one, unless the operator says more.
    pub fn queues_for(&self, users: u16, wanted: Option<u16>) -> u16 {
        let usual = if self.is_memif() { 1 } else { users };
        wanted.unwrap_or(usual).min(users).min(self.max_queues).max(1)
    }
}

impl Device {
    /// A port that DPDK found when it started, or that was added since, by its device's name.
    ///
    /// # Errors
    /// There is none of this name.
    pub fn find(_: &Eal, name: &str) -> Result<Self, DpdkError> {
        let c_name = c_text(name)?;
        let mut port = 0;
        // SAFETY: EAL runs, and the name is a string.
        let code = unsafe { sys::shim_port_by_name(c_name.as_ptr(), &raw mut port) };
        if code != 0 {
            return Err(DpdkError::Device {
                name: name.to_owned(),
                said: said(code),
                advice: "bind it to vfio-pci (`dpdk-devbind.py --status` lists network cards and their drivers) and allow \
                         it with -a, or give a virtual device with --vdev",
            });
        }
        Ok(Self {
            port,
            name: name.to_owned(),
        })
    }

    /// The names of all ports.
    pub fn names(_: &Eal) -> Vec<String> {
        let mut names = Vec::new();
        let mut from = 0;
        // SAFETY: EAL runs.
        while let Ok(port) = u16::try_from(unsafe { sys::shim_port_next(from) }) {
            let mut name = [0; 64];
            // SAFETY: there is as much room as is said.
            if unsafe { sys::shim_port_name(port, name.as_mut_ptr(), name.len()) } == 0 {
                // SAFETY: the shim has ended the name with 0.
                let name = unsafe { CStr::from_ptr(name.as_ptr()) };
                names.push(name.to_string_lossy().into_owned());
            }
            from = port + 1;
        }
        names
    }

    /// Adds a virtual device, as `--vdev name,arguments` does: `net_pcap0`, `net_memif0`, `net_af_packet0`, `net_ring0`.
    ///
    /// # Errors
    /// What DPDK said.
    pub fn add(eal: &Eal, name: &str, arguments: &str) -> Result<Self, DpdkError> {
        let (c_name, c_arguments) = (c_text(name)?, c_text(arguments)?);
        // SAFETY: EAL runs, and both are strings.
        let code = unsafe { sys::shim_device_add(c_name.as_ptr(), c_arguments.as_ptr()) };
        if code != 0 {
            return Err(DpdkError::Device {
                name: format!("{name},{arguments}"),
                said: said(code),
                advice: "its name begins with that of a driver and no other has it; the log above says which argument is \
                         wrong (--log-level 8 says more)",
            });
        }
        Self::find(eal, name)
    }

    /// Two devices in this process, of which each receives what the other sends; up to `size` frames, a power of two, wait
    /// on the way.
    ///
    /// # Errors
    /// What DPDK said.
    pub fn ring_pair(eal: &Eal, name: &str, size: u32) -> Result<[Self; 2], DpdkError> {
        Self::ring_pair_of(eal, name, size, 1)
    }

    /// The same with several queues, up to 16: what is sent on one is received on that of the same number.
    ///
    /// # Errors
    /// What DPDK said.
    pub fn ring_pair_of(_: &Eal, name: &str, size: u32, queues: u16) -> Result<[Self; 2], DpdkError> {
        let c_name = c_text(name)?;
        let mut ports = [0; 2];
        // SAFETY: EAL runs, the name is a string, and there is room for two ports.
        let code = unsafe { sys::shim_ring_pair(c_name.as_ptr(), size, queues.into(), ports.as_mut_ptr()) };
        if code != 0 {
            return Err(DpdkError::Device {
                name: name.to_owned(),
                said: said(code),
                advice: "give a size that is a power of two, at most 16 queues, and a name that no other has",
            });
        }
        let device = |number: usize| Self {
            port: ports[number],
            name: format!("net_ring_{name}_{number}"),
        };
        Ok([device(0), device(1)])
    }

    /// The name of its device.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What it is and can.
    ///
    /// # Errors
    /// What DPDK said.
    pub fn info(&self) -> Result<PortInfo, DpdkError> {
        let mut info = sys::PortInfo::default();
        // SAFETY: EAL runs, or there were no device; the shim writes to `info` only.
        let code = unsafe { sys::shim_port_info(self.port, &raw mut info) };
        self.done(code, "the device may have gone")?;
        // SAFETY: the shim has ended the name with 0.
        let driver = unsafe { CStr::from_ptr(info.driver.as_ptr()) };
        Ok(PortInfo {
            driver: driver.to_string_lossy().into_owned(),
            mac: info.mac,
            mtu: info.mtu,
            max_frame: info.max_frame,
            max_queues: info.max_queues,
            node: u32::try_from(info.socket).ok(),
            has_checksums: info.has_checksums != 0,
            has_scatter: info.has_scatter != 0,
        })
    }

    pub(super) fn done(&self, code: i32, advice: &'static str) -> Result<(), DpdkError> {
        if code == 0 {
            return Ok(());
        }
        Err(DpdkError::Device {
            name: self.name.clone(),
            said: said(code),
            advice,
        })
    }
}
