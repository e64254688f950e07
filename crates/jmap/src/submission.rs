//! The documents about sent messages, which are the objects EmailSubmission (RFC 8621 §7).
//!
//! A submission is a document of the mail file, a response to the note with the settings of the file, so that the index
//! of responses lists all of them. It is written in the transaction that accepts the message, and its UNID is the
//! identifier of the message in the queue. Whether a message can still be withdrawn, is withdrawn or is sent follows
//! from both: a document with `Canceled` is withdrawn; one whose message waits in the queue for its release is pending;
//! all others are final.
//!
//! | item | content |
//! |---|---|
//! | `Form` | `EmailSubmission` |
//! | `IdentityId`, `EmailId`, `ThreadId` | as the client sees them |
//! | `Envelope` | the Envelope object, as JSON |
//! | `SendAt` | the time of the release |
//! | `Request` | the digest of the request, by which its repetition is recognised |
//! | `Canceled`, `Destroyed` | marks after the withdrawal, and after the client has destroyed the object |
//! | `FirstModseq` | with one of these: the change with which the document was created |
//!
//! The state of the type is the last change of these documents. Therefore a destroyed one is kept, marked, and old ones
//! are removed for good only if a newer one stays ([`expired`]).

use base::{Modseq, NoteId, Timestamp, Unid};
use mail::router::{QueueEntry, RecipientState};
use notes::note::MAIL_SETTINGS_UNID;
use notes::{DatabaseSnapshot, Item, ItemValue, NewNote};
use serde_json::{Map, Value, json};

use crate::error::MethodResult;
use crate::limits::{EXPIRED_SUBMISSIONS_MAX, SUBMISSION_TIME_MAX};

/// The form of the documents.
const FORM: &str = "EmailSubmission";

/// What a document about a submission says.
#[derive(Debug, Clone, PartialEq)]
pub struct Submission {
    /// The note. 0 before it is stored.
    pub note: NoteId,
    /// The UNID, which is the identifier of the message in the queue.
    pub unid: Unid,
    /// The last change.
    pub modseq: Modseq,
    /// The change with which it was created.
    pub created: Modseq,
    /// `identityId`.
    pub identity: String,
    /// `emailId`.
    pub email: String,
    /// `threadId`.
    pub thread: String,
    /// `envelope`.
    pub envelope: Value,
    /// `sendAt`.
    pub send_at: Timestamp,
    /// The digest of the request that created it.
    pub request: String,
    /// `true` if it was withdrawn.
    pub is_canceled: bool,
    /// `true` if the client has destroyed it.
    pub is_destroyed: bool,
}

impl Submission {
    /// Returns the identifier of a submission with a UNID.
    #[must_use]
    pub fn id_of(unid: Unid) -> String {
        format!("S{unid}")
    }

    /// Returns the identifier.
    #[must_use]
    pub fn id(&self) -> String {
        Self::id_of(self.unid)
    }

    /// Returns the identifier of the message in the queue.
    #[must_use]
    pub fn queue_id(&self) -> String {
        self.unid.to_string()
    }

    /// Reads a document. Returns `None` if the note is not about a submission.
    pub fn load(reading: &DatabaseSnapshot<'_>, note: NoteId) -> MethodResult<Option<Self>> {
        let Some(header) = reading.header(note)?.filter(|header| !header.is_stub()) else { return Ok(None) };
        let Some(summary) = reading.summary(note)? else { return Ok(None) };
        let value = |name: &str| notes::item::find_item(&summary.items, name).map(|item| &item.value);
        let text = |name: &str| value(name).and_then(ItemValue::text).unwrap_or_default().to_owned();
        if text("Form") != FORM {
            return Ok(None);
        }
        let first = text("FirstModseq").parse().map(Modseq);
        Ok(Some(Self {
            note,
            unid: header.unid,
            modseq: header.modseq,
            created: first.unwrap_or(header.modseq),
            identity: text("IdentityId"),
            email: text("EmailId"),
            thread: text("ThreadId"),
            envelope: serde_json::from_str(&text("Envelope")).unwrap_or(Value::Null),
            send_at: text("SendAt").parse().map_or(header.created, Timestamp),
            request: text("Request"),
            is_canceled: !text("Canceled").is_empty(),
            is_destroyed: !text("Destroyed").is_empty(),
        }))
    }

    /// Returns all submissions of a mail file, also those that were destroyed.
    pub fn all(reading: &DatabaseSnapshot<'_>) -> MethodResult<Vec<Self>> {
        let mut found = Vec::new();
        for note in reading.children(MAIL_SETTINGS_UNID)? {
            found.extend(Self::load(reading, note)?);
        }
        Ok(found)
    }

