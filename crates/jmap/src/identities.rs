//! The objects Identity (RFC 8621 §6): the identities of senders ([`mail::identities`]) with their states.
//!
//! The state is the modseq of the profile document and a digest of what the directory says, because the directory keeps
//! no history: after a change there, no changes can be calculated.

use base::Modseq;
use mail::identities::{EffectiveIdentity, IDENTITIES_PROFILE, IdentityInfo, IdentitySettings, StoredIdentities};
use mail::limits::SIGNATURE_BYTES_MAX;
use mail::mailbox::MailSnapshot;
use mail::profile::{Profile, modseq_of};
use serde_json::{Map, Value, json};

use crate::account::Account;
use crate::backend::{Caller, Services};
use crate::changes::ChangeSet;
use crate::error::{InvalidProperties, MethodError, MethodResult, SetError};
use crate::limits::{IDENTITY_ADDRESSES_MAX, IDENTITY_NAME_BYTES_MAX};
use crate::{profile, state};

/// The properties that clients set.
pub const SETTABLE: [&str; 5] = ["name", "replyTo", "bcc", "textSignature", "htmlSignature"];

/// Checks the properties of an object that clients set. Absent ones, and `null`, stand for the defaults.
pub fn parse_settings(object: &Map<String, Value>) -> Result<IdentitySettings, SetError> {
    let text = |name: &'static str, bytes_max: usize| match object.get(name) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) if text.len() <= bytes_max => Ok(text.clone()),
        Some(_) => Err(SetError::invalid_properties(&[name], "the value is not a string, or it is too long")),
    };
    let mut invalid = InvalidProperties::default();
    let name = invalid.check(text("name", IDENTITY_NAME_BYTES_MAX));
    if name.chars().any(char::is_control) {
        invalid.refuse(["name"], "the name has control characters");
    }
    let settings = IdentitySettings {
        name,
        reply_to: invalid.check(parse_addresses("replyTo", object)),
        bcc: invalid.check(parse_addresses("bcc", object)),
        text_signature: invalid.check(text("textSignature", SIGNATURE_BYTES_MAX)),
        html_signature: invalid.check(text("htmlSignature", SIGNATURE_BYTES_MAX)),
    };
    invalid.finish()?;
    Ok(settings)
}

/// Returns the properties.
#[must_use]
pub fn settings_to_json(settings: &IdentitySettings) -> Map<String, Value> {
    let values = [
        json!(settings.name),
        json!(settings.reply_to),
        json!(settings.bcc),
        json!(settings.text_signature),
        json!(settings.html_signature),
    ];
    SETTABLE.into_iter().map(str::to_owned).zip(values).collect()
}

/// Checks a list of EmailAddress objects (RFC 8621 §4.1.2.3), which a client may put into the header of messages.
fn parse_addresses(name: &'static str, object: &Map<String, Value>) -> Result<Option<Value>, SetError> {
    let invalid = || SetError::invalid_properties(&[name], "the value is not a short list of addresses");
    let Some(value) = object.get(name).filter(|value| !value.is_null()) else { return Ok(None) };
    let list = value.as_array().filter(|list| list.len() <= IDENTITY_ADDRESSES_MAX).ok_or_else(invalid)?;
    let is_line = |text: &str| text.len() <= IDENTITY_NAME_BYTES_MAX * 2 && !text.chars().any(char::is_control);
    let mut addresses = Vec::with_capacity(list.len());
    for address in list {
        let address = address.as_object().ok_or_else(invalid)?;
        let is_known = address.keys().all(|member| member == "name" || member == "email");
        let email = address.get("email").and_then(Value::as_str).filter(|email| is_line(email) && email.contains('@'));
        let display = match address.get("name") {
            None | Some(Value::Null) => None,
            Some(Value::String(display)) if is_line(display) => Some(display),
            Some(_) => return Err(invalid()),
        };
        let email = email.filter(|_| is_known).ok_or_else(invalid)?;
        addresses.push(json!({ "name": display, "email": email }));
    }
    Ok(Some(Value::Array(addresses)))
}

/// Returns the object.
#[must_use]
pub fn to_json(identity: &EffectiveIdentity) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("id".to_owned(), json!(identity.id));
    object.insert("email".to_owned(), json!(identity.email));
    object.extend(settings_to_json(&identity.settings));
    object.insert("mayDelete".to_owned(), json!(identity.may_delete));
    object
}

/// Finds the changes between two states.
pub fn changes(
    stored: &StoredIdentities,
    snapshot: &MailSnapshot<'_>,
    since: Modseq,
    until: Modseq,
) -> MethodResult<ChangeSet> {
    let unknown = || MethodError::new("cannotCalculateChanges");
    let modseq = |text: &str| match text {
        "" => Ok(Modseq(0)),
        text => text.parse().ok().and_then(|number| snapshot.known_to_client(number)).ok_or_else(unknown),
    };
    if since < modseq(&stored.forgotten)? {
        return Err(unknown());
    }
    let mut set = ChangeSet::default();
    for identity in &stored.identities {
        let created = modseq(&identity.created)?;
        let changed = modseq(&identity.changed)?;
        if changed <= since || created > until {
            continue;
        }
        match (created <= since, identity.is_destroyed) {
            (true, true) => set.destroyed.insert(identity.id.clone()),
            (true, false) => set.updated.insert(identity.id.clone()),
            (false, false) => set.created.insert(identity.id.clone()),
            (false, true) => false,
        };
    }
    Ok(set)
}

/// Returns the profile document with the identities of the caller in an account.
pub fn profile_of(account: &Account) -> MethodResult<Profile> {
    profile::personal(IDENTITIES_PROFILE, account)
}

/// The identities of the caller in an account, at a moment.
pub struct IdentityList {
    /// The last change of the profile document.
    pub modseq: Modseq,
    /// What the person has set.
    pub stored: StoredIdentities,
    /// What the directory says.
    pub directory: Vec<IdentityInfo>,
}

impl IdentityList {
    /// Reads the identities of the caller in an account.
    pub fn load(
        services: &Services,
        caller: &Caller,
        account: &Account,
        snapshot: &MailSnapshot<'_>,
    ) -> MethodResult<Self> {
        let note = profile_of(account)?.load(snapshot)?;
        let directory = services.accounts.identities(caller)?;
        Ok(Self {
            modseq: modseq_of(note.as_deref()),
            stored: StoredIdentities::read(note.as_deref(), account.file.database()),
            directory,
        })
    }

    /// Returns the identities.
    #[must_use]
    pub fn effective(&self) -> Vec<EffectiveIdentity> {
        self.stored.with_directory(&self.directory)
    }

    /// Returns the state.
    #[must_use]
    pub fn state(&self, snapshot: &MailSnapshot<'_>) -> String {
        format_state(&state::format(self.modseq, snapshot), &self.directory)
    }
}

/// Returns the state for that of the profile document.
#[must_use]
pub fn format_state(modseq: &str, directory: &[IdentityInfo]) -> String {
    format!("{modseq}-{}", digest(directory))
}

/// Returns the state of the profile document in a state, if what the directory says has not changed since.
pub fn profile_state<'s>(state: &'s str, directory: &[IdentityInfo]) -> Option<&'s str> {
    state.split_once('-').filter(|(_, known)| *known == digest(directory)).map(|(modseq, _)| modseq)
}

fn digest(directory: &[IdentityInfo]) -> String {
    let mut hasher = blake3::Hasher::new();
    for identity in directory {
        for text in [&identity.id, &identity.name, &identity.email] {
            hasher.update(text.as_bytes()).update(b"\0");
        }
    }
    hasher.finalize().to_hex()[..16].to_owned()
}
