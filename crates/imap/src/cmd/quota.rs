//! GETQUOTA, GETQUOTAROOT, SETQUOTA (RFC 9208): one quota root, the mail file, with the resource STORAGE.
//!
//! Quotas are set by the administrator; SETQUOTA is understood and refused.

use crate::codec::Writer;
use crate::codec::ast::MailboxName;
use crate::error::{Error, Result};
use crate::session::{Next, Reply, Session};

/// The name of the only quota root.
const ROOT: &str = "";

/// Tells the quota of a root.
pub fn get_quota(session: &mut Session, root: &str, out: &mut Writer) -> Result<Next> {
    if root != ROOT {
        return Err(Error::No("[NONEXISTENT] there is no such quota root"));
    }
    write(session, out)?;
    Ok(Reply::completed().into())
}

/// Tells the quota roots of a mailbox and their quotas.
pub fn get_quota_root(session: &mut Session, mailbox: &MailboxName, out: &mut Writer) -> Result<Next> {
    let file = session.file()?;
    let view = file.view()?;
    session.wait_for(view.ticket());
    view.folder(mailbox.as_str())?.ok_or_else(|| mail::Error::NoMailbox(mailbox.as_str().to_owned()))?;
    out.untagged().text("QUOTAROOT ").mailbox(mailbox.as_str()).space().string(ROOT.as_bytes()).crlf();
    write(session, out)?;
    Ok(Reply::completed().into())
}

/// Refuses: users do not set their quotas.
pub fn set_quota() -> Result<Next> {
    Err(Error::No("[NOPERM] quotas are set by the administrator"))
}

fn write(session: &Session, out: &mut Writer) -> Result<()> {
    let quota = session.file()?.quota()?;
    out.untagged().text("QUOTA ").string(ROOT.as_bytes()).text(" (");
    if let Some(limit_bytes) = quota.limit_bytes {
        // STORAGE counts units of 1024 octets; what is begun counts whole.
        out.text("STORAGE ").number(quota.used_bytes.div_ceil(1_024)).space().number(limit_bytes / 1_024);
    }
    out.byte(b')').crlf();
    Ok(())
}
