//! History of changes to an access control list.
//!
//! Each transaction that changes the ACL adds one record to the table `meta` under its modseq: the time, the name of
//! the author of the change, and the differences between the ACL before and after. The last [`ACL_HISTORY_MAX`] records
//! are kept. A record is written in the batch of the change, so that neither exists without the other. A repair that
//! had to recreate the ACL is also recorded.
//!
//! The initial ACL of the database is not stored. It follows from the current ACL and the differences, unless records
//! were dropped.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{DbNumber, Modseq, Name, Timestamp};
use store::{Batch, Direction, Table, TableReader};

use crate::acl::{Acl, AclEntry, AclFlags, AclLevel, decode_entry, encode_entry};
use crate::database_snapshot::DatabaseSnapshot;
use crate::error::{Result, damaged};
use crate::keys;
use crate::limits::{ACL_DIFFERENCES_MAX, ACL_HISTORY_MAX};

/// One change of an ACL.
#[derive(Clone, Debug, PartialEq)]
pub struct AclHistoryEntry {
    /// Modseq of the transaction.
    pub modseq: Modseq,
    /// Time of the change.
    pub at: Timestamp,
    /// Abbreviated name of the identity that changed the ACL.
    pub by: String,
    /// `true` if a repair recreated the ACL.
    pub is_repair: bool,
    /// The differences, at most [`ACL_DIFFERENCES_MAX`].
    pub differences: Vec<AclDifference>,
    /// Number of further differences that are not stored.
    pub omitted_count: u64,
}

/// One difference between two versions of an ACL.
#[derive(Clone, Debug, PartialEq)]
pub enum AclDifference {
    /// An added entry.
    Added(AclEntry),
    /// A removed entry.
    Removed(AclEntry),
    /// A changed entry.
    Changed { before: AclEntry, after: AclEntry },
    /// An added role.
    RoleAdded(String),
    /// A removed role.
    RoleRemoved(String),
    /// Enforcement of the ACL, turned on (`true`) or off (`false`).
    Uniform(bool),
    /// A changed maximum level for passwords ([`Acl::max_internet_access`]).
    InternetMax { before: AclLevel, after: AclLevel },
}

impl AclHistoryEntry {
    /// Compares two versions of an ACL.
    #[must_use]
    pub fn between(before: &Acl, after: &Acl, by: &str, at: Timestamp, modseq: Modseq) -> Self {
        let mut differences = differences(before, after);
        let omitted_count = differences.len().saturating_sub(ACL_DIFFERENCES_MAX) as u64;
        differences.truncate(ACL_DIFFERENCES_MAX);
        Self { modseq, at, by: by.to_owned(), is_repair: false, differences, omitted_count }
    }

    /// Returns the stored form (version 1). The modseq is part of the key.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new();
        out.u8(1).i64(self.at.0).text(&self.by).u8(u8::from(self.is_repair)).varint(self.omitted_count);
        out.varint(self.differences.len() as u64);
        self.differences.iter().for_each(|difference| difference.encode(&mut out));
        out.finish()
    }

    /// Parses the stored form.
    pub fn decode(modseq: Modseq, bytes: &[u8]) -> std::result::Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        if input.u8()? != 1 {
            return Err(InvalidRecord);
        }
        let at = Timestamp(input.i64()?);
        let by = input.text()?.to_owned();
        let is_repair = input.u8()? != 0;
        let left_out = input.varint()?;
        let count = input.count()?;
        if count > ACL_DIFFERENCES_MAX {
            return Err(InvalidRecord);
        }
        let differences =
            (0..count).map(|_| AclDifference::decode(&mut input)).collect::<std::result::Result<_, _>>()?;
        Ok(Self { modseq, at, by, is_repair, differences, omitted_count: left_out })
    }
}

impl AclDifference {
    fn encode(&self, out: &mut Encoder) {
        match self {
            Self::Added(entry) => encode_entry(out.u8(1), entry),
            Self::Removed(entry) => encode_entry(out.u8(2), entry),
            Self::Changed { before, after } => {
                encode_entry(out.u8(3), before);
                encode_entry(out, after);
            }
            Self::RoleAdded(role) => drop(out.u8(4).text(role)),
            Self::RoleRemoved(role) => drop(out.u8(5).text(role)),
            Self::Uniform(is_uniform) => drop(out.u8(6).u8(u8::from(*is_uniform))),
            Self::InternetMax { before, after } => drop(out.u8(7).u8(*before as u8).u8(*after as u8)),
        }
    }

