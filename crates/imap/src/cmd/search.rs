//! SEARCH (RFC 9051 §6.4.4) with ESEARCH (RFC 4731), SEARCHRES (RFC 5182) and MODSEQ (RFC 7162), and the responses that
//! SORT shares with it.

use base::UidSet;

use super::copy::permitted_updates;
use super::search_cursor::{OpenPolicy, SearchCursor, SearchMatch, contains_modseq};
use crate::codec::ResponseWriter;
use crate::codec::command::{Numbering, SearchCommand, SearchReturns};
use crate::error::{Error, Result};
use crate::session::{CommandOutcome, Session, SlicedCommand, TaggedReply};

/// Begins a SEARCH.
pub fn search(session: &mut Session, search: SearchCommand, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    let matching = SearchCursor::begin(session, (&search.key, OpenPolicy::WhenNeeded), search.numbering, out);
    let matching = clear_saved_result(session, search.returns, matching)?;
    // IMAP4rev2 has only the extended response.
    let plain = SearchReturns { all: true, ..SearchReturns::default() };
    let returns = search.returns.or(session.enabled.rev2.then_some(plain));
    let tells_modseq = contains_modseq(&search.key);
    let answer = SearchResponse { name: "SEARCH", numbering: search.numbering, returns, includes_modseq: tells_modseq };
    Ok(CommandOutcome::Job(Box::new(SearchJob { matching, answer, found: SearchResult::default() })))
}

/// Empties the saved result if the command asks for SAVE. The result stays empty if the search fails with NO; it is
/// left unchanged if the search fails with BAD (RFC 5182 §2.1).
pub fn clear_saved_result(
    session: &mut Session,
    returns: Option<SearchReturns>,
    begun: Result<SearchCursor>,
) -> Result<SearchCursor> {
    if returns.is_some_and(|returns| returns.save) && !matches!(begun, Err(Error::Bad(_))) {
        session.selected()?.saved = UidSet::new();
    }
    begun
}

/// A SEARCH in progress.
struct SearchJob {
    matching: SearchCursor,
    answer: SearchResponse,
    found: SearchResult,
}

impl SlicedCommand for SearchJob {
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        let found = &mut self.found;
        let numbering = self.answer.numbering;
        if !self.matching.slice(session, &mut |matched| found.add(matched, numbering))? {
            return Ok(None);
        }
        self.answer.save(session, &self.found)?;
        self.answer.write(&session.tag, &self.found, out);
        Ok(Some(TaggedReply::completed().with_updates(permitted_updates(numbering))))
    }
}

/// The matching messages, in mailbox order.
#[derive(Debug, Default)]
pub struct SearchResult {
    uids: UidSet,
    /// The same messages by sequence number. Empty if the client numbers by UID.
    numbers: UidSet,
    /// The mod-sequence of the first message, that of the last message, and the highest of all.
    modseqs: Option<[u64; 3]>,
}

impl SearchResult {
    /// Adds a message. Messages must be added in mailbox order.
    pub fn add(&mut self, matched: &SearchMatch<'_>, numbering: Numbering) {
        let entry = matched.facts.entry;
        self.uids.insert(entry.uid.0);
        if numbering == Numbering::Sequence {
            self.numbers.insert(matched.number);
        }
        let modseq = matched.facts.snapshot.client_modseq(entry.modseq);
        self.modseqs = match self.modseqs {
            Some([first, _, latest]) => Some([first, modseq, latest.max(modseq)]),
            None => Some([modseq; 3]),
        };
    }

    fn ranges(&self, numbering: Numbering) -> &UidSet {
        match numbering {
            Numbering::Sequence => &self.numbers,
            Numbering::Uid => &self.uids,
        }
    }
}

/// The form in which SEARCH and SORT reply.
pub struct SearchResponse {
    /// The name of the plain response.
    pub name: &'static str,
    /// Numbering of messages in the response.
    pub numbering: Numbering,
    /// The RETURN options, or `None` for the plain response.
    pub returns: Option<SearchReturns>,
    /// `true` if the response includes mod-sequences.
    pub includes_modseq: bool,
}

