//! Changes of messages: what Email/set, Email/import and Email/copy have in common.
//!
//! All changes of a call are one transaction. The old state is that of the moment at which the transaction has the lock
//! of the mail file, and the new state is that of the transaction itself, so no change of another client is between
//! them. An object that cannot be changed does not keep the others from being changed.
//!
//! Messages are composed and split into their parts before the lock is taken.

use std::collections::{BTreeSet, HashMap};

use base::{Modseq, NoteId, Timestamp, Unid, ViewId};
use mail::message::PreparedMessage;
use notes::{Marks, Transaction, Writer};
use serde_json::{Map, Value, json};

use crate::account::{Account, AccountView};
use crate::context::Context;
use crate::email::{BodyOptions, EmailProperty};
use crate::error::{InvalidProperties, MethodError, MethodResult, SetError};
use crate::keyword;
use crate::limits::STORED_BYTES_MAX;
use crate::patch::Patch;
use crate::places;
use crate::stored_email;

/// A message that is ready to be stored.
pub struct NewEmail {
    /// The identifiers of the mailboxes.
    pub mailbox_ids: Vec<String>,
    /// The keywords.
    pub keywords: BTreeSet<String>,
    /// The time of receipt. `None` stands for the current time.
    pub received: Option<Timestamp>,
    /// The message.
    pub prepared: PreparedMessage,
    /// Properties that the client left out, so that the reply tells them.
    pub defaults: Vec<&'static str>,
}

/// The changes of a call.
#[derive(Default)]
pub struct EmailChangesWanted {
    /// `ifInState`.
    pub if_in_state: Option<String>,
    /// Messages to create, by creation id.
    pub create: Vec<(String, Result<NewEmail, SetError>)>,
    /// Patches, by the id that the client used.
    pub update: Vec<(String, Value)>,
    /// Messages to destroy, by the id that the client used.
    pub destroy: Vec<String>,
}

/// What a call has changed.
pub struct EmailChangesMade {
    /// The state before.
    pub old_state: String,
    /// The state after.
    pub new_state: String,
    /// Created messages, by creation id.
    pub created: Vec<(String, Result<Value, SetError>)>,
    /// Changed messages, by their ids.
    pub updated: Vec<(String, Result<(), SetError>)>,
    /// Destroyed messages, by their ids.
    pub destroyed: Vec<(String, Result<(), SetError>)>,
}

impl EmailChangesMade {
    /// Adds the members `created`, `updated` and so on of a `/set` to a reply.
    pub fn add_to(&self, reply: &mut Map<String, Value>) {
        let created = self.created.iter().map(|(id, result)| (id, result.clone()));
        add_outcomes(reply, ["created", "notCreated"], created);
        let updated = self.updated.iter().map(|(id, result)| (id, result.clone().map(|()| Value::Null)));
        add_outcomes(reply, ["updated", "notUpdated"], updated);
        add_destroyed(reply, self.destroyed.iter().map(|(id, result)| (id, result.clone())));
    }
}

/// Adds the outcomes of creations or updates to a reply: objects by id, and errors by id.
pub fn add_outcomes<'i>(
    reply: &mut Map<String, Value>,
    names: [&str; 2],
    outcomes: impl Iterator<Item = (&'i String, Result<Value, SetError>)>,
) {
    let mut done = Map::new();
    let mut failed = Map::new();
    for (id, result) in outcomes {
        match result {
            Ok(object) => done.insert(id.clone(), object),
            Err(error) => failed.insert(id.clone(), error.to_json()),
        };
    }
    for (name, members) in names.into_iter().zip([done, failed]) {
        reply.insert(name.to_owned(), if members.is_empty() { Value::Null } else { Value::Object(members) });
    }
}

/// Adds the outcomes of destructions to a reply: a list of ids, and errors by id.
pub fn add_destroyed<'i>(
    reply: &mut Map<String, Value>,
    outcomes: impl Iterator<Item = (&'i String, Result<(), SetError>)>,
) {
    let mut gone = Vec::new();
    let mut failed = Map::new();
    for (id, result) in outcomes {
        match result {
            Ok(()) => gone.push(id),
            Err(error) => _ = failed.insert(id.clone(), error.to_json()),
        }
    }
    reply.insert("destroyed".to_owned(), if gone.is_empty() { Value::Null } else { json!(gone) });
    reply.insert("notDestroyed".to_owned(), if failed.is_empty() { Value::Null } else { Value::Object(failed) });
}

