//! Identity/set (RFC 8621 §6.3): what a person sets of its identities, and further ones for its own addresses.
//!
//! All changes of a call are one transaction. An identity of the directory cannot be destroyed, and no identity gets
//! another address.

use std::collections::BTreeMap;

use base::Modseq;
use mail::identities::{
    EffectiveIdentity, IdentityInfo, IdentitySettings, StoredIdentities, StoredIdentity, own_address,
};
use mail::profile::modseq_of;
use serde_json::{Map, Value};

use super::set_call::SetCall;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::email_write::{add_destroyed, add_outcomes};
use crate::error::{InvalidProperties, MethodError, MethodResult, SetError};
use crate::identities::{SETTABLE, format_state, parse_settings, profile_of, to_json};
use crate::limits::IDENTITIES_CREATED_MAX;
use crate::patch::Patch;
use crate::profile;

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = SetCall::parse(context, arguments)?;
    let account = context.writable_account(&call.account_id)?;
    let directory = context.services.accounts.identities(context.caller)?;
    let database = account.file.database();
    let to_state = |modseq: Modseq| format_state(&database.modseq_to_client(modseq).to_string(), &directory);
    let mut created_ids = context.created_ids.clone();
    let new_id = {
        let mut random = [0; 8];
        context.services.random.fill(&mut random);
        format!("C{:016x}", u64::from_be_bytes(random))
    };
    let mut edit = None;
    let states = profile::update(context, &account, &profile_of(&account)?, |note| {
        call.check_state(&to_state(modseq_of(note)))?;
        let stored = StoredIdentities::read(note, database);
        let mut done = IdentityEdit::new(stored.clone(), &directory);
        done.run(&call, &new_id, &mut created_ids);
        let items = (done.stored != stored).then(|| done.stored.clone().items());
        edit = Some(done);
        Ok(items)
    })?;
    context.created_ids = created_ids;
    let edit = edit.ok_or_else(|| MethodError::new("serverFail"))?;
    let mut reply = call.reply(&to_state(states.old), &to_state(states.new));
    add_outcomes(&mut reply, ["created", "notCreated"], edit.created.iter().map(|(id, done)| (id, done.clone())));
    add_outcomes(&mut reply, ["updated", "notUpdated"], edit.updated.iter().map(|(id, done)| (id, done.clone())));
    add_destroyed(&mut reply, edit.destroyed.iter().map(|(id, done)| (id, done.clone())));
    Ok(reply)
}

type Outcomes = Vec<(String, Result<Value, SetError>)>;

/// The changes of a call, and their outcomes.
struct IdentityEdit<'d> {
    stored: StoredIdentities,
    directory: &'d [IdentityInfo],
    created: Outcomes,
    updated: Outcomes,
    destroyed: Vec<(String, Result<(), SetError>)>,
}

impl<'d> IdentityEdit<'d> {
    fn new(stored: StoredIdentities, directory: &'d [IdentityInfo]) -> Self {
        Self { stored, directory, created: Vec::new(), updated: Vec::new(), destroyed: Vec::new() }
    }

    fn run(&mut self, call: &SetCall, new_id: &str, created_ids: &mut BTreeMap<String, String>) {
        for (index, (creation_id, object)) in call.create.iter().enumerate() {
            let outcome = self.create(format!("{new_id}{index:x}"), object);
            if let Some(id) = outcome.as_ref().ok().and_then(|object| object["id"].as_str()) {
                created_ids.insert(creation_id.clone(), id.to_owned());
            }
            self.created.push((creation_id.clone(), outcome));
        }
        let resolve = |id: &str| match id.strip_prefix('#') {
            Some(creation_id) => created_ids.get(creation_id).cloned(),
            None => Some(id.to_owned()),
        };
        for (id, patch) in &call.update {
            let outcome = match resolve(id) {
                _ if call.destroy.contains(id) => Err(SetError::new("willDestroy")),
                Some(resolved) => self.update(&resolved, patch).map(|()| Value::Null),
                None => Err(SetError::new("notFound")),
            };
            self.updated.push((resolve(id).unwrap_or_else(|| id.clone()), outcome));
        }
        for id in &call.destroy {
            let real_id = resolve(id).unwrap_or_else(|| id.clone());
            let resolved = resolve(id).ok_or_else(|| SetError::new("notFound"));
            let outcome = resolved.and_then(|resolved| self.destroy(&resolved));
            self.destroyed.push((real_id, outcome));
        }
    }

    fn create(&mut self, id: String, object: &Value) -> Result<Value, SetError> {
        let object = object.as_object();
        let object = object.ok_or_else(|| SetError::described("invalidProperties", "an Identity is an object"))?;
        let is_known = |name: &&String| name.as_str() == "email" || SETTABLE.contains(&name.as_str());
        let mut invalid = InvalidProperties::default();
        invalid.refuse(object.keys().filter(|name| !is_known(name)).map(String::as_str), "the property cannot be set");
        let settings = invalid.check(parse_settings(object));
        let email = object.get("email").and_then(Value::as_str);
        if email.is_none() {
            invalid.refuse(["email"], "an identity has an address");
        }
        invalid.finish()?;
        let email = email.unwrap_or_default();
        let email = own_address(self.directory, email)
            .ok_or_else(|| SetError::described("forbiddenFrom", "this is not an address of the person"))?;
        if self.stored.created_count() >= IDENTITIES_CREATED_MAX {
            return Err(SetError::described("overQuota", "there are too many identities"));
        }
        let made = EffectiveIdentity { id, email, may_delete: true, settings };
        let mut stored = StoredIdentity {
            id: made.id.clone(),
            email: Some(made.email.clone()),
            settings: made.settings.clone(),
            ..StoredIdentity::default()
        };
        stored.set_created();
        self.stored.identities.push(stored);
        let mut reply = to_json(&made);
        reply.retain(|name, value| object.get(name) != Some(value));
        Ok(Value::Object(reply))
    }

    fn update(&mut self, id: &str, patch: &Value) -> Result<(), SetError> {
        let present = self.find(id)?;
        let patch = patch.as_object().ok_or_else(|| SetError::described("invalidPatch", "a patch is an object"))?;
        let before = to_json(&present);
        let mut after = before.clone();
        Patch::parse(patch)?.apply(&mut after)?;
        let is_fixed = |name: &&String| !SETTABLE.contains(&name.as_str()) && before.get(*name) != after.get(*name);
        let mut invalid = InvalidProperties::default();
        invalid.refuse(after.keys().filter(is_fixed).map(String::as_str), "the property cannot be changed");
        let settings = invalid.check(parse_settings(&after));
        invalid.finish()?;
        if settings == present.settings {
            return Ok(());
        }
        self.stored.set_settings(id, settings);
        Ok(())
    }

    fn destroy(&mut self, id: &str) -> Result<(), SetError> {
        if !self.find(id)?.may_delete {
            return Err(SetError::described("forbidden", "the identity comes from the directory"));
        }
        if let Some(stored) = self.stored.find_mut(id) {
            stored.settings = IdentitySettings::default();
            stored.set_changed();
            stored.is_destroyed = true;
        }
        Ok(())
    }

    fn find(&self, id: &str) -> Result<EffectiveIdentity, SetError> {
        let found = self.stored.with_directory(self.directory).into_iter().find(|identity| identity.id == id);
        found.ok_or_else(|| SetError::new("notFound"))
    }
}
