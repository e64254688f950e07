//! Instances of a replica: which positions of other servers in its changes are still valid.
//!
//! A modseq alone does not identify a state of a database. A server that was restored from yesterday gives out modseqs
//! again that its peers have passed. So a *position* is an instance and a modseq. Each run of the server begins a new
//! instance of a database with its first change of it, whatever happened to the files in between: a restored backup, a
//! copied folder and an opened log without its end need not be noticed (`docs/replication.md`, "Positions").

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{Modseq, Random};

use crate::limits::INSTANCES_MAX;

/// A random number that identifies an instance of a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct InstanceId(pub u64);

impl InstanceId {
    /// Generates the number of a new instance.
    pub fn generate(random: &dyn Random) -> Self {
        Self(random.next_u64())
    }
}

/// A state of a replica: everything up to a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Position {
    /// The instance that made the change.
    pub instance: InstanceId,
    /// The modseq of the change.
    pub modseq: Modseq,
    /// The digest of the names, groups and roles under which the peer reads ([`crate::Grant::names_digest`]). A peer
    /// that gets others may read notes that were hidden from it, and compares everything.
    pub names: [u8; 16],
}

impl Position {
    /// Returns the stored form (version 1).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(33);
        out.u8(1).u64(self.instance.0).u64(self.modseq.0).raw(&self.names);
        out.finish()
    }

    /// Parses the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != 1 {
            return Err(InvalidRecord);
        }
        let instance = InstanceId(input.u64()?);
        Ok(Self { instance, modseq: Modseq(input.u64()?), names: input.array()? })
    }
}

/// Where a peer with a position continues.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Continuation {
    /// The peer needs the changes after this modseq.
    After(Modseq),
    /// The position is unknown. The peer compares everything.
    CompareAll,
}

/// The instances of a replica, the latest last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Instances {
    list: Vec<InstanceStart>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct InstanceStart {
    instance: InstanceId,
    /// The modseq of its first change.
    first: Modseq,
}

impl Instances {
    /// Adds an instance whose first change has this modseq, unless it is the latest one. The oldest one is dropped if
    /// there are too many.
    pub fn begin(&mut self, instance: InstanceId, first: Modseq) {
        if self.list.last().is_some_and(|last| last.instance == instance) {
            return;
        }
        let is_later = self.list.last().is_none_or(|last| last.first < first);
        assert!(is_later, "each instance begins with a change of its own");
        self.list.push(InstanceStart { instance, first });
        let excess = self.list.len().saturating_sub(INSTANCES_MAX);
        self.list.drain(..excess);
    }

    /// Returns the position after the change with this modseq for a peer that reads under these names, or `None` if it
    /// was made before the first instance that is known.
    #[must_use]
    pub fn position(&self, modseq: Modseq, names: [u8; 16]) -> Option<Position> {
        let made_by = self.list.iter().rfind(|start| start.first <= modseq)?;
        Some(Position { instance: made_by.instance, modseq, names })
    }

    /// Returns where a peer continues that has received everything up to a position. `current` is the modseq of the
    /// last change.
    ///
    /// A modseq above those of its instance means that this replica was set back since. Up to its last change in that
    /// instance both agree.
    #[must_use]
    pub fn continuation(&self, position: Position, current: Modseq) -> Continuation {
        // A position before the beginning of its instance is from before a repair, which makes a new list.
        let is_in = |start: &InstanceStart| start.instance == position.instance && start.first <= position.modseq;
        let Some(index) = self.list.iter().rposition(is_in) else { return Continuation::CompareAll };
        let end = self.list.get(index + 1).map_or(current, |next| Modseq(next.first.0.saturating_sub(1)));
        Continuation::After(position.modseq.min(end))
    }

