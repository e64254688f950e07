//! THREAD (RFC 5256).

use mail::mime::MimeSource;

use super::copy::permitted_updates;
use super::search_cursor::{OpenPolicy, SearchCursor};
use crate::codec::ResponseWriter;
use crate::codec::command::{Numbering, ThreadCommand};
use crate::error::Result;
use crate::limits;
use crate::message::{Forest, ThreadBuilder, Threader};
use crate::session::{CommandOutcome, Session, SliceTimer, SlicedCommand, TaggedReply};

/// Number of steps after which the time is checked.
const TIMED_STEPS: usize = 64;

/// Begins a THREAD.
pub fn thread(session: &mut Session, thread: ThreadCommand, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    let matching = SearchCursor::begin(session, (&thread.key, OpenPolicy::Matching), thread.numbering, out)?;
    Ok(CommandOutcome::Job(Box::new(ThreadJob {
        matching,
        numbering: thread.numbering,
        threader: Some(Threader::new(thread.algorithm)),
        builder: None,
    })))
}

/// A THREAD in progress.
struct ThreadJob {
    matching: SearchCursor,
    numbering: Numbering,
    /// Taken when all messages have been added.
    threader: Option<Threader>,
    /// The threads, once all messages have been added.
    builder: Option<ThreadBuilder>,
}

impl SlicedCommand for ThreadJob {
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        if self.builder.is_none() {
            if !self.find(session)? {
                return Ok(None);
            }
            self.builder = self.threader.take().map(Threader::build);
        }
        let Some(forest) = self.continue_building(session) else { return Ok(None) };
        out.untagged().text("THREAD");
        if !forest.is_empty() {
            out.space();
            forest.write(out);
        }
        out.crlf();
        Ok(Some(TaggedReply::completed().with_updates(permitted_updates(self.numbering))))
    }
}

impl ThreadJob {
    /// Finds the next matching messages. Returns `true` if there are no others.
    fn find(&mut self, session: &mut Session) -> Result<bool> {
        let Self { matching, numbering, threader, .. } = self;
        matching.slice(session, &mut |matched| {
            let number = match numbering {
                Numbering::Sequence => matched.number,
                Numbering::Uid => matched.facts.entry.uid.0,
            };
            if let (Some(threader), Some(message)) = (threader.as_mut(), matched.message) {
                threader.add(number, matched.facts, message.header());
            }
        })
    }

    /// Builds the threads as far as a slice permits. Returns them if they are complete.
    fn continue_building(&mut self, session: &Session) -> Option<Forest> {
        let builder = self.builder.as_mut()?;
        let timer = SliceTimer::start(&session.context);
        for step in 1..=limits::SLICE_THREAD_STEPS {
            let forest = builder.step();
            if forest.is_some() || (step.is_multiple_of(TIMED_STEPS) && timer.is_over()) {
                return forest;
            }
        }
        None
    }
}
