//! Sets of members: 64 bits, one a member of this level of aggregation.

use core::fmt;

/// A set of members, bit *i* for member *i*.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct MemberSet(pub u64);

impl MemberSet {
    /// The set without members.
    pub const EMPTY: Self = Self(0);

    /// The set of the single member `member`; empty where the number is 64 or more.
    #[inline(always)]
    pub const fn single(member: u8) -> Self {
        if member < 64 {
            Self(1 << member)
        } else {
            Self::EMPTY
        }
    }

    /// The members `0..count`; all 64 where `count` is 64 or more.
    #[inline(always)]
    pub const fn first(count: u8) -> Self {
        if count < 64 {
            Self((1 << count) - 1)
        } else {
            Self(u64::MAX)
        }
    }

    /// The members in either set.
    #[inline(always)]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// The members of this set that are not in `other`.
    #[inline(always)]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether no member is in both.
    #[inline(always)]
    pub const fn is_disjoint(self, other: Self) -> bool {
        self.0 & other.0 == 0
    }

    /// Whether every member of this set is in `other`.
    #[inline(always)]
    pub const fn is_subset(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// Whether `member` is in the set.
    #[inline(always)]
    pub const fn contains(self, member: u8) -> bool {
        !Self::single(member).is_disjoint(self)
    }

    /// Whether the set has no member.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many members the set has.
    pub const fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// The members in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..64).filter(move |member| self.contains(*member))
    }
}

impl fmt::Debug for MemberSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// The members separated by commas, as an error message lists them: `2, 3`.
impl fmt::Display for MemberSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, member) in self.iter().enumerate() {
            if position > 0 {
                f.write_str(", ")?;
            }
            write!(f, "{member}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edges_of_the_word_are_members_too() {
        assert_eq!(MemberSet::first(64), MemberSet(u64::MAX));
        assert_eq!(MemberSet::first(0), MemberSet::EMPTY);
        assert!(MemberSet::single(63).contains(63));
        assert!(MemberSet::single(64).is_empty());
        assert!(!MemberSet::first(64).contains(64));
    }

    #[test]
    fn subset_and_disjoint_are_not_opposites() {
        let (a, b) = (MemberSet(0b011), MemberSet(0b110));
        assert!(!a.is_disjoint(b) && !a.is_subset(b) && !b.is_subset(a));
        assert!(a.without(b) == MemberSet(0b001) && a.union(b) == MemberSet(0b111));
        assert!(MemberSet::EMPTY.is_subset(a) && MemberSet::EMPTY.is_disjoint(a));
    }
}
