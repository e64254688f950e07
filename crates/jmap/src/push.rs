//! Push (RFC 8620 §7): the states of all accounts that a person sees, and what notifies of their changes.
//!
//! The connection that a client listens on waits for the mail files of all accounts, and compares the states then. It
//! tells a state when the ticket of the view is durable. A mail file that cannot be read is tried again soon
//! ([`OBSERVATION_RETRY`]), so that its changes are not missed until another one changes.

use std::collections::BTreeMap;
use std::pin::Pin;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures_util::future;
use mail::preferences::PREFERENCES_PROFILE;
use mail::profile::{Profile, modseq_of};
use serde_json::{Map, Value, json};
use store::Ticket;

use crate::account::{Account, AccountView};
use crate::backend::{Caller, Services};
use crate::error::{MethodError, MethodResult};
use crate::identities::IdentityList;
use crate::limits::{EVENT_ID_BYTES_MAX, OBSERVATION_RETRY};
use crate::profile;
use crate::quota::StorageQuota;
use crate::state;
use crate::submission::{self, Submission};
use crate::type_selection::TypeSelection;

/// The states of the types of accounts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AccountStates {
    /// The states by account and type.
    pub states: BTreeMap<String, BTreeMap<String, String>>,
}

impl AccountStates {
    /// Reads the identifier of an event. Returns `None` if it is not one.
    #[must_use]
    pub fn from_event_id(text: &str) -> Option<Self> {
        if text.len() > EVENT_ID_BYTES_MAX {
            return None;
        }
        let states = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(text).ok()?).ok()?;
        Some(Self { states })
    }

    /// Returns the identifier of an event after which a client knows these states.
    #[must_use]
    pub fn event_id(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&self.states).unwrap_or_default())
    }

    /// Returns the StateChange object with the states that a client does not know yet, or `None` if it knows all.
    #[must_use]
    pub fn differences(&self, known: &Self, types: &TypeSelection) -> Option<Map<String, Value>> {
        let mut changed = Map::new();
        for (account, states) in &self.states {
            let before = known.states.get(account);
            let is_new = |name: &str, state: &String| before.and_then(|states| states.get(name)) != Some(state);
            let of_account: Map<String, Value> = states
                .iter()
                .filter(|(name, state)| types.contains(name) && is_new(name, state))
                .map(|(name, state)| (name.clone(), Value::from(state.clone())))
                .collect();
            if !of_account.is_empty() {
                changed.insert(account.clone(), Value::Object(of_account));
            }
        }
        if changed.is_empty() {
            return None;
        }
        Some(Map::from_iter([("@type", json!("StateChange")), ("changed", Value::Object(changed))].map(named)))
    }
}

fn named((name, value): (&str, Value)) -> (String, Value) {
    (name.to_owned(), value)
}

/// The future that completes with the next change of one of the mail files, or when the states are to be read again.
pub type Change = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The states of all accounts at a moment.
pub struct Observation {
    /// The states.
    pub states: AccountStates,
    /// The next change after them.
    pub change: Change,
    /// What must be durable before the states are told.
    pub ticket: Ticket,
    /// `true` if the states of all accounts are known. Otherwise, they are to be read again after some time.
    pub is_complete: bool,
}

impl Observation {
    /// Adds the states that a client knows of accounts that cannot be read now, because it is told when they differ.
    #[must_use]
    pub fn with_known(mut self, known: &AccountStates) -> Self {
        if !self.is_complete {
            for (account, states) in &known.states {
                self.states.states.entry(account.clone()).or_insert_with(|| states.clone());
            }
        }
        self
    }
}

/// Returns the states of all accounts of a caller. The listeners begin before the states are read, so no change is
/// missed. An account that cannot be read is left out, and the next change comes after [`OBSERVATION_RETRY`] then.
pub fn observe(services: &Services, caller: &Caller) -> mail::Result<Observation> {
    let infos = services.accounts.accounts(caller)?;
    let accounts: Vec<Account> = infos.iter().filter_map(|of| Account::open(services, caller, &of.id).ok()).collect();
    let listeners: Vec<_> = accounts.iter().map(|account| account.file.listen()).collect();
    let mut states = AccountStates::default();
    let mut ticket = Ticket::NONE;
    for account in &accounts {
        let Ok(view) = account.view() else { continue };
        ticket = ticket.max(view.snapshot.ticket());
        if let Ok(mut of_account) = states_of(&view) {
            of_account.extend(setting_states(services, caller, account, &view).unwrap_or_default());
            states.states.insert(account.info.id.clone(), of_account);
        }
    }
    let is_complete = states.states.len() == infos.len();
    let changed = async move {
        match listeners.is_empty() {
            true => future::pending().await,
            false => drop(future::select_all(listeners).await),
        }
    };
    let change: Change = match is_complete {
        true => Box::pin(changed),
        false => Box::pin(async move {
            // The end of the time is a change, too.
            let _ = tokio::time::timeout(OBSERVATION_RETRY, changed).await;
        }),
    };
    Ok(Observation { states, change, ticket, is_complete })
}

fn states_of(view: &AccountView<'_>) -> MethodResult<BTreeMap<String, String>> {
    let submissions = Submission::all(view.snapshot.reading())?;
    let submission_state = state::format(submission::last_change(&submissions), &view.snapshot);
    let states = [
        ("Email", view.email_state()),
        ("EmailDelivery", view.thread_state()),
        ("EmailSubmission", submission_state),
        ("Mailbox", view.mailbox_state()),
        ("Quota", StorageQuota::read(&view.snapshot).state()),
        ("Thread", view.thread_state()),
    ];
    Ok(states.map(|(name, state)| (name.to_owned(), state)).into())
}

/// Returns the states of the types whose objects are in profile documents.
fn setting_states(
    services: &Services,
    caller: &Caller,
    account: &Account,
    view: &AccountView<'_>,
) -> MethodResult<BTreeMap<String, String>> {
    let state_of = |profile: Profile| {
        let note = profile.load(&view.snapshot)?;
        Ok::<_, MethodError>(state::format(modseq_of(note.as_deref()), &view.snapshot))
    };
    let locked = account.file.mail().options().locked_preferences.digest();
    let preferences = state_of(profile::personal(PREFERENCES_PROFILE, account)?)?;
    let identities = IdentityList::load(services, caller, account, &view.snapshot)?;
    let states = [
        ("Identity", identities.state(&view.snapshot)),
        ("Preferences", state::with_mark(&preferences, locked.as_deref())),
        ("VacationResponse", state_of(Profile::shared(profile::OUT_OF_OFFICE))?),
    ];
    Ok(states.map(|(name, state)| (name.to_owned(), state)).into())
}
