//! A world that waits for its ranks, for memory, or for the parent aggregator's answer.

mod agreement;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::applicant::Applicant;
use super::tickets::Ticket;
use super::upward::Upward;
use crate::messages::WaitingWorld;
use crate::refusal::{MOST_MEMBERS, Refusal};

/// A member that has registered and waits for the others.
#[derive(Debug)]
pub(super) struct Seat {
    /// None for a member that has left a job that re-forms: it only answers for its results.
    pub(super) ticket: Option<Ticket>,
    pub(super) applicant: Applicant,
    /// Until then it waits.
    pub(super) deadline: Instant,
}

/// A job comes together again.
#[derive(Debug)]
pub(super) struct Reform {
    pub(super) key: u64,
    pub(super) began: Instant,
    /// The job runs here, suspended; else it ran elsewhere.
    pub(super) at_home: bool,
    /// Only the expected ranks may come. Below a parent others may, from other aggregators that were lost.
    pub(super) strict: bool,
    /// Ranks that the world had at its start.
    pub(super) size: u32,
    /// Ranks that have to register again.
    pub(super) expected: BTreeSet<u32>,
    /// Ranks that are known to be lost.
    pub(super) lost: BTreeSet<u32>,
}

/// A world that waits. All seated applicants agree on everything that must be the same, and share no rank.
#[derive(Debug)]
pub(super) struct World {
    name: String,
    pub(super) opened: Instant,
    /// In ascending order of their lowest ranks.
    seats: Vec<Seat>,
    /// Ranks that waited until their deadline: they were there, so they are not to be named as missing.
    gave_up: BTreeSet<u32>,
    /// Why ranks that came were refused: those who wait for them must not think that they did not come.
    turned_away: BTreeMap<u32, String>,
    /// Why the world, once complete, could not start yet.
    pub(super) blocked: Option<Refusal>,
    pub(super) reform: Option<Reform>,
    /// Its registration at the parent, if this aggregator has one.
    pub(super) upward: Upward,
}

/// A seat that was taken over, and what its holder is told.
pub(super) type Displaced = (Ticket, Refusal);

impl World {
    pub(super) fn new(name: &str, reform: Option<Reform>, now: Instant) -> Self {
        Self {
            name: name.into(),
            opened: now,
            seats: Vec::new(),
            gave_up: BTreeSet::new(),
            turned_away: BTreeMap::new(),
            blocked: None,
            reform,
            upward: Upward::new(now),
        }
    }

    /// Seats an applicant; it may take over seats of earlier ones.
    pub(super) fn seat(
        &mut self,
        ticket: Ticket,
        mut applicant: Applicant,
        deadline: Instant,
        now: Instant,
    ) -> Result<Vec<Displaced>, Refusal> {
        self.leave_out(&mut applicant)?;
        self.check_ranks_are_free(&applicant)?;
        let rank = applicant.rank();
        let agreed = self
            .check_agreement(&applicant)
            .and_then(|()| self.check_addresses(&applicant))
            .and_then(|()| self.check_room(&applicant));
        if let Err(refusal) = agreed {
            self.turned_away.insert(rank, refusal.to_string());
            return Err(refusal);
        }
        for rank in &applicant.ranks {
            self.turned_away.remove(rank);
            self.gave_up.remove(rank);
        }
        self.blocked = None;
        self.upward.touch(now);
        self.expect(&applicant, now);
        let displaced = self.displace(&applicant);
        let ticket = Some(ticket);
        self.insert(Seat {
            ticket,
            applicant,
            deadline,
        });
        Ok(displaced)
    }

    /// A seat for a member that has left.
    pub(super) fn seat_departed(&mut self, applicant: Applicant, now: Instant) {
        self.insert(Seat {
            ticket: None,
            applicant,
            deadline: now,
        });
    }

    /// Takes out the seat that holds this ticket.
    pub(super) fn unseat(&mut self, ticket: Ticket, now: Instant) -> Option<Seat> {
        let index = self.seats.iter().position(|seat| seat.ticket == Some(ticket))?;
        self.upward.touch(now);
        Some(self.seats.remove(index))
    }

