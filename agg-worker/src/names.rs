//! Ranks in words: members have numbers at their aggregator only, people know ranks.

use std::fmt;

use agg_core::{Abort, Failure, MemberSet};

/// The ranks of each member of this rank's aggregator, by member number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Members(pub(crate) Vec<Vec<u32>>);

impl Members {
    /// A failure in words.
    pub(crate) fn describe(&self, failure: &Failure) -> String {
        failure.named(|set, f| self.write(set, f)).to_string()
    }

    /// The ranks that a failure is about, ascending; none where it does not say.
    pub(crate) fn concerned(&self, failure: &Failure) -> Vec<u32> {
        let members = match *failure {
            Failure::MembersMissing { missing, .. } => missing.iter().collect(),
            Failure::OperationDiffers { offender, .. } | Failure::ScaleDiffers { offender, .. } => {
                vec![offender]
            }
            Failure::Aborted(Abort { member, .. }) => vec![member],
            Failure::AggregatorSilent { .. } | Failure::OthersMissing { .. } | Failure::Excluded => {
                Vec::new()
            }
        };
        let ranks_of = |member: u8| self.0.get(usize::from(member)).into_iter().flatten();
        let mut ranks: Vec<u32> = members.into_iter().flat_map(ranks_of).copied().collect();
        ranks.sort_unstable();
        ranks
    }

    /// `ranks 0, 2 and ranks 4 to 7 (behind another aggregator)`.
    fn write(&self, set: MemberSet, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ranks_of = |member: u8| self.0.get(usize::from(member)).map_or(&[][..], Vec::as_slice);
        let workers: Vec<u32> = set
            .iter()
            .filter_map(|member| <[u32; 1]>::try_from(ranks_of(member)).ok())
            .flatten()
            .collect();
        let children = set
            .iter()
            .map(ranks_of)
            .filter(|ranks| ranks.len() > 1)
            .map(|ranks| format!("{} (behind another aggregator)", Ranks(ranks)));
        let mut parts: Vec<String> = (!workers.is_empty())
            .then(|| Ranks(&workers).to_string())
            .into_iter()
            .chain(children)
            .collect();
        if parts.is_empty() {
            parts.push(format!("member {set}"));
        }
        f.write_str(&parts.join(" and "))
    }
}

/// `rank 2`, `ranks 2, 5`, or `ranks 4 to 7`; ascending.
pub(crate) struct Ranks<'r>(pub(crate) &'r [u32]);

impl fmt::Display for Ranks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self.0 {
            [] => f.write_str("no rank"),
            [rank] => write!(f, "rank {rank}"),
            [first, .., last] if self.0.len() > 2 && (last - first) as usize + 1 == self.0.len() => {
                write!(f, "ranks {first} to {last}")
            }
            [first, ref rest @ ..] => {
                write!(f, "ranks {first}")?;
                rest.iter().try_for_each(|rank| write!(f, ", {rank}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use agg_core::AbortCause;

    use super::*;

    #[test]
    fn members_are_named_by_their_ranks() {
        let members = Members(vec![vec![0], vec![2], vec![4, 5, 6, 7], vec![9, 12]]);
        let lost = |member| {
            members.describe(&Failure::Aborted(Abort {
                cause: AbortCause::LostMember,
                member,
            }))
        };
        assert_eq!(lost(1), "the job was aborted: rank 2 was lost");
        let concerned = |member| {
            members.concerned(&Failure::Aborted(Abort {
                cause: AbortCause::LostMember,
                member,
            }))
        };
        assert_eq!(
            [concerned(1), concerned(2), concerned(255)],
            [vec![2], vec![4, 5, 6, 7], vec![]]
        );
        assert_eq!(
            lost(2),
            "the job was aborted: ranks 4 to 7 (behind another aggregator) was lost"
        );
        assert_eq!(
            lost(255),
            "the job was aborted: a rank of another aggregator was lost"
        );
        struct Set<'m>(&'m Members, MemberSet);
        impl fmt::Display for Set<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(self.1, f)
            }
        }
        assert_eq!(
            Set(&members, MemberSet(0b1011)).to_string(),
            "ranks 0, 2 and ranks 9, 12 (behind another aggregator)"
        );
    }
}
