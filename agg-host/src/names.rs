//! What messages call a job and its members.

use agg_control::{JobSpec, Ranks};

/// What messages call a job and its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// Name of the world.
    pub world: String,
    /// By member number.
    pub members: Vec<String>,
    /// The ranks of each member.
    pub ranks: Vec<Vec<u32>>,
}

impl Names {
    /// Those of a job.
    pub fn of(job: &JobSpec) -> Self {
        Self {
            world: job.name.clone(),
            members: job.members.iter().map(|member| name(&member.ranks)).collect(),
            ranks: job.members.iter().map(|member| member.ranks.clone()).collect(),
        }
    }

    /// The member that stands for this rank alone. A rank below another aggregator of the tree has no number here.
    pub fn member_of(&self, rank: u32) -> Option<u8> {
        let member = self.ranks.iter().position(|ranks| ranks == &[rank])?;
        u8::try_from(member).ok()
    }
}

/// A member as its ranks: `rank 3`, or `the aggregator of ranks 4, 6`.
pub fn name(ranks: &[u32]) -> String {
    match ranks {
        [_] => Ranks(ranks).to_string(),
        _ => format!("the aggregator of {}", Ranks(ranks)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_below_another_aggregator_is_no_member() {
        let names = Names {
            world: "w".to_owned(),
            members: vec![name(&[0]), name(&[1, 2]), name(&[3])],
            ranks: vec![vec![0], vec![1, 2], vec![3]],
        };
        assert_eq!(
            names.members,
            ["rank 0", "the aggregator of ranks 1, 2", "rank 3"]
        );
        assert_eq!(
            [0, 1, 2, 3].map(|rank| names.member_of(rank)),
            [Some(0), None, None, Some(2)]
        );
    }
}
