//! Keeps the program at the interfaces: looks once a second what has become of them.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::host::advise;
use crate::interfaces::{Change, Interfaces, change, difference};
use crate::load::{Attachment, Programs};
use crate::maps::KernelMaps;
use crate::neighbours::{Interface, Kernel};
use crate::plane::Plane;
use crate::{HostError, Mode};

/// The program at its interfaces.
#[derive(Clone)]
pub(crate) struct Attached(Arc<Mutex<Vec<Attachment>>>);

impl Attached {
    pub(crate) fn new(attachments: Vec<Attachment>) -> Self {
        Self(Arc::new(Mutex::new(attachments)))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Attachment>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Each interface, and the mode the program runs in there.
    pub(crate) fn modes(&self) -> Vec<(String, Mode)> {
        let attachments = self.lock();
        let modes = attachments
            .iter()
            .map(|attachment| (attachment.interface.clone(), attachment.mode));
        modes.collect()
    }

    /// The program is at an interface that has come in another's place.
    fn replace(&self, attachment: Attachment) {
        let mut attachments = self.lock();
        attachments.retain(|known| known.interface != attachment.interface);
        attachments.push(attachment);
    }

    /// Takes the program off all of them.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }
}

/// What the watch works with.
pub(crate) struct Watch {
    pub(crate) interfaces: Interfaces,
    pub(crate) programs: Arc<Mutex<Programs>>,
    pub(crate) attached: Attached,
    /// As configured.
    pub(crate) mode: Mode,
    /// What was complained about and has not changed since.
    pub(crate) complained: HashSet<String>,
}

impl Watch {
    /// Looks at each interface, and does what its change asks for.
    pub(crate) fn look(&mut self, plane: &Plane<KernelMaps, Kernel>) {
        for was in self.interfaces.list() {
            let now = Interface::find(&was.name).ok();
            match (change(&was, now.as_ref()), now) {
                (Some(Change::Anew), Some(now)) => self.attach(plane, &now),
                (Some(Change::Differs), Some(now)) => {
                    tracing::warn!("interface {}: {}", now.name, difference(&was, &now));
                    warn_of_mtu(plane, &now);
                    self.interfaces.replace(now);
                }
                (Some(_), _) => self.complain(
                    &was.name,
                    "it is gone: no packet gets through until there is one of that name again".to_owned(),
                ),
                (None, _) => self
                    .complained
                    .retain(|known| !known.starts_with(&prefix(&was.name))),
            }
        }
    }

    /// Another interface has the name now.
    fn attach(&mut self, plane: &Plane<KernelMaps, Kernel>, now: &Interface) {
        match self.try_attach(plane, now) {
            Ok(attachment) => {
                tracing::warn!(
                    "interface {} is another one now: the program is there ({} mode)",
                    now.name,
                    attachment.mode
                );
                advise(now, attachment.mode);
                warn_of_mtu(plane, now);
                self.attached.replace(attachment);
                self.interfaces.replace(now.clone());
            }
            Err(reason) => self.complain(&now.name, format!("another one of that name is there: {reason}")),
        }
    }

    fn try_attach(
        &self,
        plane: &Plane<KernelMaps, Kernel>,
        now: &Interface,
    ) -> Result<Attachment, HostError> {
        plane.add_device(now.index)?;
        let mut programs = self.programs.lock().unwrap_or_else(PoisonError::into_inner);
        programs.attach(now, self.mode)
    }

    /// Says it once.
    fn complain(&mut self, name: &str, what: String) {
        if self.complained.insert(prefix(name) + &what) {
            tracing::error!("interface {name}: {what}");
        }
    }
}

fn prefix(name: &str) -> String {
    format!("{name}: ")
}

/// Says which running jobs' packets an interface does not carry any more.
fn warn_of_mtu(plane: &Plane<KernelMaps, Kernel>, now: &Interface) {
    for lanes in plane.too_large_for(now.mtu) {
        tracing::error!(
            "a running job has chunks of {lanes} lanes, which need an MTU of {}: interface {} has {}",
            bpf_layout::mtu(lanes as usize),
            now.name,
            now.mtu
        );
    }
}
