//! Mailbox/set (RFC 8621 §2.5): creates, changes and destroys mailboxes.
//!
//! All changes of mailboxes are one transaction, which sees the mailboxes as the earlier changes of the same call left
//! them ([`MailboxTree`]). Some things cannot be part of it: the messages of a mailbox are removed before, in batches,
//! and subscriptions are changed after it. A mailbox that the same call creates and changes takes a second transaction,
//! and so does one that is created with a name or a role that the same call may give free.

mod call;
mod edits;
mod emptying;
mod plan;
mod tree;

use std::collections::{BTreeMap, BTreeSet, HashMap};

use base::{Modseq, ViewId};
use mail::mailbox::SubscriptionChange;
use mail::mailbox::file::SPECIAL_USE_ITEM;
use mail::mailbox_list::{INBOX, ROLES, SORT_ORDER_ITEM};
use notes::Writer;
use serde_json::{Map, Value};

use self::call::Call;
use self::edits::FolderEdits;
use self::tree::MailboxTree;
use super::mailbox_get;
use crate::account::{Account, AccountView};
use crate::arguments::{Arguments, as_unsigned};
use crate::context::Context;
use crate::email_write::{add_destroyed, add_outcomes};
use crate::error::{InvalidProperties, MethodResult, SetError};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = Call::parse(context, arguments)?;
    let account = context.writable_account(&call.set.account_id)?;
    let list = std::sync::Arc::clone(context.view(&account)?.table.mailboxes());
    let mut set = MailboxSet::default();
    let mut old_state = None;
    for part in call.split(&list).as_ref().map_or(std::slice::from_ref(&call), <[Call; 2]>::as_slice) {
        let emptied_state = emptying::run(context, &account, part, &set)?;
        let state = set.write(context, &account, part)?;
        old_state.get_or_insert(emptied_state.unwrap_or(state));
        set.subscribe(context, &account)?;
    }
    let mut view = context.view(&account)?;
    let counts = view.table.counts();
    let list = std::sync::Arc::clone(view.table.mailboxes());
    let mut outcomes = Vec::new();
    for (creation_id, result) in set.created {
        let result = result.map(|(view, sent)| {
            let Some(mailbox) = list.by_view(view) else { return Value::Null };
            context.created_ids.insert(creation_id.clone(), mailbox.id.clone());
            let mut object = mailbox_get::object(mailbox, &counts, false);
            if let Some(members) = object.as_object_mut() {
                members.retain(|name, _| !sent.contains(name));
            }
            object
        });
        outcomes.push((creation_id, result));
    }
    let old_state = old_state.unwrap_or_default();
    let new_state = match set.modseq {
        None => old_state.clone(),
        Some(_) if set.has_subscribed => view.mailbox_state(),
        Some(modseq) => account.file.database().modseq_to_client(modseq).to_string(),
    };
    let mut reply = call.set.reply(&old_state, &new_state);
    add_outcomes(&mut reply, ["created", "notCreated"], outcomes.iter().map(|(id, result)| (id, result.clone())));
    let updated = set.updated.iter().map(|(id, result)| (id, result.clone().map(|(_, reply)| reply)));
    add_outcomes(&mut reply, ["updated", "notUpdated"], updated);
    add_destroyed(&mut reply, set.destroyed.iter().map(|(id, result)| (id, result.clone().map(|_| ()))));
    Ok(reply)
}

/// The outcome of a creation: the folder, and the properties that the client sent.
type Created = Result<(ViewId, BTreeSet<String>), SetError>;

/// The outcome of a change: the folder, and what the client is told.
type Updated = Result<(ViewId, Value), SetError>;

/// The properties that clients set.
const SETTABLE: [&str; 5] = ["name", "parentId", "role", "sortOrder", "isSubscribed"];

/// The checked change of a mailbox. `None` stands for what stays, apart from the parent, which may be none.
struct MailboxChange {
    view: ViewId,
    parent: Option<ViewId>,
    name: String,
    role: Option<Option<&'static str>>,
    sort_order: Option<u64>,
    is_subscribed: Option<bool>,
}

/// The changes of a call, and their outcomes.
#[derive(Default)]
struct MailboxSet {
    tree: MailboxTree,
    /// The mailboxes before the call, as clients see them, if some are to be changed.
    present: HashMap<ViewId, Value>,
    created: Vec<(String, Created)>,
    updated: Vec<(String, Updated)>,
    destroyed: Vec<(String, Result<ViewId, SetError>)>,
    /// Changes of folders that are written together.
    edits: FolderEdits,
    /// Folders that were created, by creation id.
    new_folders: BTreeMap<String, ViewId>,
    /// `true` if subscriptions were changed.
    has_subscribed: bool,
    modseq: Option<Modseq>,
}

impl MailboxSet {
    /// Returns the mailboxes of a view, without any changes.
    fn of_view(view: &mut AccountView<'_>, call: &Call) -> Self {
        let mut set = Self::default();
        set.load(view, call);
        set
    }

