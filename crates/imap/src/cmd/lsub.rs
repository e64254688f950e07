//! LSUB (RFC 3501 §6.3.9), the older command that lists subscriptions.

use super::list::TOO_MUCH_WORK;
use crate::codec::ResponseWriter;
use crate::codec::command::MailboxName;
use crate::error::Result;
use crate::session::list_response::load_hierarchy;
use crate::session::list_walk::{ListCriteria, ListWalk};
use crate::session::mailbox_pattern::MailboxPattern;
use crate::session::{CommandOutcome, Session, SliceTimer, SlicedCommand, TaggedReply, is_full};

/// Begins to list subscribed names.
pub fn lsub(session: &mut Session, reference: &MailboxName, pattern: Option<&str>) -> Result<CommandOutcome> {
    let Some(pattern) = pattern else { return Ok(TaggedReply::completed().into()) };
    let file = session.file()?;
    let snapshot = file.snapshot()?;
    session.wait_for(snapshot.ticket());
    let patterns = vec![MailboxPattern::new(reference.as_str(), pattern)];
    let walk = ListWalk::new(load_hierarchy(&snapshot)?, patterns, ListCriteria::Lsub);
    Ok(CommandOutcome::Job(Box::new(LsubJob { walk })))
}

/// An LSUB in progress.
struct LsubJob {
    walk: ListWalk,
}

impl SlicedCommand for LsubJob {
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        let timer = SliceTimer::start(&session.context);
        self.walk.begin_slice();
        loop {
            let visited = self.walk.visit(&mut |listed| {
                let subscribed = listed.mailbox.subscribed;
                out.untagged().text(if subscribed { "LSUB () \"/\" " } else { "LSUB (\\Noselect) \"/\" " });
                out.mailbox(listed.name).crlf();
            });
            if !visited.map_err(|_| TOO_MUCH_WORK)? {
                return Ok(Some(TaggedReply::completed()));
            }
            if is_full(out) || self.walk.is_slice_over() || timer.is_over() {
                return Ok(None);
            }
        }
    }
}