/// The values that an ESEARCH response reports besides ALL (RFC 4731).
#[derive(Clone, Copy)]
struct ExtendedSummary<'f> {
    tag: &'f str,
    returns: SearchReturns,
    found: &'f SearchResult,
    /// The first and the last number found.
    ends: Option<(u32, u32)>,
}

impl SearchResponse {
    /// Saves the matching messages for `$` if the command asks for SAVE.
    pub fn save(&self, session: &mut Session, found: &SearchResult) -> Result<()> {
        let Some(returns) = self.returns.filter(|returns| returns.save) else { return Ok(()) };
        let ends_only = (returns.min || returns.max) && !returns.all && !returns.count;
        session.selected()?.saved = if ends_only {
            let first = found.uids.first().filter(|_| returns.min);
            let last = found.uids.last().filter(|_| returns.max);
            first.into_iter().chain(last).collect()
        } else {
            found.uids.clone()
        };
        Ok(())
    }

    /// Writes the response to SEARCH.
    pub fn write(&self, tag: &str, found: &SearchResult, out: &mut ResponseWriter) {
        let shown = found.ranges(self.numbering);
        let Some(returns) = self.returns else {
            return self.write_plain(shown.ranges().flatten(), found, out);
        };
        let ends = shown.first().zip(shown.last());
        self.write_extended(&ExtendedSummary { tag, returns, found, ends }, out, |out| {
            out.ranges(shown.ranges());
        });
    }

    /// Writes the response to SORT. `sorted` holds the numbers in their sort order.
    pub fn write_sorted(&self, tag: &str, sorted: &[u32], found: &SearchResult, out: &mut ResponseWriter) {
        let Some(returns) = self.returns else {
            return self.write_plain(sorted.iter().copied(), found, out);
        };
        let ends = sorted.first().copied().zip(sorted.last().copied());
        self.write_extended(&ExtendedSummary { tag, returns, found, ends }, out, |out| {
            // Ranges stand for ascending numbers only (RFC 5267 §3.2).
            let runs = sorted.chunk_by(|number, next| number.checked_add(1) == Some(*next));
            out.ranges(runs.map(|run| run[0]..=run[run.len() - 1]));
        });
    }

    fn write_plain(&self, numbers: impl Iterator<Item = u32>, found: &SearchResult, out: &mut ResponseWriter) {
        out.untagged().text(self.name);
        for number in numbers {
            out.space().number(u64::from(number));
        }
        if let Some([_, _, latest]) = found.modseqs.filter(|_| self.includes_modseq) {
            out.text(" (MODSEQ ").number(latest).byte(b')');
        }
        out.crlf();
    }

    fn write_extended(
        &self,
        summary: &ExtendedSummary<'_>,
        out: &mut ResponseWriter,
        write_all: impl FnOnce(&mut ResponseWriter),
    ) {
        let ExtendedSummary { tag, returns, found, ends } = *summary;
        if returns == (SearchReturns { save: true, ..SearchReturns::default() }) {
            return;
        }
        out.untagged().text("ESEARCH (TAG ").string(tag.as_bytes()).byte(b')');
        if self.numbering == Numbering::Uid {
            out.text(" UID");
        }
        if let Some((first, last)) = ends {
            for (name, number) in [(" MIN ", returns.min.then_some(first)), (" MAX ", returns.max.then_some(last))] {
                if let Some(number) = number {
                    out.text(name).number(u64::from(number));
                }
            }
            if returns.all {
                out.text(" ALL ");
                write_all(out);
            }
        }
        if returns.count {
            out.text(" COUNT ").number(found.uids.len());
        }
        if let Some(modseq) = self.modseq(returns, found) {
            out.text(" MODSEQ ").number(modseq);
        }
        out.crlf();
    }

    /// Returns the mod-sequence to send with the result. If only MIN or MAX is returned, it is the mod-sequence of that
    /// message; if only MIN and MAX, the higher of the two (RFC 4731 §3.2).
    fn modseq(&self, returns: SearchReturns, found: &SearchResult) -> Option<u64> {
        let [first, last, latest] = found.modseqs.filter(|_| self.includes_modseq)?;
        Some(match (returns.min, returns.max) {
            _ if returns.all || returns.count => latest,
            (true, false) => first,
            (false, true) => last,
            (true, true) => first.max(last),
            (false, false) => latest,
        })
    }
}