    /// Returns the submission with an identifier, unless it was destroyed.
    pub fn find(reading: &DatabaseSnapshot<'_>, id: &str) -> MethodResult<Option<Self>> {
        let Some(unid) = id.strip_prefix('S').and_then(|unid| unid.parse::<Unid>().ok()) else { return Ok(None) };
        match reading.find(unid)? {
            Some(note) => {
                Self::load(reading, note).map(|found| found.filter(|found| found.id() == id && !found.is_destroyed))
            }
            None => Ok(None),
        }
    }

    /// Returns the document that is to be created.
    #[must_use]
    pub fn new_note(&self) -> NewNote {
        NewNote { unid: Some(self.unid), parent: Some(MAIL_SETTINGS_UNID), ..NewNote::document(self.items()) }
    }

    /// Returns the items.
    #[must_use]
    pub fn items(&self) -> Vec<Item> {
        let mut items = vec![
            Item::text("Form", FORM),
            Item::text("IdentityId", self.identity.clone()),
            Item::text("EmailId", self.email.clone()),
            Item::text("ThreadId", self.thread.clone()),
            Item::text("Envelope", self.envelope.to_string()),
            Item::text("SendAt", self.send_at.0.to_string()),
            Item::text("Request", self.request.clone()),
        ];
        let marks = [("Canceled", self.is_canceled), ("Destroyed", self.is_destroyed)];
        items.extend(marks.into_iter().filter(|(_, is_set)| *is_set).map(|(name, _)| Item::text(name, "1")));
        if self.is_canceled || self.is_destroyed {
            items.push(Item::text("FirstModseq", self.created.0.to_string()));
        }
        items
    }

    /// Returns `undoStatus`. `queued` is the message in the queue.
    #[must_use]
    pub fn undo_status(&self, queued: Option<&QueueEntry>, now: Timestamp) -> &'static str {
        match queued.and_then(|queued| queued.release_at) {
            _ if self.is_canceled => "canceled",
            Some(release_at) if release_at > now => "pending",
            _ => "final",
        }
    }

    /// Returns the object.
    #[must_use]
    pub fn to_json(&self, queued: Option<&QueueEntry>, now: Timestamp) -> Map<String, Value> {
        let object = json!({
            "id": self.id(),
            "identityId": self.identity,
            "emailId": self.email,
            "threadId": self.thread,
            "envelope": self.envelope,
            "sendAt": utc_date(self.send_at),
            "undoStatus": self.undo_status(queued, now),
            "deliveryStatus": self.delivery_status(queued),
            "dsnBlobIds": [],
            "mdnBlobIds": [],
        });
        match object {
            Value::Object(object) => object,
            _ => Map::new(),
        }
    }

    /// Returns `deliveryStatus`: what the queue says about the recipients that it still has. The others were served
    /// or reported; the server does not keep which.
    fn delivery_status(&self, queued: Option<&QueueEntry>) -> Value {
        if self.is_canceled {
            return Value::Null;
        }
        let recipients = self.envelope["rcptTo"].as_array().into_iter().flatten();
        let status = recipients.filter_map(|recipient| recipient["email"].as_str()).map(|address| {
            let waiting = queued.into_iter().flat_map(|queued| &queued.recipients);
            let waiting = waiting.clone().find(|waiting| waiting.recipient.address.eq_ignore_ascii_case(address));
            let (reply, delivered) = match waiting {
                Some(waiting) if waiting.state == RecipientState::Dead => (waiting.last_reply.as_str(), "no"),
                Some(waiting) => (waiting.last_reply.as_str(), "queued"),
                None => ("", "unknown"),
            };
            let reply = if reply.is_empty() { "250 2.0.0 accepted" } else { reply };
            (address.to_owned(), json!({ "smtpReply": reply, "delivered": delivered, "displayed": "unknown" }))
        });
        Value::Object(status.collect())
    }
}

/// Returns the last change of submissions, which is the state of the type.
#[must_use]
pub fn last_change(all: &[Submission]) -> Modseq {
    all.iter().map(|one| one.modseq).max().unwrap_or_default()
}

/// Returns the submissions that are so old that their documents are removed. The last one that has changed stays.
#[must_use]
pub fn expired(all: &[Submission], now: Timestamp) -> Vec<NoteId> {
    let last = last_change(all);
    let old = all.iter().filter(|one| one.modseq < last && now.since(one.send_at) > SUBMISSION_TIME_MAX);
    old.take(EXPIRED_SUBMISSIONS_MAX).map(|one| one.note).collect()
}

/// Returns a time as UTCDate (RFC 8620 §1.4).
#[must_use]
pub fn utc_date(time: Timestamp) -> String {
    let time = jiff::Timestamp::from_microsecond(time.0).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
