//! The record that names the index of a view, in the table `meta` (`docs/views.md`, "The index and its record").
//!
//! An index has a number of its own, so a new index can be built beside the one in use, and a changed design never
//! reads rows that an old design wrote. These numbers have the highest bit set, which numbers of notes never have, and
//! are not reused.
//!
//! Invariant: data under a number that no record names belong to no view and may be removed.

use base::codec::{Decoder, Encoder, InvalidRecord};
use base::{DbNumber, NoteId, Timestamp, ViewId};
use collection::{CollectionId, CollectionReader};
use store::engine::prefix_end;
use store::{Batch, KeyRange, Table, TableReader};

use crate::catalog::DatabaseRecord;
use crate::error::{Result, damaged};
use crate::keys;
use crate::view::index_size::IndexAccount;
use crate::view::index_state::IndexState;
use crate::view::note::{ViewInfo, ViewNote};

/// Version of the stored form. Version 1 has no rules, version 3 the inputs of formulas, and version 4 the account.
const VERSION: u8 = 4;

/// Version of the rules by which documents become rows: the evaluation of formulas and the layout of keys.
///
/// It is incremented when a document may get other rows than before, so that indexes of older programs are built anew.
/// An index relies on the rules because it computes the rows to remove from the previous version of a document. The
/// test `rows_follow_the_rules` detects most of such changes.
pub(crate) const ROW_RULES: u32 = 5;

/// The bit that is set in numbers of indexes and not in numbers of notes.
pub(crate) const INDEX_BIT: u32 = 1 << 31;

/// The record of a view's index.
#[derive(Clone, PartialEq, Debug)]
pub struct IndexRecord {
    /// The number under which the rows are stored.
    pub index: ViewId,
    /// The selection formula of the rows.
    pub selection: String,
    /// The stored form of the design of the rows.
    pub format: Vec<u8>,
    /// The moment for which the index was evaluated, if its formulas depend on the time.
    pub evaluated: Timestamp,
    /// The number of an index that is being built to replace this one.
    pub building: Option<ViewId>,
    /// The version of the rules by which the rows were made.
    rules: u32,
    /// The values of the inputs that its formulas used from the database and the view
    /// ([`ViewInfo::external_input_values`]).
    pub(crate) external_inputs: Vec<u8>,
    /// The account to which the size of the index is charged.
    pub(crate) account: IndexAccount,
}

impl IndexRecord {
    /// Creates the record of a new index.
    #[must_use]
    pub fn new(index: ViewId, info: &ViewInfo, database: &DatabaseRecord, now: Timestamp) -> Self {
        Self {
            index,
            selection: info.view.selection.clone(),
            format: info.view.design.encode(),
            evaluated: now,
            building: None,
            rules: ROW_RULES,
            external_inputs: info.external_input_values(database),
            account: info.index_account(database),
        }
    }

    /// Returns `true` if the index matches this design, the rules of this program, the current inputs of its formulas,
    /// and the current account.
    #[must_use]
    pub fn follows(&self, info: &ViewInfo, database: &DatabaseRecord) -> bool {
        self.follows_design(&info.view)
            && self.external_inputs == info.external_input_values(database)
            && self.account == info.index_account(database)
    }

    fn follows_design(&self, view: &ViewNote) -> bool {
        self.has_current_rules() && self.selection == view.selection && self.format == view.design.encode()
    }

    /// Returns `true` if this program made the rows, or one with the same rules.
    pub(crate) fn has_current_rules(&self) -> bool {
        self.rules == ROW_RULES
    }

