//! The interfaces that have the program, as they are now: they may go, come back as others of the same name, be turned off, and
//! get another MTU or Ethernet address while the host runs.

use std::sync::{Arc, PoisonError, RwLock};

use crate::neighbours::Interface;

/// What is known of the interfaces, by all who need it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interfaces(Arc<RwLock<Vec<Interface>>>);

/// What an interface has become since it was last looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// None of its name is there.
    Gone,
    /// Another one of its name is there, without the program.
    Anew,
    /// The same one, that differs.
    Differs,
}

impl Interfaces {
    pub(crate) fn new(found: Vec<Interface>) -> Self {
        Self(Arc::new(RwLock::new(found)))
    }

    /// All of them.
    pub(crate) fn list(&self) -> Vec<Interface> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The one of this name.
    pub(crate) fn find(&self, name: &str) -> Option<Interface> {
        self.list().into_iter().find(|known| known.name == name)
    }

    /// Takes in what one of them has become.
    pub(crate) fn replace(&self, now: Interface) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = known.iter_mut().find(|known| known.name == now.name) {
            *place = now;
        }
    }

    /// The smallest MTU, in bytes.
    pub(crate) fn mtu(&self) -> u32 {
        self.list().iter().map(|known| known.mtu).min().unwrap_or(0)
    }

    /// Frames that the smallest receive ring holds; 0: unknown.
    pub(crate) fn ring(&self) -> u32 {
        let rings = self.list().into_iter().map(|known| known.ring);
        rings.filter(|ring| *ring > 0).min().unwrap_or(0)
    }
}

/// What has become of an interface, from what is there of its name.
pub(crate) fn change(was: &Interface, now: Option<&Interface>) -> Option<Change> {
    match now {
        None => Some(Change::Gone),
        Some(now) if now.index != was.index => Some(Change::Anew),
        Some(now) if now != was => Some(Change::Differs),
        Some(_) => None,
    }
}

/// In which way an interface differs, for the log.
pub(crate) fn difference(was: &Interface, now: &Interface) -> String {
    let mut said = Vec::new();
    if now.up != was.up {
        said.push(if now.up {
            "it is up again".to_owned()
        } else {
            format!(
                "it is down: no packet gets through until `ip link set {} up`",
                now.name
            )
        });
    }
    if now.mtu != was.mtu {
        said.push(format!("its MTU is {} instead of {}", now.mtu, was.mtu));
    }
    if now.mac != was.mac {
        said.push("it has another Ethernet address".to_owned());
    }
    if now.ring != was.ring {
        said.push(format!(
            "its receive ring holds {} frames instead of {}",
            now.ring, was.ring
        ));
    }
    said.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface() -> Interface {
        Interface {
            name: "eth0".to_owned(),
            index: 3,
            mac: Some([2, 0, 0, 0, 0, 1]),
            mtu: 1500,
            up: true,
            driver: "veth".to_owned(),
            ring: 256,
        }
    }

    #[test]
    fn what_has_become_of_an_interface_is_told_apart() {
        let was = interface();
        let other = |index, mtu| Interface {
            index,
            mtu,
            ..interface()
        };
        assert_eq!(change(&was, None), Some(Change::Gone));
        assert_eq!(change(&was, Some(&was)), None);
        assert_eq!(change(&was, Some(&other(4, 1500))), Some(Change::Anew));
        assert_eq!(change(&was, Some(&other(3, 3506))), Some(Change::Differs));
        let down = Interface {
            up: false,
            mtu: 1400,
            ..interface()
        };
        let said = difference(&was, &down);
        assert!(
            said.contains("ip link set eth0 up") && said.contains("MTU is 1400"),
            "{said}"
        );
    }

    #[test]
    fn all_see_what_is_taken_in() {
        let known = Interfaces::new(vec![interface()]);
        let shared = known.clone();
        known.replace(Interface {
            mtu: 1400,
            ring: 0,
            ..interface()
        });
        assert_eq!((shared.mtu(), shared.ring()), (1400, 0));
        known.replace(Interface {
            name: "eth9".to_owned(),
            ..interface()
        });
        assert_eq!(shared.find("eth9"), None);
    }
}
