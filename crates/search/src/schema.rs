//! What the index holds of a note, and how terms are made.
//!
//! Every term of words and values begins with the database: five characters of seven bits each. So the words of a database lie beside each other in the
//! dictionary, a query of one database never touches another's, and how often a word occurs is counted for each database. Terms of items go on with
//! the item's name in lower case and a NUL.

use base::{DbNumber, NoteId, Timestamp};
use tantivy::Term;
use tantivy::schema::{
    Field, IndexRecordOption, NumericOptions, STRING, Schema as Fields, TextFieldIndexing, TextOptions,
};

/// Parts the name of an item from what it holds.
pub(crate) const AFTER_NAME: char = '\0';

/// The fields.
#[derive(Clone, Debug)]
pub(crate) struct Schema {
    pub(crate) fields: Fields,
    /// Database and note: what is deleted when the note changes.
    pub(crate) key: Field,
    /// The database alone.
    pub(crate) database: Field,
    /// The note, and in the lowest bit whether it has Readers items.
    pub(crate) note: Field,
    /// How often the note was saved, and when last: what tells whether the index has it as it is.
    pub(crate) sequence: Field,
    pub(crate) modified: Field,
    /// When it was received or made.
    pub(crate) received: Field,
    pub(crate) created: Field,
    pub(crate) size: Field,
    /// Words of everything but the body.
    pub(crate) main: Field,
    /// Words of the body.
    pub(crate) body: Field,
    /// Words of items, under the items' names.
    pub(crate) named: Field,
    /// Numbers and times of items, under the items' names.
    pub(crate) values: Field,
    /// Words of the texts in which substrings are looked for ([`crate::substring`]).
    pub(crate) searched: Field,
    /// On the one document that tells how far a database is indexed: the database, and the modseq.
    pub(crate) state: Field,
    pub(crate) applied: Field,
}

/// Names of the fields that are read by name.
pub(crate) const NOTE: &str = "note";
pub(crate) const SEQUENCE: &str = "sequence";
pub(crate) const MODIFIED: &str = "modified";
pub(crate) const RECEIVED: &str = "received";
pub(crate) const APPLIED: &str = "applied";

/// The tokenizers of [`crate::marked`].
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

    /// Makes the term of one note.
    pub(crate) fn key_term(&self, database: DbNumber, note: NoteId) -> Term {
        Term::from_field_u64(self.key, key(database, note))
    }

    /// Makes the term of all notes of a database.
    pub(crate) fn database_term(&self, database: DbNumber) -> Term {
        Term::from_field_u64(self.database, u64::from(database.0))
    }

    /// Makes the term of what tells how far a database is indexed.
    pub(crate) fn state_term(&self, database: DbNumber) -> Term {
        Term::from_field_u64(self.state, u64::from(database.0))
    }
}

/// Gives database and note in one number.
pub(crate) fn key(database: DbNumber, note: NoteId) -> u64 {
    u64::from(database.0) << 32 | u64::from(note.0)
}

/// Appends the database as terms begin with it.
pub(crate) fn push_database(database: DbNumber, out: &mut String) {
    for shift in [28, 21, 14, 7, 0] {
        let seven = u8::try_from(database.0 >> shift & 0x7f).unwrap_or(0);
        out.push(char::from(seven));
    }
}

/// How many characters, and bytes, the database takes.
pub(crate) const DATABASE_LENGTH: usize = 5;

/// Gives the beginning of the terms of an item, or of those without a name.
pub(crate) fn prefix(database: DbNumber, name: Option<&str>) -> String {
    let mut prefix = String::with_capacity(32);
    push_database(database, &mut prefix);
    name.map_or_else(|| prefix.clone(), |name| prefix_of(&prefix, name))
}

/// Gives the beginning of the terms of an item, from that of its database.
pub(crate) fn prefix_of(database: &str, name: &str) -> String {
    let mut prefix = String::with_capacity(database.len() + name.len() + 24);
    prefix.push_str(database);
    crate::marked::push_clean(&name.to_ascii_lowercase(), &mut prefix);
    prefix.push(AFTER_NAME);
    prefix
}

/// A number or a time, as terms hold it: in the order of the values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Scalar {
    Number(f64),
    Time(Timestamp),
}

impl Scalar {
    /// The first character of its terms.
    pub(crate) fn kind(self) -> char {
        match self {
            Self::Number(_) => 'n',
            Self::Time(_) => 't',
        }
    }

    /// Gives a number of the same order.
    pub(crate) fn rank(self) -> u64 {
        match self {
            // Both zeros are the same number.
            Self::Number(number) => tantivy::f64_to_u64(if number == 0.0 { 0.0 } else { number }),
            Self::Time(time) => tantivy::i64_to_u64(time.0),
        }
    }

    /// Appends it as terms hold it.
    pub(crate) fn push(self, out: &mut String) {
        use std::fmt::Write as _;
        out.push(self.kind());
        let _ = write!(out, "{:016x}", self.rank());
    }
}
