//! NOTIFY (RFC 5465): selects the events that the server reports without being asked.

use super::status;
use crate::codec::ResponseWriter;
use crate::codec::command::{NotifyCommand, StatusItem};
use crate::error::Result;
use crate::session::notify_watch::NotifyWatch;
use crate::session::{CommandOutcome, PermittedUpdates, Session, TaggedReply};

/// Replaces the current watch by the one that the command describes, and reports the accumulated changes as NOOP does.
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
    if tells_status {
        let selected = session.selected.as_ref().map(|selected| selected.folder);
        for (name, events) in watch.with_messages(selected) {
            let mut items = vec![StatusItem::Messages, StatusItem::UidNext, StatusItem::UidValidity];
            // With FlagChange it is required even if the client has not enabled CONDSTORE (RFC 5465 §3.1).
            if session.enabled.condstore || events.flags {
                items.push(StatusItem::HighestModSeq);
            }
            if let Some(folder) = snapshot.folder(name)? {
                status::write_totals(name, &items, &snapshot.status(folder.id)?, out);
            }
        }
    }
    session.watch = Some(Box::new(watch));
    Ok(TaggedReply::completed().into())
}
