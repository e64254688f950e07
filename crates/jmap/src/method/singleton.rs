//! What the types with one object for each account have in common: VacationResponse and Preferences.
//!
//! The object is a profile document. It always exists, with default values before the first change, and can neither be
//! created nor destroyed.

use base::Modseq;
use mail::profile::{Profile, modseq_of};
use notes::{AclLevel, Item, Note};
use serde_json::{Map, Value, json};

use super::get_call::GetCall;
use super::set_call::SetCall;
use crate::account::Account;
use crate::arguments::Arguments;
use crate::changes::{self, ChangesCall};
use crate::context::Context;
use crate::email_write::{add_destroyed, add_outcomes};
use crate::error::{InvalidProperties, MethodError, MethodResult, SetError};
use crate::patch::Patch;
use crate::profile;
use crate::state;

/// The identifier of the object (RFC 8621 §8).
const ID: &str = "singleton";

/// A property that only the server sets, and its value.
type ServerProperty = (&'static str, fn(&Account) -> Value);

/// A type with one object for each account.
pub(super) struct Singleton {
    /// The name of the profile document.
    pub(super) profile: &'static str,
    /// `true` if each person has an object in the account. Otherwise it belongs to the account.
    pub(super) is_personal: bool,
    /// The properties that clients set.
    pub(super) properties: &'static [&'static str],
    /// The properties that only the server sets.
    pub(super) server_set: &'static [ServerProperty],
    /// Returns the properties that the operator has set, with their items. Clients cannot change them.
    pub(super) locked: fn(&Account) -> Vec<(&'static str, Item)>,
    /// Returns the mark of the properties that the operator has set, which is a part of the state.
    pub(super) mark: fn(&Account) -> Option<String>,
    /// Returns the value of a property that clients set.
    pub(super) read: fn(&[Item], &str) -> Value,
    /// Checks a value, and returns the item that stores it, unless it is the default.
    pub(super) write: fn(&str, &Value) -> Result<Option<Item>, SetError>,
}

impl Singleton {
    /// Runs `/get`.
    pub(super) fn get(&self, context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
        let call = GetCall::parse(context, &mut arguments)?;
        arguments.finish()?;
        let mut known: Vec<&str> = self.properties.iter().chain(&["id"]).copied().collect();
        known.extend(self.server_set.iter().map(|(name, _)| *name));
        call.check_properties(&known)?;
        let account = context.account(&call.account_id)?;
        let snapshot = account.file.snapshot()?;
        context.wait_for(snapshot.ticket());
        let note = self.profile_of(&account)?.load(&snapshot)?;
        let object = Value::Object(self.object(&account, note.as_deref()));
        let wanted = call.wanted(context, || vec![ID.to_owned()])?;
        let state = self.marked(&account, &state::format(modseq_of(note.as_deref()), &snapshot));
        call.answer(context, &state, wanted, |id| Ok((id == ID).then(|| object.clone())))
    }

    /// Runs `/changes`.
    pub(super) fn changes(&self, context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
        let call = ChangesCall::parse(arguments)?;
        let account = context.account(&call.account_id)?;
        let view = context.view(&account)?;
        let current = modseq_of(self.profile_of(&account)?.load(&view.snapshot)?.as_deref());
        let state = self.marked(&account, &state::format(current, &view.snapshot));
        if call.since == state {
            return Ok(changes::none(&call, &state));
        }
        let (since, mark) = state::parse_marked(&call.since, &view.snapshot)?;
        let is_changed = since < current || mark != (self.mark)(&account).as_deref();
        // A client may know a state that is later than the last change of the type.
        let state = self.marked(&account, &state::format(current.max(since), &view.snapshot));
        let mut reply = changes::none(&call, &state);
        if is_changed {
            reply.insert("updated".to_owned(), json!([ID]));
        }
        Ok(reply)
    }

    /// Runs `/set`.
    pub(super) fn set(&self, context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
        let call = SetCall::parse(context, arguments)?;
        let account = context.writable_account(&call.account_id)?;
        // What concerns the owner of the mail file is changed by those who may change everything in it.
        if !self.is_personal && account.grant.level() < AclLevel::Editor {
            return Err(MethodError::described("forbidden", "only an Editor of the mail file may change this"));
        }
        let modseq_text = |modseq: Modseq| account.file.database().modseq_to_client(modseq).to_string();
        let to_state = |modseq: Modseq| self.marked(&account, &modseq_text(modseq));
        let mut updated: Vec<(&String, Result<Value, SetError>)> = Vec::new();
        let profile = self.profile_of(&account)?;
        let states = profile::update(context, &account, &profile, |note| {
            call.check_state(&to_state(modseq_of(note)))?;
            let mut items = None;
            for (id, patch) in &call.update {
                let changed = match id == ID {
                    false => Err(SetError::new("notFound")),
                    true if call.destroy.contains(id) => Err(SetError::new("willDestroy")),
                    true => self.patched_items(&account, note, patch),
                };
                let outcome = changed.map(|changed| {
                    items = changed;
                    Value::Null
                });
                updated.push((id, outcome));
            }
            Ok(items)
        })?;
        let refused = |id: &String| if id == ID { SetError::new("singleton") } else { SetError::new("notFound") };
        let mut reply = call.reply(&to_state(states.old), &to_state(states.new));
        let created = call.create.keys().map(|id| (id, Err(SetError::new("singleton"))));
        add_outcomes(&mut reply, ["created", "notCreated"], created);
        add_outcomes(&mut reply, ["updated", "notUpdated"], updated.into_iter());
        add_destroyed(&mut reply, call.destroy.iter().map(|id| (id, Err(refused(id)))));
        Ok(reply)
    }

    /// Adds the mark of the properties that the operator has set to a state.
    fn marked(&self, account: &Account, state: &str) -> String {
        state::with_mark(state, (self.mark)(account).as_deref())
    }

    fn profile_of(&self, account: &Account) -> MethodResult<Profile> {
        match self.is_personal {
            true => profile::personal(self.profile, account),
            false => Ok(Profile::shared(self.profile)),
        }
    }

    fn object(&self, account: &Account, note: Option<&Note>) -> Map<String, Value> {
        let items = note.map_or(&[][..], |note| &note.items);
        let locked = (self.locked)(account);
        let value = |name: &str| match locked.iter().find(|(locked, _)| *locked == name) {
            Some((_, item)) => (self.read)(std::slice::from_ref(item), name),
            None => (self.read)(items, name),
        };
        let mut object = Map::from_iter([("id".to_owned(), json!(ID))]);
        object.extend(self.properties.iter().map(|name| ((*name).to_owned(), value(name))));
        object.extend(self.server_set.iter().map(|(name, value)| ((*name).to_owned(), value(account))));
        object
    }

    /// Returns the items after a patch, or `None` if it changes nothing.
    fn patched_items(
        &self,
        account: &Account,
        note: Option<&Note>,
        patch: &Value,
    ) -> Result<Option<Vec<Item>>, SetError> {
        let patch = patch.as_object().ok_or_else(|| SetError::described("invalidPatch", "a patch is an object"))?;
        let before = self.object(account, note);
        let mut after = before.clone();
        Patch::parse(patch)?.apply(&mut after)?;
        if after == before {
            return Ok(None);
        }
        let changed: Vec<&str> = after
            .iter()
            .filter(|(name, value)| before.get(*name) != Some(*value))
            .map(|(name, _)| name.as_str())
            .collect();
        let locked = (self.locked)(account);
        let is_locked = |name: &str| locked.iter().any(|(locked, _)| *locked == name);
        let mut invalid = InvalidProperties::default();
        let fixed = changed.iter().copied().filter(|name| !self.properties.contains(name));
        invalid.refuse(fixed, "it cannot be set");
        invalid.refuse(changed.iter().copied().filter(|name| is_locked(name)), "the operator has locked it");
        // What is not changed stays, also what the person has chosen before the operator locked it.
        let stored = note.map_or(&[][..], |note| &note.items);
        let mut items = Vec::new();
        for name in self.properties {
            let new = after.get(*name);
            let value = match new == before.get(*name) {
                true => (self.read)(stored, name),
                false => new.cloned().unwrap_or(Value::Null),
            };
            items.extend(invalid.check((self.write)(name, &value)));
        }
        invalid.finish()?;
        Ok(Some(items))
    }
}
