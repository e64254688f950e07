//! The settings of a person that all clients share: preferences and signature, in profile documents of the mail file.
//!
//! Each page reads the preferences, so a change by another program counts at once. A page of the mail file reads them
//! in its own job ([`crate::visit::Visit::run_with_settings`]). Somebody who has no mail file here has none.

use std::sync::Arc;

use http::Caller;
use mail::identities::{EffectiveIdentity, IDENTITIES_PROFILE, IdentityInfo, StoredIdentities, default_identity};
use mail::limits::SIGNATURE_BYTES_MAX;
use mail::mailbox::{MailFile, MailSnapshot};
use mail::preferences::{self, PREFERENCES_PROFILE, Preferences, SignaturePlacement};
use mail::profile::Profile;
use notes::{Grant, Note};
use store::Ticket;

use crate::backend::{Account, BackendError};
use crate::error::{Error, Result};
use crate::limits::{PAGE_SIZE_DEFAULT, SIGNATURE_LINES_MAX};
use crate::service::Service;
use crate::shown_time::ShownZone;

/// The settings that pages follow.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PersonalSettings {
    /// What the person has chosen.
    pub(crate) preferences: Preferences,
    /// The time zone of all times that pages show.
    pub(crate) zone: ShownZone,
}

impl PersonalSettings {
    /// Reads the settings of a person. Fails if they cannot be read now: without them, a message that is to be held
    /// would be sent at once.
    pub(crate) async fn load(service: &Service, caller: &Caller) -> Result<Self> {
        match service.run_in_file(caller, "preferences", Self::read).await {
            // The page itself says that there is no mail file here, if it needs one.
            Err(Error::MailFile(BackendError::NoMailFile | BackendError::MailFileElsewhere)) => Ok(Self::default()),
            read => read,
        }
    }

    /// Reads the settings in a mail file. Returns the ticket of what was read, too.
    pub(crate) fn read(file: &MailFile) -> Result<(Self, Ticket)> {
        let snapshot = file.snapshot()?;
        let note = load(&snapshot, PREFERENCES_PROFILE)?;
        let preferences = Preferences::read(note.as_deref(), &file.mail().options().locked_preferences);
        let zone = preferences.time_zone.as_deref().and_then(ShownZone::with_name).unwrap_or_default();
        Ok((Self { preferences, zone }, snapshot.ticket()))
    }

    /// Returns the number of rows of a list.
    pub(crate) fn page_size(&self) -> u32 {
        self.preferences.page_size.unwrap_or(PAGE_SIZE_DEFAULT)
    }

    /// Returns `true` if lists show conversations.
    pub(crate) fn has_threads(&self) -> bool {
        self.preferences.collapse_threads.unwrap_or(false)
    }

    /// Returns the place of the signature.
    pub(crate) fn signature_placement(&self) -> SignaturePlacement {
        self.preferences.signature_placement.unwrap_or(SignaturePlacement::AboveQuote)
    }
}

/// Changes preferences. `None` leaves the choice to the clients.
pub(crate) fn change(file: &MailFile, changes: &[(&str, Option<String>)]) -> Result<Ticket> {
    let profile = profile_in(&file.snapshot()?, PREFERENCES_PROFILE).ok_or(Error::Denied)?;
    let changed = profile.update(file, |note| {
        let invalid = |name: &str| Error::Invalid(format!("the preference {name} has no such value"));
        preferences::changed_items(note, changes, &file.mail().options().locked_preferences).map(Some).map_err(invalid)
    });
    Ok(changed?.ticket)
}

/// Returns the identity with which the person sends unless another one is chosen. Returns `None` for a person without
/// an address.
pub(crate) fn identity(
    snapshot: &MailSnapshot<'_>,
    database: &notes::Database,
    (account, preferences): (&Account, &Preferences),
) -> Result<Option<EffectiveIdentity>> {
    let note = load(snapshot, IDENTITIES_PROFILE)?;
    let stored = StoredIdentities::read(note.as_deref(), database);
    let all = stored.with_directory(&directory(account));
    Ok(default_identity(&all, preferences.default_identity.as_deref()).cloned())
}

/// Returns `true` if a text may be a signature.
pub(crate) fn is_signature(text: &str) -> bool {
    text.len() <= SIGNATURE_BYTES_MAX && text.lines().count() <= SIGNATURE_LINES_MAX
}

/// Changes the text signature of an identity to a text that [`is_signature`] permits.
pub(crate) fn change_signature(file: &MailFile, account: &Account, (id, text): (&str, &str)) -> Result<Ticket> {
    let profile = profile_in(&file.snapshot()?, IDENTITIES_PROFILE).ok_or(Error::Denied)?;
    let changed = profile.update(file, |note| {
        let mut stored = StoredIdentities::read(note, file.database());
        let all = stored.with_directory(&directory(account));
        let identity = all.into_iter().find(|identity| identity.id == id).ok_or(Error::NotFound("the identity"))?;
        if identity.settings.text_signature == text {
            return Ok::<_, Error>(None);
        }
        let mut settings = identity.settings;
        text.clone_into(&mut settings.text_signature);
        stored.set_settings(id, settings);
        Ok(Some(stored.items()))
    });
    Ok(changed?.ticket)
}

fn directory(account: &Account) -> Vec<IdentityInfo> {
    account.addresses.iter().map(|address| IdentityInfo::of_address(&account.name, address)).collect()
}

fn profile_in(snapshot: &MailSnapshot<'_>, name: &'static str) -> Option<Profile> {
    let grant: &Grant = snapshot.reading().grant();
    Profile::personal(name, grant)
}

fn load(snapshot: &MailSnapshot<'_>, name: &'static str) -> Result<Option<Arc<Note>>> {
    match profile_in(snapshot, name) {
        Some(profile) => Ok(profile.load(snapshot)?),
        None => Ok(None),
    }
}
