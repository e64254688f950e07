//! What an evaluation ends with: a value, and what the formula wishes done.

use base::Unid;

use crate::value::Value;

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<'d> {
    /// The value of the last expression.
    pub value: Value<'d>,
    /// Whether the document is selected: by `SELECT`, or without one by a true value. An error selects nothing.
    pub selected: bool,
    /// Which responses of selected documents are selected with them.
    pub responses: Responses,
    /// Whether the document shall go.
    pub deletion: Option<Deletion>,
    /// Fields to be set or, without a value, removed; each name once, in the order of its first change.
    pub changes: Vec<Change>,
    /// Other effects, in their order.
    pub effects: Vec<Effect>,
}

/// Which responses come with a selected document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Responses {
    /// None.
    #[default]
    None,
    /// Direct ones: `@AllChildren`.
    Children,
    /// All below: `@AllDescendants`.
    Descendants,
}

/// What shall happen to the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// It is deleted, softly where the database does so.
    Delete,
    /// It is deleted for good.
    HardDelete,
    /// A soft deletion is taken back.
    Undelete,
}

/// A field to be changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// The field.
    pub name: String,
    /// Its new value; none removes it.
    pub value: Option<Value<'static>>,
}

/// Something else that the formula wishes done.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// A setting of the environment is changed.
    Environment {
        /// The setting.
        name: String,
        /// Its new value; numbers and times are written as text.
        value: String,
    },
    /// A field of another document of this database is changed.
    DocumentField {
        /// The document.
        unid: Unid,
        /// The field.
        name: String,
        /// Its new value.
        value: Value<'static>,
    },
    /// A field of a profile document is changed.
    ProfileField {
        /// The profile.
        profile: String,
        /// The field.
        name: String,
        /// Its new value.
        value: Value<'static>,
        /// Whose profile it is; empty is everybody's.
        user: String,
    },
    /// The document goes into one folder and out of another; an empty name is none.
    Folder {
        /// Into this one.
        add: String,
        /// Out of this one.
        remove: String,
    },
    /// A message is sent: the document itself where there are no arguments.
    Mail {
        /// The arguments as they were given.
        arguments: Vec<Value<'static>>,
    },
    /// A command is run.
    Command {
        /// Its name, without brackets.
        name: String,
        /// Its arguments.
        arguments: Vec<Value<'static>>,
    },
}
