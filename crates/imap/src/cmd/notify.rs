//! NOTIFY (RFC 5465): selects the events that the server reports without being asked.

use std::ops::ControlFlow;

use super::status;
use crate::codec::ResponseWriter;
use crate::codec::command::{NotifyCommand, StatusItem};
use crate::error::Result;
use crate::session::notify_watch::{NotifyWatch, WatchedStatus};
use crate::session::updates::ReportProgress;
use crate::session::{CommandOutcome, PermittedUpdates, Session, SliceTimer, SlicedCommand, TaggedReply, is_full};

/// Begins to replace the current watch by the one that the command describes, and reports the accumulated changes as
/// NOOP does.
pub fn notify(session: &mut Session, notify: NotifyCommand, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    let file = session.file()?;
    let snapshot = file.snapshot()?;
    session.wait_for(snapshot.ticket());
    let (tells_status, groups) = match notify {
        NotifyCommand::None => (false, Vec::new()),
        NotifyCommand::Set { status, groups } => (status, groups),
    };
    let watch = NotifyWatch::new(groups, &snapshot)?;
    if session.selected.is_some() {
        session.report_from_snapshot(&snapshot, PermittedUpdates::All, out)?;
    }
    Ok(CommandOutcome::Job(Box::new(NotifyJob { watch: Some(Box::new(watch)), tells_status })))
}

/// A NOTIFY that reads the state of the watched mailboxes.
struct NotifyJob {
    /// Taken when it is complete.
    watch: Option<Box<NotifyWatch>>,
    tells_status: bool,
}

impl SlicedCommand for NotifyJob {
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        let Some(mut watch) = self.watch.take() else { return Ok(Some(TaggedReply::completed())) };
        let file = session.file()?;
        let snapshot = file.snapshot()?;
        session.wait_for(snapshot.ticket());
        let selected = session.selected.as_ref().map(|selected| selected.folder);
        let condstore = session.enabled.condstore;
        let timer = SliceTimer::start(&session.context);
        let tells_status = self.tells_status;
        let progress = watch.compare(&snapshot, &mut |watched| {
            if tells_status && watched.events.messages && Some(watched.folder) != selected {
                write(watched, condstore, out);
            }
            if is_full(out) || timer.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if progress == ReportProgress::Partial {
            self.watch = Some(watch);
            return Ok(None);
        }
        session.watch = Some(watch);
        Ok(Some(TaggedReply::completed()))
    }
}

fn write(watched: &WatchedStatus<'_>, condstore: bool, out: &mut ResponseWriter) {
    let mut items = vec![StatusItem::Messages, StatusItem::UidNext, StatusItem::UidValidity];
    // With FlagChange it is required even if the client has not enabled CONDSTORE (RFC 5465 §3.1).
    if condstore || watched.events.flags {
        items.push(StatusItem::HighestModSeq);
    }
    status::write_totals(watched.name, &items, watched.now, out);
}
