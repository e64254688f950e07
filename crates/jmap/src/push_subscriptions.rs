//! Push subscriptions (RFC 8620 §7.2): which client of whom wants to be told about changes at which address.
//!
//! A subscription is a note of the database of the sessions, so it survives a restart and never leaves the server. All
//! of them are in memory, too. It belongs to the credential that created it: a session, or the password. It ends with
//! the credential, at its time, when its client does not verify it, and when its address takes no pushes any more.
//!
//! A change is in the database before it is in memory: one that cannot be written changes nothing.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use base::sync::Mutex;
use base::{Clock, NoteId, Random, Timestamp, hex};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Sessions;
use notes::{Item, ItemValue, NewNote, Note};
use serde_json::{Value, json};
use store::Ticket;
use tokio::sync::Notify;

use crate::error::SetError;
use crate::limits::{
    PUSH_CREATION_PERIOD, PUSH_CREATIONS_MAX, PUSH_SUBSCRIPTION_TIME_MAX, PUSH_SUBSCRIPTIONS_MAX,
    PUSH_SUBSCRIPTIONS_PER_PERSON_MAX, PUSH_VERIFICATION_TIME_MAX,
};
use crate::push_target::PushPolicy;
use crate::type_selection::TypeSelection;
use crate::web_push::{ClientKeys, VapidKey};

/// Forms of the notes.
const SUBSCRIPTION_FORM: &str = "PushSubscription";
const KEY_FORM: &str = "PushKey";

/// Items of the notes.
const FORM_ITEM: &str = "Form";
const ID_ITEM: &str = "PushId";
const LOGIN_ITEM: &str = "Login";
const CREDENTIAL_ITEM: &str = "Credential";
const STAMP_ITEM: &str = "PasswordStamp";
const DEVICE_ITEM: &str = "DeviceClientId";
const URL_ITEM: &str = "Url";
const KEYS_ITEM: &str = "ClientKeys";
const CODE_ITEM: &str = "VerificationCode";
const VERIFIED_ITEM: &str = "Verified";
const TYPES_ITEM: &str = "Types";
const CREATED_ITEM: &str = "Created";
const EXPIRES_ITEM: &str = "Expires";
const KEY_ITEM: &str = "PrivateKey";

/// Number of random bytes of an identifier and of a code.
const RANDOM_BYTES: usize = 16;

/// The beginning of a credential that is an application password.
pub const APPLICATION_PASSWORD_PREFIX: &str = "password:";

/// The credential to which a subscription belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushOwner {
    /// The login.
    pub login: String,
    /// The name of the session, or an empty one for the password.
    pub credential: String,
    /// The state of the password.
    pub stamp: u64,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPushSubscription {
    /// The identifier that the client has for itself.
    pub device_client_id: String,
    /// The address.
    pub url: String,
    /// The keys with which messages are encrypted. Without them, they are not.
    pub keys: Option<ClientKeys>,
    /// The time at which it ends, if the client wants one.
    pub expires: Option<Timestamp>,
    /// The types about which the client wants to know.
    pub types: TypeSelection,
}

/// A push subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushSubscription {
    /// The identifier.
    pub id: String,
    /// To whom it belongs.
    pub owner: PushOwner,
    /// What the client has asked for.
    pub wanted: NewPushSubscription,
    /// The code that the client learns from the first message.
    pub code: String,
    /// `true` once the client has returned the code.
    pub is_verified: bool,
    /// When it was created.
    pub created: Timestamp,
    /// When it ends.
    pub expires: Timestamp,
    note: NoteId,
}

/// A change of a subscription by its client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushSubscriptionChange {
    /// The code that the client has received.
    pub code: Option<String>,
    /// The new end; the inner `None` for the latest one that is possible.
    pub expires: Option<Option<Timestamp>>,
    /// The new types.
    pub types: Option<TypeSelection>,
}

impl PushSubscription {
    /// Returns `true` if it has ended by itself.
    #[must_use]
    pub fn is_over(&self, now: Timestamp) -> bool {
        now >= self.expires || (!self.is_verified && now.since(self.created) >= PUSH_VERIFICATION_TIME_MAX)
    }