    /// Like `unseat`, for a member that waited until its deadline; says whom it waited for.
    pub(super) fn give_up(&mut self, ticket: Ticket, waited: Duration, now: Instant) -> Refusal {
        let refusal = match &self.blocked {
            Some(refusal) => refusal.clone(),
            None => self.refuse_incomplete(waited),
        };
        if let Some(seat) = self.unseat(ticket, now) {
            self.gave_up.extend(seat.applicant.ranks);
        }
        refusal
    }

    /// Names the ranks that are not there.
    pub(super) fn refuse_incomplete(&self, waited: Duration) -> Refusal {
        let mut missing = self.missing();
        missing.retain(|rank| !self.gave_up.contains(rank));
        let turned_away = missing
            .iter()
            .find_map(|rank| Some((*rank, self.turned_away.get(rank)?.clone())));
        Refusal::RanksMissing {
            world: self.name.clone(),
            size: self.size(),
            missing,
            gave_up: self.gave_up.iter().copied().collect(),
            turned_away,
            waited,
        }
    }

    /// A job that ran elsewhere does not go on here with these ranks alone.
    pub(super) fn refuse_minority(&self, waited: Duration) -> Refusal {
        Refusal::Minority {
            world: self.name.clone(),
            size: self.size(),
            missing: self.missing(),
            seated: self.seated(),
            waited,
        }
    }

    /// More than half of all ranks that the world had at its start wait here.
    pub(super) fn has_majority(&self) -> bool {
        self.seated() > self.size() as usize / 2
    }

