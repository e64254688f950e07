//! Selective replication: which documents a replica gets of those that it lacks.
//!
//! The source evaluates the selection while it lists changes, so nothing of the other documents travels but a line of
//! the list. A document that the replica has stays up to date whether it is selected or not, because replicas that have
//! a document must agree on it (`docs/replication.md`, "Settings of a replica").

use std::collections::HashSet;

use base::{Timestamp, Unid};
use formula::Formula;
use notes::evaluation_context::EvaluationContext;
use notes::limits::REPLICATION_FOLDERS_MAX;
use notes::replica::{ListedNote, StateName};
use notes::replication_settings::compile_replication_formula;
use notes::{DatabaseSnapshot, Error, ReplicationSettings, Result};

/// Microseconds of a day.
const DAY_MICROSECONDS: i64 = 86_400_000_000;

/// The documents that a replica wants of those that it lacks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Selection {
    /// Selects the documents. Empty: all.
    pub formula: String,
    /// Titles of folders of the source: only documents in one of them are wanted. Empty: all.
    pub folders: Vec<String>,
    /// Only documents that were last saved since then are wanted.
    pub saved_since: Option<Timestamp>,
}

impl Selection {
    /// Returns the selection of settings at a time.
    #[must_use]
    pub fn of_settings(settings: &ReplicationSettings, now: Timestamp) -> Self {
        let age = |days: u16| i64::from(days) * DAY_MICROSECONDS;
        Self {
            formula: settings.formula.clone(),
            folders: settings.folders.clone(),
            saved_since: settings.cut_off_days.map(|days| Timestamp(now.0.saturating_sub(age(days)))),
        }
    }

    /// Returns `true` if all documents are wanted.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        *self == Self::default()
    }
}

/// A selection that is evaluated in a database.
pub(crate) struct Selector<'s> {
    formula: Option<(Formula, EvaluationContext)>,
    /// The wanted folders, if not all documents are wanted.
    folders: Option<HashSet<Unid>>,
    selection: &'s Selection,
}

impl<'s> Selector<'s> {
    /// Prepares a selection. Fails if its formula does not compile, or if it is too long.
    pub(crate) fn new(snapshot: &DatabaseSnapshot<'_>, selection: &'s Selection) -> Result<Self> {
        let Selection { formula, folders, .. } = selection;
        if folders.len() > REPLICATION_FOLDERS_MAX {
            return Err(Error::Limit { what: "folders of replication settings", max: REPLICATION_FOLDERS_MAX });
        }
        let compiled = (!formula.is_empty()).then(|| compile_replication_formula(formula)).transpose()?;
        let wanted = (!folders.is_empty()).then(|| wanted_folders(snapshot, folders)).transpose()?;
        let formula = compiled.map(|formula| (formula, snapshot.evaluation_context()));
        Ok(Self { formula, folders: wanted, selection })
    }

    /// Returns `true` if a listed note is wanted. Only documents can be unwanted, and deletions never are.
    pub(crate) fn selects(&self, snapshot: &DatabaseSnapshot<'_>, note: &ListedNote) -> Result<bool> {
        if self.selection.is_everything() || !note.class.is_document() {
            return Ok(true);
        }
        let found = snapshot.find(note.unid)?.map(|id| snapshot.header(id)).transpose()?.flatten();
        let Some(header) = found.filter(|header| !header.is_stub()) else { return Ok(true) };
        if self.selection.saved_since.is_some_and(|since| header.sequence_time < since) {
            return Ok(false);
        }
        if let Some(wanted) = &self.folders {
            let is_wanted = |name: &StateName| matches!(name, StateName::Folder(unid) if wanted.contains(unid));
            if !note.state.iter().any(|(name, register)| register.is_set && is_wanted(name)) {
                return Ok(false);
            }
        }
        match &self.formula {
            // Of a document that the formula cannot judge in its limits, nobody would learn that it is missing.
            Some((formula, context)) => Ok(snapshot.try_select(header.note, formula, context)?.unwrap_or(true)),
            None => Ok(true),
        }
    }
}

/// Returns the UNIDs of folders with these titles. Fails if there is no folder of a title: without the error, nothing
/// would be received.
fn wanted_folders(snapshot: &DatabaseSnapshot<'_>, titles: &[String]) -> Result<HashSet<Unid>> {
    let folders = snapshot.folders()?;
    let mut wanted = HashSet::new();
    for title in titles {
        let found = folders.iter().find(|folder| folder.title.eq_ignore_ascii_case(title));
        let found = found.ok_or_else(|| Error::not_found(format!("folder {title} of the replication settings")))?;
        let header = snapshot.header(base::NoteId(found.view.0))?;
        wanted.extend(header.map(|header| header.unid));
    }
    Ok(wanted)
}