    fn decode(input: &mut Decoder<'_>) -> std::result::Result<Self, InvalidRecord> {
        let level = |input: &mut Decoder<'_>| {
            let number = usize::from(input.u8()?);
            AclLevel::ALL.get(number).copied().ok_or(InvalidRecord)
        };
        Ok(match input.u8()? {
            1 => Self::Added(decode_entry(input)?),
            2 => Self::Removed(decode_entry(input)?),
            3 => Self::Changed { before: decode_entry(input)?, after: decode_entry(input)? },
            4 => Self::RoleAdded(input.text()?.to_owned()),
            5 => Self::RoleRemoved(input.text()?.to_owned()),
            6 => Self::Uniform(input.u8()? != 0),
            7 => Self::InternetMax { before: level(input)?, after: level(input)? },
            _ => return Err(InvalidRecord),
        })
    }
}

impl fmt::Display for AclDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Added(entry) => write!(f, "{} added: {}", entry.name, EntrySummary(entry)),
            Self::Removed(entry) => write!(f, "{} removed, was: {}", entry.name, EntrySummary(entry)),
            Self::Changed { before, after } => {
                write!(f, "{}: {} instead of {}", after.name, EntrySummary(after), EntrySummary(before))
            }
            Self::RoleAdded(role) => write!(f, "role {role} added"),
            Self::RoleRemoved(role) => write!(f, "role {role} removed"),
            Self::Uniform(true) => f.write_str("consistent ACL enforced"),
            Self::Uniform(false) => f.write_str("consistent ACL no longer enforced"),
            Self::InternetMax { before, after } => write!(f, "maximum Internet access: {after} instead of {before}"),
        }
    }
}

/// The displayed form of an entry, without its name.
struct EntrySummary<'e>(&'e AclEntry);

impl fmt::Display for EntrySummary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = self.0;
        write!(f, "{}", entry.level)?;
        if entry.kind != crate::acl::AclKind::Unspecified {
            write!(f, ", {:?}", entry.kind)?;
        }
        if entry.flags != AclFlags::NONE {
            write!(f, ", flags {:#06x}", entry.flags.0)?;
        }
        entry.roles.iter().try_for_each(|role| write!(f, ", {role}"))
    }
}

fn differences(before: &Acl, after: &Acl) -> Vec<AclDifference> {
    let by_name = |acl: &'_ Acl| -> HashMap<Name, AclEntry> {
        acl.entries.iter().map(|entry| (entry.name.clone(), entry.clone())).collect()
    };
    let old = by_name(before);
    let new = by_name(after);
    let mut found = Vec::new();
    if before.max_internet_access != after.max_internet_access {
        found.push(AclDifference::InternetMax { before: before.max_internet_access, after: after.max_internet_access });
    }
    if before.enforce_consistent != after.enforce_consistent {
        found.push(AclDifference::Uniform(after.enforce_consistent));
    }
    let only =
        |one: &BTreeSet<String>, other: &BTreeSet<String>| -> Vec<String> { one.difference(other).cloned().collect() };
    found.extend(only(&after.roles, &before.roles).into_iter().map(AclDifference::RoleAdded));
    found.extend(only(&before.roles, &after.roles).into_iter().map(AclDifference::RoleRemoved));
    for entry in &after.entries {
        match old.get(&entry.name) {
            None => found.push(AclDifference::Added(entry.clone())),
            Some(before) if before != entry => {
                found.push(AclDifference::Changed { before: before.clone(), after: entry.clone() });
            }
            Some(_) => {}
        }
    }
    let gone = before.entries.iter().filter(|entry| !new.contains_key(&entry.name));
    found.extend(gone.cloned().map(AclDifference::Removed));
    found
}

