//! MDN/parse (RFC 9007 §2.2): blobs as message disposition notifications.
//!
//! The message that a notification is about is one that the person has sent, so it is looked for among the messages
//! with the role `sent`, by their Message-ID. A call reads the records of all of them once, which views read too, and
//! no message.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base::NoteId;
use mail::disposition_notification::ParsedNotification;
use mail::mime::message_id::message_ids;
use serde_json::{Map, Value};

use super::mdn_send::open_account;
use super::parse_call::parse_blobs;
use crate::account::{Account, AccountView};
use crate::arguments::Arguments;
use crate::context::Context;
use crate::disposition::to_json;
use crate::error::{MethodError, MethodResult};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let ids = arguments.texts("blobIds")?;
    let ids = ids.ok_or_else(|| MethodError::invalid_arguments("blobIds is missing"))?;
    arguments.finish()?;
    context.check_get_count(ids.len())?;
    let account = open_account(context, &account_id)?;
    let mut sent = None;
    parse_blobs(context, &account, ids, |context, _, bytes| {
        let Some(notification) = ParsedNotification::parse(bytes) else { return Ok(None) };
        let sent = match &mut sent {
            Some(sent) => sent,
            none => none.insert(SentEmails::load(context, &account)?),
        };
        let email = notification.original_message_id.as_deref().and_then(|message_id| sent.find(message_id));
        Ok(Some(to_json(&notification, email)))
    })
}

/// The sent messages by a digest of their Message-ID. Several with the same one have no Email.
struct SentEmails {
    emails: HashMap<[u8; DIGEST_BYTES], Option<Arc<str>>>,
}

/// Number of bytes of the digest of a Message-ID.
const DIGEST_BYTES: usize = 16;

impl SentEmails {
    /// Reads the Message-ID of all messages with the role `sent`. Other calls on the account need not wait for that.
    fn load(context: &mut Context<'_>, account: &Account) -> MethodResult<Self> {
        let sent = sent_notes(&context.view(account)?);
        let snapshot = account.file.snapshot()?;
        context.wait_for(snapshot.ticket());
        let mut emails: HashMap<_, Option<Arc<str>>> = HashMap::with_capacity(sent.len());
        snapshot.message_ids(sent.keys().copied(), &mut |note, message_id| {
            let email = sent.get(&note).cloned();
            emails.entry(digest(message_id)).and_modify(|known| *known = None).or_insert(email);
        })?;
        Ok(Self { emails })
    }

    /// Returns the Email with a Message-ID as a field writes it.
    fn find(&self, message_id: &str) -> Option<&str> {
        let id = message_ids(message_id.as_bytes()).next()?;
        self.emails.get(&digest(id))?.as_deref()
    }
}

/// Returns the messages with the role `sent`, each with the identifier of its Email.
fn sent_notes(view: &AccountView<'_>) -> BTreeMap<NoteId, Arc<str>> {
    let folders = view.table.mailboxes().all().filter(|mailbox| mailbox.role == Some("sent"));
    let rows = folders.flat_map(|mailbox| view.table.members(mailbox.view));
    rows.map(|row| (row.note, Arc::clone(&row.email_id))).collect()
}

fn digest(message_id: &[u8]) -> [u8; DIGEST_BYTES] {
    let hash = blake3::hash(message_id);
    *hash.as_bytes().first_chunk().expect("a hash has 32 bytes")
}
