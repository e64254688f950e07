//! CLOSE (RFC 9051 §6.4.1) and UNSELECT (RFC 3691).

use crate::error::Result;
use crate::session::{Next, Reply, Session, Updates};

/// Expunges without a word, unless the mailbox is read-only, and deselects.
pub fn close(session: &mut Session) -> Result<Next> {
    let file = session.file()?;
    let mut reply = Reply::completed().telling(Updates::None);
    let selected = session.selected()?;
    if selected.is_writable() {
        let outcome = file.expunge(selected.folder, None)?;
        session.wait_for(outcome.ticket);
        if session.enabled.qresync {
            reply = reply.with_code(format!("HIGHESTMODSEQ {}", outcome.modseq));
        }
    }
    session.selected = None;
    Ok(reply.into())
}

/// Deselects.
pub fn unselect(session: &mut Session) -> Result<Next> {
    session.selected = None;
    Ok(Reply::completed().into())
}
