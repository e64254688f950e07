//! The traits through which an evaluation queries the document and the host.
//!
//! Each optional method has a default that means "not available". The function that called it then fails with
//! `@Function is not valid in this context`, so a view needs to implement only the document and the clock.
//!
//! All results are borrowed for the duration of the evaluation. A host that has to load data for a result must keep the
//! data that long.

use base::{NoteId, ReplicaId, Timestamp, Unid};

use crate::text::{Sensitivity, compare};
use crate::value::Value;

/// A document as a formula sees it.
pub trait Document {
    /// Returns the value of an item.
    ///
    /// `slot` is the index of the name in the program ([`crate::Analysis::names`]). It is `None` for computed names.
    /// Names are compared case-insensitively.
    fn item(&self, slot: Option<usize>, name: &str) -> Option<Value<'_>>;

    /// Returns the number of steps charged for finding an item by its name.
    fn search_steps(&self) -> usize {
        0
    }

    /// Returns the names of all items.
    fn item_names(&self) -> Vec<&str> {
        Vec::new()
    }

    /// Returns a time of the document's history.
    fn time_of(&self, _: DocumentTime) -> Option<Timestamp> {
        None
    }

    /// Returns the document's UNID.
    fn unid(&self) -> Option<Unid> {
        None
    }

    /// Returns the document's note ID.
    fn note_id(&self) -> Option<NoteId> {
        None
    }

    /// Returns the UNID of the document that this document responds to.
    fn parent(&self) -> Option<Unid> {
        None
    }

    /// Returns the document's size in bytes.
    fn size_bytes(&self) -> Option<u64> {
        None
    }

    /// Returns the document's attachments.
    fn attachments(&self) -> Vec<Attachment<'_>> {
        Vec::new()
    }

    /// Returns `true` if the document was never saved.
    fn is_new(&self) -> bool {
        false
    }

    /// Returns whether the document is in a state, or `None` if this is unknown.
    fn is_in_state(&self, _: DocumentState) -> Option<bool> {
        None
    }

    /// Returns the document's position in the view that is being built or shown.
    fn position(&self) -> Option<ViewPosition> {
        None
    }
}

/// A time in the history of a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DocumentTime {
    /// The time at which the document was created.
    Created,
    /// The time at which the document was last saved.
    Modified,
    /// The time at which the document was last read.
    Accessed,
    /// The time at which the document was added to this replica.
    Added,
}

/// A state of a document.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DocumentState {
    /// A user or program has the document open for editing.
    BeingEdited,
    /// The document is being saved.
    BeingSaved,
    /// The document is being mailed.
    BeingMailed,
    /// The document is being recalculated.
    BeingRecalculated,
    /// The document is being opened.
    BeingLoaded,
    /// The document has a valid signature.
    Signed,
    /// The document is truncated.
    Truncated,
}

/// A file attached to a document.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attachment<'d> {
    /// The file name.
    pub name: &'d str,
    /// The size in bytes.
    pub size_bytes: u64,
    /// The time of the last modification.
    pub modified: Timestamp,
}

/// The position of a document in a view.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct ViewPosition {
    /// The ordinal on each level, outermost first, such as `2.1.4`.
    pub path: Vec<u32>,
    /// Number of entries on the document's level under the same parent, including the document itself.
    pub siblings: u64,
    /// Number of entries directly below.
    pub children: u64,
    /// Number of entries on all levels below.
    pub descendants: u64,
    /// `true` for a category row.
    pub is_category: bool,
    /// `true` if the row can be expanded.
    pub is_expandable: bool,
}

/// The user's access to a database according to its ACL.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct UserAccess {
    /// The ACL level: 0 no access, 1 depositor, 2 reader, 3 author, 4 editor, 5 designer, 6 manager.
    pub level: u8,
    /// `true` if the user may create documents.
    pub creates: bool,
    /// `true` if the user may delete documents.
    pub deletes: bool,
}

