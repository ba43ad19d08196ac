//! A world that waits for its ranks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::Ticket;
use super::check::Applicant;
use crate::messages::WaitingWorld;
use crate::refusal::Refusal;

/// A rank that has registered and waits for the others.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) ticket: Ticket,
    pub(super) applicant: Applicant,
}

/// A world that waits for its ranks. All seated applicants agree on everything that must be the same.
#[derive(Debug)]
pub(super) struct World {
    name: String,
    opened: Instant,
    seats: BTreeMap<u32, Seat>,
    /// Ranks that waited until their deadline: they were there, so they are not to be named as missing.
    gave_up: BTreeSet<u32>,
    /// Why ranks that came were refused: those who wait for them must not think that they did not come.
    turned_away: BTreeMap<u32, String>,
}

impl World {
    pub(super) fn new(name: &str, now: Instant) -> Self {
        Self {
            name: name.into(),
            opened: now,
            seats: BTreeMap::new(),
            gave_up: BTreeSet::new(),
            turned_away: BTreeMap::new(),
        }
    }

    /// Seats an applicant; a ticket that it replaces (an earlier call of the same process) is returned.
    pub(super) fn seat(&mut self, ticket: Ticket, applicant: Applicant) -> Result<Option<Ticket>, Refusal> {
        self.check_rank_is_free(&applicant)?;
        let rank = applicant.rank;
        let agreed = self
            .check_agreement(&applicant)
            .and_then(|()| self.check_addresses(&applicant));
        if let Err(refusal) = agreed {
            self.turned_away.insert(rank, refusal.to_string());
            return Err(refusal);
        }
        self.turned_away.remove(&rank);
        self.gave_up.remove(&rank);
        Ok(self
            .seats
            .insert(rank, Seat { ticket, applicant })
            .map(|earlier| earlier.ticket))
    }

    /// Takes the rank that holds this ticket out again.
    pub(super) fn unseat(&mut self, rank: u32, ticket: Ticket) {
        if self.seats.get(&rank).is_some_and(|seat| seat.ticket == ticket) {
            self.seats.remove(&rank);
        }
    }

    /// Like `unseat`, for a rank that waited until its deadline; says whom it waited for.
    pub(super) fn give_up(&mut self, rank: u32, ticket: Ticket, waited: Duration) -> Refusal {
        let (size, gave_up) = (self.size(), self.gave_up.iter().copied().collect());
        let missing: Vec<u32> = self
            .missing()
            .into_iter()
            .filter(|rank| !self.gave_up.contains(rank))
            .collect();
        let turned_away = missing
            .iter()
            .find_map(|rank| Some((*rank, self.turned_away.get(rank)?.clone())));
        self.unseat(rank, ticket);
        self.gave_up.insert(rank);
        Refusal::RanksMissing {
            world: self.name.clone(),
            size,
            missing,
            gave_up,
            turned_away,
            waited,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    pub(super) fn is_complete(&self) -> bool {
        self.seats.len() == self.size() as usize
    }

    /// All seats, in the order of ranks.
    pub(super) fn seats(&self) -> impl ExactSizeIterator<Item = &Seat> {
        self.seats.values()
    }

    pub(super) fn status(&self, now: Instant) -> WaitingWorld {
        WaitingWorld {
            name: self.name.clone(),
            size: self.size(),
            missing: self.missing(),
            queued: false,
            priority: 0,
            age: now.saturating_duration_since(self.opened),
        }
    }

    fn size(&self) -> u32 {
        self.seats.values().next().map_or(0, |seat| seat.applicant.size)
    }

    fn missing(&self) -> Vec<u32> {
        (0..self.size())
            .filter(|rank| !self.seats.contains_key(rank))
            .collect()
    }

    fn check_rank_is_free(&self, new: &Applicant) -> Result<(), Refusal> {
        match self.seats.get(&new.rank) {
            Some(seat) if seat.applicant.nonce != new.nonce => Err(Refusal::RankTaken {
                world: self.name.clone(),
                rank: new.rank,
                holder: seat.applicant.endpoints[0],
            }),
            _ => Ok(()),
        }
    }

    /// Compared with one other rank: those that are seated already agree. A rank alone may change its mind.
    fn check_agreement(&mut self, new: &Applicant) -> Result<(), Refusal> {
        let Some(other) = self.others(new.rank).next() else {
            self.gave_up.clear();
            return Ok(());
        };
        let (world, rank) = (self.name.clone(), new.rank);
        if new.size != other.size {
            let (size, other_size) = (new.size, other.size);
            return Err(Refusal::SizesDisagree {
                world,
                rank,
                size,
                other: other.rank,
                other_size,
            });
        }
        if new.endpoints.len() != other.endpoints.len() {
            let (streams, other_streams) = (new.endpoints.len(), other.endpoints.len());
            return Err(Refusal::StreamsDisagree {
                world,
                rank,
                streams,
                other: other.rank,
                other_streams,
            });
        }
        for (what, asked, other_asked) in [
            ("lanes", new.lanes, other.lanes),
            ("window", new.window, other.window),
        ] {
            if asked != other_asked {
                let (asked, other_asked) = (asked.map(u32::from), other_asked.map(u32::from));
                return Err(Refusal::RequestsDisagree {
                    world,
                    what,
                    rank,
                    asked,
                    other: other.rank,
                    other_asked,
                });
            }
        }
        Ok(())
    }

    fn check_addresses(&self, new: &Applicant) -> Result<(), Refusal> {
        for other in self.others(new.rank) {
            if let Some(address) = new
                .endpoints
                .iter()
                .find(|address| other.endpoints.contains(address))
            {
                return Err(Refusal::AddressTaken {
                    rank: new.rank,
                    address: *address,
                    other: other.rank,
                });
            }
        }
        Ok(())
    }

    fn others(&self, rank: u32) -> impl Iterator<Item = &Applicant> {
        self.seats
            .values()
            .map(|seat| &seat.applicant)
            .filter(move |applicant| applicant.rank != rank)
    }
}
