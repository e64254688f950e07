//! `_all_docs`: the documents in the order of their ids, those of a range of ids, or those with given ids.
//!
//! No index has the ids in their order. So a list is made in passes: each one examines all documents, and collects the
//! next ids of the range, up to [`LISTED_IDS_BYTES_MAX`]. A pass consists of many jobs, and the ids count as memory of
//! the peer. Until the first pass is complete, spaces are sent. It counts the documents, too.
//!
//! A document that is created behind the place of a list is in it or not; one that is there all the time is in it once.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use axum::body::Body;
use axum::http::Response;
use base::NoteId;
use base::memory::MemoryPermit;
use http::Caller;
use notes::{DatabaseSnapshot, NoteHeader};
use serde_json::{Value, json};

use super::answer::{self, Part};
use super::request_body::no_memory;
use super::verbs::document_options;
use super::{Call, OpenDatabase};
use crate::document::{Members, bounded_list};
use crate::error::{Error, Result};
use crate::leaves::Leaves;
use crate::limits::{
    ANSWER_PART_BYTES, DOCUMENTS_PER_REQUEST_MAX, LIST_OPTION_BYTES_MAX, LISTED_IDS_BYTES_MAX, ROWS_MAX,
};
use crate::read::{DocumentOptions, document_id, document_json, leaves_of};

/// Memory that an id in a list takes besides its text, in bytes.
const ID_OVERHEAD_BYTES: usize = 48;

/// Which documents are listed.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ListOptions {
    /// The ids, if they are given.
    keys: Option<Vec<String>>,
    start: Option<Bound>,
    end: Option<Bound>,
    /// `true` if the id that ends the range is not in it.
    excludes_end: bool,
    descending: bool,
    skip: usize,
    limit: Option<usize>,
    documents: Option<DocumentOptions>,
}

/// The begin or the end of a range: a JSON value, of which only texts are ids. The order is that of CouchDB.
#[derive(Debug, Clone, PartialEq)]
enum Bound {
    /// A value that comes before all texts.
    BeforeTexts,
    Text(String),
    /// A value that comes after all texts.
    AfterTexts,
}

impl Bound {
    fn of(value: Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text),
            Value::Array(_) | Value::Object(_) => Self::AfterTexts,
            Value::Null | Value::Bool(_) | Value::Number(_) => Self::BeforeTexts,
        }
    }

    fn cmp(&self, id: &str) -> Ordering {
        match self {
            Self::BeforeTexts => Ordering::Less,
            Self::Text(text) => text.as_str().cmp(id),
            Self::AfterTexts => Ordering::Greater,
        }
    }
}

impl ListOptions {
    /// Reads the options: members of the body, or else parameters of the address.
    pub(super) fn read(call: &Call, body: Option<&Members<'_>>) -> Result<Self> {
        let value = |names: [&str; 2]| -> Result<Option<Value>> {
            for name in names {
                let text = body.and_then(|members| members.get(name)).map_or("", |text| text.get());
                if text.len() > LIST_OPTION_BYTES_MAX {
                    let message = format!("{name} can have at most {LIST_OPTION_BYTES_MAX} bytes");
                    return Err(Error::TooLarge(message));
                }
                let in_body = body.map(|members| members.read::<Value>(name)).transpose()?.flatten();
                if let Some(found) = in_body.map_or_else(|| call.target.json(name), |found| Ok(Some(found)))? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        };
        let switch =
            |name: &str| -> Result<Option<bool>> { Ok(value([name, name])?.and_then(|value| value.as_bool())) };
        let number = |name: &'static str| -> Result<Option<usize>> {
            let Some(value) = value([name, name])? else { return Ok(None) };
            let count = value.as_u64().and_then(|count| usize::try_from(count).ok());
            count.map(Some).ok_or_else(|| Error::BadRequest(format!("{name} must be a number from 0")))
        };
        let keys = match body.and_then(|members| members.get("keys")) {
            Some(keys) => Some(bounded_list(keys.get(), DOCUMENTS_PER_REQUEST_MAX, "ids")?),
            None => match call.target.text("keys") {
                Some(keys) => Some(bounded_list(keys, DOCUMENTS_PER_REQUEST_MAX, "ids")?),
                None => None,
            },
        };
        let key = value(["key", "key"])?.map(Bound::of);
        let excludes_end = key.is_none() && switch("inclusive_end")? == Some(false);
        let with_documents = switch("include_docs")? == Some(true);
        Ok(Self {
            keys,
            start: key.clone().or(value(["startkey", "start_key"])?.map(Bound::of)),
            end: key.or(value(["endkey", "end_key"])?.map(Bound::of)),
            excludes_end,
            descending: switch("descending")? == Some(true),
            skip: number("skip")?.unwrap_or(0),
            limit: number("limit")?,
            documents: with_documents.then(|| document_options(call)),
        })
    }

