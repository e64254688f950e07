//! `doublet note list`: documents in the order of their changes, and the position where the next list continues.
//!
//! A server ends a search between two transactions, so it may send more documents than requested: an import creates
//! hundreds in one transaction. The list is truncated here. A position between two documents of one transaction
//! consists of the number of the transaction and the last document shown (`77/12`), because the documents of a
//! transaction are sent in ascending order of their numbers.

use std::str::FromStr;

use admin::answer::{record, timestamp_json};
use admin::{Answer, format_count};
use base::hex;
use client::{Client, Code, v1};
use serde_json::{Value, json};

use super::note::item_value;
use super::{CALL_TIME, call_error};
use crate::CommandError;

/// Start of a list: after a change of the database, or after one document of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPosition {
    modseq: u64,
    /// The last document shown of the change, or `None` if all documents of it were shown.
    note: Option<u32>,
}

impl FromStr for ListPosition {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a position from the end of a list, such as 77 or 77/12");
        let (modseq, note) = match text.split_once('/') {
            Some((modseq, note)) => (modseq, Some(note.parse().map_err(|_| wrong())?)),
            None => (text, None),
        };
        Ok(Self { modseq: modseq.parse().map_err(|_| wrong())?, note })
    }
}

impl std::fmt::Display for ListPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.modseq)?;
        self.note.map_or(Ok(()), |note| write!(f, "/{note}"))
    }
}

impl ListPosition {
    /// Returns the change after which the server is to start.
    fn server_modseq(self) -> u64 {
        if self.note.is_some() { self.modseq.saturating_sub(1) } else { self.modseq }
    }

    /// Returns `true` if a document comes after this position.
    fn precedes(self, found: DocumentPosition) -> bool {
        found.modseq > self.modseq || (found.modseq == self.modseq && self.note.is_some_and(|note| found.note > note))
    }
}

/// Position of a document in the order of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct DocumentPosition {
    modseq: u64,
    note: u32,
}

/// The documents of a list so far.
#[derive(Default)]
struct List {
    places: Vec<DocumentPosition>,
    rows: Vec<Value>,
    /// At the end of the search, the last change that it covers.
    reached: Option<u64>,
    /// Number of documents for which the formula failed, and the first error.
    failed: (u64, String),
}

impl List {
    /// Adds the documents of a reply that come after a position.
    fn add_reply(&mut self, reply: &v1::SearchNotesReply, since: ListPosition, items: &[String]) {
        for note in &reply.notes {
            let header = note.header.clone().unwrap_or_default();
            let found = DocumentPosition { modseq: header.modseq, note: header.note_id };
            if since.precedes(found) {
                self.places.push(found);
                self.rows.push(note_row(note, &header, items));
            }
        }
        self.reached = reply.end.then_some(reply.modseq);
        self.failed = (reply.failed, reply.failure.clone());
    }

    /// Truncates the list to `limit` documents; 0 means no limit. Returns the start of the next list, if known, and
    /// whether there are more documents.
    fn truncate(&mut self, limit: usize) -> (Option<ListPosition>, bool) {
        let next = self.places.get(limit).copied().filter(|_| limit > 0);
        let Some(next) = next else {
            let last = self.places.last().map(|last| last.modseq);
            // A message of the server ends between two transactions.
            return (self.reached.or(last).map(|modseq| ListPosition { modseq, note: None }), false);
        };
        self.places.truncate(limit);
        self.rows.truncate(limit);
        let since = self
            .places
            .last()
            .map(|last| ListPosition { modseq: last.modseq, note: (last.modseq == next.modseq).then_some(last.note) });
        (since, true)
    }
}

/// Lists the results of a search after a position, at most `limit` documents, or all if it is 0. If the server ends the
/// search early, the answer has the documents found until then and says how to continue.
pub(super) async fn list(
    client: &Client,
    request: v1::SearchNotesRequest,
    items: &[String],
    since: ListPosition,
    limit: usize,
) -> Result<Answer, CommandError> {
    // One document more than shown tells that there are more. The server does not know how many documents of a
    // transaction were shown before.
    let requested = if limit == 0 || since.note.is_some() { 0 } else { u32::try_from(limit + 1).unwrap_or(0) };
    let request = v1::SearchNotesRequest { since_modseq: since.server_modseq(), limit: requested, ..request };
    let mut replies = client.notes().search_notes(request).await.map_err(call_error)?.into_inner();
    let mut list = List::default();
    let mut is_overdue = false;
    while limit == 0 || list.places.len() <= limit {
        match replies.message().await {
            Ok(Some(reply)) => list.add_reply(&reply, since, items),
            Ok(None) => break,
            Err(status) if status.code() == Code::DeadlineExceeded => {
                is_overdue = true;
                break;
            }
            Err(status) => return Err(call_error(status)),
        }
    }
    let (next, has_more) = list.truncate(limit);
    if is_overdue && !has_more {
        return timed_out_answer(list.rows, next);
    }
    let documents = format_count(list.rows.len(), "document", "documents");
    let next = next.unwrap_or(since);
    let message = match has_more {
        true => format!("{documents}, and there are more; continue with --since {next}."),
        false => format!("{documents}; --since {next} shows later changes."),
    };
    let answer = Answer::list(list.rows).with_message(message);
    Ok(match list.failed {
        (0, _) => answer,
        (count, error) => {
            let documents = format_count(count, "document", "documents");
            answer.with_message(format!("The formula failed for {documents}; the first error: {error}."))
        }
    })
}

