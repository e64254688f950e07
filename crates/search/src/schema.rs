//! The fields of the index, and the format of their terms.
//!
//! Every term of words and values begins with the database prefix: five characters of seven bits each. The words of a
//! database are therefore adjacent in the dictionary, a query of one database never touches another, and word
//! frequencies are counted per database. Terms of items continue with the item's name in lower case and a NUL.

use base::{DbNumber, NoteId, Timestamp};
use tantivy::Term;
use tantivy::schema::{
    Field, IndexRecordOption, NumericOptions, STRING, Schema as Fields, TextFieldIndexing, TextOptions,
};

/// Separates the name of an item from its content.
pub(crate) const NAME_TERMINATOR: char = '\0';

/// The fields.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(crate) fields: Fields,
    /// The database and note. The entry with this key is deleted when the note changes.
    pub(crate) key: Field,
    /// The database.
    pub(crate) database: Field,
    /// The database, on documents with Readers items only.
    pub(crate) restricted: Field,
    /// The note, with the lowest bit set if it has Readers items.
    pub(crate) note: Field,
    /// The note's sequence number. Together with the time of the last save, it tells whether the index holds the
    /// current version.
    pub(crate) sequence: Field,
    pub(crate) modified: Field,
    /// The time at which the note was received or created.
    pub(crate) received: Field,
    pub(crate) created: Field,
    pub(crate) size: Field,
    /// Words of all texts except the body.
    pub(crate) main: Field,
    /// Words of the body.
    pub(crate) body: Field,
    /// Words of items, under the names of the items.
    pub(crate) named: Field,
    /// Numbers and times of items, under the names of the items.
    pub(crate) values: Field,
    /// Words of the texts for substring search ([`crate::substring`]).
    pub(crate) searched: Field,
    /// The database and the applied modseq, on the one document that records the progress of a database.
    pub(crate) state: Field,
    pub(crate) applied: Field,
}

/// Names of the fields that are read by name.
pub(crate) const NOTE: &str = "note";
pub(crate) const SEQUENCE: &str = "sequence";
pub(crate) const MODIFIED: &str = "modified";
pub(crate) const RECEIVED: &str = "received";
pub(crate) const APPLIED: &str = "applied";

/// The tokenizers of [`crate::tokenizers`].
pub(crate) const TOKENIZER: &str = "marked";
pub(crate) const LIST_TOKENIZER: &str = "listed";

impl Schema {
    pub(crate) fn new() -> Self {
        let mut builder = Fields::builder();
        let indexed = || NumericOptions::default().set_indexed();
        let fast = || NumericOptions::default().set_fast();
        let words = |fieldnorms| {
            let indexing = TextFieldIndexing::default().set_tokenizer(TOKENIZER).set_fieldnorms(fieldnorms);
            TextOptions::default()
                .set_indexing_options(indexing.set_index_option(IndexRecordOption::WithFreqsAndPositions))
        };
        let list = TextFieldIndexing::default().set_tokenizer(LIST_TOKENIZER).set_fieldnorms(false);
        let list = TextOptions::default().set_indexing_options(list.set_index_option(IndexRecordOption::Basic));
        Self {
            key: builder.add_u64_field("key", indexed()),
            database: builder.add_u64_field("database", indexed()),
            restricted: builder.add_u64_field("restricted", indexed()),
            note: builder.add_u64_field(NOTE, fast()),
            sequence: builder.add_u64_field(SEQUENCE, fast()),
            modified: builder.add_i64_field(MODIFIED, fast()),
            received: builder.add_i64_field(RECEIVED, fast()),
            created: builder.add_i64_field("created", fast()),
            size: builder.add_u64_field("size", fast()),
            main: builder.add_text_field("main", words(true)),
            body: builder.add_text_field("body", words(true)),
            named: builder.add_text_field("named", words(false)),
            values: builder.add_text_field("values", STRING),
            searched: builder.add_text_field("searched", list),
            state: builder.add_u64_field("state", indexed()),
            applied: builder.add_u64_field(APPLIED, fast()),
            fields: builder.build(),
        }
    }

    /// Creates the term of one note.
    pub(crate) fn key_term(&self, database: DbNumber, note: NoteId) -> Term {
        Term::from_field_u64(self.key, key(database, note))
    }

    /// Creates the term of all notes of a database.
    pub(crate) fn database_term(&self, database: DbNumber) -> Term {
        Term::from_field_u64(self.database, u64::from(database.0))
    }

    /// Creates the term of all notes of a database that have Readers items.
    pub(crate) fn restricted_term(&self, database: DbNumber) -> Term {
        Term::from_field_u64(self.restricted, u64::from(database.0))
    }

    /// Creates the term of the document that records the progress of a database.
    pub(crate) fn state_term(&self, database: DbNumber) -> Term {
        Term::from_field_u64(self.state, u64::from(database.0))
    }
}

/// Returns database and note combined in one number.
pub(crate) fn key(database: DbNumber, note: NoteId) -> u64 {
    u64::from(database.0) << 32 | u64::from(note.0)
}

/// Appends the database prefix.
pub(crate) fn push_database(database: DbNumber, out: &mut String) {
    for shift in [28, 21, 14, 7, 0] {
        let seven = u8::try_from(database.0 >> shift & 0x7f).unwrap_or(0);
        out.push(char::from(seven));
    }
}

/// Length of the database prefix, both in characters and in bytes.
pub(crate) const DATABASE_LENGTH: usize = 5;

/// Returns the prefix of the terms of an item, or of terms without an item name if `name` is `None`.
pub(crate) fn prefix(database: DbNumber, name: Option<&str>) -> String {
    let mut prefix = String::with_capacity(32);
    push_database(database, &mut prefix);
    name.map_or_else(|| prefix.clone(), |name| prefix_of(&prefix, name))
}

/// Returns the prefix of the terms of an item. `database` is the database prefix.
pub(crate) fn prefix_of(database: &str, name: &str) -> String {
    let mut prefix = String::with_capacity(database.len() + name.len() + 24);
    prefix.push_str(database);
    crate::tokenizers::push_clean(&name.to_ascii_lowercase(), &mut prefix);
    prefix.push(NAME_TERMINATOR);
    prefix
}

/// A number or a time, which terms encode in the order of the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar {
    Number(f64),
    Time(Timestamp),
}

impl Scalar {
    /// Returns the first character of the value's terms.
    pub(crate) fn kind(self) -> char {
        match self {
            Self::Number(_) => 'n',
            Self::Time(_) => 't',
        }
    }

    /// Returns an integer with the same order as the values.
    pub(crate) fn rank(self) -> u64 {
        match self {
            // Both zeros are the same number.
            Self::Number(number) => tantivy::f64_to_u64(if number == 0.0 { 0.0 } else { number }),
            Self::Time(time) => tantivy::i64_to_u64(time.0),
        }
    }

    /// Appends the value as terms encode it.
    pub(crate) fn push(self, out: &mut String) {
        use std::fmt::Write as _;
        out.push(self.kind());
        let _ = write!(out, "{:016x}", self.rank());
    }
}
