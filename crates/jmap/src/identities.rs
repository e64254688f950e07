//! Identities (RFC 8621 §6): the addresses of a person from the directory, with what the person has set, and further
//! ones that the person has created for these addresses.
//!
//! What was set is in the personal profile document `Identities` of the mail file, so each person has identities of its
//! own in an account of somebody else. The item `Identities` is JSON:
//!
//! | member | content |
//! |---|---|
//! | `identities` | the identities that were changed, created and destroyed |
//! | `forgotten` | the last change of destroyed identities that are not among them any more |
//!
//! Each identity has its properties, `isDestroyed`, and the changes with which it was `created` and `changed`: a modseq
//! in the form for clients, or `last` for the last change of the document, whose modseq is only known after it. Another
//! replica does not know the modseqs, so there the changes before the first one cannot be calculated.
//!
//! The state is the modseq of the profile and a digest of what the directory says, because the directory keeps no
//! history: after a change there, no changes can be calculated. A created identity whose address is not one of the
//! person's any more does not exist.

use base::Modseq;
use mail::mailbox::MailSnapshot;
use notes::{Database, Item, Note};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::account::Account;
use crate::backend::{Caller, IdentityInfo, Services};
use crate::changes::ChangeSet;
use crate::error::{MethodError, MethodResult, SetError};
use crate::limits::{IDENTITIES_DESTROYED_MAX, IDENTITY_ADDRESSES_MAX, IDENTITY_NAME_BYTES_MAX, SIGNATURE_BYTES_MAX};
use crate::profile::{Profile, modseq_of, text_item, text_of};
use crate::state;

/// The name of the profile document.
const PROFILE: &str = "Identities";

/// Stands for the modseq of the last change of the profile document.
const LAST: &str = "last";

/// The item with the identities.
const ITEM: &str = "Identities";

/// The properties that clients set.
pub const SETTABLE: [&str; 5] = ["name", "replyTo", "bcc", "textSignature", "htmlSignature"];

/// What a person has set of an identity.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredIdentity {
    /// The identifier.
    pub id: String,
    /// The address of an identity that the person has created.
    pub email: Option<String>,
    /// The properties that clients set.
    pub settings: IdentitySettings,
    /// The change with which it was created. Empty for an identity of the directory.
    pub created: String,
    /// The last change. Empty if there was none.
    pub changed: String,
    /// `true` if it was destroyed.
    #[serde(default)]
    pub is_destroyed: bool,
}

/// The properties of an identity that clients set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IdentitySettings {
    /// `name`.
    pub name: String,
    /// `replyTo`.
    pub reply_to: Option<Value>,
    /// `bcc`.
    pub bcc: Option<Value>,
    /// `textSignature`.
    pub text_signature: String,
    /// `htmlSignature`.
    pub html_signature: String,
}

impl IdentitySettings {
    /// Checks the properties of an object that clients set. Absent ones, and `null`, stand for the defaults.
    pub fn parse(object: &Map<String, Value>) -> Result<Self, SetError> {
        let text = |name: &'static str, bytes_max: usize| match object.get(name) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) if text.len() <= bytes_max => Ok(text.clone()),
            Some(_) => Err(SetError::invalid_properties(&[name], "the value is not a string, or it is too long")),
        };
        let name = text("name", IDENTITY_NAME_BYTES_MAX)?;
        if name.chars().any(char::is_control) {
            return Err(SetError::invalid_properties(&["name"], "the name has control characters"));
        }
        Ok(Self {
            name,
            reply_to: parse_addresses("replyTo", object)?,
            bcc: parse_addresses("bcc", object)?,
            text_signature: text("textSignature", SIGNATURE_BYTES_MAX)?,
            html_signature: text("htmlSignature", SIGNATURE_BYTES_MAX)?,
        })
    }

    /// Returns the properties.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let values = [
            json!(self.name),
            json!(self.reply_to),
            json!(self.bcc),
            json!(self.text_signature),
            json!(self.html_signature),
        ];
        SETTABLE.into_iter().map(str::to_owned).zip(values).collect()
    }
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

/// An identity as clients see it.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectiveIdentity {
    /// The identifier.
    pub id: String,
    /// The address.
    pub email: String,
    /// `true` if the person has created it.
    pub may_delete: bool,
    /// The properties that clients set.
    pub settings: IdentitySettings,
}

impl EffectiveIdentity {
    /// Returns the object.
    #[must_use]
    pub fn to_json(&self) -> Map<String, Value> {
        let mut object = Map::new();
        object.insert("id".to_owned(), json!(self.id));
        object.insert("email".to_owned(), json!(self.email));
        object.extend(self.settings.to_json());
        object.insert("mayDelete".to_owned(), json!(self.may_delete));
        object
    }
}

/// What persons have set, as the profile document has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredIdentities {
    /// The identities, in the order of their first changes.
    pub identities: Vec<StoredIdentity>,
    /// The last change of destroyed identities that were removed from the list.
    #[serde(default)]
    pub forgotten: String,
}

