//! Email/set (RFC 8621 §4.6): creates, changes and destroys messages.

use std::collections::{BTreeMap, BTreeSet};

use base::Timestamp;
use bytes::Bytes;
use serde_json::{Map, Value, json};

use super::set_call::SetCall;
use crate::account::Account;
use crate::arguments::{Arguments, parse_utc_date};
use crate::blob::BlobReader;
use crate::context::Context;
use crate::email::{ComposeBlobs, ComposeDefaults, ComposeError, compose};
use crate::email_write::{EmailChangesWanted, NewEmail, Preparation, write};
use crate::error::{InvalidProperties, MethodError, MethodResult, SetError};
use crate::keyword;
use crate::places;

/// Properties that only the server sets.
const SERVER_SET: [&str; 6] = ["id", "blobId", "threadId", "size", "hasAttachment", "preview"];

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let SetCall { account_id, if_in_state, create, update, destroy } = SetCall::parse(context, arguments)?;
    let account = context.writable_account(&account_id)?;
    let create = prepare_all(context, &account, create);
    let mut seen = BTreeSet::new();
    let destroy = destroy.into_iter().filter(|id| seen.insert(id.clone())).collect();
    let wanted = EmailChangesWanted { if_in_state, create, update: update.into_iter().collect(), destroy };
    let made = write(context, &account, wanted)?;
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(account_id));
    reply.insert("oldState".to_owned(), json!(made.old_state));
    reply.insert("newState".to_owned(), json!(made.new_state));
    made.add_to(&mut reply);
    Ok(reply)
}

fn prepare_all(
    context: &mut Context<'_>,
    account: &Account,
    create: Map<String, Value>,
) -> Vec<(String, Result<NewEmail, SetError>)> {
    let mut preparation = Preparation::default();
    let mut all = Vec::with_capacity(create.len());
    for (creation_id, object) in create {
        let new = prepare(context, account, &object, &mut preparation);
        all.push((creation_id, new));
    }
    all
}

fn prepare(
    context: &mut Context<'_>,
    account: &Account,
    object: &Value,
    preparation: &mut Preparation,
) -> Result<NewEmail, SetError> {
    let members = object.as_object();
    let members = members.ok_or_else(|| SetError::described("invalidProperties", "an Email is an object"))?;
    let mut invalid = InvalidProperties::default();
    invalid.refuse(SERVER_SET.into_iter().filter(|name| members.contains_key(*name)), "the server sets this property");
    let metadata = Metadata::parse(members, &mut invalid);
    let mut random = [0; 16];
    context.services.random.fill(&mut random);
    let unique = base::hex::lower(&random);
    let defaults = ComposeDefaults {
        now: context.services.clock.now(),
        message_id_domain: &context.services.message_id_domain,
        unique: &unique,
        size_bytes_max: account.file.mail().options().message_bytes_max,
    };
    preparation.check_room(account, 0)?;
    let blobs = BlobReader::new(context.services, context.caller, account);
    let named = NamedBlobs { blobs: &blobs, created_ids: &context.created_ids };
    let composed = compose(members, &named, &defaults);
    context.wait_for(blobs.ticket());
    if blobs.has_failed() {
        return Err(SetError::new("serverFail"));
    }
    if composed == Err(ComposeError::TooLarge) {
        preparation.count(defaults.size_bytes_max);
    }
    let raw = invalid.check(composed.map_err(to_set_error));
    invalid.finish()?;
    metadata.with_message(preparation.prepare(account, &raw)?)
}

/// The blobs of a new message. It may name those of Blob/upload by their creation ids (RFC 9404 §4.1).
struct NamedBlobs<'b> {
    blobs: &'b BlobReader<'b>,
    created_ids: &'b BTreeMap<String, String>,
}

impl ComposeBlobs for NamedBlobs<'_> {
    fn blob(&self, id: &str) -> Option<(Bytes, Option<String>)> {
        match id.strip_prefix('#') {
            Some(creation_id) => self.blobs.blob(self.created_ids.get(creation_id)?),
            None => self.blobs.blob(id),
        }
    }
}

/// The properties of a new message that are not in its bytes.
pub(super) struct Metadata {
    mailbox_ids: Vec<String>,
    keywords: BTreeSet<String>,
    received: Option<Timestamp>,
    defaults: Vec<&'static str>,
}

impl Metadata {
    /// Parses `mailboxIds`, `keywords` and `receivedAt`, and records which of them are not valid.
    pub(super) fn parse(members: &Map<String, Value>, invalid: &mut InvalidProperties) -> Self {
        let mut defaults = Vec::new();
        let mailbox_ids = places::parse(members.get("mailboxIds").unwrap_or(&Value::Null));
        let mailbox_ids = invalid.check(mailbox_ids.and_then(|ids| match ids.is_empty() {
            true => Err(SetError::invalid_properties(&["mailboxIds"], "a message is in at least one mailbox")),
            false => Ok(ids),
        }));
        let keywords = match members.get("keywords").filter(|value| !value.is_null()) {
            Some(value) => invalid.check(keyword::parse(value)),
            None => {
                defaults.push("keywords");
                BTreeSet::new()
            }
        };
        let received = match members.get("receivedAt").filter(|value| !value.is_null()) {
            Some(value) => {
                let time = value.as_str().and_then(parse_utc_date);
                if time.is_none() {
                    invalid.refuse(["receivedAt"], "it is not a UTCDate");
                }
                time
            }
            None => {
                defaults.push("receivedAt");
                None
            }
        };
        Self { mailbox_ids, keywords, received, defaults }
    }

    /// Sets the time of receipt if the client has given none.
    pub(super) fn set_default_time(&mut self, time: Option<Timestamp>) {
        self.received = self.received.or(time);
    }

    /// Returns the message that is ready to be stored.
    pub(super) fn with_message(self, prepared: mail::message::PreparedMessage) -> Result<NewEmail, SetError> {
        let Self { mailbox_ids, keywords, received, defaults } = self;
        Ok(NewEmail { mailbox_ids, keywords, received, prepared, defaults })
    }
}

fn to_set_error(error: ComposeError) -> SetError {
    match error {
        ComposeError::InvalidProperties { properties, description } => {
            SetError::described("invalidProperties", description).with("properties", json!(properties))
        }
        ComposeError::BlobNotFound(ids) => SetError::new("blobNotFound").with("notFound", json!(ids)),
        ComposeError::TooLarge => SetError::described("tooLarge", "the message is larger than the server accepts"),
    }
}

/// Runs the implicit call that follows the success of another method.
pub(super) fn run_implicitly(
    context: &mut Context<'_>,
    account_id: &str,
    update: Map<String, Value>,
    destroy: Vec<String>,
) {
    if update.is_empty() && destroy.is_empty() {
        return;
    }
    let mut arguments = Map::new();
    arguments.insert("accountId".to_owned(), json!(account_id));
    arguments.insert("update".to_owned(), Value::Object(update));
    arguments.insert("destroy".to_owned(), json!(destroy));
    match run(context, Arguments::new(arguments)) {
        Ok(reply) => context.respond_also("Email/set", reply),
        Err(error) => {
            let Value::Object(error) = error.to_json() else { return };
            context.respond_also("error", error);
        }
    }
}

/// Returns the error of an argument that is no object.
pub(super) fn not_an_object(name: &str) -> MethodError {
    MethodError::invalid_arguments(format!("{name} is not an object"))
}
