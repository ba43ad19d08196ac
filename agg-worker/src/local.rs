//! Which ranks are on this machine, as launchers say it.

/// The ranks that a launcher has started on this machine for the world, and which of them this one is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct LocalGroup {
    /// This rank among them, from 0.
    pub rank: u32,
    /// How many there are.
    pub size: u32,
    /// The launcher's number of this machine: several groups on one do not get into each other's way.
    pub node: u32,
}

/// The names of a launcher's variables: rank, ranks, rank on the machine, ranks on the machine, machine.
struct Launcher {
    rank: &'static str,
    size: &'static str,
    local_rank: &'static str,
    local_size: &'static str,
    node: &'static str,
}

const LAUNCHERS: [Launcher; 4] = [
    // torchrun.
    Launcher {
        rank: "RANK",
        size: "WORLD_SIZE",
        local_rank: "LOCAL_RANK",
        local_size: "LOCAL_WORLD_SIZE",
        node: "GROUP_RANK",
    },
    // mpirun of Open MPI, which does not number machines.
    Launcher {
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        local_rank: "OMPI_COMM_WORLD_LOCAL_RANK",
        local_size: "OMPI_COMM_WORLD_LOCAL_SIZE",
        node: "",
    },
    // mpirun of MPICH and its descendants.
    Launcher {
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        local_rank: "MPI_LOCALRANKID",
        local_size: "MPI_LOCALNRANKS",
        node: "",
    },
    // srun.
    Launcher {
        rank: "SLURM_PROCID",
        size: "SLURM_NTASKS",
        local_rank: "SLURM_LOCALID",
        local_size: "SLURM_TASKS_PER_NODE",
        node: "SLURM_NODEID",
    },
];

impl LocalGroup {
    /// What torchrun, mpirun or srun say in this process's environment. `None` if they say nothing, or if the world is not
    /// the launcher's, with just its ranks: then others on this machine may have no part in it.
    pub fn from_environment(rank: u32, size: u32) -> Option<Self> {
        Self::read(rank, size, |name| std::env::var(name).ok())
    }

    fn read(rank: u32, size: u32, variable: impl Fn(&str) -> Option<String>) -> Option<Self> {
        LAUNCHERS.iter().find_map(|launcher| {
            let number = |name| variable(name)?.parse::<u32>().ok();
            let node = number(launcher.node).unwrap_or(0);
            let is_whole = number(launcher.rank)? == rank && number(launcher.size)? == size;
            let group = Self {
                rank: number(launcher.local_rank)?,
                size: tasks(&variable(launcher.local_size)?, node)?,
                node,
            };
            let is_possible = group.rank < group.size && group.size <= size;
            (is_whole && is_possible).then_some(group)
        })
    }
}

/// How many tasks a machine has: Slurm lists them for all machines, as in `2(x3),1`.
fn tasks(text: &str, node: u32) -> Option<u32> {
    let mut before = 0;
    for part in text.split(',') {
        let (count, times) = match part.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')')?.parse::<u32>().ok()?),
            None => (part, 1),
        };
        before += u64::from(times);
        if u64::from(node) < before || !text.contains([',', '(']) {
            return count.parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &str, rank: u32, size: u32) -> Option<(u32, u32, u32)> {
        let of = |name: &str| {
            let mut pairs = variables.split(' ').filter_map(|pair| pair.split_once('='));
            pairs
                .find(|(known, _)| *known == name)
                .map(|(_, value)| value.to_owned())
        };
        let group = LocalGroup::read(rank, size, of)?;
        Some((group.rank, group.size, group.node))
    }

    #[test]
    fn each_launcher_is_understood() {
        let torchrun = "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=1";
        assert_eq!(read(torchrun, 5, 8), Some((1, 4, 1)));
        let open_mpi = "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=0 OMPI_COMM_WORLD_LOCAL_SIZE=2";
        assert_eq!(read(open_mpi, 2, 4), Some((0, 2, 0)));
        let mpich = "PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=3 MPI_LOCALNRANKS=4";
        assert_eq!(read(mpich, 3, 4), Some((3, 4, 0)));
        let slurm =
            "SLURM_PROCID=6 SLURM_NTASKS=7 SLURM_LOCALID=0 SLURM_TASKS_PER_NODE=2(x3),1 SLURM_NODEID=3";
        assert_eq!(read(slurm, 6, 7), Some((0, 1, 3)));
    }

    #[test]
    fn a_world_that_is_not_the_launchers_has_no_group() {
        let torchrun = "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 GROUP_RANK=1";
        for (rank, size) in [(1, 4), (5, 6), (4, 8)] {
            assert_eq!(read(torchrun, rank, size), None);
        }
        for odd in [
            "RANK=0 WORLD_SIZE=2 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2",
            "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=4",
            "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=two",
            "RANK=0 WORLD_SIZE=2",
            "",
        ] {
            assert_eq!(read(odd, 0, 2), None, "{odd}");
        }
    }

    #[test]
    fn slurms_lists_are_read_by_the_machines_number() {
        let of = |text: &str| [0, 1, 2, 3, 4].map(|node| tasks(text, node));
        assert_eq!(of("4"), [Some(4); 5]);
        assert_eq!(of("2(x3),1"), [Some(2), Some(2), Some(2), Some(1), None]);
        assert_eq!(of("3,2(x2)"), [Some(3), Some(2), Some(2), None, None]);
        assert_eq!(of("2(x"), [None; 5]);
    }
}
