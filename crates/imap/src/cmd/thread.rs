//! THREAD (RFC 5256).

use std::collections::HashMap;

use mail::mime::MimeSource;

use super::copy::permitted_updates;
use super::search_cursor::{OpenPolicy, SearchCursor};
use crate::codec::ResponseWriter;
use crate::codec::command::{Numbering, ThreadCommand};
use crate::error::Result;
use crate::message::Threader;
use crate::session::{CommandOutcome, Session, SlicedCommand, TaggedReply};

/// Begins a THREAD.
pub fn thread(session: &mut Session, thread: ThreadCommand, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    let matching = SearchCursor::begin(session, (&thread.key, OpenPolicy::Matching), thread.numbering, out)?;
    Ok(CommandOutcome::Job(Box::new(ThreadJob {
        matching,
        numbering: thread.numbering,
        threader: Some(Threader::new(thread.algorithm)),
        numbers: HashMap::new(),
    })))
}

/// A THREAD in progress.
struct ThreadJob {
    matching: SearchCursor,
    numbering: Numbering,
    /// Taken when all messages have been added.
    threader: Option<Threader>,
    /// Sequence numbers by UID. Empty if the client numbers by UID.
    numbers: HashMap<u32, u32>,
}

impl SlicedCommand for ThreadJob {
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        let Self { matching, numbering, threader, numbers } = self;
        let done = matching.slice(session, &mut |matched| {
            if let (Some(threader), Some(message)) = (threader.as_mut(), matched.message) {
                threader.add(matched.facts, message.header());
            }
            if *numbering == Numbering::Sequence {
                numbers.insert(matched.facts.entry.uid.0, matched.number);
            }
        })?;
        if !done {
            return Ok(None);
        }
        out.untagged().text("THREAD");
        if let Some(forest) = self.threader.take().map(Threader::finish).filter(|forest| !forest.is_empty()) {
            out.space();
            forest.write(out, |uid| self.numbers.get(&uid).copied().unwrap_or(uid));
        }
        out.crlf();
        Ok(Some(TaggedReply::completed().with_updates(permitted_updates(self.numbering))))
    }
}