    /// Takes the mailboxes of a view as those before the changes.
    fn load(&mut self, view: &mut AccountView<'_>, call: &Call) {
        let list = std::sync::Arc::clone(view.table.mailboxes());
        self.tree = MailboxTree::new(&list);
        if !call.set.update.is_empty() {
            let counts = view.table.counts();
            self.present = list.all().map(|one| (one.view, mailbox_get::object(one, &counts, false))).collect();
        }
    }

    /// Changes the mailboxes, and returns the state before.
    fn write(&mut self, context: &mut Context<'_>, account: &Account, call: &Call) -> MethodResult<String> {
        let accesses = [account.file.depositor()];
        let mut transaction = account.file.mail().databases().transaction(&accesses)?;
        let mut view = context.view(account)?;
        let old_state = view.mailbox_state();
        if !call.removes_emails {
            call.set.check_state(&old_state)?;
        }
        self.load(&mut view, call);
        drop(view);
        let mut writer = transaction.writer(0);
        self.create_all(context, &mut writer, &call.set.create);
        let has_emails = |folder: ViewId| Ok::<_, SetError>(writer.folder_read(folder)?.totals()?.count > 0);
        let destroyed_before = self.destroyed.len();
        self.plan(context, call, &has_emails);
        self.write_plan(&mut writer, destroyed_before);
        let ticket = transaction.commit()?;
        context.wait_for(ticket);
        Ok(old_state)
    }

    /// Writes the changes that were planned, and deletes folders: those after the ones that an earlier part of the call
    /// has deleted.
    fn write_plan(&mut self, writer: &mut Writer<'_, '_>, destroyed_before: usize) {
        let failed = std::mem::take(&mut self.edits).write(writer, &mut self.modseq);
        for (_, result) in &mut self.updated {
            if let Some(error) = result.as_ref().ok().and_then(|(view, _)| failed.get(view)) {
                *result = Err(error.clone());
            }
        }
        for (_, result) in self.destroyed.iter_mut().skip(destroyed_before) {
            let Ok(view) = result else { continue };
            match writer.folder_delete(*view) {
                Ok(()) => self.modseq = Some(writer.modseq()),
                Err(error) => *result = Err(error.into()),
            }
        }
    }

    /// Creates mailboxes. One may be created below another one that comes later in the call.
    fn create_all(&mut self, context: &Context<'_>, writer: &mut Writer<'_, '_>, create: &Map<String, Value>) {
        let mut waiting: Vec<(&String, &Value)> = create.iter().collect();
        while !waiting.is_empty() {
            let count = waiting.len();
            let is_ready = |object: &Value| self.is_parent_known(object, create);
            let (ready, rest): (Vec<_>, Vec<_>) = waiting.into_iter().partition(|(_, object)| is_ready(object));
            let is_stuck = ready.is_empty();
            waiting = rest;
            let now = if is_stuck { std::mem::take(&mut waiting) } else { ready };
            for (creation_id, object) in now {
                let result = self.create(context, writer, creation_id, object);
                self.created.push((creation_id.clone(), result));
            }
            assert!(waiting.len() < count, "each round makes some of the mailboxes");
        }
    }

    /// Returns `true` if the parent of a new mailbox is not one that this call is still to create.
    fn is_parent_known(&self, object: &Value, create: &Map<String, Value>) -> bool {
        let parent = object.get("parentId").and_then(Value::as_str).and_then(|id| id.strip_prefix('#'));
        parent.is_none_or(|id| self.new_folders.contains_key(id) || !create.contains_key(id))
    }

    /// Returns the folder of an id that a client used.
    fn find(&self, context: &Context<'_>, id: &str) -> Option<ViewId> {
        if let Some(view) = id.strip_prefix('#').and_then(|creation_id| self.new_folders.get(creation_id)) {
            return Some(*view);
        }
        self.tree.by_id(&context.resolve_id(id)?)
    }

    /// Returns the folder that a value of `parentId` names, if any.
    fn parent(&self, context: &Context<'_>, value: &Value) -> Result<Option<ViewId>, SetError> {
        let invalid = || SetError::invalid_properties(&["parentId"], "there is no such mailbox");
        match value {
            Value::Null => Ok(None),
            Value::String(id) => self.find(context, id).map(Some).ok_or_else(invalid),
            _ => Err(invalid()),
        }
    }

