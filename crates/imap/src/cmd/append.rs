//! APPEND (RFC 9051 §6.3.12) with MULTIAPPEND (RFC 3502) and APPENDUID (RFC 4315).

use base::{Timestamp, UidSet};
use mail::mailbox::{Flags, NewMessage};
use notes::Marks;

use super::content::SYSTEM_FLAGS;
use super::copy;
use crate::codec::command::{AppendMessage, MailboxName, RequestedFlags, SystemFlags};
use crate::error::{Error, Result};
use crate::session::{CommandOutcome, Session, TaggedReply};

/// Stores messages in one transaction: all or none.
pub fn append(session: &mut Session, mailbox: &MailboxName, messages: Vec<AppendMessage>) -> Result<CommandOutcome> {
    let file = session.file()?;
    let target = copy::target_mailbox(&file.snapshot()?, mailbox)?;
    let messages = messages.into_iter().map(new_message).collect::<Result<Vec<_>>>()?;
    let (uid_validity, uids, ticket) = file.append(target, &messages)?;
    session.wait_for(ticket);
    let uids: UidSet = uids.into_iter().collect();
    Ok(TaggedReply::completed().with_code(format!("APPENDUID {uid_validity} {uids}")).into())
}

/// Converts a message from the client to the form that the `mail` crate takes. Returns an error if the message is
/// empty.
pub fn new_message(message: AppendMessage) -> Result<NewMessage> {
    if message.raw.is_empty() {
        return Err(Error::No("an empty message cannot be stored"));
    }
    let received = message.received_seconds.map(Timestamp::from_seconds);
    Ok(NewMessage { raw: message.raw, flags: flags_of(&message.flags), received })
}

/// Converts the client's flags to the flags of the `mail` crate.
pub fn flags_of(list: &RequestedFlags) -> Flags {
    let is_set = |(_, flag): &&(Marks, SystemFlags)| list.system.contains(*flag);
    let marks = SYSTEM_FLAGS.iter().filter(is_set).fold(Marks::NONE, |marks, (mark, _)| marks.union(*mark));
    Flags { marks, keywords: list.keywords.clone() }
}