    fn to_items(&self) -> Vec<Item> {
        let NewPushSubscription { device_client_id, url, keys, types, .. } = &self.wanted;
        let keys = keys.as_ref().map(|keys| keys.to_texts().to_vec()).unwrap_or_default();
        vec![
            Item::text(FORM_ITEM, SUBSCRIPTION_FORM),
            Item::text(ID_ITEM, &*self.id),
            Item::text(LOGIN_ITEM, &*self.owner.login),
            Item::text(CREDENTIAL_ITEM, &*self.owner.credential),
            Item::text(STAMP_ITEM, self.owner.stamp.to_string()),
            Item::text(DEVICE_ITEM, &**device_client_id),
            Item::text(URL_ITEM, &**url),
            Item::summary(KEYS_ITEM, ItemValue::TextList(keys)),
            Item::text(CODE_ITEM, &*self.code),
            Item::text(VERIFIED_ITEM, if self.is_verified { "1" } else { "0" }),
            Item::text(TYPES_ITEM, json!(types.names()).to_string()),
            Item::summary(CREATED_ITEM, ItemValue::Time(self.created)),
            Item::summary(EXPIRES_ITEM, ItemValue::Time(self.expires)),
        ]
    }

    /// Reads a note. Returns `None` for others than those of subscriptions.
    fn read(note: &Note) -> Option<Self> {
        let text = |name: &str| note.text(name).unwrap_or_default().to_owned();
        let time = |name: &str| note.item(name).and_then(|item| item.value.time());
        if text(FORM_ITEM) != SUBSCRIPTION_FORM {
            return None;
        }
        let types: Value = serde_json::from_str(&text(TYPES_ITEM)).ok()?;
        let keys = note.item(KEYS_ITEM).map(|item| item.value.texts().to_vec()).unwrap_or_default();
        let keys = match keys.as_slice() {
            [p256dh, auth] => Some(ClientKeys::parse(p256dh, auth).ok()?),
            _ => None,
        };
        let expires = time(EXPIRES_ITEM)?;
        Some(Self {
            id: text(ID_ITEM),
            owner: PushOwner {
                login: text(LOGIN_ITEM),
                credential: text(CREDENTIAL_ITEM),
                stamp: text(STAMP_ITEM).parse().ok()?,
            },
            wanted: NewPushSubscription {
                device_client_id: text(DEVICE_ITEM),
                url: text(URL_ITEM),
                keys,
                expires: Some(expires),
                types: TypeSelection::from_json(&types)?,
            },
            code: text(CODE_ITEM),
            is_verified: text(VERIFIED_ITEM) == "1",
            created: time(CREATED_ITEM)?,
            expires,
            note: note.header.note,
        })
    }
}

/// A subscription in memory.
struct Entry {
    subscription: PushSubscription,
    /// Notified when it was changed or removed.
    changed: Arc<Notify>,
}

/// The push subscriptions of a server.
pub struct PushSubscriptions {
    sessions: Arc<Sessions>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
    policy: PushPolicy,
    /// The key by which the server identifies itself, if it sends pushes at all.
    key: Option<VapidKey>,
    by_id: Mutex<BTreeMap<String, Entry>>,
    /// The last creations of each person.
    creations: Mutex<HashMap<String, Vec<Timestamp>>>,
    /// Held while notes are written, so that their order is that of the changes in memory.
    writing: Mutex<()>,
    added: Notify,
}

impl PushSubscriptions {
    /// Opens the subscriptions. If the operator has named hosts, the key of the server is created once, and is durable
    /// when this returns.
    pub fn open(
        sessions: &Arc<Sessions>,
        policy: PushPolicy,
        (clock, random): (Arc<dyn Clock>, Arc<dyn Random>),
    ) -> notes::Result<Arc<Self>> {
        let mut by_id = BTreeMap::new();
        let mut key = None;
        sessions.for_each_note(&mut |note| {
            if let Some(subscription) = PushSubscription::read(note) {
                by_id.insert(subscription.id.clone(), Entry { subscription, changed: Arc::default() });
            } else if note.text(FORM_ITEM) == Some(KEY_FORM) {
                let pkcs8 = note.text(KEY_ITEM).and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
                key = pkcs8.and_then(|pkcs8| VapidKey::parse(&pkcs8).ok());
            }
        })?;
        if key.is_none() && !policy.is_empty() {
            key = Some(create_key(sessions)?);
        }
        Ok(Arc::new(Self {
            sessions: Arc::clone(sessions),
            clock,
            random,
            policy,
            key,
            by_id: Mutex::new(by_id),
            creations: Mutex::default(),
            writing: Mutex::default(),
            added: Notify::new(),
        }))
    }

    /// Returns the addresses to which the server sends pushes.
    #[must_use]
    pub fn policy(&self) -> &PushPolicy {
        &self.policy
    }

    /// Returns the key by which the server identifies itself, if it sends pushes at all.
    #[must_use]
    pub fn key(&self) -> Option<&VapidKey> {
        self.key.as_ref().filter(|_| !self.policy.is_empty())
    }

