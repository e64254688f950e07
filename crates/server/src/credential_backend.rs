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

    fn apply(
        &self,
        (caller, login): (&Caller, &str),
        change: &CredentialChange,
    ) -> directory::Result<ChangedCredential> {
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
                let added = self.instance.clock.now();
                // The session counts as having proved the factor before the factor exists. Otherwise, another request
                // of it could come in between and end it.
                let proved = caller.session.as_ref().map(|session| self.uses.prove_factor(session, Some(added)));
                let proved = proved.transpose()?;
                let set = self.directory.second_factor_set_at(login, (&secret, code), added);
                // Another request of the session may have set the factor that it has proved.
                if set.is_err()
                    && let (Some(session), Some(before)) = (&caller.session, proved)
                {
                    self.uses.prove_factor(session, before)?;
                }
                Ok(ChangedCredential::RecoveryCodes(set?))
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

    fn check_password(&self, password: &str) -> Result<(), CredentialError> {
        self.directory.password_check(password.as_bytes()).map_err(refused)
    }

    fn change(&self, caller: &Caller, change: &CredentialChange) -> Result<ChangedCredential, CredentialError> {
        let login = self.person(caller)?.name.canonical().to_owned();
        self.apply((caller, &login), change).map_err(refused)
    }
}

/// Returns the reason why a change was not made.
fn refused(error: directory::Error) -> CredentialError {
    match error {
        directory::Error::NotFound { .. } => CredentialError::NotFound,
        directory::Error::Notes(_) | directory::Error::Damaged { .. } => unavailable(&error).into(),
        error => CredentialError::Refused(error.to_string()),
    }
}

fn unavailable(error: &directory::Error) -> BackendError {
    tracing::error!(target: "web", %error, "the directory cannot be read or changed");
    BackendError::Unavailable
}

#[cfg(test)]
mod tests {
    use base::Timestamp;
    use http::backend::LoginProof;
    use http::sessions::{SessionClient, SessionId, SessionLogin};
    use notes::Identity;
    use sample::Sample;
    use sasl::LoginPassword;

    use super::*;

    /// Returns the services of a sample server, and its folder.
    fn backend() -> (ServerCredentials, tempfile::TempDir) {
        let Sample { instance, folder } = Sample::new();
        let uses = admin::sessions::open(&instance).expect("they open");
        let directory = Arc::clone(&instance.directory);
        (ServerCredentials { directory, uses, instance: Arc::new(instance) }, folder)
    }

    #[test]
    fn the_session_that_adds_a_second_factor_has_proved_it() {
        let (backend, _folder) = backend();
        let ServerCredentials { uses, instance, .. } = &backend;
        let ann = backend.directory.person("ann").expect("a sound store").expect("the user exists");
        let name = ann.name.canonical().to_owned();
        let login = SessionLogin { login: name.clone(), stamp: 1, password: LoginPassword::Account, factor: None };
        let client = SessionClient { address: "192.0.2.1".to_owned(), description: String::new() };
        let (token, _) = uses.begin(login, client).expect("a sound store");
        let proved = || uses.find(&token).and_then(|(_, login)| login.factor);
        let caller = Caller {
            identity: Arc::new(Identity::person(name.as_str())),
            password: LoginPassword::Account,
            session: Some(SessionId::of_token(&token)),
            proof: LoginProof { stamp: 1, factor: None },
        };
        let secret = FactorSecret([7; 20]);
        let set = |code: String| {
            let change = CredentialChange::SetSecondFactor { secret: secret.to_base32(), code };
            backend.change(&caller, &change).map(drop)
        };
        let factor = || -> Option<Timestamp> {
            let ann = backend.directory.person("ann").expect("a sound store").expect("the user exists");
            ann.second_factor().map(|factor| factor.added)
        };
        assert!(set("000000".to_owned()).is_err());
        assert_eq!(factor(), None);
        set(secret.code_at(instance.clock.now())).expect("the code is right");
        assert!(factor().is_some());
        assert_eq!(proved(), factor());
    }

    #[test]
    fn passwords_are_checked_without_a_change() {
        let (backend, _folder) = backend();
        assert!(matches!(backend.check_password(""), Err(CredentialError::Refused(_))));
        assert!(matches!(backend.check_password("a\0b-and-more"), Err(CredentialError::Refused(_))));
        assert_eq!(backend.check_password("long enough for everybody"), Ok(()));
    }
}
