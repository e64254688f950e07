//! What the driver does to mail files beside the users: their paths, their digests, and changes of copies.

use client::v1;
use client::v1::item_selection::Extent;
use client::v1::value::Kind;
use sha2::{Digest as _, Sha256};

use super::NativeSettings;
use super::items::{INBOX, note_key, row_of, summary_item, view_named};
use super::memory::Row;
use super::session::{CallCount, CallError, Session};
use crate::door::StepError;
use crate::population::manifest::MailFileDigest;
use crate::population::memos::OwnChange;

/// The rows of a call.
const ROWS: u32 = 1_000;
/// Maximum number of rows of an inbox.
const ROWS_MAX: usize = 20_000_000;
/// The documents of a mail file whose items are in its digest.
const DIGESTED_DOCUMENTS: usize = 20;

/// Returns the path of the mail file of a user, which need not exist.
///
/// # Errors
///
/// If the user cannot log in.
pub async fn mail_file_path(settings: &NativeSettings, user: u64) -> Result<String, StepError> {
    let session = Session::log_in_without_steps(settings, user).await?;
    let path = session.mail_file_path().to_owned();
    session.log_out(&mut CallCount::default()).await;
    Ok(path)
}

/// Computes the digest of the mail file of a user.
///
/// # Errors
///
/// The first call that failed.
pub async fn mail_file_digest(settings: &NativeSettings, user: u64) -> Result<MailFileDigest, StepError> {
    digest(settings, user).await.map_err(StepError::from)
}

/// Changes documents of the copied mail file of a user: recipient and date. A change of a document that does not exist
/// is skipped.
///
/// # Errors
///
/// The first call that failed.
pub async fn change_copy(settings: &NativeSettings, user: u64, changes: &[OwnChange]) -> Result<(), StepError> {
    change(settings, user, changes).await.map_err(StepError::from)
}

async fn digest(settings: &NativeSettings, user: u64) -> Result<MailFileDigest, CallError> {
    let session = Session::log_in_without_steps(settings, user).await?;
    let inbox = inbox(&session).await?;
    let mut hasher = Sha256::new();
    for (row, is_unread) in &inbox {
        hasher.update(row.unid);
        hasher.update([u8::from(*is_unread)]);
    }
    let distance = inbox.len().div_ceil(DIGESTED_DOCUMENTS).max(1);
    for (row, _) in inbox.iter().step_by(distance) {
        let request = v1::OpenNoteRequest {
            database: Some(session.database()),
            note: note_key(row.note_id),
            items: Some(v1::ItemSelection { extent: Extent::All.into(), ..v1::ItemSelection::default() }),
            mark_read: false,
        };
        let note = session.call(&mut CallCount::default(), session.client().notes().open_note(request)).await?;
        update_with_items(&mut hasher, note.items);
    }
    let database = session.mail_file_path().to_owned();
    session.log_out(&mut CallCount::default()).await;
    let digest = base::hex::lower(&hasher.finalize());
    Ok(MailFileDigest { user, database, documents: inbox.len() as u64, digest })
}

/// Adds items in the order of their names: texts, times, and names and lengths of attachments.
fn update_with_items(hasher: &mut Sha256, mut items: Vec<v1::Item>) {
    items.sort_by(|one, other| one.name.cmp(&other.name));
    for item in items {
        let value = match item.value.and_then(|value| value.kind) {
            Some(Kind::Text(text) | Kind::RichText(text)) => text,
            Some(Kind::TextList(list)) => list.values.join("\n"),
            Some(Kind::TimeUs(time_us)) => time_us.to_string(),
            Some(Kind::Attachment(file)) => format!("{} {}", file.file_name, file.length_bytes),
            Some(Kind::MimePart(part)) => base::hex::lower(&Sha256::digest(part)),
            _ => continue,
        };
        hasher.update(format!("{}\0{}\0{value}\0", item.name, value.len()));
    }
}

/// Reads the inbox: all rows, the oldest first, and whether they are unread.
async fn inbox(session: &Session) -> Result<Vec<(Row, bool)>, CallError> {
    let mut rows = Vec::new();
    let mut next = Vec::new();
    loop {
        let request = v1::ReadEntriesRequest {
            database: Some(session.database()),
            view: view_named(INBOX),
            start_key: next,
            navigator: v1::Navigator::Next.into(),
            count: ROWS,
            mask: Some(v1::ReadMask { unid: true, unread: true, ..v1::ReadMask::default() }),
            ..v1::ReadEntriesRequest::default()
        };
        let mut stub = session.client().views();
        let reply = session.call(&mut CallCount::default(), stub.read_entries(request)).await?;
        let is_empty = reply.entries.is_empty();
        rows.extend(reply.entries.iter().filter_map(|entry| Some((row_of(entry.note_id, &entry.unid)?, entry.unread))));
        if rows.len() > ROWS_MAX {
            return Err(CallError::kept("malformed", format!("the inbox has more than {ROWS_MAX} rows")));
        }
        if is_empty || !reply.more {
            return Ok(rows);
        }
        next = reply.next;
    }
}

async fn change(settings: &NativeSettings, user: u64, changes: &[OwnChange]) -> Result<(), CallError> {
    let session = Session::log_in_without_steps(settings, user).await?;
    let inbox = inbox(&session).await?;
    let to = v1::TextList { values: vec![settings.names.address(user)] };
    for change in changes {
        let Some((row, _)) = usize::try_from(change.index).ok().and_then(|index| inbox.get(index)) else { continue };
        let items = vec![
            summary_item("SendTo", Kind::TextList(to.clone())),
            summary_item("PostedDate", Kind::TimeUs(change.posted_us)),
        ];
        let request = v1::UpdateNoteRequest {
            database: Some(session.database()),
            note: note_key(row.note_id),
            items,
            ..v1::UpdateNoteRequest::default()
        };
        session.call(&mut CallCount::default(), session.client().notes().update_note(request)).await?;
    }
    session.log_out(&mut CallCount::default()).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::native::items::text_item;

    #[test]
    fn a_digest_depends_on_values_and_not_on_their_order() {
        let digest = |items: &[(&str, &str)]| {
            let mut hasher = Sha256::new();
            update_with_items(&mut hasher, items.iter().map(|(name, text)| text_item(name, text)).collect());
            hasher.finalize()
        };
        assert_eq!(digest(&[("A", "1"), ("B", "2")]), digest(&[("B", "2"), ("A", "1")]));
        assert_ne!(digest(&[("A", "1"), ("B", "2")]), digest(&[("A", "1"), ("B", "3")]));
        assert_ne!(digest(&[("A", "1"), ("B", "2")]), digest(&[("A", "12"), ("B", "")]));
    }
}
