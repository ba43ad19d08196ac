//! The entries of the maps.

use agg_core::record::{JobRecord, MemberRecord};
use agg_core::slot::Head;
use bytemuck::{Pod, Zeroable};

/// How a frame gets to a neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Pod, Zeroable)]
#[repr(C)]
pub struct Route {
    /// The interface that it leaves by.
    pub interface: u32,
    /// The Ethernet address of the next hop.
    pub to: [u8; 6],
    /// The Ethernet address of the interface.
    pub from: [u8; 6],
    /// The IPv4 address that it comes from, in network order.
    pub source: [u8; 4],
    /// The UDP port that it comes from.
    pub port: u16,
    /// Zero.
    pub reserved: [u8; 2],
}

/// A running job: the value of map `JOBS`, by the job's key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct JobEntry {
    /// What the core knows of it.
    pub record: JobRecord,
    /// How its sums get to its parent, if it has one.
    pub parent: Route,
    /// Its number, below [`crate::MAX_JOBS`].
    pub index: u32,
    /// Members.
    pub members: u32,
    /// Lanes of a chunk, one of [`crate::LANES`].
    pub lanes: u32,
    /// Where its generations begin in map `HEADS`.
    pub first_head: u32,
    /// Generations: its window times the rounds that a slot keeps.
    pub heads: u32,
    /// Where its values begin in map `VALUES`.
    pub first_row: u32,
}

/// A member of a job: the value of map `MEMBERS`, by [`crate::member_index`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct MemberEntry {
    /// What the core knows of it.
    pub record: MemberRecord,
    /// How results get to it.
    pub route: Route,
}

/// One generation of a slot: the value of map `HEADS`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Pod, Zeroable)]
#[repr(C)]
pub struct HeadEntry {
    /// The kernel's `struct bpf_spin_lock`.
    pub lock: u32,
    /// Zero.
    pub reserved: u32,
    /// A [`Head`]; zeros are a vacant one.
    pub head: [u64; size_of::<Head>() / 8],
}

const _: () = {
    assert!(size_of::<Head>() == 64 && align_of::<Head>() == 8);
    assert!(size_of::<HeadEntry>() == 72);
    assert!(size_of::<Route>() == 24);
    assert!(size_of::<MemberEntry>() == 56);
};
