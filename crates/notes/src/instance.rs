//! Instances of a replica: which positions of other servers in its changes are still valid.
//!
//! A modseq alone does not identify a state of a database. A server that was restored from yesterday gives out modseqs
//! again that its peers have passed. So a *position* is an instance and a modseq. Each run of the server begins a new
//! instance of a database with its first change of it, whatever happened to the files in between: a restored backup, a
//! copied folder and an opened log without its end need not be noticed (`docs/replication.md`, "Positions").
//!
//! For the same reason, IMAP clients get modseqs with a tag of the instance ([`Instances::modseq_to_client`]): one of
//! another server, or of a state that was lost, is recognized when it comes back.
//!
//! The positions up to which a replica has received the changes of others are in its [`ReplicationHistory`], one for
//! each server.

use std::collections::BTreeSet;

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{DbNumber, Modseq, Random, Timestamp, Unid};

use crate::limits::{INSTANCES_MAX, MISSED_NOTES_MAX};

/// A random number that identifies an instance of a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct InstanceId(pub u64);

impl InstanceId {
    /// Generates the number of a new instance.
    pub fn generate(random: &dyn Random) -> Self {
        Self(random.next_u64())
    }

    /// Returns the number of the instance of a database in the run of a server with this number. Databases have
    /// different ones, so the position in a database that was deleted says nothing about its successor.
    #[must_use]
    pub fn of_database(self, number: DbNumber) -> Self {
        // The factor is odd, so that different numbers of databases have different products.
        Self(self.0 ^ u64::from(number.0).wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }
}

/// Number of bits of the tag in a modseq of clients. RFC 7162 gives a modseq 63 bits, so 39 are left.
const TAG_BITS: u32 = 24;

impl InstanceId {
    fn tag(self) -> u64 {
        self.0 >> (64 - TAG_BITS)
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

/// Size of a stored position in bytes.
const POSITION_BYTES: usize = 33;

impl Position {
    /// Returns the stored form (version 1).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(POSITION_BYTES);
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

/// What a replica has received from another server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ReplicationHistory {
    /// The position at the end of the last complete replication: everything up to it was received, deletions included.
    pub position: Option<Position>,
    /// How far a later replication has come that has not ended.
    pub progress: Option<ListProgress>,
    /// The rights of the other server in this replica, as a number. With other rights, everything is compared, because
    /// what was refused may be taken now, or the reverse.
    pub rights: u32,
    /// Notes that could not be received, and are asked for again: at most [`MISSED_NOTES_MAX`].
    pub missed: BTreeSet<Unid>,
    /// The end of the last complete replication, by the clock of this server. 0 if it was recorded without its time.
    /// Without a position everything is compared, but this replica has had everything from the other server once.
    pub completed: Option<Timestamp>,
    /// Of the changes that a local replica has brought to a server: the state of the server that has them. A server
    /// that was set back to an earlier state gets everything again.
    pub reached: Option<Position>,
    /// What was received of the unread marks of users.
    pub unread: UnreadHistory,
}

/// What a replica has received of the unread marks of users from another server.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnreadHistory {
    /// The position at the end of the last complete list.
    pub position: Option<Position>,
    /// How far a later list has come that has not ended.
    pub place: Option<UnreadPlace>,
}

/// A place in an unfinished list of unread marks. Valid under the same condition as [`ListProgress`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnreadPlace {
    /// The place among the changes that have times.
    pub changes: ListProgress,
    /// In a list of everything, behind the changes: the place among the marks without times.
    pub without_times: Option<Vec<u8>>,
}

impl UnreadPlace {
    /// Returns the stored form (version 1).
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { changes: ListProgress { position, seen, is_comparison }, without_times } = self;
        let mut out = Encoder::new();
        out.u8(1).u8(u8::from(*is_comparison)).raw(&position.encode()).raw(&seen.encode());
        match without_times {
            Some(place) => out.u8(1).bytes(place),
            None => out.u8(0),
        };
        out.finish()
    }

    /// Parses the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != 1 {
            return Err(InvalidRecord);
        }
        let is_comparison = input.u8()? != 0;
        let position = Position::decode(&input.array::<POSITION_BYTES>()?)?;
        let seen = Position::decode(&input.array::<POSITION_BYTES>()?)?;
        let without_times = if input.u8()? == 0 { None } else { Some(input.bytes()?.to_vec()) };
        Ok(Self { changes: ListProgress { position, seen, is_comparison }, without_times })
    }
}