    /// Waits until subscriptions were added. One waiter learns of it.
    pub async fn added(&self) {
        self.added.notified().await;
    }

    /// Returns the identifiers of all subscriptions, each with what notifies of its changes.
    #[must_use]
    pub fn all(&self) -> Vec<(String, Arc<Notify>)> {
        let by_id = self.by_id.lock();
        by_id.iter().map(|(id, entry)| (id.clone(), Arc::clone(&entry.changed))).collect()
    }

    /// Returns a subscription that has not ended by itself.
    #[must_use]
    pub fn get(&self, id: &str) -> Option<PushSubscription> {
        let now = self.clock.now();
        let by_id = self.by_id.lock();
        by_id.get(id).map(|entry| &entry.subscription).filter(|one| !one.is_over(now)).cloned()
    }

    /// Returns the subscriptions of a credential.
    #[must_use]
    pub fn of_owner(&self, owner: &PushOwner) -> Vec<PushSubscription> {
        let now = self.clock.now();
        let by_id = self.by_id.lock();
        let all = by_id.values().map(|entry| &entry.subscription);
        all.filter(|one| one.owner == *owner && !one.is_over(now)).cloned().collect()
    }

    /// Returns `true` if the session of an owner has not ended. Passwords have none.
    #[must_use]
    pub fn is_session_valid(&self, owner: &PushOwner) -> bool {
        let sessions = |login: &str| self.sessions.list(Some(login));
        owner.credential.is_empty()
            || owner.credential.starts_with(APPLICATION_PASSWORD_PREFIX)
            || sessions(&owner.login).iter().any(|session| session.id.name() == owner.credential)
    }

    /// Creates a subscription. It is durable with the ticket.
    pub fn create(
        &self,
        owner: PushOwner,
        wanted: NewPushSubscription,
    ) -> Result<(PushSubscription, Ticket), SetError> {
        let now = self.clock.now();
        self.policy.target(&wanted.url).map_err(|error| SetError::invalid_properties(&["url"], error.to_string()))?;
        let expires = self.end(wanted.expires)?;
        let _writing = self.writing.lock();
        self.remove_over(now)?;
        self.check_counts(&owner.login, now)?;
        let mut subscription = PushSubscription {
            id: format!("P{}", self.random_text()),
            owner,
            wanted,
            code: self.random_text(),
            is_verified: false,
            created: now,
            expires,
            note: NoteId(0),
        };
        let access = self.sessions.access()?;
        let accesses = [access.as_ref()];
        let mut transaction = self.sessions.databases().transaction(&accesses)?;
        subscription.note = transaction.writer(0).note_create(NewNote::document(subscription.to_items()))?;
        let ticket = transaction.commit()?;
        self.creations.lock().entry(subscription.owner.login.clone()).or_default().push(now);
        let entry = Entry { subscription: subscription.clone(), changed: Arc::default() };
        self.by_id.lock().insert(subscription.id.clone(), entry);
        self.added.notify_one();
        Ok((subscription, ticket))
    }

    /// Changes a subscription of an owner. It is durable with the ticket.
    pub fn update(
        &self,
        owner: &PushOwner,
        id: &str,
        change: PushSubscriptionChange,
    ) -> Result<(PushSubscription, Ticket), SetError> {
        let _writing = self.writing.lock();
        let mut subscription = self.get(id).filter(|one| one.owner == *owner).ok_or(SetError::new("notFound"))?;
        if let Some(code) = change.code {
            // The time of this comparison does not depend on the code.
            if blake3::hash(code.as_bytes()) != blake3::hash(subscription.code.as_bytes()) {
                return Err(SetError::invalid_properties(&["verificationCode"], "it is not the code that was sent"));
            }
            subscription.is_verified = true;
        }
        if let Some(expires) = change.expires {
            subscription.expires = self.end(expires)?;
        }
        if let Some(types) = change.types {
            subscription.wanted.types = types;
        }
        let access = self.sessions.access()?;
        let accesses = [access.as_ref()];
        let mut transaction = self.sessions.databases().transaction(&accesses)?;
        let mut writer = transaction.writer(0);
        let header = writer.header(subscription.note)?.ok_or(SetError::new("notFound"))?;
        writer.note_update(subscription.note, header.revision(), &subscription.to_items(), &[])?;
        let ticket = transaction.commit()?;
        if let Some(entry) = self.by_id.lock().get_mut(id) {
            entry.subscription = subscription.clone();
            entry.changed.notify_one();
        }
        Ok((subscription, ticket))
    }