/// Prepares messages for storage, and limits the sum of their sizes and of what is read for them.
#[derive(Debug, Default)]
pub struct Preparation {
    bytes: u64,
}

impl Preparation {
    /// Checks that a message of a size can still be prepared, before its contents are read.
    pub fn check_room(&self, account: &Account, bytes: u64) -> Result<(), SetError> {
        let max = account.file.mail().options().message_bytes_max;
        if bytes > max || self.bytes.saturating_add(bytes) > STORED_BYTES_MAX {
            return Err(SetError::described("tooLarge", "the message is larger than the server accepts"));
        }
        Ok(())
    }

    /// Counts what was read for a message that was not prepared.
    pub fn count(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Prepares a message.
    pub fn prepare(&mut self, account: &Account, raw: &[u8]) -> Result<PreparedMessage, SetError> {
        let options = account.file.mail().options();
        let bytes = raw.len() as u64;
        self.check_room(account, bytes)?;
        self.count(bytes);
        let databases = account.file.mail().databases();
        Ok(PreparedMessage::new(databases, raw, options.separation)?)
    }
}

/// Makes the changes of a call.
pub fn write(
    context: &mut Context<'_>,
    account: &Account,
    wanted: EmailChangesWanted,
) -> MethodResult<EmailChangesMade> {
    let fixed = compare_fixed_properties(context, account, &wanted.update)?;
    let accesses = [account.file.depositor()];
    let databases = account.file.mail().databases();
    let mut transaction = databases.transaction(&accesses)?;
    let view = context.view(account)?;
    let old_state = view.email_state();
    if wanted.if_in_state.as_ref().is_some_and(|state| *state != old_state) {
        return Err(MethodError::new("stateMismatch"));
    }
    let limit = account.file.database().record().options.quota_bytes;
    let mut set =
        EmailTransaction { view: &view, fixed, known: HashMap::new(), created: HashMap::new(), limit, modseq: None };
    let made = set.run(context, &mut transaction, wanted);
    let EmailTransaction { created, modseq, .. } = set;
    let ticket = transaction.commit()?;
    drop(view);
    context.wait_for(ticket);
    let new_state = modseq.map(|modseq| account.file.database().modseq_to_client(modseq).to_string());
    let new_state = new_state.unwrap_or_else(|| old_state.clone());
    let created = finish_created(context, account, made.created, &created)?;
    Ok(EmailChangesMade { old_state, new_state, created, updated: made.updated, destroyed: made.destroyed })
}

/// The properties that cannot be changed and are to be, by the id that the client used.
type FixedProperties = HashMap<String, Result<Vec<String>, SetError>>;

/// Compares the properties that cannot be changed with those of the messages, which clients may send with their values
/// (RFC 8620 §5.3). Messages may have to be read for that, so it is done before the transaction; they never change.
fn compare_fixed_properties(
    context: &mut Context<'_>,
    account: &Account,
    update: &[(String, Value)],
) -> MethodResult<FixedProperties> {
    let mut found = HashMap::new();
    let mut bytes_left = STORED_BYTES_MAX;
    let is_fixed = |name: &str| !name.contains('/') && !["keywords", "mailboxIds"].contains(&name);
    for (id, patch) in update {
        let members = patch.as_object().into_iter().flatten();
        let fixed: Vec<(&String, &Value)> = members.filter(|(name, _)| is_fixed(name)).collect();
        if fixed.is_empty() {
            continue;
        }
        let properties: Vec<EmailProperty> = fixed.iter().filter_map(|(name, _)| EmailProperty::parse(name)).collect();
        let view = context.view(account)?;
        let row = context.resolve_id(id).and_then(|id| view.table.email(&id));
        let reads = !properties.iter().all(EmailProperty::is_metadata);
        let bytes = row.filter(|_| reads).map_or(0, |row| row.size);
        let Some(left) = bytes_left.checked_sub(bytes) else {
            let error = SetError::described("rateLimit", "too many bytes of messages are compared; use several calls");
            found.insert(id.clone(), Err(error));
            continue;
        };
        bytes_left = left;
        let present = match row {
            Some(row) => stored_email::object_of(&view, row, &properties, &BodyOptions::of_sent(&fixed))?,
            None => None,
        };
        let present = present.unwrap_or(Value::Null);
        let changed = fixed.into_iter().filter(|(name, value)| !is_unchanged(name, value, &present));
        found.insert(id.clone(), Ok(changed.map(|(name, _)| name.clone()).collect()));
    }
    Ok(found)
}

/// Returns `true` if a property that a client has sent is that of the message. A client may have fetched only some
/// properties of parts, and only some texts, also shortened.
fn is_unchanged(name: &str, sent: &Value, present: &Value) -> bool {
    let Some(present) = present.get(name) else { return false };
    match (name, sent, present) {
        ("bodyValues", Value::Object(sent), Value::Object(present)) => {
            let is_same = |(id, value): (&String, &Value)| present.get(id).is_some_and(|text| is_text_of(value, text));
            sent.iter().all(is_same)
        }
        ("bodyStructure" | "textBody" | "htmlBody" | "attachments", ..) => is_within(sent, present),
        _ => sent == present,
    }
}

/// Returns `true` if an EmailBodyValue is another one, or the start of it.
fn is_text_of(sent: &Value, present: &Value) -> bool {
    if sent["isTruncated"] != Value::Bool(true) {
        return sent == present;
    }
    let [start, text] = [sent, present].map(|value| value["value"].as_str());
    start.zip(text).is_some_and(|(start, text)| text.starts_with(start))
}

/// Returns `true` if all members of objects that were sent are in those that are present, with the same values.
fn is_within(sent: &Value, present: &Value) -> bool {
    match (sent, present) {
        (Value::Object(sent), Value::Object(present)) => {
            sent.iter().all(|(name, value)| present.get(name).is_some_and(|other| is_within(value, other)))
        }
        (Value::Array(sent), Value::Array(present)) => {
            sent.len() == present.len() && sent.iter().zip(present).all(|(value, other)| is_within(value, other))
        }
        _ => sent == present,
    }
}

/// The outcomes of a transaction before it is committed.
struct Outcomes {
    created: Vec<(String, Result<Vec<&'static str>, SetError>)>,
    updated: Vec<(String, Result<(), SetError>)>,
    destroyed: Vec<(String, Result<(), SetError>)>,
}

/// Keywords and mailboxes of a message in a transaction.
#[derive(Clone)]
struct Known {
    marks: Marks,
    keywords: BTreeSet<String>,
    places: BTreeSet<ViewId>,
}

struct EmailTransaction<'t> {
    view: &'t AccountView<'t>,
    fixed: FixedProperties,
    /// Messages that the transaction has created or changed.
    known: HashMap<NoteId, Known>,
    /// Created messages, by creation id.
    created: HashMap<String, (NoteId, Unid)>,
    /// The quota in bytes.
    limit: Option<u64>,
    /// The modseq of the transaction, once it has changed something.
    modseq: Option<Modseq>,
}

impl EmailTransaction<'_> {
    fn run(
        &mut self,
        context: &mut Context<'_>,
        transaction: &mut Transaction<'_>,
        wanted: EmailChangesWanted,
    ) -> Outcomes {
        let mut writer = transaction.writer(0);
        let mut created = Vec::new();
        for (creation_id, new) in wanted.create {
            let defaults = new.and_then(|new| self.create(context, &mut writer, &creation_id, new));
            created.push((creation_id, defaults));
        }
        // Clients are told the identifiers of messages, also if they have named them by creation ids.
        let real_id = |context: &Context<'_>, id: String| context.resolve_id(&id).unwrap_or(id);
        let doomed: BTreeSet<String> = wanted.destroy.into_iter().map(|id| real_id(context, id)).collect();
        let mut updated = Vec::new();
        for (id, patch) in wanted.update {
            let email_id = real_id(context, id.clone());
            let result = match doomed.contains(&email_id) {
                true => Err(SetError::new("willDestroy")),
                false => self.update(context, &mut writer, &id, &patch),
            };
            updated.push((email_id, result));
        }
        let mut destroyed = Vec::new();
        for id in doomed {
            let result = self.destroy(context, &mut writer, &id);
            destroyed.push((id, result));
        }
        Outcomes { created, updated, destroyed }
    }