/// Adds a change to the history and deletes the oldest records beyond [`ACL_HISTORY_MAX`]. A second change in the same
/// transaction replaces the first.
pub(crate) fn record_change(
    reader: &dyn TableReader,
    database: DbNumber,
    change: &AclHistoryEntry,
    batch: &mut Batch,
) -> Result<()> {
    let mut known = 0;
    let mut cursor = reader.scan(Table::Meta, &keys::acl_history(database), Direction::Backward)?;
    while let Some((key, _)) = cursor.next()? {
        known += 1;
        if known >= ACL_HISTORY_MAX {
            batch.delete(Table::Meta, key);
        }
    }
    batch.put(Table::Meta, &keys::acl_change(database, change.modseq), &change.encode());
    Ok(())
}

impl DatabaseSnapshot<'_> {
    /// Returns the last changes of the ACL, newest first.
    pub fn acl_history(&self, count_max: usize) -> Result<Vec<AclHistoryEntry>> {
        let range = keys::acl_history(self.database().number());
        let mut cursor = self.snapshot.scan(Table::Meta, &range, Direction::Backward)?;
        let mut found = Vec::new();
        while found.len() < count_max {
            let Some((key, value)) = cursor.next()? else { break };
            let change = keys::split_acl_change(key).and_then(|modseq| AclHistoryEntry::decode(modseq, value).ok());
            found.push(change.ok_or_else(|| damaged(Table::Meta, key))?);
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::acl::AclKind;

    fn list() -> Acl {
        let mut acl = Acl::private(&Name::new("Ann/Acme"));
        acl.roles.insert("[A]".into());
        acl.entries.push(AclEntry { kind: AclKind::MixedGroup, ..AclEntry::new("Staff", AclLevel::Reader) });
        acl
    }

    fn check(change: impl FnOnce(&mut Acl), expected: &[&str]) {
        let before = list();
        let mut after = list();
        change(&mut after);
        let recorded = AclHistoryEntry::between(&before, &after, "Ann/Acme", Timestamp(5), Modseq(7));
        let texts: Vec<String> = recorded.differences.iter().map(ToString::to_string).collect();
        assert_eq!(texts, expected);
        let bytes = recorded.encode();
        assert_eq!(AclHistoryEntry::decode(Modseq(7), &bytes), Ok(recorded));
        assert!((0..bytes.len()).all(|length| AclHistoryEntry::decode(Modseq(7), &bytes[..length]).is_err()));
    }

    #[test]
    fn every_difference_is_recorded_and_reads_back() {
        check(|_| {}, &[]);
        check(|acl| acl.entries.reverse(), &[]);
        check(
            |acl| acl.entries[2].level = AclLevel::Editor,
            &["Staff: Editor, MixedGroup instead of Reader, MixedGroup"],
        );
        check(
            |acl| acl.entries[2].flags = AclFlags::NO_DELETE,
            &["Staff: Reader, MixedGroup, flags 0x0004 instead of Reader, MixedGroup"],
        );
        check(|acl| acl.entries.truncate(2), &["Staff removed, was: Reader, MixedGroup"]);
        let role = |acl: &mut Acl| {
            acl.roles = BTreeSet::from(["[B]".to_owned()]);
            acl.entries[0].roles.insert("[B]".to_owned());
        };
        check(role, &["role [B] added", "role [A] removed", "-Default-: No Access, [B] instead of No Access"]);
        check(|acl| acl.enforce_consistent = true, &["consistent ACL enforced"]);
        check(|acl| acl.max_internet_access = AclLevel::Reader, &["maximum Internet access: Reader instead of Editor"]);
        let bob = |acl: &mut Acl| acl.entries.push(AclEntry::new("Bob/Acme", AclLevel::Author));
        check(bob, &["Bob/Acme added: Author"]);
    }

    #[test]
    fn excess_differences_are_only_counted() {
        let mut after = list();
        after
            .entries
            .extend((0..1_000).map(|number| AclEntry::new(format!("P{number}/Acme").as_str(), AclLevel::Reader)));
        let recorded = AclHistoryEntry::between(&list(), &after, "", Timestamp(0), Modseq(1));
        assert_eq!(
            (recorded.differences.len(), recorded.omitted_count),
            (ACL_DIFFERENCES_MAX, 1_000 - ACL_DIFFERENCES_MAX as u64)
        );
    }
}
