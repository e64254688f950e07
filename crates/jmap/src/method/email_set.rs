//! Email/set (RFC 8621 §4.6): creates, changes and destroys messages.

use std::collections::BTreeSet;

use base::Timestamp;
use serde_json::{Map, Value, json};

use super::set_call::SetCall;
use crate::account::Account;
use crate::arguments::{Arguments, parse_utc_date};
use crate::blob::BlobReader;
use crate::context::Context;
use crate::email::{ComposeDefaults, ComposeError, compose};
use crate::email_write::{EmailChangesWanted, NewEmail, Preparation, write};
use crate::error::{MethodError, MethodResult, SetError};
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
    let invalid: Vec<&str> = SERVER_SET.into_iter().filter(|name| members.contains_key(*name)).collect();
    if !invalid.is_empty() {
        return Err(SetError::invalid_properties(&invalid, "the server sets these properties"));
    }
    let metadata = Metadata::parse(members)?;
    let mut random = [0; 16];
    context.services.random.fill(&mut random);
    let unique = base::hex::lower(&random);
    let defaults = ComposeDefaults {
        now: context.services.clock.now(),
        message_id_domain: &context.services.message_id_domain,
        unique: &unique,
        size_bytes_max: account.file.mail().options().message_bytes_max,
    };
    let blobs = BlobReader::new(context.services, context.caller, account);
    let raw = compose(members, &blobs, &defaults).map_err(to_set_error)?;
    context.wait_for(blobs.ticket());
    metadata.with_message(preparation.prepare(account, &raw)?)
}

/// The properties of a new message that are not in its bytes.
pub(super) struct Metadata {
    mailbox_ids: Vec<String>,
    keywords: BTreeSet<String>,
    received: Option<Timestamp>,
    defaults: Vec<&'static str>,
}

impl Metadata {
    /// Parses `mailboxIds`, `keywords` and `receivedAt`.
    pub(super) fn parse(members: &Map<String, Value>) -> Result<Self, SetError> {
        let mut defaults = Vec::new();
        let mailbox_ids = places::parse(members.get("mailboxIds").unwrap_or(&Value::Null))?;
        if mailbox_ids.is_empty() {
            return Err(SetError::invalid_properties(&["mailboxIds"], "a message is in at least one mailbox"));
        }
        let keywords = match members.get("keywords").filter(|value| !value.is_null()) {
            Some(value) => keyword::parse(value)?,
            None => {
                defaults.push("keywords");
                BTreeSet::new()
            }
        };
        let received = match members.get("receivedAt").filter(|value| !value.is_null()) {
            Some(value) => {
                let time = value.as_str().and_then(parse_utc_date);
                Some(time.ok_or_else(|| SetError::invalid_properties(&["receivedAt"], "it is not a UTCDate"))?)
            }
            None => {
                defaults.push("receivedAt");
                None
            }
        };
        Ok(Self { mailbox_ids, keywords, received, defaults })
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

/// Returns the error of an argument that is no object.
pub(super) fn not_an_object(name: &str) -> MethodError {
    MethodError::invalid_arguments(format!("{name} is not an object"))
}
