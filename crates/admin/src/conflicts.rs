//! `doublet db conflicts`: documents with the losing version of a conflict.

use std::collections::BTreeSet;

use base::{NoteId, Unid, hex};
use instance::Instance;
use notes::{Access, DatabaseSnapshot, Item, Note, NoteFlags, NoteHeader, level};
use serde_json::{Value, json};

use super::answer::{record, timestamp_json};
use super::open::open;
use super::request::ConflictsRequest;
use super::{AdminError, AdminResult, Answer, Progress, ProgressCallback, Unit, format_count, report_step};

/// Items that name a document, the first one that it has counts.
const TITLE_ITEMS: [&str; 4] = ["Subject", "FullName", "ListName", "Title"];

/// Number of headers read between two reports of progress.
const HEADERS_PER_STEP: usize = 10_000;

pub(super) fn execute(
    instance: &Instance,
    path: &str,
    request: &ConflictsRequest,
    report: &mut ProgressCallback<'_>,
) -> AdminResult {
    match request {
        ConflictsRequest::List { first } => list(instance, path, *first as usize, report),
        ConflictsRequest::Remove { conflicts } => remove(instance, path, conflicts),
    }
}

fn list(instance: &Instance, path: &str, first: usize, report: &mut ProgressCallback<'_>) -> AdminResult {
    let reader: Access<level::Reader> = open(instance, path)?.downgrade();
    let reading = reader.read()?;
    let mut found = Vec::new();
    let mut after = Some(NoteId(0));
    while let Some(start) = after.filter(|_| found.len() < first) {
        after = reading.for_each_note_bounded(start, HEADERS_PER_STEP, &mut |header| {
            if is_conflict(&header) {
                found.push(header);
            }
            Ok(found.len() < first)
        })?;
        let done = u64::from(after.unwrap_or(start).0);
        let step = format!("{path}: looking for conflict documents");
        report_step(report, Progress { step, done, total: None, unit: Unit::Notes })?;
    }
    let rows: Vec<Value> = found.iter().map(|header| row(&reading, header)).collect::<Result<_, _>>()?;
    Ok(Answer::list(rows))
}

fn is_conflict(header: &NoteHeader) -> bool {
    header.flags.contains(NoteFlags::CONFLICT) && !header.is_stub()
}

fn row(reading: &DatabaseSnapshot<'_>, header: &NoteHeader) -> Result<Value, AdminError> {
    let winner = header.parent.map(|unid| reading.find(unid)).transpose()?.flatten();
    let winner = winner.map(|note| readable(reading, note)).transpose()?.flatten();
    let conflict = readable(reading, header.note)?;
    let text = |name: &&str| conflict.as_ref().and_then(|conflict| conflict.text(name));
    let both = conflict.as_ref().zip(winner.as_ref());
    let differences = both.map(|(conflict, winner)| differences(&conflict.items, &winner.items));
    Ok(record(vec![
        ("unid", json!(hex::upper(&header.unid.0))),
        ("document", json!(header.parent.map(|unid| hex::upper(&unid.0)))),
        ("form", json!(text(&"Form"))),
        ("title", json!(TITLE_ITEMS.iter().find_map(text))),
        ("saved", timestamp_json(Some(header.sequence_time))),
        ("differs_in", json!(differences)),
    ]))
}

/// Returns a note, or `None` if it is damaged or absent. A damaged document can be removed, too.
fn readable(reading: &DatabaseSnapshot<'_>, note: NoteId) -> Result<Option<Note>, AdminError> {
    match reading.note(note) {
        Err(error) if error.is_damage() => Ok(None),
        read => Ok(read?),
    }
}

/// Returns the names of the items that are not the same in both documents. Items that the server keeps are left out.
fn differences<'i>(ones: &'i [Item], others: &'i [Item]) -> BTreeSet<&'i str> {
    let only_in = |ones: &'i [Item], others: &'i [Item]| {
        ones.iter().filter(|item| !item.name.starts_with('$') && !others.contains(item)).map(|item| item.name.as_str())
    };
    only_in(ones, others).chain(only_in(others, ones)).collect()
}

/// Deletes all of the documents, or none if one of them is no conflict document.
fn remove(instance: &Instance, path: &str, conflicts: &[String]) -> AdminResult {
    let access = open(instance, path)?;
    let reader: Access<level::Reader> = access.downgrade();
    let reading = reader.read()?;
    let writer: Access<level::Depositor> = access.downgrade();
    let accesses = [&writer];
    let mut transaction = instance.databases.transaction(&accesses)?;
    for text in conflicts.iter().collect::<BTreeSet<_>>() {
        let found = hex::parse_array(text).map(|unid| reading.find(Unid(unid))).transpose()?.flatten();
        let header = found.map(|note| reading.header(note)).transpose()?.flatten();
        let conflict = header.filter(is_conflict);
        let is_deleted = conflict.map(|header| transaction.writer(0).note_delete(header.note)).transpose()?;
        if is_deleted != Some(true) {
            return Err(AdminError::Refused(format!(
                "{path} has no conflict document {text}; `doublet db conflicts {path} list` shows them"
            )));
        }
    }
    let ticket = transaction.commit()?;
    instance.store.durable(ticket).wait()?;
    let removed = format_count(conflicts.len(), "conflict document was", "conflict documents were");
    Ok(Answer::message(format!("{removed} deleted from {path}.")))
}

#[cfg(test)]
mod tests {
    use notes::NewNote;
    use notes::save::{OnConflict, SaveOptions};
    use sample::Sample;

    use super::*;
    use crate::Request;
    use crate::request::DbRequest;
    use crate::tests::{ExecuteRequest, write};

    const PATH: &str = "plans.nsf";

    fn conflicts(sample: &Sample, request: ConflictsRequest) -> AdminResult {
        sample.execute(Request::Db(DbRequest::Conflicts { path: PATH.to_owned(), request }))
    }

    #[test]
    fn conflict_documents_are_listed_with_their_differences_and_removed() {
        let sample = Sample::new();
        let create = DbRequest::Create { path: PATH.to_owned(), title: None, template: None };
        sample.execute(Request::Db(create)).expect("it is new");
        let items = |due: &str| vec![Item::text("Subject", "Plan"), Item::text("Due", due)];
        let note = write(&sample, PATH, |writer| writer.note_create(NewNote::document(items("May"))));
        write(&sample, PATH, |writer| writer.note_update(note, 1, &items("June"), &[]));
        let options = SaveOptions { on_conflict: OnConflict::Resolve, ..SaveOptions::default() };
        write(&sample, PATH, |writer| writer.note_save(note, 1, (&items("July"), &[]), &options));

        let list = || conflicts(&sample, ConflictsRequest::List { first: 9 }).expect("the database exists").data;
        let remove = |unid: &Value| {
            let conflicts_given = vec![unid.as_str().expect("it is a text").to_owned()];
            conflicts(&sample, ConflictsRequest::Remove { conflicts: conflicts_given })
        };
        let found = list();
        assert_eq!((&found[0]["title"], &found[0]["differs_in"]), (&json!("Plan"), &json!(["Due"])), "{found}");
        let refused = remove(&found[0]["document"]).expect_err("it has not lost").to_string();
        assert!(refused.contains("has no conflict document"), "{refused}");
        remove(&found[0]["unid"]).expect("it is listed");
        assert_eq!(list(), json!([]));
        assert!(remove(&found[0]["unid"]).is_err());
    }
}
