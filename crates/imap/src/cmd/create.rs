//! CREATE (RFC 9051 §6.3.4) with special uses (RFC 6154) and MAILBOXID (RFC 8474).

use crate::codec::command::{MailboxName, SpecialUseAttribute};
use crate::error::{Error, Result};
use crate::session::{CommandOutcome, Session, TaggedReply};

/// Creates a mailbox and any missing levels above it.
pub fn create(
    session: &mut Session,
    mailbox: &MailboxName,
    special_use: &[SpecialUseAttribute],
) -> Result<CommandOutcome> {
    let special_use = match special_use {
        [] => None,
        [one] => Some(mail_special_use(*one).ok_or(UNKNOWN_USE)?),
        _ => return Err(Error::No("[USEATTR] a mailbox can have only one special use")),
    };
    // A trailing separator announces that mailboxes will be created below this one, which needs no preparation here.
    let name = mailbox.as_str().strip_suffix('/').unwrap_or(mailbox.as_str());
    let file = session.file()?;
    let (folder, ticket) = file.folder_create(name, special_use)?;
    session.wait_for(ticket);
    let id = file.snapshot()?.status(folder)?.mailbox_id;
    Ok(TaggedReply::completed().with_code(format!("MAILBOXID ({id})")).into())
}

const UNKNOWN_USE: Error = Error::No("[USEATTR] this special use is not supported");

fn mail_special_use(special_use: SpecialUseAttribute) -> Option<mail::mailbox::SpecialUse> {
    mail::mailbox::SpecialUse::from_name(special_use.name())
}
