//! Adding and removing the application passwords and the second factor of a person.

use std::sync::Arc;

use base::Timestamp;
use sasl::ApplicationPasswordId;

use crate::application_password::{ApplicationPassword, NewApplicationPassword};
use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::person::Person;
use crate::person_edit::find_person;
use crate::second_factor::{FactorSecret, SecondFactor};

impl Directory {
    /// Adds an application password to a person. Returns it, and its text, which nobody can read later.
    ///
    /// Returns [`Error::ApplicationPassword`] for one that would be useless, and [`Error::Limit`] beyond
    /// [`crate::limits::APPLICATION_PASSWORDS_MAX`].
    pub fn application_password_add(
        &self,
        login: &str,
        new: &NewApplicationPassword,
    ) -> Result<(ApplicationPassword, String)> {
        let has_scram = self.options().passwords.scram_iterations.is_some();
        // Without other keys, the challenge stays the one that everybody without keys has, so that it reveals nothing.
        let challenge = has_scram.then(|| self.scram_challenge_of(login)).transpose()?;
        let sources = (self.credentials().now(), self.random());
        self.person_change(login, |person| {
            let known = person.scram_challenge().cloned();
            let challenge = challenge.as_ref().map(|challenge| known.as_ref().unwrap_or(challenge));
            person.add_application_password(new, challenge, sources)
        })
    }

    /// Removes an application password. Its sessions end.
    pub fn application_password_revoke(&self, login: &str, id: ApplicationPasswordId) -> Result<ApplicationPassword> {
        self.person_change(login, |person| {
            let place = person.application_passwords.iter().position(|known| known.id == id);
            let place = place.ok_or_else(|| Error::not_found(format!("application password {id}")))?;
            Ok(person.application_passwords.remove(place))
        })
    }

    /// Removes all application passwords of a person. Returns how many there were.
    pub fn application_passwords_revoke_all(&self, login: &str) -> Result<usize> {
        self.person_change(login, |person| Ok(std::mem::take(&mut person.application_passwords).len()))
    }

    /// Adds a second factor to a person if the code shows that the authenticator has the secret. Returns the recovery
    /// codes.
    ///
    /// Returns [`Error::FactorCode`] for a wrong code, and [`Error::FactorExists`] if the person has a second factor:
    /// it is removed first.
    pub fn second_factor_set(&self, login: &str, secret: &FactorSecret, code: &str) -> Result<Vec<String>> {
        self.second_factor_set_at(login, (secret, code), self.credentials().now())
    }

    /// Adds a second factor like [`Directory::second_factor_set`], with the time at which it was added. Logins refer to
    /// a factor by this time, so a caller that chooses it can make a login refer to a factor that is added next.
    pub fn second_factor_set_at(
        &self,
        login: &str,
        (secret, code): (&FactorSecret, &str),
        added: Timestamp,
    ) -> Result<Vec<String>> {
        if secret.step_of(code, self.credentials().now()).is_none() {
            return Err(Error::FactorCode);
        }
        self.person_change(login, |person| {
            if person.second_factor.is_some() {
                return Err(Error::FactorExists);
            }
            let (factor, texts) = SecondFactor::create(secret.clone(), added, self.random());
            person.second_factor = Some(factor);
            Ok(texts)
        })
    }

    /// Removes the second factor of a person.
    pub fn second_factor_remove(&self, login: &str) -> Result<Arc<Person>> {
        self.person_change(login, |person| {
            person.second_factor = None;
            Ok(Arc::new(person.clone()))
        })
    }

    /// Replaces the recovery codes of a person. Returns the new ones.
    pub fn recovery_codes_renew(&self, login: &str) -> Result<Vec<String>> {
        self.person_change(login, |person| match &mut person.second_factor {
            Some(factor) => Ok(factor.renew_recovery_codes(self.random())),
            None => Err(Error::not_found(format!("second factor of {}", person.label()))),
        })
    }

    /// Changes a person durably, unless the change fails.
    pub(crate) fn person_change<R>(&self, login: &str, change: impl FnOnce(&mut Person) -> Result<R>) -> Result<R> {
        let mut edit = self.edit()?;
        let mut person = find_person(&mut edit, login)?;
        let result = change(&mut person)?;
        self.save_person(edit, person)?;
        Ok(result)
    }
}
