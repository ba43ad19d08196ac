//! The algorithms that Open MPI's component `tuned` has for an all-reduce of many ranks.

/// Those that are the fastest of all in some case: two ranks, small tensors or large ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    RecursiveDoubling,
    Ring,
    SegmentedRing,
    Rabenseifner,
}

impl Algorithm {
    pub(crate) const ALL: [Self; 4] = [
        Self::RecursiveDoubling,
        Self::Ring,
        Self::SegmentedRing,
        Self::Rabenseifner,
    ];

    /// Its number, as `ompi_info --param coll tuned --level 9` lists them.
    pub(super) fn number(self) -> u8 {
        match self {
            Self::RecursiveDoubling => 3,
            Self::Ring => 4,
            Self::SegmentedRing => 5,
            Self::Rabenseifner => 6,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::RecursiveDoubling => "recursive doubling",
            Self::Ring => "ring",
            Self::SegmentedRing => "segmented ring",
            Self::Rabenseifner => "Rabenseifner's",
        }
    }
}