impl StoredIdentity {
    /// Records that the next change of the profile document creates the identity.
    pub fn set_created(&mut self) {
        LAST.clone_into(&mut self.created);
        self.set_changed();
    }

    /// Records that the next change of the profile document changes the identity.
    pub fn set_changed(&mut self) {
        LAST.clone_into(&mut self.changed);
    }
}

impl StoredIdentities {
    /// Reads the profile document.
    #[must_use]
    pub fn read(note: Option<&Note>, database: &Database) -> Self {
        let Some(note) = note else { return Self::default() };
        let text = text_of(&note.items, ITEM);
        let mut stored: Self = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let last = database.modseq_to_client(note.header.modseq).to_string();
        for identity in &mut stored.identities {
            for change in [&mut identity.created, &mut identity.changed] {
                if change == LAST {
                    change.clone_from(&last);
                }
            }
        }
        stored
    }

    /// Returns the items of the profile document. Old destroyed identities are left out.
    #[must_use]
    pub fn items(mut self) -> Vec<Item> {
        let mut destroyed = self.identities.iter().filter(|of| of.is_destroyed).count();
        let mut forgotten = self.forgotten;
        let number = |text: &str| text.parse::<u64>().unwrap_or(u64::MAX);
        // The ones that were destroyed first are forgotten first. What changes now has no number yet.
        let mut changes: Vec<u64> =
            self.identities.iter().filter(|of| of.is_destroyed).map(|of| number(&of.changed)).collect();
        changes.sort_unstable();
        let kept_from = destroyed.checked_sub(IDENTITIES_DESTROYED_MAX).and_then(|index| changes.get(index)).copied();
        self.identities.retain(|identity| {
            let is_old = kept_from.is_some_and(|kept_from| number(&identity.changed) < kept_from);
            let is_forgotten = identity.is_destroyed && destroyed > IDENTITIES_DESTROYED_MAX && is_old;
            if is_forgotten {
                destroyed -= 1;
                if number(&identity.changed) > forgotten.parse().unwrap_or(0) {
                    forgotten.clone_from(&identity.changed);
                }
            }
            !is_forgotten
        });
        self.forgotten = forgotten;
        vec![text_item(ITEM, &serde_json::to_string(&self).unwrap_or_default())]
    }

    /// Returns the identity with an identifier.
    pub fn find_mut(&mut self, id: &str) -> Option<&mut StoredIdentity> {
        self.identities.iter_mut().find(|identity| identity.id == id)
    }

    /// Returns the number of identities that the person has created and not destroyed.
    #[must_use]
    pub fn created_count(&self) -> usize {
        self.identities.iter().filter(|identity| identity.email.is_some() && !identity.is_destroyed).count()
    }

    /// Returns the identities with what the directory says: first those of the directory, then the created ones.
    #[must_use]
    pub fn with_directory(&self, directory: &[IdentityInfo]) -> Vec<EffectiveIdentity> {
        let of_directory = directory.iter().map(|info| {
            let stored = self.identities.iter().find(|stored| stored.id == info.id && stored.email.is_none());
            let default = || IdentitySettings { name: info.name.clone(), ..IdentitySettings::default() };
            EffectiveIdentity {
                id: info.id.clone(),
                email: info.email.clone(),
                may_delete: false,
                settings: stored.map_or_else(default, |stored| stored.settings.clone()),
            }
        });
        let created = self.identities.iter().filter(|stored| !stored.is_destroyed).filter_map(|stored| {
            let email = own_address(directory, stored.email.as_deref()?)?;
            let settings = stored.settings.clone();
            Some(EffectiveIdentity { id: stored.id.clone(), email, may_delete: true, settings })
        });
        of_directory.chain(created).collect()
    }

    /// Finds the changes between two states.
    pub fn changes(&self, snapshot: &MailSnapshot<'_>, since: Modseq, until: Modseq) -> MethodResult<ChangeSet> {
        let unknown = || MethodError::new("cannotCalculateChanges");
        let modseq = |text: &str| match text {
            "" => Ok(Modseq(0)),
            text => text.parse().ok().and_then(|number| snapshot.known_to_client(number)).ok_or_else(unknown),
        };
        if since < modseq(&self.forgotten)? {
            return Err(unknown());
        }
        let mut set = ChangeSet::default();
        for identity in &self.identities {
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
}

/// Returns an address of the person as the directory writes it, or `None` if it is not one.
#[must_use]
pub fn own_address(directory: &[IdentityInfo], email: &str) -> Option<String> {
    directory.iter().find(|info| info.email.eq_ignore_ascii_case(email)).map(|info| info.email.clone())
}

/// Returns the profile document with the identities of the caller in an account.
pub fn profile(account: &Account) -> MethodResult<Profile> {
    Profile::personal(PROFILE, account)
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
        let note = profile(account)?.load(snapshot)?;
        let directory = services.accounts.identities(caller)?;
        Ok(Self {
            modseq: modseq_of(note.as_ref()),
            stored: StoredIdentities::read(note.as_ref(), account.file.database()),
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
