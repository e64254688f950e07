//! SORT (RFC 5256, RFC 5957) with the extended response of ESORT (RFC 5267).

use std::collections::HashMap;

use mail::mime::MimeSource;

use super::copy::permitted_updates;
use super::search::{self, SearchResponse, SearchResult};
use super::search_cursor::{OpenPolicy, SearchCursor, contains_modseq};
use crate::codec::ResponseWriter;
use crate::codec::command::{Numbering, SortCommand};
use crate::error::Result;
use crate::limits;
use crate::message::{MessageSorter, SortRecord, SortedRuns};
use crate::session::{CommandOutcome, Session, SliceTimer, SlicedCommand, TaggedReply};

/// Number of sorted messages after which the time is checked.
const TIMED_MESSAGES: usize = 256;

/// Begins a SORT.
pub fn sort(session: &mut Session, sort: SortCommand, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    let sorter = MessageSorter::new(&sort.criteria);
    let opens = if sorter.needs_header() { OpenPolicy::Matching } else { OpenPolicy::WhenNeeded };
    let matching = SearchCursor::begin(session, (&sort.key, opens), sort.numbering, out);
    let matching = search::clear_saved_result(session, sort.returns, matching)?;
    let tells_modseq = contains_modseq(&sort.key);
    let answer = SearchResponse {
        name: "SORT",
        numbering: sort.numbering,
        returns: sort.returns,
        includes_modseq: tells_modseq,
    };
    Ok(CommandOutcome::Job(Box::new(SortJob {
        matching,
        answer,
        sorter,
        found: SearchResult::default(),
        records: SortedRuns::default(),
        numbers: HashMap::new(),
        sorted: None,
    })))
}

/// A SORT in progress.
struct SortJob {
    matching: SearchCursor,
    answer: SearchResponse,
    sorter: MessageSorter,
    found: SearchResult,
    records: SortedRuns<SortRecord>,
    /// Sequence numbers by UID. Empty if the client numbers by UID.
    numbers: HashMap<u32, u32>,
    /// The sorted messages, as the client numbers them, once all matching messages have been found.
    sorted: Option<Vec<u32>>,
}

impl SlicedCommand for SortJob {
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        if self.sorted.is_none() {
            if !self.find(session)? {
                return Ok(None);
            }
            self.answer.save(session, &self.found)?;
            self.records.end();
        }
        let timer = SliceTimer::start(&session.context);
        let sorted = self.sorted.get_or_insert_default();
        for _ in 0..limits::SLICE_SORTED_MESSAGES {
            let Some(record) = self.records.pop_first() else {
                self.answer.write_sorted(&session.tag, sorted, &self.found, out);
                let updates = permitted_updates(self.answer.numbering);
                return Ok(Some(TaggedReply::completed().with_updates(updates)));
            };
            let uid = record.uid();
            sorted.push(self.numbers.get(&uid).copied().unwrap_or(uid));
            if sorted.len().is_multiple_of(TIMED_MESSAGES) && timer.is_over() {
                break;
            }
        }
        Ok(None)
    }
}

impl SortJob {
    /// Finds the next matching messages. Returns `true` if there are no others.
    fn find(&mut self, session: &mut Session) -> Result<bool> {
        let numbering = self.answer.numbering;
        let Self { matching, found, sorter, records, numbers, .. } = self;
        matching.slice(session, &mut |matched| {
            found.add(matched, numbering);
            let header = matched.message.map_or(&[][..], |message| message.header());
            records.add(sorter.record(matched.facts, header));
            if numbering == Numbering::Sequence {
                numbers.insert(matched.facts.entry.uid.0, matched.number);
            }
        })
    }
}
