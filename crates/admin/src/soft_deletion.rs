//! `doublet db deleted`: soft-deleted documents, which can be restored.

use base::NoteId;
use instance::Instance;
use notes::{Access, DeletedNote, Writer, level};
use serde_json::{Value, json};

use super::answer::{record, timestamp_json};
use super::open::open;
use super::request::DeletedRequest;
use super::{AdminError, AdminResult, Answer, format_count};

pub(super) fn execute(instance: &Instance, path: &str, request: &DeletedRequest) -> AdminResult {
    match request {
        DeletedRequest::List { first } => list(instance, path, *first),
        DeletedRequest::Restore { notes } => {
            change_all(instance, path, notes, |writer, note| writer.note_restore(note).map(|()| true))?;
            Ok(Answer::message(format!(
                "{} back in {path}.",
                format_count(notes.len(), "document is", "documents are")
            )))
        }
        DeletedRequest::Remove { notes } => {
            change_all(instance, path, notes, |writer, note| writer.note_delete_permanently(note))?;
            Ok(Answer::message(format!(
                "{} of {path} permanently deleted.",
                format_count(notes.len(), "document", "documents")
            )))
        }
    }
}

fn list(instance: &Instance, path: &str, first: u32) -> AdminResult {
    let access = open(instance, path)?;
    let kept_hours = access.database().record().options.keep_deleted_hours;
    let reader: Access<level::Reader> = access.downgrade();
    let reading = reader.read()?;
    let row = |found: &DeletedNote| -> Result<Value, AdminError> {
        let note = reading.deleted_note(found.header.note, &mut |_| false)?;
        let subject = note.as_ref().and_then(|note| note.text("Subject")).map(str::to_owned);
        Ok(record(vec![
            ("note", json!(found.header.note.0)),
            ("subject", json!(subject)),
            ("deleted_at", timestamp_json(Some(found.deletion.at))),
            ("deleted_by", json!(found.deletion.by)),
            ("folders", json!(found.deletion.folders.len())),
            ("size_bytes", json!(found.header.size)),
        ]))
    };
    let found = reading.deleted_notes(NoteId(0), first as usize)?;
    let answer = Answer::list(found.iter().map(row).collect::<Result<_, _>>()?);
    Ok(match kept_hours {
        Some(_) => answer,
        None => answer.with_message(format!(
            "{path} does not keep deleted documents; `doublet db set {path} --keep-deleted 48h` keeps them for 48 hours."
        )),
    })
}

/// Applies a change to all of the documents, or to none if one of them is not soft-deleted.
fn change_all(
    instance: &Instance,
    path: &str,
    notes: &[u32],
    each: impl Fn(&mut Writer<'_, '_>, NoteId) -> notes::Result<bool>,
) -> Result<(), AdminError> {
    let access = open(instance, path)?;
    let reader: Access<level::Reader> = access.downgrade();
    let writer: Access<level::Depositor> = access.downgrade();
    let accesses = [&writer];
    let mut transaction = instance.databases.transaction(&accesses)?;
    let reading = reader.read()?;
    for note in notes.iter().map(|note| NoteId(*note)) {
        let is_deleted = reading.header(note)?.is_some_and(|header| header.is_soft_deleted());
        if !is_deleted || !each(&mut transaction.writer(0), note)? {
            return Err(AdminError::Refused(format!(
                "note {} of {path} is not deleted or can no longer be restored; `doublet db deleted {path} list` shows the documents that can be restored",
                note.0
            )));
        }
    }
    drop(reading);
    let ticket = transaction.commit()?;
    instance.store.durable(ticket).wait()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use notes::NewNote;

    use super::*;
    use crate::Request;
    use crate::request::{DbRequest, DbUpdate};
    use crate::tests::{ExecuteRequest, write};
    use sample::Sample;

    const PATH: &str = "plans.nsf";

    fn db(sample: &Sample, request: DbRequest) -> Result<Answer, AdminError> {
        sample.execute(Request::Db(request))
    }

    fn deleted(sample: &Sample, request: DeletedRequest) -> Result<Answer, AdminError> {
        db(sample, DbRequest::Deleted { path: PATH.to_owned(), request })
    }

    #[test]
    fn deleted_documents_are_listed_restored_and_removed() {
        let sample = Sample::new();
        db(&sample, DbRequest::Create { path: PATH.to_owned(), title: None, template: None }).expect("it is new");
        let listed = |sample: &Sample| deleted(sample, DeletedRequest::List { first: 9 }).expect("the database exists");
        assert!(listed(&sample).messages.iter().any(|text| text.contains("--keep-deleted")));
        let path = PATH.to_owned();
        let keep = DbUpdate { path, keep_deleted: Some("48h".to_owned()), ..DbUpdate::default() };
        db(&sample, DbRequest::Set(keep)).expect("it makes sense");
        let document = NewNote::document(vec![notes::Item::text("Subject", "Plan")]);
        let note = write(&sample, PATH, |writer| writer.note_create(document));
        assert!(write(&sample, PATH, |writer| writer.note_delete(note)));
        let found = listed(&sample);
        assert_eq!((&found.data[0]["note"], &found.data[0]["subject"]), (&json!(note.0), &json!("Plan")));
        let notes = || vec![note.0];
        deleted(&sample, DeletedRequest::Restore { notes: notes() }).expect("it is listed");
        assert_eq!(listed(&sample).data, json!([]));
        for request in [DeletedRequest::Restore { notes: notes() }, DeletedRequest::Remove { notes: notes() }] {
            let refused = deleted(&sample, request).expect_err("it is not deleted").to_string();
            assert!(refused.contains("is not deleted"), "{refused}");
        }
        assert!(write(&sample, PATH, |writer| writer.note_delete(note)));
        deleted(&sample, DeletedRequest::Remove { notes: notes() }).expect("it is listed");
        assert_eq!(listed(&sample).data, json!([]));
    }
}
