//! SORT (RFC 5256, RFC 5957) with the extended response of ESORT (RFC 5267).

use std::collections::HashMap;

use mail::mime::MimeSource;

use super::copy::permitted_updates;
use super::search::{self, SearchResponse, SearchResult};
use super::search_cursor::{OpenPolicy, SearchCursor, contains_modseq};
use crate::codec::ResponseWriter;
use crate::codec::command::{Numbering, SortCommand};
use crate::error::Result;
use crate::message::{MessageSorter, sort::SortRecord};
use crate::session::{CommandOutcome, Session, SlicedCommand, TaggedReply};

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
        records: Vec::new(),
        numbers: HashMap::new(),
    })))
}

/// A SORT in progress.
struct SortJob {
    matching: SearchCursor,
    answer: SearchResponse,
    sorter: MessageSorter,
    found: SearchResult,
    records: Vec<SortRecord>,
    /// Sequence numbers by UID. Empty if the client numbers by UID.
    numbers: HashMap<u32, u32>,
}

impl SlicedCommand for SortJob {
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        let numbering = self.answer.numbering;
        let Self { matching, found, sorter, records, numbers, .. } = self;
        let done = matching.slice(session, &mut |matched| {
            found.add(matched, numbering);
            let header = matched.message.map_or(&[][..], |message| message.header());
            records.push(sorter.record(matched.facts, header));
            if numbering == Numbering::Sequence {
                numbers.insert(matched.facts.entry.uid.0, matched.number);
            }
        })?;
        if !done {
            return Ok(None);
        }
        self.answer.save(session, &self.found)?;
        let mut sorted = self.sorter.sort(std::mem::take(&mut self.records));
        if numbering == Numbering::Sequence {
            sorted.iter_mut().for_each(|uid| *uid = self.numbers.get(uid).copied().unwrap_or(*uid));
        }
        self.answer.write_sorted(&session.tag, &sorted, &self.found, out);
        Ok(Some(TaggedReply::completed().with_updates(permitted_updates(numbering))))
    }
}
