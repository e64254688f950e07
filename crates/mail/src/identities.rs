//! The identities of senders: the addresses of a person from the directory, with what the person has set, and further
//! ones that the person has created for these addresses.
//!
//! What was set is in the personal profile document `Identities` of the mail file, so each person has identities of its
//! own in a mail file of somebody else. The item `Identities` is JSON:
//!
//! | member | content |
//! |---|---|
//! | `identities` | the identities that were changed, created and destroyed |
//! | `forgotten` | the last change of destroyed identities that are not among them any more |
//!
//! Each identity has its properties, with the names of JMAP (RFC 8621 §6), `isDestroyed`, and the changes with which it
//! was `created` and `changed`: a modseq in the form for clients, or `last` for the last change of the document, whose
//! modseq is only known after it. Another replica does not know the modseqs, so there the changes before the first one
//! cannot be calculated. A created identity whose address is not one of the person's any more does not exist.

use notes::{Database, Item, Note};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::IDENTITIES_DESTROYED_MAX;
use crate::profile::{text_item, text_of};

/// The name of the profile document.
pub const IDENTITIES_PROFILE: &str = "Identities";

/// Stands for the modseq of the last change of the profile document.
const LAST: &str = "last";

/// The item with the identities.
const ITEM: &str = "Identities";

/// A name and an address under which a person sends, according to the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdentityInfo {
    /// The identifier, which is valid as one of an object ([`crate::object_id`]).
    pub id: String,
    /// The name of the sender.
    pub name: String,
    /// The address.
    pub email: String,
}

impl IdentityInfo {
    /// Returns the identity of an address. Its identifier is the same as long as the address is.
    #[must_use]
    pub fn of_address(name: &str, email: &str) -> Self {
        let id = format!("I{}", &blake3::hash(email.to_lowercase().as_bytes()).to_hex()[..16]);
        Self { id, name: name.to_owned(), email: email.to_owned() }
    }
}

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

    /// Sets the properties of an identity that clients set, with the next change of the profile document.
    pub fn set_settings(&mut self, id: &str, settings: IdentitySettings) {
        match self.find_mut(id) {
            Some(stored) => {
                stored.settings = settings;
                stored.set_changed();
            }
            None => {
                let mut stored = StoredIdentity { id: id.to_owned(), settings, ..StoredIdentity::default() };
                stored.set_changed();
                self.identities.push(stored);
            }
        }
    }
}

/// Returns an address of the person as the directory writes it, or `None` if it is not one.
#[must_use]
pub fn own_address(directory: &[IdentityInfo], email: &str) -> Option<String> {
    directory.iter().find(|info| info.email.eq_ignore_ascii_case(email)).map(|info| info.email.clone())
}

/// Returns the identity of new messages: the preferred one if it exists, else the first.
#[must_use]
pub fn default_identity<'i>(all: &'i [EffectiveIdentity], preferred: Option<&str>) -> Option<&'i EffectiveIdentity> {
    all.iter().find(|identity| Some(identity.id.as_str()) == preferred).or_else(|| all.first())
}