    /// Returns the order of two ids in the list.
    fn order(&self, one: &str, other: &str) -> Ordering {
        if self.descending { other.cmp(one) } else { one.cmp(other) }
    }

    /// Returns `true` if an id comes before the range.
    fn is_before(&self, id: &str) -> bool {
        let before = if self.descending { Ordering::Less } else { Ordering::Greater };
        self.start.as_ref().is_some_and(|start| start.cmp(id) == before)
    }

    /// Returns `true` if an id comes behind the range.
    fn is_behind(&self, id: &str) -> bool {
        let Some(end) = &self.end else { return false };
        match end.cmp(id) {
            Ordering::Equal => self.excludes_end,
            Ordering::Less => !self.descending,
            Ordering::Greater => self.descending,
        }
    }
}

/// Serves `_all_docs`.
pub(super) async fn answer(
    call: &Call,
    (caller, database): (&Caller, &str),
    (options, held): (ListOptions, Option<MemoryPermit>),
) -> Result<Response<Body>> {
    let service = Arc::clone(&call.service);
    let of_job = caller.clone();
    let path = database.to_owned();
    let memory = call.service.services.memory.share_of(&call.context.peer.memory_owner()).empty_permit();
    let place = match options.keys {
        Some(_) => Place::Keys { next: 0 },
        None => Place::Scan(Pass::default()),
    };
    let start = Listing { place, memory, is_begun: false, rows: 0, skipped: 0 };
    let read: answer::ReadPart<Listing> = Arc::new(move |listing| {
        // The memory of the options is held as long as they are.
        let _held = &held;
        let open = OpenDatabase::open(&service.services.databases, &of_job, &path)?;
        let reading = open.reader.read()?;
        let ticket = reading.ticket();
        let mut part = ListedPart { reading: &reading, text: String::new(), options: &options, listing };
        let is_last = part.fill()?;
        if is_last {
            part.text.push_str("\n]}\n");
        }
        let text = part.text.into_bytes();
        Ok(Part { text, next: (!is_last).then_some(part.listing), ticket })
    });
    answer::streamed(&call.service, caller, "_all_docs", (start, read)).await
}

/// How far a list has come.
struct Listing {
    place: Place,
    /// The memory of the collected ids.
    memory: MemoryPermit,
    /// `true` if the head of the answer was written.
    is_begun: bool,
    /// Number of rows that were written.
    rows: usize,
    /// Number of rows that were skipped.
    skipped: usize,
}

enum Place {
    /// The documents with given ids are listed.
    Keys {
        /// The place in the list of ids.
        next: usize,
    },
    /// Documents are examined.
    Scan(Pass),
    /// The collected ids are listed.
    Ids {
        /// The ids, in the reverse of the order in which they are listed.
        ids: Vec<String>,
        /// `true` if there may be further ids behind them.
        is_cut: bool,
    },
}

/// A pass over all documents.
#[derive(Default)]
struct Pass {
    /// The last note that was examined.
    note: NoteId,
    /// The last id that was listed. The ids behind it are collected.
    after: Option<String>,
    /// The smallest ids, or the greatest ones in a descending list.
    ids: BTreeSet<String>,
    /// Size of the ids in memory.
    bytes: usize,
    /// `true` if ids were left out because there are too many.
    is_cut: bool,
    /// Number of documents.
    total: usize,
    /// Number of documents before the range.
    before: usize,
    /// Number of documents in the range that were not listed.
    in_range: usize,
}