    /// Returns the size of the index in use, as the counters of the database include it. An index that is being built
    /// does not count. The size of an index that is damaged or of an old program is 0.
    pub(crate) fn counted_bytes(&self, reader: &dyn TableReader, database: DbNumber) -> Result<u64> {
        let rows = CollectionReader::open(reader, CollectionId::new(database, self.index));
        match rows {
            Ok(rows) => Ok(IndexState::decode(rows.state()).map_or(0, |state| state.bytes)),
            Err(store::Error::Damaged { .. }) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::with_capacity(32 + self.selection.len() + self.format.len());
        out.u8(VERSION).u32(self.index.0).i64(self.evaluated.0).u32(self.building.map_or(0, |building| building.0));
        out.text(&self.selection).bytes(&self.format).u32(self.rules).bytes(&self.external_inputs);
        self.account.encode(&mut out);
        out.finish()
    }

    /// Decodes a stored record.
    pub fn decode(bytes: &[u8]) -> std::result::Result<Self, InvalidRecord> {
        let mut input = Decoder::new(bytes);
        let version = input.u8()?;
        if !(1..=VERSION).contains(&version) {
            return Err(InvalidRecord);
        }
        let index = ViewId(input.u32()?);
        let evaluated = Timestamp(input.i64()?);
        let building = Some(ViewId(input.u32()?)).filter(|building| building.0 != 0);
        let is_index = |view: ViewId| view.0 & INDEX_BIT != 0;
        if !is_index(index) || building.is_some_and(|building| !is_index(building) || building == index) {
            return Err(InvalidRecord);
        }
        let selection = input.text()?.to_owned();
        let format = input.bytes()?.to_vec();
        let rules = if version == 1 { 0 } else { input.u32()? };
        let external_inputs = if version < 3 { Vec::new() } else { input.bytes()?.to_vec() };
        let account = if version < 4 { IndexAccount::default() } else { IndexAccount::decode(&mut input)? };
        Ok(Self { index, selection, format, evaluated, building, rules, external_inputs, account })
    }

    pub(crate) fn load(reader: &dyn TableReader, database: DbNumber, view: NoteId) -> Result<Option<Self>> {
        let key = keys::view_index(database, view);
        let Some(value) = reader.get(Table::Meta, &key)? else { return Ok(None) };
        Self::decode(&value).map(Some).map_err(|_| damaged(Table::Meta, &key))
    }

    pub(crate) fn put(&self, database: DbNumber, view: NoteId, batch: &mut Batch) {
        batch.put(Table::Meta, &keys::view_index(database, view), &self.encode());
    }

    /// Removes the record and everything that it names. The caller subtracts [`IndexRecord::counted_bytes`] from the
    /// counters of the database.
    pub(crate) fn remove(&self, database: DbNumber, view: NoteId, batch: &mut Batch) {
        batch.delete(Table::Meta, &keys::view_index(database, view));
        [Some(self.index), self.building].into_iter().flatten().for_each(|index| remove_rows(database, index, batch));
    }
}

/// Allocates the number of a new index.
pub(crate) fn next_index(reader: &dyn TableReader, database: DbNumber, batch: &mut Batch) -> Result<ViewId> {
    let key = keys::next_view_index(database);
    let drawn = match reader.get(Table::Meta, &key)? {
        Some(value) => Decoder::new(&value).u32().map_err(|_| damaged(Table::Meta, &key))?,
        None => INDEX_BIT,
    };
    if drawn & INDEX_BIT == 0 || drawn == u32::MAX {
        return Err(damaged(Table::Meta, &key));
    }
    batch.put(Table::Meta, &key, &(drawn + 1).to_be_bytes());
    Ok(ViewId(drawn))
}

/// Returns the key range of all indexes of a database, which is the same in each of their tables.
pub(crate) fn all_rows(database: DbNumber) -> KeyRange {
    let first = keys::view_back_range(database, ViewId(INDEX_BIT)).start;
    KeyRange { start: first, end: prefix_end(&database.to_key()) }
}

/// Removes everything under the number of an index. The caller updates the counters of the database.
pub(crate) fn remove_rows(database: DbNumber, index: ViewId, batch: &mut Batch) {
    assert!(index.0 & INDEX_BIT != 0, "the number is that of an index, not of a folder");
    // The keys of all tables begin with the number of the database and the number of the index.
    let all = keys::view_back_range(database, index);
    let end = all.end.expect("index numbers never reach the maximum");
    for table in [Table::View, Table::Tree, Table::ViewBack] {
        batch.delete_range(table, &all.start, &end);
    }
}

#[cfg(test)]
mod tests {
    use base::Name;

    use super::*;

    fn view() -> ViewNote {
        ViewNote { selection: "SELECT @All".into(), ..ViewNote::default() }
    }

    fn record() -> IndexRecord {
        IndexRecord {
            index: ViewId(INDEX_BIT + 3),
            selection: view().selection,
            format: view().design.encode(),
            evaluated: Timestamp(7),
            building: None,
            rules: ROW_RULES,
            external_inputs: Vec::new(),
            account: IndexAccount::Shared,
        }
    }

    #[test]
    fn stored_form_reads_back() {
        let building = IndexRecord { building: Some(ViewId(INDEX_BIT + 4)), ..record() };
        let personal = IndexRecord { account: IndexAccount::Person(Name::new("Bob/Acme")), ..record() };
        for record in [record(), building, personal] {
            let bytes = record.encode();
            assert!(record.follows_design(&view()));
            assert_eq!(IndexRecord::decode(&bytes), Ok(record));
            for length in 0..bytes.len() {
                assert!(IndexRecord::decode(&bytes[..length]).is_err());
            }
        }
        assert!(IndexRecord::decode(&IndexRecord { index: ViewId(3), ..record() }.encode()).is_err());
    }

    #[test]
    fn index_with_older_row_rules_is_outdated() {
        let view = view();
        let record = record();
        // The first version ends before the rules, the inputs and the account.
        let mut first = record.encode();
        first[0] = 1;
        first.truncate(first.len() - 6);
        let old = IndexRecord::decode(&first).expect("the first version is still read");
        assert_eq!((old.index, old.rules), (record.index, 0));
        assert!(!old.follows_design(&view) && record.follows_design(&view));
    }
}