    fn create(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut Writer<'_, '_>,
        creation_id: &str,
        new: NewEmail,
    ) -> Result<Vec<&'static str>, SetError> {
        let resolve = |id: &str| context.resolve_id(id);
        let max = context.services.limits.mailboxes_per_email_max;
        let places = places::resolve(&new.mailbox_ids, self.view.table.mailboxes(), &resolve, max)?;
        let bytes = writer.bytes_used().saturating_add(new.prepared.length());
        if self.limit.is_some_and(|limit| bytes > limit) {
            return Err(SetError::described("overQuota", "the quota of the mail file is used up"));
        }
        let flags = keyword::to_flags(&new.keywords, Marks::NONE);
        let unid = Unid::generate(&*context.services.random);
        let mut note = new.prepared.note(writer)?;
        note.unid = Some(unid);
        note.received = new.received;
        note.marks = flags.marks;
        note.keywords = flags.keywords;
        note.folders = places.iter().copied().collect();
        let note = writer.note_create(note)?;
        self.modseq = Some(writer.modseq());
        self.known.insert(note, Known { marks: flags.marks, keywords: new.keywords, places });
        self.created.insert(creation_id.to_owned(), (note, unid));
        context.created_ids.insert(creation_id.to_owned(), format!("M{unid}"));
        Ok(new.defaults)
    }

    /// Returns the note of an id that a client used.
    fn find(&self, context: &Context<'_>, id: &str) -> Result<NoteId, SetError> {
        if let Some((note, _)) = id.strip_prefix('#').and_then(|creation_id| self.created.get(creation_id)) {
            return Ok(*note);
        }
        let row = context.resolve_id(id).and_then(|id| self.view.table.email(&id));
        row.map(|row| row.note).ok_or_else(|| SetError::new("notFound"))
    }

    /// Returns what is known of a message.
    fn state_of(&self, note: NoteId) -> Option<Known> {
        if let Some(known) = self.known.get(&note) {
            return Some(known.clone());
        }
        let row = self.view.table.row(note)?;
        let names = keyword::names(row.marks, &row.keywords, self.view.snapshot.keywords());
        let keywords = names.into_iter().collect();
        Some(Known { marks: row.marks, keywords, places: row.places.iter().copied().collect() })
    }

    fn update(
        &mut self,
        context: &Context<'_>,
        writer: &mut Writer<'_, '_>,
        id: &str,
        patch: &Value,
    ) -> Result<(), SetError> {
        let note = self.find(context, id)?;
        let before = self.state_of(note).ok_or_else(|| SetError::new("notFound"))?;
        let patch = patch.as_object().ok_or_else(|| SetError::described("invalidPatch", "a patch is an object"))?;
        let mut invalid = InvalidProperties::default();
        let changed = self.fixed.remove(id).transpose()?.unwrap_or_default();
        invalid.refuse(changed.iter().map(String::as_str), "the property cannot be changed");
        let after = self.patched(context, &before, &Patch::parse(patch)?, invalid)?;
        let mut is_changed = places::change(writer, note, &before.places, &after.places)?;
        if after.keywords != before.keywords {
            let flags = keyword::to_flags(&after.keywords, before.marks);
            // A mark of deletion in another mailbox, which JMAP does not show, stays.
            let place = after.places.first().copied().unwrap_or_default();
            is_changed |= writer.marks_set_in((note, place), flags.marks, &flags.keywords)?;
        }
        if is_changed {
            self.modseq = Some(writer.modseq());
        }
        self.known.insert(note, after);
        Ok(())
    }

    /// Applies a patch to keywords and mailboxes. Other properties must have the value that they have.
    fn patched(
        &self,
        context: &Context<'_>,
        before: &Known,
        patch: &Patch,
        mut invalid: InvalidProperties,
    ) -> Result<Known, SetError> {
        let list = self.view.table.mailboxes();
        let mut after = before.clone();
        let mut ids: BTreeSet<String> =
            before.places.iter().filter_map(|view| list.by_view(*view)).map(|mailbox| mailbox.id.clone()).collect();
        let mut is_moved = false;
        for (tokens, value) in patch.entries() {
            let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
            match tokens.as_slice() {
                // `null` stands for the default value (RFC 8620 §5.3).
                ["keywords"] if value.is_null() => after.keywords.clear(),
                ["keywords"] => after.keywords = invalid.check(keyword::parse(value)),
                ["keywords", name] => {
                    let name = name.to_ascii_lowercase();
                    invalid.check(set_member(&mut after.keywords, &name, value, "keywords"));
                }
                ["mailboxIds"] => {
                    let named = invalid.check(places::parse(value));
                    ids = named.iter().map(|id| context.resolve_id(id).unwrap_or_else(|| id.clone())).collect();
                    is_moved = true;
                }
                ["mailboxIds", id] => {
                    let id = context.resolve_id(id).unwrap_or_else(|| (*id).to_owned());
                    invalid.check(set_member(&mut ids, &id, value, "mailboxIds"));
                    is_moved = true;
                }
                // Properties that cannot be changed were compared before.
                [_] | [] => {}
                _ => return Err(SetError::described("invalidPatch", "a pointer leads to nothing that can be changed")),
            }
        }
        if after.keywords.iter().any(|name| !keyword::is_valid(name)) {
            invalid.refuse(["keywords"], "a keyword is not valid");
        }
        if is_moved {
            let ids: Vec<String> = ids.into_iter().collect();
            let max = context.services.limits.mailboxes_per_email_max;
            after.places = invalid.check(places::resolve(&ids, list, &|id| Some(id.to_owned()), max));
        }
        invalid.finish()?;
        Ok(after)
    }

    fn destroy(&mut self, context: &Context<'_>, writer: &mut Writer<'_, '_>, id: &str) -> Result<(), SetError> {
        let note = self.find(context, id)?;
        if !writer.note_delete_permanently(note)? {
            return Err(SetError::new("notFound"));
        }
        self.modseq = Some(writer.modseq());
        self.known.remove(&note);
        Ok(())
    }
}