/// A part of a list of documents.
struct ListedPart<'l> {
    reading: &'l DatabaseSnapshot<'l>,
    text: String,
    options: &'l ListOptions,
    listing: Listing,
}

impl ListedPart<'_> {
    /// Adds the next rows, or examines the next documents. Returns `true` if no rows are left.
    fn fill(&mut self) -> Result<bool> {
        match std::mem::replace(&mut self.listing.place, Place::Keys { next: 0 }) {
            Place::Keys { next } => self.named(next),
            Place::Scan(pass) => self.scan(pass),
            Place::Ids { ids, is_cut } => self.collected(ids, is_cut),
        }
    }

    fn begin(&mut self, total: usize, offset: usize) {
        if !self.listing.is_begun {
            self.text.push_str(&format!("{{\"total_rows\":{total},\"offset\":{offset},\"rows\":["));
            self.listing.is_begun = true;
        }
    }

    fn is_complete(&self) -> bool {
        self.options.limit.is_some_and(|limit| self.listing.rows >= limit)
    }

    fn is_full(&self, rows_before: usize) -> bool {
        self.listing.rows - rows_before >= ROWS_MAX || self.text.len() >= ANSWER_PART_BYTES
    }

    /// Adds the rows of documents with given ids. Returns `true` if none are left.
    fn named(&mut self, mut next: usize) -> Result<bool> {
        let keys = self.options.keys.as_deref().unwrap_or_default();
        // The number of documents is not counted for some of them. This is not less.
        let total = usize::try_from(self.reading.counters().notes).unwrap_or(usize::MAX);
        self.begin(total, 0);
        next = next.max(self.options.skip);
        let before = self.listing.rows;
        while next < keys.len() && !self.is_complete() {
            if self.is_full(before) {
                self.listing.place = Place::Keys { next };
                return Ok(false);
            }
            let id = &keys[if self.options.descending { keys.len() - 1 - next } else { next }];
            next += 1;
            let found = match leaves_of(self.reading, id) {
                // No document can have this id.
                Err(Error::BadRequest(_)) => Ok(None),
                found => found,
            };
            let row = match found.and_then(|leaves| leaves.map(|leaves| self.row(id, &leaves)).transpose()) {
                Ok(Some(row)) => row,
                Ok(None) => json!({ "key": id, "error": "not_found" }).to_string(),
                // A damaged document is not absent. The others are listed.
                Err(error) => json!({ "key": id, "error": error.kind().1, "reason": error.to_string() }).to_string(),
            };
            self.push_row(&row);
        }
        Ok(true)
    }

    /// Examines the next documents of a pass. Returns `true` if the list is at its end.
    fn scan(&mut self, mut pass: Pass) -> Result<bool> {
        let mut headers = Vec::new();
        let next = self.reading.for_each_note_bounded(pass.note, ROWS_MAX, &mut |header| {
            headers.extend(header.class.is_document().then_some(header));
            Ok(true)
        })?;
        for header in headers {
            if self.is_listed(&header)? {
                let id = document_id(self.reading, &header)?;
                pass.add(id, (self.options, &mut self.listing));
            }
        }
        let grown = pass.bytes.saturating_sub(self.listing.memory.bytes());
        self.listing.memory.grow(grown).map_err(|_| no_memory())?;
        if let Some(note) = next {
            // Spaces show the client that the connection lives.
            self.text.push('\n');
            pass.note = note;
            self.listing.place = Place::Scan(pass);
            return Ok(false);
        }
        self.begin(pass.total, pass.before + self.options.skip.min(pass.in_range));
        let is_cut = pass.is_cut;
        let mut ids: Vec<String> = pass.ids.into_iter().collect();
        if !self.options.descending {
            ids.reverse();
        }
        self.listing.place = Place::Ids { ids, is_cut };
        Ok(false)
    }

    /// Returns `true` if a note is a document that is not deleted. A losing version of a conflict is none by itself,
    /// and a document whose main version is deleted exists if it has another leaf.
    fn is_listed(&self, header: &NoteHeader) -> Result<bool> {
        if self.reading.winner_of(header)?.is_some() {
            return Ok(false);
        }
        Ok(!header.is_stub() || !Leaves::of_note(self.reading, header.clone())?.winner().is_deletion())
    }

    /// Adds the rows of the collected ids. Returns `true` if the list is at its end.
    fn collected(&mut self, mut ids: Vec<String>, is_cut: bool) -> Result<bool> {
        let before = self.listing.rows;
        let mut last = None;
        while let Some(id) = ids.pop() {
            if self.listing.skipped < self.options.skip {
                self.listing.skipped += 1;
            } else if self.is_complete() {
                return Ok(true);
            } else if let Some(leaves) = leaves_of(self.reading, &id)?.filter(|found| !found.winner().is_deletion()) {
                let row = self.row(&id, &leaves)?;
                self.push_row(&row);
            }
            if self.is_full(before) && !ids.is_empty() {
                self.listing.place = Place::Ids { ids, is_cut };
                return Ok(false);
            }
            last = Some(id);
        }
        if !is_cut || last.is_none() || self.is_complete() {
            return Ok(true);
        }
        self.listing.place = Place::Scan(Pass { after: last, ..Pass::default() });
        Ok(false)
    }

    fn row(&self, id: &str, leaves: &Leaves) -> Result<String> {
        let winner = leaves.winner();
        let mut value = json!({ "rev": winner.revision().to_string() });
        if winner.is_deletion() {
            value["deleted"] = json!(true);
        }
        let mut row = format!("{{\"id\":{0},\"key\":{0},\"value\":{value}", json!(id));
        if let Some(options) = self.options.documents {
            row.push_str(",\"doc\":");
            match winner.is_deletion() {
                true => row.push_str("null"),
                false => row.push_str(&document_json(self.reading, (id, leaves), winner, options)?),
            }
        }
        row.push('}');
        Ok(row)
    }

    fn push_row(&mut self, row: &str) {
        self.text.push_str(if self.listing.rows == 0 { "\n" } else { ",\n" });
        self.text.push_str(row);
        self.listing.rows += 1;
    }
}

