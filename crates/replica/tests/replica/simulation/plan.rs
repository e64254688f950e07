//! What can happen in a history of the simulation.

use base::Random;
use base::sim::SeededRandom;

/// Which servers pull from each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Topology {
    All,
    /// Each has one or two neighbors.
    Chain,
    /// Changes go around in one direction.
    Ring,
}

impl Topology {
    /// Returns `true` if one of `servers` servers pulls from another one.
    pub(super) fn connects(self, servers: usize, target: usize, source: usize) -> bool {
        match self {
            Self::All => target != source,
            Self::Chain => target.abs_diff(source) == 1,
            Self::Ring => (source + 1) % servers == target,
        }
    }
}

/// Whether documents are deleted, and which deletions count against edits that they do not know.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Deletions {
    None,
    /// Edits count.
    GiveWay,
    /// Deletions count, and deleted documents can be restored. One server has this rule from the beginning, and the
    /// others get it by replication.
    Count,
    /// Which of them count changes again and again, and deleted documents can be restored.
    Changing,
}

/// Whether months pass, after which servers purge the stubs of deletions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purges {
    None,
    /// All servers have seen the deletions.
    AfterReplication,
    /// One server was away: it has not seen the last deletions, and others have purged them when it comes back.
    WhileAway,
}

/// The servers of a history, and what can happen to them.
#[derive(Clone, Copy)]
pub(super) struct Plan {
    pub(super) servers: usize,
    pub(super) topology: Topology,
    pub(super) deletions: Deletions,
    /// `true` if access control lists and views change.
    pub(super) changes_designs: bool,
    /// `true` if the access control lists permit servers less than everything at times.
    pub(super) limits_servers: bool,
    /// `true` if crashes lose what nobody has waited for to be durable.
    pub(super) loses_unsynced: bool,
    /// `true` if disks are destroyed of which there is no backup.
    pub(super) destroys_disks: bool,
    pub(super) purges: Purges,
}

impl Plan {
    /// Returns the plan of a seed.
    pub(super) fn of_seed(seed: u64, deletions: Deletions) -> Self {
        let random = SeededRandom::new(seed ^ 0x91A4);
        let simple = Self::of_three_servers(seed, deletions);
        let servers = 2 + random.below(3) as usize;
        let may_be_away = servers == 2 || simple.topology != Topology::Ring;
        let has_one_rule = matches!(deletions, Deletions::GiveWay | Deletions::Count);
        let purges = match random.below(3) {
            0 => Purges::None,
            1 if may_be_away && has_one_rule => Purges::WhileAway,
            _ => Purges::AfterReplication,
        };
        Self {
            servers,
            changes_designs: true,
            limits_servers: purges == Purges::None && random.below(2) == 0,
            loses_unsynced: random.below(2) == 0,
            // A new replica takes everything, also what a server that was away has not heard to be deleted.
            destroys_disks: purges != Purges::WhileAway && random.below(2) == 0,
            purges,
            ..simple
        }
    }

    /// Returns the plan of three servers whose disks keep what was written. Old seeds of errors belong to it.
    pub(super) fn of_three_servers(seed: u64, deletions: Deletions) -> Self {
        Self {
            servers: 3,
            topology: [Topology::All, Topology::Chain, Topology::Ring][(seed % 3) as usize],
            deletions,
            changes_designs: false,
            limits_servers: false,
            loses_unsynced: false,
            destroys_disks: false,
            purges: Purges::None,
        }
    }

    /// Returns `true` if deleted documents can be restored.
    pub(super) fn keeps_deleted(self) -> bool {
        matches!(self.deletions, Deletions::Count | Deletions::Changing)
    }

    /// Returns the servers from which a server pulls.
    pub(super) fn sources(self, target: usize) -> impl Iterator<Item = usize> {
        (0..self.servers).filter(move |source| self.topology.connects(self.servers, target, *source))
    }
}
