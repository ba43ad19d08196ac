//! The object into the kernel: programs verified, maps made, the program attached to interfaces.
//!
//! Nothing is pinned: programs and maps live as long as this process holds them, and an attachment as long as its link. A
//! daemon that dies, however it does, leaves nothing behind.

use std::net::Ipv4Addr;

use agg_core::Epoch;
use aya::maps::MapError;
use aya::programs::links::FdLink;
use aya::programs::xdp::{Xdp, XdpMode};
use aya::programs::{Program, ProgramFd};
use aya::{Ebpf, EbpfLoader};

use crate::explain::{self, one_line};
use crate::maps::KernelMaps;
use crate::memory::Memory;
use crate::neighbours::Interface;
use crate::{HostError, Mode};

/// The program as it is kept beside its recipe; `cargo xtask ebpf` makes it.
pub(crate) static OBJECT: &[u8] =
    aya::include_bytes_aligned!(concat!(env!("CARGO_MANIFEST_DIR"), "/object/tributary-xdp.o"));

/// The program that takes what arrives.
pub(crate) const PROGRAM: &str = "tributary";

/// The program that addresses what goes to all members, where it leaves.
pub(crate) const DELIVER: &str = "deliver";

/// The programs in the kernel.
pub(crate) struct Programs(Ebpf);

/// The program at an interface, until this is dropped.
pub(crate) struct Attachment {
    pub(crate) interface: String,
    /// Native or generic.
    pub(crate) mode: Mode,
    /// Closing it detaches the program.
    _link: FdLink,
}

fn refused(program: &str, reason: String) -> HostError {
    HostError::Load {
        program: program.to_owned(),
        reason,
    }
}

/// Loads the programs, with maps as large as the memory, for packets to this address and port; probes of this epoch are
/// answered. `veth` says whether an interface is one, which wakes its peer for what is redirected only.
pub(crate) fn load(
    memory: &Memory,
    address: Ipv4Addr,
    port: u16,
    epoch: Epoch,
    veth: bool,
) -> Result<(Programs, KernelMaps), HostError> {
    explain::lift_memory_limit();
    let address = u32::from_ne_bytes(address.octets());
    let mut ebpf = EbpfLoader::new()
        .map_max_entries("HEADS", memory.heads() as u32)
        .map_max_entries("VALUES", memory.rows() as u32)
        .override_global("PORT", &port, true)
        .override_global("ADDRESS", &address, true)
        .override_global("EPOCH", &epoch.0, true)
        .override_global("REDIRECT_REPLIES", &u8::from(veth), true)
        .load(OBJECT)
        .map_err(|error| refused("object", explain::loading(&error)))?;
    load_program(&mut ebpf, PROGRAM)?;
    let deliver = load_program(&mut ebpf, DELIVER)?;
    let maps = KernelMaps::take(
        |name| {
            let missing = || MapError::InvalidName {
                name: name.to_owned(),
            };
            ebpf.take_map(name).ok_or_else(missing)
        },
        deliver,
    );
    let maps = maps.map_err(|error| refused("object", one_line(&error)))?;
    Ok((Programs(ebpf), maps))
}

fn load_program(ebpf: &mut Ebpf, name: &str) -> Result<ProgramFd, HostError> {
    let program = ebpf.program_mut(name).map(<&mut Xdp>::try_from);
    let Some(Ok(program)) = program else {
        let reason = "the object has none of that name: build it anew with `cargo xtask ebpf --keep`";
        return Err(refused(name, reason.to_owned()));
    };
    program
        .load()
        .map_err(|error| refused(name, explain::loading(&error)))?;
    let fd = program.fd().map_err(|error| refused(name, one_line(&error)))?;
    fd.try_clone().map_err(|error| refused(name, error.to_string()))
}

impl Programs {
    /// The program that takes what arrives.
    pub(crate) fn program(&self) -> Option<&Xdp> {
        self.0
            .program(PROGRAM)
            .and_then(|program: &Program| program.try_into().ok())
    }

    /// Attaches the program to an interface.
    ///
    /// # Errors
    /// The kernel does not let it run there in any of the modes wanted.
    pub(crate) fn attach(&mut self, interface: &Interface, mode: Mode) -> Result<Attachment, HostError> {
        let failed = |mode, reason| HostError::Attach {
            interface: interface.name.clone(),
            mode,
            reason,
        };
        let attachment = |mode, link| Attachment {
            interface: interface.name.clone(),
            mode,
            _link: link,
        };
        let first = match mode {
            Mode::Native | Mode::Auto => Mode::Native,
            Mode::Generic => Mode::Generic,
        };
        let reason = match self.link(interface, first) {
            Ok(link) => return Ok(attachment(first, link)),
            Err(reason) => reason,
        };
        if mode != Mode::Auto {
            return Err(failed(first, reason));
        }
        let link = self.link(interface, Mode::Generic);
        let link =
            link.map_err(|second| failed(Mode::Generic, format!("{second}; nor in native mode: {reason}")))?;
        tracing::warn!(
            "generic mode at {}, which is slower: not native, since {reason}",
            interface.name
        );
        Ok(attachment(Mode::Generic, link))
    }

    fn link(&mut self, interface: &Interface, mode: Mode) -> Result<FdLink, String> {
        let program = self.0.program_mut(PROGRAM).map(<&mut Xdp>::try_from);
        let Some(Ok(program)) = program else {
            return Err("the program is not loaded".to_owned());
        };
        let flags = match mode {
            Mode::Generic => XdpMode::Skb,
            Mode::Native | Mode::Auto => XdpMode::Driver,
        };
        let id = program
            .attach_to_if_index(interface.index, flags)
            .map_err(|error| explain::attaching(&error, interface, mode))?;
        let link = program.take_link(id).map_err(|error| one_line(&error))?;
        // What aya falls back to would outlive this process if that were killed; dropped, it is detached.
        FdLink::try_from(link).map_err(|_| {
            "this kernel has no links for XDP, which Linux has since 5.9: run a newer one".to_owned()
        })
    }
}
