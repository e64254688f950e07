//! MDN/parse (RFC 9007 §2.2): blobs as message disposition notifications.
//!
//! The message that a notification is about is one that the person has sent, so it is looked for among the newest
//! [`NOTIFIED_EMAILS_SEARCHED`] messages with the role `sent`, by their Message-ID.

use std::collections::HashMap;

use mail::disposition_notification::ParsedNotification;
use mail::mime::MimeSource as _;
use mail::mime::header;
use mail::mime::message_id::message_ids;
use serde_json::{Map, Value};

use super::mdn_send::open_account;
use super::parse_call::parse_blobs;
use crate::account::{Account, AccountView};
use crate::arguments::Arguments;
use crate::context::Context;
use crate::disposition::to_json;
use crate::error::{MethodError, MethodResult};
use crate::limits::NOTIFIED_EMAILS_SEARCHED;

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let ids = arguments.texts("blobIds")?;
    let ids = ids.ok_or_else(|| MethodError::invalid_arguments("blobIds is missing"))?;
    arguments.finish()?;
    context.check_get_count(ids.len())?;
    let account = open_account(context, &account_id)?;
    let mut sent = None;
    let too_large = "the notifications are too large for one reply";
    parse_blobs(context, &account, ids, too_large, |context, _, bytes| {
        let Some(notification) = ParsedNotification::parse(bytes) else { return Ok(None) };
        let sent = match &mut sent {
            Some(sent) => sent,
            none => none.insert(SentEmails::load(context, &account)?),
        };
        let email = notification.original_message_id.as_deref().and_then(|message_id| sent.find(message_id));
        Ok(Some(to_json(&notification, email)))
    })
}

/// The newest sent messages by their Message-ID. Two with the same one have no entry.
struct SentEmails {
    ids: HashMap<Vec<u8>, Option<String>>,
}

impl SentEmails {
    fn load(context: &mut Context<'_>, account: &Account) -> MethodResult<Self> {
        let view = context.view(account)?;
        let folders = view.table.mailboxes().all().filter(|mailbox| mailbox.role == Some("sent"));
        let folders: Vec<_> = folders.map(|mailbox| mailbox.view).collect();
        let mut rows: Vec<_> = folders.iter().flat_map(|folder| view.table.members(*folder)).collect();
        rows.sort_by_key(|row| std::cmp::Reverse((row.received, row.note)));
        let mut ids: HashMap<Vec<u8>, Option<String>> = HashMap::new();
        for row in rows.into_iter().take(NOTIFIED_EMAILS_SEARCHED) {
            if let Some(message_id) = Self::message_id(&view, row.note)? {
                let email = row.email_id.to_string();
                ids.entry(message_id).and_modify(|known| *known = None).or_insert(Some(email));
            }
        }
        Ok(Self { ids })
    }

    fn message_id(view: &AccountView<'_>, note: base::NoteId) -> MethodResult<Option<Vec<u8>>> {
        let Some(message) = view.snapshot.message(note)? else { return Ok(None) };
        let value = header::first(message.header(), "Message-ID");
        Ok(value.and_then(|value| message_ids(value).next().map(<[u8]>::to_vec)))
    }

    /// Returns the Email with a Message-ID as a field writes it.
    fn find(&self, message_id: &str) -> Option<&str> {
        let id = message_ids(message_id.as_bytes()).next()?;
        self.ids.get(id)?.as_deref()
    }
}