impl Pass {
    /// Counts a document, and collects its id if it is among the next ones of the list.
    fn add(&mut self, id: String, (options, listing): (&ListOptions, &mut Listing)) {
        self.total += 1;
        if options.is_before(&id) {
            self.before += 1;
            return;
        }
        let is_listed = self.after.as_ref().is_some_and(|after| options.order(&id, after).is_le());
        if is_listed || options.is_behind(&id) {
            return;
        }
        self.in_range += 1;
        self.bytes += id.len() + ID_OVERHEAD_BYTES;
        self.ids.insert(id);
        let rows_left = options.limit.map(|limit| limit.saturating_sub(listing.rows));
        let skips_left = options.skip.saturating_sub(listing.skipped);
        let count_max = rows_left.map_or(usize::MAX, |rows| rows.saturating_add(skips_left));
        while self.ids.len() > count_max || (self.bytes > LISTED_IDS_BYTES_MAX && self.ids.len() > 1) {
            let removed = if options.descending { self.ids.pop_first() } else { self.ids.pop_last() };
            let Some(removed) = removed else { return };
            self.bytes -= removed.len() + ID_OVERHEAD_BYTES;
            self.is_cut = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_begin_and_end_in_the_direction_of_the_list() {
        let check = |(start, end): (Value, Value), (descending, excludes_end): (bool, bool), expected: &str| {
            let options = ListOptions {
                start: Some(Bound::of(start)),
                end: Some(Bound::of(end)),
                excludes_end,
                descending,
                ..ListOptions::default()
            };
            let listed: String = ["a", "b", "c", "d"]
                .iter()
                .filter(|id| !options.is_before(id) && !options.is_behind(id))
                .copied()
                .collect();
            assert_eq!(listed, expected, "{options:?}");
        };
        check((json!("b"), json!("c")), (false, false), "bc");
        check((json!("b"), json!("c")), (false, true), "b");
        check((json!("c"), json!("b")), (true, false), "bc");
        check((json!("c"), json!("b")), (true, true), "c");
        check((json!("b"), json!("c")), (true, false), "");
        check((json!(null), json!({})), (false, false), "abcd");
        check((json!({}), json!(null)), (true, false), "abcd");
        check((json!("bb"), json!("cc")), (false, false), "c");
    }
}