/// Adds a member to a set, or removes it.
fn set_member(set: &mut BTreeSet<String>, name: &str, value: &Value, property: &str) -> Result<(), SetError> {
    match value {
        Value::Bool(true) => set.insert(name.to_owned()),
        Value::Null => set.remove(name),
        _ => return Err(SetError::invalid_properties(&[property], "a member is true or null")),
    };
    Ok(())
}

/// Returns the objects that tell clients of created messages.
fn finish_created(
    context: &mut Context<'_>,
    account: &Account,
    outcomes: Vec<(String, Result<Vec<&'static str>, SetError>)>,
    created: &HashMap<String, (NoteId, Unid)>,
) -> MethodResult<Vec<(String, Result<Value, SetError>)>> {
    if created.is_empty() {
        return Ok(outcomes.into_iter().map(|(id, result)| (id, result.map(|_| Value::Null))).collect());
    }
    let view = context.view(account)?;
    let describe = |creation_id: &str, defaults: Vec<&'static str>| {
        let Some((_, unid)) = created.get(creation_id) else { return Value::Null };
        let id = format!("M{unid}");
        let Some(row) = view.table.email(&id) else { return json!({ "id": id }) };
        let mut object = json!({
            "id": id,
            "blobId": row.blob_id(),
            "threadId": &*row.thread,
            "size": row.size,
        });
        for name in defaults {
            object[name] = match name {
                "receivedAt" => json!(row.received.to_rfc3339()),
                _ => json!({}),
            };
        }
        object
    };
    let finish = |(creation_id, result): (String, Result<Vec<&'static str>, SetError>)| {
        let result = result.map(|defaults| describe(&creation_id, defaults));
        (creation_id, result)
    };
    Ok(outcomes.into_iter().map(finish).collect())
}
