//! The algorithms of Open MPI's component `tuned` for an all-reduce.

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Algorithm {
    pub(crate) name: &'static str,
    /// As `ompi_info --param coll tuned --level 9` lists them.
    pub(super) number: u8,
}

impl Algorithm {
    /// Those that are the fastest in some case: few ranks or many, small tensors or large ones.
    pub(crate) const ALL: [Self; 4] = [
        Self::new("recursive doubling", 3),
        Self::new("ring", 4),
        Self::new("segmented ring", 5),
        Self::new("Rabenseifner's", 6),
    ];

    const fn new(name: &'static str, number: u8) -> Self {
        Self { name, number }
    }
}