    /// Nobody waits for it. A job that re-forms here is not forgotten for that.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting_seats().next().is_none()
    }

    pub(super) fn is_complete(&self) -> bool {
        let seated = self.seated();
        let expected = match &self.reform {
            Some(reform) => reform.expected.len(),
            None => self.size() as usize,
        };
        seated > 0 && seated == expected
    }

    /// In the order of their lowest ranks, those of departed members included.
    pub(super) fn seats(&self) -> &[Seat] {
        &self.seats
    }

    pub(super) fn into_seats(self) -> Vec<Seat> {
        self.seats
    }

    /// Seats whose member waits for an answer.
    pub(super) fn waiting_seats(&self) -> impl Iterator<Item = &Seat> {
        self.seats.iter().filter(|seat| seat.ticket.is_some())
    }

    /// What all seats agree on; none if nobody waits.
    pub(super) fn common(&self) -> Option<&Applicant> {
        self.waiting_seats().next().map(|seat| &seat.applicant)
    }

    pub(super) fn weight(&self) -> u16 {
        self.common().map_or(1, |applicant| applicant.weight)
    }

    pub(super) fn priority(&self) -> u8 {
        self.common().map_or(0, |applicant| applicant.priority)
    }

    /// A rank has left the job that re-forms: it need not come again, but still answers for its results.
    pub(super) fn depart(&mut self, applicant: &Applicant, now: Instant) -> Vec<Ticket> {
        if let Some(reform) = &mut self.reform {
            reform.expected.retain(|rank| !applicant.ranks.contains(rank));
        }
        let tickets: Vec<Ticket> = self
            .waiting_seats()
            .filter(|seat| seat.applicant.overlaps(applicant))
            .filter_map(|seat| seat.ticket)
            .collect();
        self.seats.retain(|seat| !seat.applicant.overlaps(applicant));
        self.seat_departed(applicant.clone(), now);
        self.upward.touch(now);
        tickets
    }

    pub(super) fn status(&self, now: Instant) -> WaitingWorld {
        WaitingWorld {
            name: self.name.clone(),
            size: self.size(),
            missing: self.missing(),
            queued: self.reform.is_none() && self.is_complete(),
            priority: self.priority(),
            age: now.saturating_duration_since(self.opened),
        }
    }

    pub(super) fn missing(&self) -> Vec<u32> {
        let seated: BTreeSet<u32> = self
            .waiting_seats()
            .flat_map(|seat| seat.applicant.ranks.iter().copied())
            .collect();
        match &self.reform {
            Some(reform) => reform.expected.difference(&seated).copied().collect(),
            None => (0..self.size()).filter(|rank| !seated.contains(rank)).collect(),
        }
    }

    /// Ranks that wait, those behind a child aggregator one by one.
    fn seated(&self) -> usize {
        self.waiting_seats().map(|seat| seat.applicant.ranks.len()).sum()
    }

    fn size(&self) -> u32 {
        let reform = self.reform.as_ref().map_or(0, |reform| reform.size);
        self.seats.first().map_or(reform, |seat| seat.applicant.size)
    }

    fn insert(&mut self, seat: Seat) {
        let index = self
            .seats
            .partition_point(|other| other.applicant.rank() < seat.applicant.rank());
        self.seats.insert(index, seat);
    }

    /// Ranks without which the job goes on are not seated again; of a child aggregator the others are.
    fn leave_out(&self, new: &mut Applicant) -> Result<(), Refusal> {
        let Some(reform) = self
            .reform
            .as_ref()
            .filter(|reform| reform.at_home && reform.strict)
        else {
            return Ok(());
        };
        let rank = new.rank();
        new.ranks.retain(|rank| reform.expected.contains(rank));
        if new.ranks.is_empty() {
            let world = self.name.clone();
            return Err(Refusal::LeftOut { world, rank });
        }
        Ok(())
    }

    /// What a world waits for follows its first applicant, and below a parent also the later ones.
    fn expect(&mut self, new: &Applicant, now: Instant) {
        let alone = self.others(new).next().is_none();
        match (&mut self.reform, &new.resume) {
            (Some(reform), _) if reform.at_home => reform.expected.extend(new.ranks.iter().copied()),
            (Some(reform), Some(resume)) if reform.key == resume.key => {}
            (reform, Some(resume)) if alone => {
                *reform = Some(Reform::elsewhere(resume, new.size, now));
            }
            (reform, None) if alone => *reform = None,
            _ => {}
        }
    }

    /// Two processes that claim the same rank of a new world are a mistake of the launcher. A rank that resumes, or
    /// that comes by way of another aggregator, has moved.
    fn check_ranks_are_free(&self, new: &Applicant) -> Result<(), Refusal> {
        let may_move = new.child || new.resume.is_some();
        let holder = self.waiting_seats().find(|seat| {
            let other = &seat.applicant;
            other.nonce != new.nonce && other.overlaps(new) && !other.child && !may_move
        });
        match holder {
            Some(seat) => Err(Refusal::RankTaken {
                world: self.name.clone(),
                rank: new.rank(),
                holder: seat.applicant.endpoints[0],
            }),
            None => Ok(()),
        }
    }

    /// Takes the ranks of a new applicant from the seats that had them.
    fn displace(&mut self, new: &Applicant) -> Vec<Displaced> {
        let mut displaced = Vec::new();
        for seat in &mut self.seats {
            let Some(ticket) = seat.ticket else { continue };
            let (world, rank) = (self.name.clone(), seat.applicant.rank());
            if seat.applicant.nonce == new.nonce {
                displaced.push((ticket, Refusal::Superseded { world, rank }));
                seat.applicant.ranks.clear();
                continue;
            }
            seat.applicant.ranks.retain(|rank| !new.ranks.contains(rank));
            if seat.applicant.ranks.is_empty() {
                displaced.push((ticket, Refusal::LeftOut { world, rank }));
            }
        }
        self.seats.retain(|seat| !seat.applicant.ranks.is_empty());
        self.seats.sort_by_key(|seat| seat.applicant.rank());
        displaced
    }

    fn check_room(&self, new: &Applicant) -> Result<(), Refusal> {
        let others = self.others(new).count();
        if others < MOST_MEMBERS {
            return Ok(());
        }
        Err(Refusal::TooManyMembers {
            world: self.name.clone(),
            rank: new.rank(),
            size: new.size,
        })
    }

    /// Those that stay if a new applicant is seated.
    fn others(&self, new: &Applicant) -> impl Iterator<Item = &Applicant> {
        self.seats
            .iter()
            .map(|seat| &seat.applicant)
            .filter(|other| other.nonce != new.nonce)
            .filter(|other| other.ranks.iter().any(|rank| !new.ranks.contains(rank)))
    }
}
