//! `DELE` (RFC 1939 §5): marks a message for removal by QUIT.
//!
//! A session that ends without QUIT removes nothing.

use crate::codec::Command;
use crate::session::{ConnectionAction, Session, ok};

pub(super) fn run(session: &mut Session, command: &Command) -> ConnectionAction {
    let wanted = command.numbers::<1>();
    let marked = session.inbox().and_then(|inbox| {
        let [number] = wanted?;
        let (index, _) = inbox.find(number)?;
        inbox.deleted.insert(index).then_some(number)
    });
    match marked {
        Some(number) => ConnectionAction::Reply(ok(&format!("message {number} marked for deletion"))),
        None => session.error("no such message"),
    }
}
