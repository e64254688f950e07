//! The settings note of a mail file: one design note with the owner's subscriptions and the positions of imports.

use base::NoteId;
use notes::note::{MAIL_SETTINGS_UNID, OLD_MAIL_SETTINGS_NOTE};
use notes::{Database, DatabaseSnapshot, Note, OdsVersion, Writer};

use crate::error::{Error, Result};

/// Returns the settings note, or `None` in a replica that has not received it yet.
pub(crate) fn settings_note(snapshot: &DatabaseSnapshot<'_>) -> Result<Option<NoteId>> {
    Ok(snapshot.find(MAIL_SETTINGS_UNID)?.or_else(|| old_settings_note(snapshot.database())))
}

/// Returns the settings note within a transaction.
pub(crate) fn read_settings(writer: &mut Writer<'_, '_>) -> Result<Note> {
    let found = writer.find(MAIL_SETTINGS_UNID)?.or_else(|| old_settings_note(writer.database()));
    let note = found.map(|note| writer.note(note)).transpose()?.flatten();
    note.ok_or(Error::Damaged("settings of the mail file"))
}

/// Returns the settings note of a mail file of an older structure.
fn old_settings_note(database: &Database) -> Option<NoteId> {
    (database.record().ods < OdsVersion::WITH_REVISIONS).then_some(OLD_MAIL_SETTINGS_NOTE)
}
