//! What an evaluation asks of the world: the document, and everything else.
//!
//! Each method has a default that says "not here"; the function that asked then fails with `@Function is not valid in this context`. So
//! a view implements the document and the clock, and no more. All answers are lent for the time of the evaluation: a host that must read for an answer
//! keeps what it read.

use base::{NoteId, ReplicaId, Timestamp, Unid};

use crate::text::{Sensitivity, compare};
use crate::value::Value;

/// A document, as a formula sees it.
pub trait Document {
    /// Gives the value of an item. `slot` is the number of the name in the program ([`crate::Analysis::names`]); it is missing for
    /// names that were computed. Names compare without regard to case.
    fn item(&self, slot: Option<usize>, name: &str) -> Option<Value<'_>>;

    /// Lists the names of all items.
    fn item_names(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Gives a moment of its history.
    fn moment(&self, _: History) -> Option<Timestamp> {
        None
    }

    /// Gives its universal identifier.
    fn unid(&self) -> Option<Unid> {
        None
    }

    /// Gives its number in the database.
    fn note_id(&self) -> Option<NoteId> {
        None
    }

    /// Gives the document that it responds to.
    fn parent(&self) -> Option<Unid> {
        None
    }

    /// Gives its size in bytes.
    fn size_bytes(&self) -> Option<u64> {
        None
    }

    /// Lists its attachments.
    fn attachments(&self) -> Vec<Attachment<'_>> {
        Vec::new()
    }

    /// Tells whether it was never saved.
    fn is_new(&self) -> bool {
        false
    }

    /// Tells whether it is in a state, `None` where that is not known.
    fn has(&self, _: State) -> Option<bool> {
        None
    }

    /// Gives its place in the view that is being built or shown.
    fn position(&self) -> Option<Position> {
        None
    }
}

/// Moments in the life of a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum History {
    /// When it was made.
    Created,
    /// When it was last saved.
    Modified,
    /// When it was last read.
    Accessed,
    /// When it came into this replica.
    Added,
}

/// States of a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// A person or program has it open to change it.
    BeingEdited,
    /// It is being saved.
    BeingSaved,
    /// It is being mailed.
    BeingMailed,
    /// It is being recalculated.
    BeingRecalculated,
    /// It is being opened.
    BeingLoaded,
    /// Its signature holds.
    Signed,
    /// It is truncated.
    Truncated,
}

/// A file that is attached to a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attachment<'d> {
    /// Its name.
    pub name: &'d str,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// When it was last changed.
    pub modified: Timestamp,
}

/// The place of a document in a view.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Position {
    /// Its ordinal on each level, from the outermost: `2.1.4`.
    pub path: Vec<u32>,
    /// How many entries its level has there, itself included.
    pub siblings: u64,
    /// How many entries are directly below.
    pub children: u64,
    /// How many entries are anywhere below.
    pub descendants: u64,
    /// Whether it is a category row.
    pub is_category: bool,
    /// Whether it can be opened further.
    pub is_expandable: bool,
}

/// Who is asking, in the database's access control list.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Access {
    /// 0 no access, 1 depositor, 2 reader, 3 author, 4 editor, 5 designer, 6 manager.
    pub level: u8,
    /// May create documents.
    pub creates: bool,
    /// May delete documents.
    pub deletes: bool,
}

/// A look-up in a view.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookup<'a> {
    /// Options of the look-up: `NoCache`, `ReCache`, class.
    pub class: &'a str,
    /// The server; empty is this one.
    pub server: &'a str,
    /// The database, as path or replica id; empty is this one.
    pub database: &'a str,
    /// The view.
    pub view: &'a str,
    /// The key; none reads a whole column.
    pub key: Option<&'a str>,
    /// Which column, from 1, or which field.
    pub column: Column<'a>,
    /// Keywords, without brackets.
    pub keywords: Vec<&'a str>,
}

/// What a look-up gives of each entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Column<'a> {
    /// A column, from 1.
    Number(usize),
    /// A field of the document.
    Field(&'a str),
}

/// The world but for the document.
///
/// A look-up that is not possible gives `None` where the host has no such thing at all, and an error with a text where it has and
/// this one failed.
pub trait Host {
    /// Gives the time; always the same during one evaluation.
    fn now(&self) -> Timestamp;

    /// Draws a random number.
    fn random(&self) -> Option<u64> {
        None
    }

    /// Compares texts in the order of the host's collation.
    fn compare(&self, one: &str, other: &str, sensitivity: Sensitivity) -> std::cmp::Ordering {
        compare(one, other, sensitivity)
    }

    /// Gives a text that it knows.
    fn fact(&self, _: Fact) -> Option<&str> {
        None
    }

    /// Lists all names that the user goes by: own, groups, roles.
    fn user_names(&self) -> Option<Vec<&str>> {
        None
    }

    /// Lists the user's roles in this database, with brackets.
    fn user_roles(&self) -> Option<Vec<&str>> {
        None
    }

    /// Gives the user's access to a database; empty is this one.
    fn user_access(&self, _: &str) -> Option<Access> {
        None
    }

    /// Gives the replica id of this database.
    fn replica_id(&self) -> Option<ReplicaId> {
        None
    }

    /// Reads a setting of the environment.
    fn environment(&self, _: &str) -> Option<&str> {
        None
    }

    /// Reads views: `@DbColumn` and `@DbLookup`.
    fn lookup(&self, _: &Lookup<'_>) -> Option<Result<Value<'_>, String>> {
        None
    }

    /// Reads a field of another document of this database.
    fn document_field(&self, _: Unid, _: &str) -> Option<Result<Value<'_>, String>> {
        None
    }

    /// Reads a field of a profile document, by its name and its user (empty for everybody's).
    fn profile_field(&self, _: &str, _: &str, _: &str) -> Option<Value<'_>> {
        None
    }

    /// Makes a salted hash of a password, or gives it back as it is if it is such a hash. Memory and time that this takes must be bounded.
    fn password_hash(&self, _: &str) -> Option<Result<String, String>> {
        None
    }

    /// Tells whether a password is the one that a hash was made of; not when it is no hash.
    fn password_verify(&self, _: &str, _: &str) -> Option<bool> {
        None
    }

    /// Looks a name up in the directory and gives an item of what is found.
    fn name_lookup(&self, _: &[&str], _: &str) -> Option<Result<Value<'_>, String>> {
        None
    }
}

/// Texts that a host may know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fact {
    /// The user, canonical.
    UserName,
    /// The server, canonical.
    ServerName,
    /// The path of the database.
    DatabasePath,
    /// The title of the database.
    DatabaseTitle,
    /// The title of the view.
    ViewTitle,
    /// The mail domain.
    Domain,
    /// The name of the form that is used.
    FormName,
    /// The operating system, in the original's words.
    Platform,
    /// The version of the program.
    Version,
    /// The language, `en` for instance.
    Language,
}