/// How far a replication has come that has not ended.
///
/// It is valid as long as the other replica is not set back to a state before those that the lists were read from: of
/// notes that had changed later, the list was to name the later change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListProgress {
    /// The position up to which the list of changes was received.
    pub position: Position,
    /// The last change of the other replica when the list was read.
    pub seen: Position,
    /// `true` if all notes are compared.
    pub is_comparison: bool,
}

impl ReplicationHistory {
    /// Returns the history of a replica that compares everything the next time.
    #[must_use]
    pub fn cleared(&self) -> Self {
        Self { rights: self.rights, completed: self.completed, ..Self::default() }
    }

    /// Returns `true` if everything is compared because the position was forgotten. What this replica lacks may then
    /// have been deleted here.
    #[must_use]
    pub fn is_cleared(&self) -> bool {
        self.position.is_none() && self.completed.is_some()
    }

    /// Returns the stored form: version 4 or, without a history of unread marks, version 3.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let has_unread = self.unread != UnreadHistory::default();
        let mut out = Encoder::with_capacity(90 + 16 * self.missed.len());
        out.u8(if has_unread { 4 } else { 3 }).u32(self.rights);
        match self.completed {
            Some(completed) => out.u8(1).i64(completed.0),
            None => out.u8(0),
        };
        match &self.reached {
            Some(reached) => out.u8(1).raw(&reached.encode()),
            None => out.u8(0),
        };
        match &self.position {
            Some(position) => out.u8(1).raw(&position.encode()),
            None => out.u8(0),
        };
        match &self.progress {
            Some(ListProgress { position, seen, is_comparison }) => {
                out.u8(if *is_comparison { 2 } else { 1 }).raw(&position.encode()).raw(&seen.encode())
            }
            None => out.u8(0),
        };
        out.varint(self.missed.len() as u64);
        for unid in &self.missed {
            out.raw(&unid.0);
        }
        if has_unread {
            match &self.unread.position {
                Some(position) => out.u8(1).raw(&position.encode()),
                None => out.u8(0),
            };
            match &self.unread.place {
                Some(place) => out.u8(1).bytes(&place.encode()),
                None => out.u8(0),
            };
        }
        out.finish()
    }

    /// Parses the stored form.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        let version = input.u8()?;
        if !(2..=4).contains(&version) {
            return Err(InvalidRecord);
        }
        let rights = input.u32()?;
        let completed = if version > 2 && input.u8()? != 0 { Some(Timestamp(input.i64()?)) } else { None };
        let decode = |input: &mut Decoder<'_>| Position::decode(&input.array::<POSITION_BYTES>()?);
        let reached = if version > 2 && input.u8()? != 0 { Some(decode(&mut input)?) } else { None };
        let received = if input.u8()? == 0 { None } else { Some(decode(&mut input)?) };
        let progress = match input.u8()? {
            0 => None,
            kind => {
                let position = decode(&mut input)?;
                let seen = decode(&mut input)?;
                Some(ListProgress { position, seen, is_comparison: kind == 2 })
            }
        };
        let count = input.count()?;
        if count > MISSED_NOTES_MAX {
            return Err(InvalidRecord);
        }
        let missed = (0..count).map(|_| Ok(Unid(input.array()?))).collect::<Result<_, InvalidRecord>>()?;
        let completed = if version > 2 { completed } else { received.map(|_| Timestamp(0)) };
        let mut unread = UnreadHistory::default();
        if version > 3 {
            unread.position = if input.u8()? == 0 { None } else { Some(decode(&mut input)?) };
            unread.place = if input.u8()? == 0 { None } else { Some(UnreadPlace::decode(input.bytes()?)?) };
        }
        Ok(Self { position: received, progress, rights, missed, completed, reached, unread })
    }
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

    /// Returns the latest instance.
    pub(crate) fn last(&self) -> Option<InstanceId> {
        self.list.last().map(|start| start.instance)
    }

    /// Returns the position after the change with this modseq for a peer that reads under these names, or `None` if
    /// there is no instance. Changes before the first instance that is known count as made by it.
    #[must_use]
    pub fn position(&self, modseq: Modseq, names: [u8; 16]) -> Option<Position> {
        let made_by = self.list.iter().rfind(|start| start.first <= modseq).or(self.list.first())?;
        Some(Position { instance: made_by.instance, modseq, names })
    }

    /// Returns the last change that both this replica and a peer have that has received everything up to a position, or
    /// `None` if the instance is unknown. `current` is the modseq of the last change.
    ///
    /// A modseq above those of its instance means that this replica was set back since. Up to its last change in that
    /// instance both agree.
    #[must_use]
    pub fn last_common(&self, position: Position, current: Modseq) -> Option<Modseq> {
        let index = self.list.iter().rposition(|start| start.instance == position.instance)?;
        let end = self.list.get(index + 1).map_or(current, |next| Modseq(next.first.0.saturating_sub(1)));
        Some(position.modseq.min(end))
    }

    /// Returns a modseq as IMAP clients see it: followed by bits of the instance that made it. The order is the same.
    #[must_use]
    pub fn modseq_to_client(&self, modseq: Modseq) -> u64 {
        let made_by = self.list.iter().rfind(|start| start.first <= modseq).or(self.list.first());
        modseq.0 << TAG_BITS | made_by.map_or(0, |start| start.instance.tag())
    }

    /// Returns the last change that is known to a client that knows everything up to a modseq, or `None` if it is not
    /// one of this replica: it was made by another server, or is lost since this replica was set back. The client may
    /// then know changes that never happened here. `current` is the modseq of the last change.
    #[must_use]
    pub fn modseq_from_client(&self, modseq: u64, current: Modseq) -> Option<Modseq> {
        let known = Modseq(modseq >> TAG_BITS);
        let tag = modseq & ((1 << TAG_BITS) - 1);
        if self.list.is_empty() {
            return (tag == 0 && known <= current).then_some(known);
        }
        let made_by = self.list.iter().rfind(|start| start.instance.tag() == tag)?;
        let position = Position { instance: made_by.instance, modseq: known, names: [0; 16] };
        self.last_common(position, current).filter(|common| *common == known)
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
    fn a_history_reads_back() {
        let position = Position { instance: InstanceId(3), modseq: Modseq(77), names: [3; 16] };
        let missed = BTreeSet::from([Unid([1; 16]), Unid([2; 16])]);
        let completed = Some(Timestamp(5));
        let reached = Some(Position { modseq: Modseq(78), ..position });
        let history = ReplicationHistory {
            position: Some(position),
            progress: None,
            rights: 9,
            missed,
            completed,
            reached,
            unread: UnreadHistory::default(),
        };
        assert_eq!(history.encode()[0], 3, "older programs read it");
        for is_comparison in [false, true] {
            let changes = ListProgress { position, seen: position, is_comparison };
            let progress = Some(changes);
            let place = Some(UnreadPlace { changes, without_times: is_comparison.then(|| vec![1, 2]) });
            let unread = UnreadHistory { position: Some(position), place };
            let history = ReplicationHistory { position: None, progress, unread, ..history.clone() };
            assert_eq!(ReplicationHistory::decode(&history.encode()), Ok(history));
        }
        for history in [history.clone(), ReplicationHistory { missed: BTreeSet::new(), ..history }] {
            let bytes = history.encode();
            assert_eq!(ReplicationHistory::decode(&bytes), Ok(history));
            assert!((0..bytes.len()).all(|length| ReplicationHistory::decode(&bytes[..length]).is_err()));
        }
    }

    #[test]
    fn a_history_of_version_2_counts_as_complete_at_an_unknown_time() {
        let position = Position { instance: InstanceId(3), modseq: Modseq(77), names: [3; 16] };
        let missed = BTreeSet::from([Unid([1; 16])]);
        let history = ReplicationHistory { position: Some(position), rights: 9, missed, ..Default::default() };
        let mut bytes = history.encode();
        assert_eq!((bytes[0], bytes.remove(5), bytes.remove(5)), (3, 0, 0), "there is no time");
        bytes[0] = 2;
        assert_eq!(
            ReplicationHistory::decode(&bytes),
            Ok(ReplicationHistory { completed: Some(Timestamp(0)), ..history })
        );
    }

    #[test]
    fn a_cleared_history_remembers_that_there_was_one() {
        let position = Position { instance: InstanceId(3), modseq: Modseq(77), names: [3; 16] };
        let history =
            ReplicationHistory { position: Some(position), completed: Some(Timestamp(5)), ..Default::default() };
        assert!(!history.is_cleared() && history.cleared().is_cleared());
        assert!(!ReplicationHistory::default().cleared().is_cleared(), "nothing was received before");
    }

    #[test]
    fn databases_of_one_run_have_different_instances() {
        let run = InstanceId(77);
        assert_eq!(run.of_database(DbNumber(1)), run.of_database(DbNumber(1)));
        assert_ne!(run.of_database(DbNumber(1)), run.of_database(DbNumber(2)));
    }

    #[test]
    fn positions_are_valid_within_their_instance() {
        let known = instances(&[(7, 10), (8, 25), (9, 40)]);
        let check = |instance, modseq, expected: Option<u64>| {
            let position = Position { instance: InstanceId(instance), modseq: Modseq(modseq), names: [0; 16] };
            assert_eq!(known.last_common(position, Modseq(50)), expected.map(Modseq), "{position:?}");
        };
        check(7, 3, Some(3));
        check(7, 12, Some(12));
        check(7, 24, Some(24));
        check(7, 31, Some(24));
        check(8, 39, Some(39));
        check(9, 50, Some(50));
        check(9, 77, Some(50));
        check(6, 12, None);
        let after = |modseq| known.position(Modseq(modseq), [0; 16]).map(|position| position.instance);
        let instance = |number| Some(InstanceId(number));
        assert_eq!((after(50), after(39), after(9)), (instance(9), instance(8), instance(7)));
        assert_eq!(Instances::default().position(Modseq(50), [0; 16]), None);
    }

    #[test]
    fn a_replica_that_was_set_back_tells_its_peers_of_every_change() {
        let before = instances(&[(7, 10)]);
        let position = before.position(Modseq(30), [0; 16]).expect("an instance");
        // A backup of modseq 20 is restored, and the next run changes the database.
        let mut restored = before.clone();
        assert_eq!(restored.last_common(position, Modseq(20)), Some(Modseq(20)));
        restored.begin(InstanceId(8), Modseq(21));
        assert_eq!(restored.last_common(position, Modseq(45)), Some(Modseq(20)));
    }

    #[test]
    fn modseqs_of_clients_have_the_order_of_modseqs_and_those_of_others_are_recognized() {
        let run = |number: u64| number << 40 | 1;
        let known = instances(&[(run(9), 10), (run(8), 25), (run(7), 40)]);
        let sent: Vec<u64> = (1..=50).map(|modseq| known.modseq_to_client(Modseq(modseq))).collect();
        assert!(sent.is_sorted_by(|one, next| one < next));
        let current = Modseq(50);
        for (modseq, sent) in (1..).zip(&sent) {
            assert_eq!(known.modseq_from_client(*sent, current), Some(Modseq(modseq)));
        }
        // The database is set back to the change 30, in the run of the second instance.
        let mut restored = instances(&[(run(9), 10), (run(8), 25)]);
        assert_eq!(restored.modseq_from_client(sent[29], Modseq(30)), Some(Modseq(30)));
        assert_eq!(restored.modseq_from_client(sent[34], Modseq(30)), None);
        restored.begin(InstanceId(run(6)), Modseq(31));
        assert_eq!(restored.modseq_from_client(sent[29], Modseq(44)), Some(Modseq(30)));
        assert_eq!(restored.modseq_from_client(sent[34], Modseq(44)), None);
        assert_eq!(restored.modseq_from_client(sent[44], Modseq(44)), None, "its instance is lost");
        let other = instances(&[(run(5), 2)]);
        assert!(sent.iter().all(|modseq| other.modseq_from_client(*modseq, current).is_none()));
        assert_eq!(Instances::default().modseq_from_client(5 << 24, Modseq(7)), Some(Modseq(5)));
    }

    #[test]
    fn the_oldest_instance_is_forgotten_and_the_list_reads_back() {
        let starts: Vec<(u64, u64)> = (1..=INSTANCES_MAX as u64 + 1).map(|number| (number, number * 10)).collect();
        let many = instances(&starts);
        let at = |instance, modseq| Position { instance: InstanceId(instance), modseq: Modseq(modseq), names: [0; 16] };
        assert_eq!(many.last_common(at(1, 11), Modseq(9_999)), None);
        assert_eq!(many.last_common(at(2, 25), Modseq(9_999)), Some(Modseq(25)));
        let bytes = many.encode();
        assert_eq!(Instances::decode(&bytes), Ok(many));
        assert!((0..bytes.len()).all(|length| Instances::decode(&bytes[..length]).is_err()));
    }
}