/// Returns the answer for a search that exceeded the server's time limit. Fails if nothing was found until then.
fn timed_out_answer(rows: Vec<Value>, next: Option<ListPosition>) -> Result<Answer, CommandError> {
    let narrower =
        "--since MODSEQ starts at a later change, and `doublet view find` and `doublet db search` use an index";
    let Some(next) = next else {
        return Err(CommandError(format!(
            "the search took longer than {CALL_TIME} and found nothing in that time; {narrower}"
        )));
    };
    let documents = format_count(rows.len(), "document was", "documents were");
    let failure = format!(
        "the search took longer than {CALL_TIME}; {documents} found until then, and --since {next} continues after them. \
         Otherwise, {narrower}"
    );
    Ok(Answer { failure: Some(failure), ..Answer::list(rows) })
}

fn note_row(note: &v1::Note, header: &v1::NoteHeader, items: &[String]) -> Value {
    let mut fields = vec![
        ("note", json!(header.note_id)),
        ("unid", json!(hex::upper(&header.unid))),
        ("modified", timestamp_json(Some(base::Timestamp(header.sequence_time_us)))),
        ("size_bytes", json!(header.size_bytes)),
        ("unread", json!(header.unread)),
    ];
    fields.extend(items.iter().map(|name| (name.as_str(), item_value(note, name))));
    record(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates a reply with documents, given as change and note number.
    fn reply(documents: &[(u64, u32)], end: Option<u64>) -> v1::SearchNotesReply {
        let header = |(modseq, note_id): &(u64, u32)| v1::NoteHeader {
            modseq: *modseq,
            note_id: *note_id,
            ..v1::NoteHeader::default()
        };
        let notes = documents.iter().map(|document| v1::Note { header: Some(header(document)), items: Vec::new() });
        let modseq = end.unwrap_or_default();
        v1::SearchNotesReply { notes: notes.collect(), end: end.is_some(), modseq, ..Default::default() }
    }

    const DOCUMENTS: [(u64, u32); 5] = [(3, 1), (7, 2), (7, 4), (7, 9), (8, 3)];

    fn listed(since: &str, limit: usize) -> (Vec<u32>, String, bool) {
        let since: ListPosition = since.parse().expect("a position");
        let mut list = List::default();
        let found: Vec<_> = DOCUMENTS.into_iter().filter(|(modseq, _)| *modseq > since.server_modseq()).collect();
        list.add_reply(&reply(&found, Some(11)), since, &[]);
        let (next, has_more) = list.truncate(limit);
        assert_eq!(list.rows.len(), list.places.len());
        (list.places.iter().map(|found| found.note).collect(), next.expect("it ended").to_string(), has_more)
    }

    #[test]
    fn limited_list_continues_without_gaps() {
        let check = |since: &str, limit, notes: &[u32], next: &str, has_more| {
            assert_eq!(listed(since, limit), (notes.to_vec(), next.to_owned(), has_more), "{since} {limit}");
        };
        check("0", 0, &[1, 2, 4, 9, 3], "11", false);
        check("0", 5, &[1, 2, 4, 9, 3], "11", false);
        check("0", 4, &[1, 2, 4, 9], "7", true);
        check("0", 2, &[1, 2], "7/2", true);
        check("7/2", 2, &[4, 9], "7", true);
        check("7/4", 1, &[9], "7", true);
        check("7", 1, &[3], "11", false);
        check("7/9", 9, &[3], "11", false);
    }

    #[test]
    fn timed_out_search_reports_where_to_continue() {
        let mut list = List::default();
        let beginning = ListPosition { modseq: 0, note: None };
        list.add_reply(&reply(&DOCUMENTS, None), beginning, &[]);
        let (next, has_more) = list.truncate(0);
        assert!(!has_more);
        let answer = timed_out_answer(list.rows, next).expect("it found some");
        let failure = answer.failure.expect("it is not all");
        assert!(failure.contains("5 documents were found") && failure.contains("--since 8 continues"), "{failure}");
        let nothing = timed_out_answer(Vec::new(), None).expect_err("it found nothing").to_string();
        assert!(nothing.contains("native.call_timeout") && nothing.contains("found nothing in that time"), "{nothing}");
    }

    #[test]
    fn list_positions_round_trip() {
        for text in ["0", "77", "77/12"] {
            assert_eq!(text.parse::<ListPosition>().map(|since| since.to_string()), Ok(text.to_owned()));
        }
        for wrong in ["", "x", "7/", "/7", "7/x", "7/8/9"] {
            assert!(wrong.parse::<ListPosition>().is_err(), "{wrong}");
        }
    }
}
