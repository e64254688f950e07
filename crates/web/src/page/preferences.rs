//! The form with the preferences and the signature, a part of the settings.
//!
//! An empty field leaves the choice to each program. A form with a wrong value comes back with what was typed, and
//! nothing is saved.

use axum::response::Response;
use mail::identities::EffectiveIdentity;
use mail::limits::{PAGE_SIZE_MAX, PAGE_SIZE_MIN, UNDO_SECONDS_MAX};
use mail::preferences::{PreferenceKind, Preferences, SignaturePlacement};
use store::Ticket;

use crate::answer;
use crate::error::Result;
use crate::form::Form;
use crate::notice::Notice;
use crate::page::settings;
use crate::personal_settings;
use crate::shown_time::ShownZone;
use crate::visit::Visit;

/// The fields of the form, as they were typed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PreferencesForm {
    pub(crate) language: String,
    pub(crate) time_zone: String,
    pub(crate) page_size: String,
    /// `true`, `false` or empty.
    pub(crate) threads: String,
    pub(crate) placement: String,
    pub(crate) undo_seconds: String,
    pub(crate) signature: String,
    /// The identity that has the signature.
    pub(crate) identity: String,
    /// The address of the identity. It is not a field.
    pub(crate) address: String,
    /// The names of the preferences that the operator has set for all people. They are no field.
    pub(crate) locked: Vec<&'static str>,
}

/// Changes of preferences, by name.
type Changes = Vec<(&'static str, Option<String>)>;

impl PreferencesForm {
    /// Returns the form with what is stored.
    pub(crate) fn of(preferences: &Preferences, identity: Option<&EffectiveIdentity>) -> Self {
        let number = |number: Option<u32>| number.map_or_else(String::new, |number| number.to_string());
        let placement = match preferences.signature_placement {
            Some(SignaturePlacement::AboveQuote) => "aboveQuote",
            Some(SignaturePlacement::BelowQuote) => "belowQuote",
            Some(SignaturePlacement::None) => "none",
            None => "",
        };
        let text = |text: fn(&EffectiveIdentity) -> &String| identity.map_or_else(String::new, |of| text(of).clone());
        Self {
            language: preferences.language.clone().unwrap_or_default(),
            time_zone: preferences.time_zone.clone().unwrap_or_default(),
            page_size: number(preferences.page_size),
            threads: preferences.collapse_threads.map_or_else(String::new, |flag| flag.to_string()),
            placement: placement.to_owned(),
            undo_seconds: number(preferences.undo_seconds),
            signature: text(|identity| &identity.settings.text_signature),
            identity: text(|identity| &identity.id),
            address: text(|identity| &identity.email),
            locked: Vec::new(),
        }
    }

    /// Restores the locked fields, which browsers do not send, and what is no field.
    pub(crate) fn complete(&mut self, stored: Self) {
        let fields = [
            ("language", &mut self.language, stored.language),
            ("timeZone", &mut self.time_zone, stored.time_zone),
            ("pageSize", &mut self.page_size, stored.page_size),
            ("collapseThreads", &mut self.threads, stored.threads),
            ("signaturePlacement", &mut self.placement, stored.placement),
            ("undoSeconds", &mut self.undo_seconds, stored.undo_seconds),
        ];
        for (name, field, value) in fields {
            if stored.locked.contains(&name) {
                *field = value;
            }
        }
        self.address = stored.address;
        self.locked = stored.locked;
    }

    /// Returns the attribute of a field that cannot be changed, or nothing.
    pub(crate) fn disabled(&self, name: &str) -> &'static str {
        if self.locked.contains(&name) { " disabled" } else { "" }
    }

    fn read(form: &Form) -> Self {
        let field = |name: &str| form.text(name).trim().to_owned();
        Self {
            language: field("language"),
            time_zone: field("zone"),
            page_size: field("rows"),
            threads: field("threads"),
            placement: field("placement"),
            undo_seconds: field("undo"),
            signature: form.text("signature").replace("\r\n", "\n").trim_end().to_owned(),
            identity: field("identity"),
            address: String::new(),
            locked: Vec::new(),
        }
    }

    /// Returns the changes, or what is wrong.
    fn changes(&self, stored: &Preferences) -> std::result::Result<Changes, String> {
        let rows = format!("A page of a list has {PAGE_SIZE_MIN} to {PAGE_SIZE_MAX} rows.");
        let undo = format!("Sending can be undone for at most {UNDO_SECONDS_MAX} seconds.");
        let language = "This is not a language tag, such as de-CH.".to_owned();
        let fields = [
            ("language", &self.language, language),
            ("timeZone", &self.time_zone, "This time zone is not known.".to_owned()),
            ("pageSize", &self.page_size, rows),
            ("collapseThreads", &self.threads, "Choose what lists show.".to_owned()),
            ("signaturePlacement", &self.placement, "Choose where the signature is.".to_owned()),
            ("undoSeconds", &self.undo_seconds, undo),
        ];
        // Another program may have stored a zone that is not known here. It does not prevent other changes.
        let is_new_zone = !self.time_zone.is_empty() && stored.time_zone.as_ref() != Some(&self.time_zone);
        if is_new_zone && ShownZone::with_name(&self.time_zone).is_none() {
            return Err(format!("{} Nothing was saved.", fields[1].2));
        }
        if !personal_settings::is_signature(&self.signature) {
            return Err("The signature is too long. Nothing was saved.".to_owned());
        }
        let mut changes = Vec::with_capacity(fields.len());
        for (name, value, wrong) in fields {
            let value = Some(value.clone()).filter(|value| !value.is_empty());
            if value.as_ref().is_some_and(|value| !PreferenceKind::of(name).permits(value)) {
                return Err(format!("{wrong} Nothing was saved."));
            }
            changes.push((name, value));
        }
        Ok(changes)
    }
}

/// Saves the preferences and the signature.
pub(crate) async fn save(visit: &Visit, form: &Form) -> Result<Response> {
    let typed = PreferencesForm::read(form);
    let changes = match typed.changes(&visit.settings().await?.preferences) {
        Ok(changes) => changes,
        Err(failure) => return settings::page(visit, Some((typed, failure))).await,
    };
    let caller = visit.caller.clone();
    let saving = visit.service.run(&visit.caller, "preferences", move |backend| {
        let file = backend.open(&caller)?;
        let mut ticket = Ticket::NONE;
        // The identity may be gone. Then nothing is saved.
        if !typed.identity.is_empty() {
            let account = backend.account(&caller)?;
            let signature = (typed.identity.as_str(), typed.signature.as_str());
            ticket = personal_settings::change_signature(&file, &account, signature)?;
        }
        Ok(ticket.max(personal_settings::change(&file, &changes)?))
    });
    let ticket = saving.await?;
    visit.service.services.databases.store().durable(ticket).await?;
    Ok(answer::redirect(&Notice::text("The preferences were saved.").address("/lite/settings", &visit.secret)))
}