    /// Returns the stored form (version 1).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(2 + 16 * self.list.len());
        out.u8(1).varint(self.list.len() as u64);
        for start in &self.list {
            out.u64(start.instance.0).u64(start.first.0);
        }
        out.finish()
    }

    /// Parses the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != 1 {
            return Err(InvalidRecord);
        }
        let count = input.count()?;
        if count > INSTANCES_MAX {
            return Err(InvalidRecord);
        }
        let start = |input: &mut Decoder<'_>| -> Result<InstanceStart, InvalidRecord> {
            Ok(InstanceStart { instance: InstanceId(input.u64()?), first: Modseq(input.u64()?) })
        };
        let list = (0..count).map(|_| start(&mut input)).collect::<Result<Vec<_>, _>>()?;
        let is_sorted = list.is_sorted_by(|one, next| one.first < next.first);
        if is_sorted { Ok(Self { list }) } else { Err(InvalidRecord) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instances(starts: &[(u64, u64)]) -> Instances {
        let mut instances = Instances::default();
        starts.iter().for_each(|(instance, first)| instances.begin(InstanceId(*instance), Modseq(*first)));
        instances
    }

    #[test]
    fn a_position_reads_back() {
        let position = Position { instance: InstanceId(u64::MAX - 1), modseq: Modseq(77), names: [3; 16] };
        let bytes = position.encode();
        assert_eq!(Position::decode(&bytes), Ok(position));
        assert!((0..bytes.len()).all(|length| Position::decode(&bytes[..length]).is_err()));
    }

    #[test]
    fn positions_are_valid_within_their_instance() {
        let known = instances(&[(7, 10), (8, 25), (9, 40)]);
        let check = |instance, modseq, expected| {
            let position = Position { instance: InstanceId(instance), modseq: Modseq(modseq), names: [0; 16] };
            assert_eq!(known.continuation(position, Modseq(50)), expected, "{position:?}");
        };
        check(7, 12, Continuation::After(Modseq(12)));
        check(7, 24, Continuation::After(Modseq(24)));
        check(7, 31, Continuation::After(Modseq(24)));
        check(8, 39, Continuation::After(Modseq(39)));
        check(9, 50, Continuation::After(Modseq(50)));
        check(9, 77, Continuation::After(Modseq(50)));
        check(6, 12, Continuation::CompareAll);
        check(9, 39, Continuation::CompareAll);
        let after = |modseq| known.position(Modseq(modseq), [0; 16]).map(|position| position.instance);
        assert_eq!((after(50), after(39), after(9)), (Some(InstanceId(9)), Some(InstanceId(8)), None));
        assert_eq!(Instances::default().position(Modseq(50), [0; 16]), None);
    }

    #[test]
    fn a_replica_that_was_set_back_tells_its_peers_of_every_change() {
        let before = instances(&[(7, 10)]);
        let position = before.position(Modseq(30), [0; 16]).expect("an instance");
        // A backup of modseq 20 is restored, and the next run changes the database.
        let mut restored = before.clone();
        assert_eq!(restored.continuation(position, Modseq(20)), Continuation::After(Modseq(20)));
        restored.begin(InstanceId(8), Modseq(21));
        assert_eq!(restored.continuation(position, Modseq(45)), Continuation::After(Modseq(20)));
    }

    #[test]
    fn the_oldest_instance_is_forgotten_and_the_list_reads_back() {
        let starts: Vec<(u64, u64)> = (1..=INSTANCES_MAX as u64 + 1).map(|number| (number, number * 10)).collect();
        let many = instances(&starts);
        let at = |instance, modseq| Position { instance: InstanceId(instance), modseq: Modseq(modseq), names: [0; 16] };
        assert_eq!(many.continuation(at(1, 11), Modseq(9_999)), Continuation::CompareAll);
        assert_eq!(many.continuation(at(2, 25), Modseq(9_999)), Continuation::After(Modseq(25)));
        let bytes = many.encode();
        assert_eq!(Instances::decode(&bytes), Ok(many));
        assert!((0..bytes.len()).all(|length| Instances::decode(&bytes[..length]).is_err()));
    }
}