/// A lookup in a view.
#[derive(Clone, Debug, PartialEq)]
pub struct Lookup<'a> {
    /// Options of the lookup: the class, `NoCache`, `ReCache`.
    pub class: &'a str,
    /// The server. The empty string is this server.
    pub server: &'a str,
    /// The database, as a path or replica ID. The empty string is this database.
    pub database: &'a str,
    /// The view.
    pub view: &'a str,
    /// The key. `None` reads a whole column.
    pub key: Option<&'a str>,
    /// The column, numbered from 1, or the field to return.
    pub column: LookupColumn<'a>,
    /// The keywords, without brackets.
    pub keywords: Vec<&'a str>,
}

/// The value that a lookup returns for each entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LookupColumn<'a> {
    /// The number of a column, starting at 1.
    Number(usize),
    /// The name of a field of the document.
    Field(&'a str),
}

/// The environment of an evaluation, except for the document.
///
/// A lookup returns `None` if the host does not support it at all. It returns an error message if the host supports it
/// and this lookup failed.
pub trait Host {
    /// Returns the current time. It is constant during one evaluation.
    fn now(&self) -> Timestamp;

    /// Returns `true` if the time for this evaluation is over. The evaluation asks about every
    /// [`TIME_CHECK_STEPS`](crate::limits::TIME_CHECK_STEPS) steps and then ends with
    /// [`BudgetExceeded::Time`](crate::BudgetExceeded::Time).
    fn is_out_of_time(&self) -> bool {
        false
    }

    /// Returns a random number.
    fn random(&self) -> Option<u64> {
        None
    }

    /// Compares texts in the order of the host's collation.
    fn compare(&self, one: &str, other: &str, sensitivity: Sensitivity) -> std::cmp::Ordering {
        compare(one, other, sensitivity)
    }

    /// Returns a text about the environment.
    fn text(&self, _: HostText) -> Option<&str> {
        None
    }

    /// Returns all names of the user: the user's own names, groups and roles.
    fn user_names(&self) -> Option<Vec<&str>> {
        None
    }

    /// Returns the user's roles in this database, with brackets.
    fn user_roles(&self) -> Option<Vec<&str>> {
        None
    }

    /// Returns the user's access to a database. The empty string is this database.
    fn user_access(&self, _: &str) -> Option<UserAccess> {
        None
    }

    /// Returns the replica ID of this database.
    fn replica_id(&self) -> Option<ReplicaId> {
        None
    }

    /// Returns the value of an environment setting.
    fn environment(&self, _: &str) -> Option<&str> {
        None
    }

    /// Executes a view lookup for `@DbColumn` or `@DbLookup`.
    fn lookup(&self, _: &Lookup<'_>) -> Option<Result<Value<'_>, String>> {
        None
    }

    /// Returns a field of another document of this database.
    fn document_field(&self, _: Unid, _: &str) -> Option<Result<Value<'_>, String>> {
        None
    }

    /// Returns a field of a profile document.
    ///
    /// The arguments are the profile's name, the field's name and the profile's user. An empty user selects the profile
    /// shared by all users.
    fn profile_field(&self, _: &str, _: &str, _: &str) -> Option<Value<'_>> {
        None
    }

    /// Returns a salted hash of a password. If the argument already is such a hash, it is returned unchanged. The
    /// memory and time of this operation must be bounded.
    fn password_hash(&self, _: &str) -> Option<Result<String, String>> {
        None
    }

    /// Returns `Some(true)` if the hash was made of the password. Returns `Some(false)` if it was not, or if the text
    /// is not a hash.
    fn password_verify(&self, _: &str, _: &str) -> Option<bool> {
        None
    }

    /// Returns an item of the directory entries found for the names.
    fn name_lookup(&self, _: &[&str], _: &str) -> Option<Result<Value<'_>, String>> {
        None
    }
}

/// A text that a host may provide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostText {
    /// The user's canonical name.
    UserName,
    /// The server's canonical name.
    ServerName,
    /// The path of the database.
    DatabasePath,
    /// The title of the database.
    DatabaseTitle,
    /// The title of the view.
    ViewTitle,
    /// The mail domain.
    Domain,
    /// The name of the form in use.
    FormName,
    /// The operating system, in Domino's notation.
    Platform,
    /// The version of the program.
    Version,
    /// The language, such as `en`.
    Language,
}
