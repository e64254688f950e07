//! GETQUOTA, GETQUOTAROOT and SETQUOTA (RFC 9208): one quota root, the mail file, with the resource STORAGE. A mail
//! file without a limit is no quota root, because a quota names at least one resource.
//!
//! The administrator sets quotas, so SETQUOTA is parsed and refused.

use mail::mailbox::Quota;

use crate::codec::ResponseWriter;
use crate::codec::command::MailboxName;
use crate::error::{Error, Result};
use crate::session::{CommandOutcome, Session, TaggedReply};

/// The name of the only quota root.
const ROOT: &str = "";

/// Sends the quota of a quota root.
pub fn get_quota(session: &mut Session, root: &str, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    if root != ROOT || !write(&session.file()?.quota()?, out) {
        return Err(Error::No("[NONEXISTENT] there is no such quota root"));
    }
    Ok(TaggedReply::completed().into())
}

/// Sends the quota roots of a mailbox and their quotas.
pub fn get_quota_root(
    session: &mut Session,
    mailbox: &MailboxName,
    out: &mut ResponseWriter,
) -> Result<CommandOutcome> {
    let file = session.file()?;
    let snapshot = file.snapshot()?;
    session.wait_for(snapshot.ticket());
    snapshot.folder(mailbox.as_str())?.ok_or_else(|| mail::Error::NoMailbox(mailbox.as_str().to_owned()))?;
    let quota = file.quota()?;
    out.untagged().text("QUOTAROOT ").mailbox(mailbox.as_str());
    if quota.limit_bytes.is_some() {
        out.space().string(ROOT.as_bytes());
    }
    out.crlf();
    write(&quota, out);
    Ok(TaggedReply::completed().into())
}

/// Returns an error, because users do not set their quotas.
pub fn set_quota() -> Result<CommandOutcome> {
    Err(Error::No("[NOPERM] only the administrator can set quotas"))
}

/// Writes the quota. Returns `false` if the mail file has no limit.
fn write(quota: &Quota, out: &mut ResponseWriter) -> bool {
    let Some(limit_bytes) = quota.limit_bytes else { return false };
    out.untagged().text("QUOTA ").string(ROOT.as_bytes()).text(" (STORAGE ");
    // STORAGE counts units of 1024 octets. A partly used unit counts as a whole one.
    out.number(quota.used_bytes.div_ceil(1_024)).space().number(limit_bytes / 1_024).byte(b')').crlf();
    true
}
