//! Application passwords and second factors for the settings of the web mail, over the directory.

use std::sync::Arc;

use directory::{ApplicationPassword, Directory, FactorSecret, NewApplicationPassword, Person};
use http::{Caller, Sessions};
use instance::Instance;
use web::backend::BackendError;
use web::credential_backend::{
    ApplicationPasswordInfo, ChangedCredential, CredentialBackend, CredentialChange, CredentialError, CredentialsInfo,
    OfferedFactor, SecondFactorInfo,
};

/// Access to application passwords and second factors.
pub struct ServerCredentials {
    /// The directory.
    pub directory: Arc<Directory>,
    /// The last uses of application passwords.
    pub uses: Arc<Sessions>,
    /// The server: its name is shown by authenticators, and its random numbers make their secrets.
    pub instance: Arc<Instance>,
}

impl ServerCredentials {
    fn person(&self, caller: &Caller) -> Result<Arc<Person>, BackendError> {
        let person = self.directory.active_person(caller.login()).map_err(|error| unavailable(&error))?;
        person.ok_or(BackendError::Unavailable)
    }

    fn info(&self, password: &ApplicationPassword) -> ApplicationPasswordInfo {
        let used = self.uses.application_password_use(password.id);
        ApplicationPasswordInfo {
            id: password.id,
            name: password.name.clone(),
            created: password.created,
            protocols: password.protocols.clone(),
            scope: password.scope,
            last_use: used.map(|used| (used.time, used.address, used.protocol)),
        }
    }

    fn apply(&self, login: &str, change: &CredentialChange) -> directory::Result<ChangedCredential> {
        match change {
            CredentialChange::AddApplicationPassword { name, protocols, scope } => {
                let new = NewApplicationPassword { name: name.clone(), protocols: protocols.clone(), scope: *scope };
                let (_, text) = self.directory.application_password_add(login, &new)?;
                Ok(ChangedCredential::ApplicationPassword(text))
            }
            CredentialChange::RevokeApplicationPassword(id) => {
                self.directory.application_password_revoke(login, *id)?;
                if let Err(error) = self.uses.forget_application_password(*id) {
                    tracing::error!(target: "web", %error, "the last use of a revoked application password stays");
                }
                Ok(ChangedCredential::Nothing)
            }
            CredentialChange::SetSecondFactor { secret, code } => {
                let secret = FactorSecret::from_base32(secret).ok_or(directory::Error::FactorCode)?;
                let codes = self.directory.second_factor_set(login, &secret, code)?;
                Ok(ChangedCredential::RecoveryCodes(codes))
            }
            CredentialChange::RemoveSecondFactor => {
                self.directory.second_factor_remove(login)?;
                Ok(ChangedCredential::Nothing)
            }
            CredentialChange::SetPassword(password) => {
                self.directory.password_set(login, password.as_bytes())?;
                Ok(ChangedCredential::Nothing)
            }
            CredentialChange::RenewRecoveryCodes => {
                Ok(ChangedCredential::RecoveryCodes(self.directory.recovery_codes_renew(login)?))
            }
        }
    }
}

impl CredentialBackend for ServerCredentials {
    fn credentials(&self, caller: &Caller) -> Result<CredentialsInfo, BackendError> {
        let person = self.person(caller)?;
        let factor = |factor: &directory::SecondFactor| SecondFactorInfo {
            added: factor.added,
            recovery_codes: factor.recovery_codes(),
        };
        Ok(CredentialsInfo {
            application_passwords: person.application_passwords().iter().map(|it| self.info(it)).collect(),
            second_factor: person.second_factor().map(factor),
        })
    }

    fn offer_second_factor(&self, caller: &Caller, secret: Option<&str>) -> OfferedFactor {
        let known = secret.and_then(FactorSecret::from_base32);
        let secret = known.unwrap_or_else(|| FactorSecret::generate(self.instance.random.as_ref()));
        let account = match self.person(caller) {
            Ok(person) => person.address().map_or_else(|| person.display_name(), ToString::to_string),
            Err(_) => caller.identity.name.abbreviated(),
        };
        OfferedFactor { url: secret.to_url(&self.instance.hostname, &account), secret: secret.to_base32() }
    }

    fn change(&self, caller: &Caller, change: &CredentialChange) -> Result<ChangedCredential, CredentialError> {
        let login = self.person(caller)?.name.canonical().to_owned();
        self.apply(&login, change).map_err(|error| match error {
            directory::Error::NotFound { .. } => CredentialError::NotFound,
            directory::Error::Notes(_) | directory::Error::Damaged { .. } => unavailable(&error).into(),
            error => CredentialError::Refused(error.to_string()),
        })
    }
}

fn unavailable(error: &directory::Error) -> BackendError {
    tracing::error!(target: "web", %error, "the directory cannot be read or changed");
    BackendError::Unavailable
}