    fn create(
        &mut self,
        context: &Context<'_>,
        writer: &mut Writer<'_, '_>,
        creation_id: &str,
        object: &Value,
    ) -> Created {
        let members = object.as_object();
        let members = members.ok_or_else(|| SetError::described("invalidProperties", "a Mailbox is an object"))?;
        let mut invalid = InvalidProperties::default();
        let unknown = members.keys().map(String::as_str).filter(|name| !SETTABLE.contains(name));
        invalid.refuse(unknown, "the property cannot be set");
        let parent = invalid.check(self.parent(context, members.get("parentId").unwrap_or(&Value::Null)));
        let name = invalid.check(tree::check_name(members.get("name").unwrap_or(&Value::Null)));
        let role = invalid.check(check_role(members.get("role").unwrap_or(&Value::Null)));
        invalid.check(self.tree.check_role_is_free(role, None));
        let order = invalid.check(check_sort_order(members.get("sortOrder")));
        // Persons are subscribed to the mailboxes that they create (RFC 8621 §2).
        let is_subscribed = invalid.check(check_flag(members.get("isSubscribed"))).unwrap_or(true);
        invalid.finish()?;
        let title = self.tree.free_title(parent, &name, None)?;
        let order_text = order.unwrap_or(0).to_string();
        let mut attributes = vec![(SORT_ORDER_ITEM, order_text.as_str())];
        attributes.extend(role.map(|role| (SPECIAL_USE_ITEM, special_use(role))));
        let view = writer.folder_create(&title, &attributes)?;
        self.modseq = Some(writer.modseq());
        self.tree.add(view, title, role);
        self.new_folders.insert(creation_id.to_owned(), view);
        self.tree.set_subscribed(view, is_subscribed);
        // The name is stored in normalization form C.
        let is_as_sent = |property: &str| match property {
            "isSubscribed" => is_subscribed,
            "name" => members.get("name").and_then(Value::as_str) == Some(name.as_str()),
            _ => true,
        };
        Ok((view, members.keys().filter(|property| is_as_sent(property)).cloned().collect()))
    }

    /// Checks the properties that a mailbox is to have. The error names all that are not valid.
    fn checked_change(
        &self,
        context: &Context<'_>,
        view: ViewId,
        wanted: &Map<String, Value>,
    ) -> Result<MailboxChange, SetError> {
        let mut invalid = InvalidProperties::default();
        let unknown = wanted.keys().map(String::as_str).filter(|name| !SETTABLE.contains(name));
        invalid.refuse(unknown, "the property cannot be changed");
        let parent = match wanted.get("parentId") {
            None => self.tree.parent(view),
            Some(value) => invalid.check(self.parent(context, value)),
        };
        let name = match wanted.get("name") {
            None => self.tree.name(view).unwrap_or_default().to_owned(),
            Some(value) => invalid.check(tree::check_name(value)),
        };
        let role = wanted.get("role").map(|value| {
            let role = invalid.check(check_role(value));
            if self.tree.title(view) == Some(INBOX) {
                invalid.refuse(["role"], "the inbox keeps its role");
            }
            invalid.check(self.tree.check_role_is_free(role, Some(view)));
            role
        });
        let sort_order = wanted.get("sortOrder").map(|value| invalid.check(check_sort_order(Some(value))).unwrap_or(0));
        let is_subscribed =
            wanted.get("isSubscribed").map(|value| invalid.check(check_flag(Some(value))).unwrap_or(true));
        invalid.finish()?;
        Ok(MailboxChange { view, parent, name, role, sort_order, is_subscribed })
    }

    /// Changes name and parent.
    fn update_place(&mut self, view: ViewId, parent: Option<ViewId>, name: &str) -> Result<(), SetError> {
        if parent == self.tree.parent(view) && Some(name) == self.tree.name(view) {
            return Ok(());
        }
        if self.tree.title(view) == Some(INBOX) {
            return Err(SetError::described("forbidden", "the inbox cannot be renamed or moved"));
        }
        let title = self.tree.free_title(parent, name, Some(view))?;
        self.tree.rename(view, &title);
        Ok(())
    }

    /// Changes the subscriptions of the caller. Those of the owner follow the titles of mailboxes.
    fn subscribe(&mut self, context: &mut Context<'_>, account: &Account) -> MethodResult<()> {
        let change = self.tree.subscription_change();
        if change == SubscriptionChange::default() {
            return Ok(());
        }
        let (is_changed, ticket) = account.file.subscriptions_follow(&change)?;
        if is_changed {
            context.wait_for(ticket);
            self.modseq = self.modseq.or(Some(account.file.database().modseq()));
            self.has_subscribed = true;
        }
        Ok(())
    }
}

fn check_role(value: &Value) -> Result<Option<&'static str>, SetError> {
    let Value::String(text) = value else {
        return if value.is_null() { Ok(None) } else { Err(invalid_property("role")) };
    };
    let known = ROLES.iter().map(|(role, _)| *role).chain(["inbox"]).find(|role| role == text);
    known.map(Some).ok_or_else(|| invalid_property("role"))
}

fn special_use(role: &str) -> &'static str {
    ROLES.iter().find(|(known, _)| *known == role).map_or("", |(_, name)| name)
}

fn check_sort_order(value: Option<&Value>) -> Result<Option<u64>, SetError> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(None) };
    let order = as_unsigned(value).filter(|order| *order < 1 << 31);
    order.map(Some).ok_or_else(|| invalid_property("sortOrder"))
}

fn check_flag(value: Option<&Value>) -> Result<Option<bool>, SetError> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(invalid_property("isSubscribed")),
    }
}

fn invalid_property(name: &str) -> SetError {
    SetError::invalid_properties(&[name], "the value is not valid")
}