    /// Removes a subscription of an owner. It is gone durably with the ticket.
    pub fn destroy(&self, owner: &PushOwner, id: &str) -> Result<Ticket, SetError> {
        let _writing = self.writing.lock();
        self.get(id).filter(|one| one.owner == *owner).ok_or(SetError::new("notFound"))?;
        Ok(self.remove_all(&[id.to_owned()])?)
    }

    /// Removes a subscription.
    pub fn remove(&self, id: &str) -> notes::Result<()> {
        let _writing = self.writing.lock();
        self.remove_all(&[id.to_owned()]).map(drop)
    }

    /// Returns the time at which a subscription ends whose client wants a time.
    fn end(&self, wanted: Option<Timestamp>) -> Result<Timestamp, SetError> {
        let now = self.clock.now();
        let latest = now.after(PUSH_SUBSCRIPTION_TIME_MAX);
        match wanted {
            Some(wanted) if wanted <= now => Err(SetError::invalid_properties(&["expires"], "it is in the past")),
            Some(wanted) => Ok(wanted.min(latest)),
            None => Ok(latest),
        }
    }

    /// Checks that a person may create one more subscription.
    fn check_counts(&self, login: &str, now: Timestamp) -> Result<(), SetError> {
        let by_id = self.by_id.lock();
        let own = by_id.values().filter(|entry| entry.subscription.owner.login == login).count();
        if own >= PUSH_SUBSCRIPTIONS_PER_PERSON_MAX || by_id.len() >= PUSH_SUBSCRIPTIONS_MAX {
            return Err(SetError::described("overQuota", "there are too many push subscriptions; destroy some"));
        }
        let mut creations = self.creations.lock();
        creations.retain(|_, times| {
            times.retain(|time| now.since(*time) < PUSH_CREATION_PERIOD);
            !times.is_empty()
        });
        if creations.get(login).is_some_and(|times| times.len() >= PUSH_CREATIONS_MAX) {
            return Err(SetError::described("rateLimit", "too many push subscriptions were created; try again later"));
        }
        Ok(())
    }

    /// Removes the subscriptions that have ended by themselves.
    fn remove_over(&self, now: Timestamp) -> notes::Result<()> {
        let over: Vec<String> = {
            let by_id = self.by_id.lock();
            let all = by_id.values().map(|entry| &entry.subscription);
            all.filter(|one| one.is_over(now)).map(|one| one.id.clone()).collect()
        };
        self.remove_all(&over).map(drop)
    }

    /// Removes subscriptions. The caller holds the lock for writing, and names none twice.
    fn remove_all(&self, ids: &[String]) -> notes::Result<Ticket> {
        let notes: Vec<NoteId> = {
            let by_id = self.by_id.lock();
            ids.iter().filter_map(|id| by_id.get(id)).map(|entry| entry.subscription.note).collect()
        };
        if notes.is_empty() {
            return Ok(Ticket::NONE);
        }
        let access = self.sessions.access()?;
        let accesses = [access.as_ref()];
        let mut transaction = self.sessions.databases().transaction(&accesses)?;
        for note in notes {
            transaction.writer(0).note_delete_permanently(note)?;
        }
        let ticket = transaction.commit()?;
        let removed: Vec<Entry> = {
            let mut by_id = self.by_id.lock();
            ids.iter().filter_map(|id| by_id.remove(id)).collect()
        };
        removed.iter().for_each(|entry| entry.changed.notify_one());
        Ok(ticket)
    }

    fn random_text(&self) -> String {
        let mut bytes = [0; RANDOM_BYTES];
        self.random.fill(&mut bytes);
        hex::lower(&bytes)
    }
}

/// Creates the key of the server, and waits until it is durable.
fn create_key(sessions: &Sessions) -> notes::Result<VapidKey> {
    let unusable = |error: crate::web_push::WebPushError| notes::Error::Invalid {
        what: "the key for push services".to_owned(),
        reason: error.to_string(),
    };
    let pkcs8 = VapidKey::generate().map_err(unusable)?;
    let key = VapidKey::parse(&pkcs8).map_err(unusable)?;
    let items = vec![Item::text(FORM_ITEM, KEY_FORM), Item::text(KEY_ITEM, URL_SAFE_NO_PAD.encode(&pkcs8))];
    let access = sessions.access()?;
    let accesses = [access.as_ref()];
    let mut transaction = sessions.databases().transaction(&accesses)?;
    transaction.writer(0).note_create(NewNote::document(items))?;
    let ticket = transaction.commit()?;
    sessions.databases().store().durable(ticket).wait()?;
    Ok(key)
}
