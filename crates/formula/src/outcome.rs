//! The outcome of an evaluation: a value, and the effects that the formula requests.

use base::Unid;

use crate::value::Value;

/// The result of an evaluation.
#[derive(Clone, Debug, PartialEq)]
pub struct EvaluationOutcome<'d> {
    /// The value of the last expression.
    pub value: Value<'d>,
    /// `true` if the document is selected by `SELECT`, or, in a formula without `SELECT`, by a true value. An error
    /// does not select the document.
    pub selected: bool,
    /// The responses that are selected together with a selected document.
    pub responses: SelectedResponses,
    /// The requested deletion of the document, if any.
    pub deletion: Option<DeletionRequest>,
    /// Fields to set or, if a change has no value, to remove. Each name occurs once, in the order of its first change.
    pub changes: Vec<FieldChange>,
    /// Other effects, in the order of their requests.
    pub effects: Vec<SideEffect>,
}

/// The responses that are selected together with a selected document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum SelectedResponses {
    /// No responses.
    #[default]
    None,
    /// Direct responses: `@AllChildren`.
    Children,
    /// Responses on all levels below: `@AllDescendants`.
    Descendants,
}

/// A requested deletion, or its reversal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeletionRequest {
    /// Delete the document, as a soft deletion if the database uses them.
    Delete,
    /// Delete the document permanently.
    HardDelete,
    /// Revert a soft deletion.
    Undelete,
}

/// A requested change of a field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// The name of the field.
    pub name: String,
    /// The new value. `None` removes the field.
    pub value: Option<Value<'static>>,
}

/// A requested effect other than a change of the document.
#[derive(Clone, Debug, PartialEq)]
pub enum SideEffect {
    /// A change of an environment setting.
    Environment {
        /// The name of the setting.
        name: String,
        /// The new value. Numbers and times are converted to text.
        value: String,
    },
    /// A change of a field of another document in this database.
    DocumentField {
        /// The document.
        unid: Unid,
        /// The name of the field.
        name: String,
        /// The new value.
        value: Value<'static>,
    },
    /// A change of a field of a profile document.
    ProfileField {
        /// The name of the profile.
        profile: String,
        /// The name of the field.
        name: String,
        /// The new value.
        value: Value<'static>,
        /// The user of the profile. The empty string is the profile shared by all users.
        user: String,
    },
    /// Adds the document to one folder and removes it from another. An empty name means no folder.
    Folder {
        /// The folder to which the document is added.
        add: String,
        /// The folder from which the document is removed.
        remove: String,
    },
    /// Sends a message. Without arguments, the document itself is sent.
    Mail {
        /// The arguments of the call.
        arguments: Vec<Value<'static>>,
    },
    /// Runs a command.
    Command {
        /// The name of the command, without brackets.
        name: String,
        /// The arguments of the command.
        arguments: Vec<Value<'static>>,
    },
}
