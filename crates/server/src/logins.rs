//! Logins for the protocols: [`Logins`] answers the questions of `sasl` from the directory.
//!
//! Each protocol also has a trait of its own for what follows a login, such as opening the mail file. After a
//! successful login, a user is identified by the person's canonical name.

use std::sync::Arc;

use base::Name;
use directory::{AuthError, AuthenticatedPerson, Directory, FactorProof, Person, ScramExchange};
use http::Sessions;
use http::backend::{CodeProof, FirstFactor, LoggedIn, LoginProof, LoginWatch};
use instance::Instance;
use mail::mailbox::{MailFile, MailStore};
use notes::Identity;
use sasl::{
    ClientFinal, ClientFirst, Credentials, Login, LoginError, LoginOrigin, LoginPassword, LoginProtocol,
    LoginRegistration, LoginScope, PasswordRequest, ScramServer, ScramSuccess, TokenRequest,
};
use wire::{PoolOptions, SessionTermination};

use crate::counters::LoginCounters;
use crate::limits::{LOGIN_QUEUE_MAX, LOGIN_QUEUE_TOTAL_MAX, LOGIN_TIME_MAX};
use crate::session_registry::{RegisteredLogin, SessionRegistration, SessionRegistry, is_factor_proved};

/// Returns the options of the pool that checks logins with this number of threads.
///
/// Password hashes take long, and strangers cause them. Therefore they have threads of their own, fewer than there are
/// workers ([`instance::thread_counts`]), so that most of the processors are left to other work.
#[must_use]
pub fn pool_options(threads: usize) -> PoolOptions {
    PoolOptions {
        name: "login".to_owned(),
        workers: threads,
        queue_max: LOGIN_QUEUE_MAX,
        total_max: LOGIN_QUEUE_TOTAL_MAX,
        job_time_max: LOGIN_TIME_MAX,
    }
}

/// Checks logins and opens mail files.
pub struct Logins {
    gate: Arc<LoginCheck>,
    mail: Arc<MailStore>,
}

/// The check that every login passes.
struct LoginCheck {
    directory: Arc<Directory>,
    sessions: Arc<SessionRegistry>,
    counts: LoginCounters,
    /// Records the uses of application passwords.
    uses: Arc<Sessions>,
}

/// A SCRAM exchange that waits for the client's proof.
struct ScramCheck {
    gate: Arc<LoginCheck>,
    origin: LoginOrigin,
    first: ClientFirst,
    exchange: ScramExchange,
}

/// A registered login whose exchange goes on after the proof. Dropping it removes the registration.
struct UnconfirmedLogin {
    /// The registry, unless the registration is confirmed.
    sessions: Option<Arc<SessionRegistry>>,
    connection: u64,
}

impl LoginRegistration for UnconfirmedLogin {
    fn confirm(mut self: Box<Self>) {
        self.sessions = None;
    }
}

impl Drop for UnconfirmedLogin {
    fn drop(&mut self) {
        if let Some(sessions) = &self.sessions {
            sessions.unregister_login(self.connection);
        }
    }
}

impl LoginCheck {
    /// Admits a person whose credentials have been verified.
    ///
    /// Returns [`LoginError::NotAuthorized`] if the authorization identity is not a name of the person, and
    /// [`LoginError::InvalidCredentials`] if the account was changed in the meantime.
    fn admit(
        &self,
        origin: &LoginOrigin,
        proved: &AuthenticatedPerson,
        authorization_id: Option<&str>,
    ) -> Result<Login, LoginError> {
        let AuthenticatedPerson { person, password } = proved;
        let name = &person.name;
        if let Some(identity) = authorization_id
            && !self.directory.is_name_of(identity, person).map_err(|error| unavailable("login", &error))?
        {
            let identity = Name::new(identity).to_string();
            tracing::info!(target: "login", protocol = %origin.protocol, peer = %peer(origin), login = %name, identity, "refused to act as another identity");
            return Err(LoginError::NotAuthorized);
        }
        let login = RegisteredLogin { person, password: *password, proved_factor: None };
        if self.sessions.register_login(origin.connection, &login, &self.directory) {
            if let Some(id) = password.application() {
                self.uses.use_application_password(id, origin.ip(), origin.protocol);
            }
            return Ok(Login::new(name.canonical()).with_password(*password));
        }
        tracing::info!(target: "login", protocol = %origin.protocol, peer = %peer(origin), login = %name, "refused a login: the account was changed in the meantime");
        Err(LoginError::InvalidCredentials)
    }
}

impl Logins {
    /// Creates the service. `uses` records when application passwords were used.
    #[must_use]
    pub fn new(instance: &Instance, sessions: Arc<SessionRegistry>, uses: Arc<Sessions>) -> Arc<Self> {
        let directory = Arc::clone(&instance.directory);
        let gate = LoginCheck { directory, sessions, counts: LoginCounters::default(), uses };
        Arc::new(Self { gate: Arc::new(gate), mail: Arc::clone(&instance.mail) })
    }

    /// Returns the number of successful and of failed logins over a protocol.
    #[must_use]
    pub fn counts(&self, protocol: LoginProtocol) -> (u64, u64) {
        self.gate.counts.get(protocol)
    }

    /// Returns the sessions in browsers.
    pub(crate) fn sessions(&self) -> &Arc<Sessions> {
        &self.gate.uses
    }

    fn person(&self, login: &str) -> Result<Arc<Person>, LoginError> {
        let failed = |error: directory::Error| unavailable("login", &error);
        let found = self.gate.directory.person(login).map_err(failed)?;
        let person = found.ok_or(LoginError::InvalidCredentials)?;
        if person.mail_file.is_empty() || !self.gate.directory.may_log_in(&person).map_err(failed)? {
            return Err(LoginError::AccountDisabled);
        }
        Ok(person)
    }

    /// Opens the mail file of a login, and registers the identity that its session keeps.
    fn mail_file(&self, origin: &LoginOrigin, login: &Login) -> Result<MailFile, LoginError> {
        let LoginCheck { directory, sessions, .. } = &*self.gate;
        let generation = directory.generation();
        let person = self.person(&login.authorization)?;
        let identity = directory.identity(&person).map_err(|error| unavailable("login", &error))?;
        let identity = within_scope(identity, login.password.scope());
        let file = self.open_mail_file(&person, &identity)?;
        if sessions.register_identity(origin.connection, &identity, directory, generation) {
            return Ok(file);
        }
        tracing::info!(target: "login", protocol = %origin.protocol, peer = %peer(origin), login = %person.name, "refused a login: the account or its groups were changed in the meantime");
        Err(LoginError::Unavailable)
    }

    /// Opens the mail file of a person whose identity was found and registered for the connection before.
    pub(crate) fn open_for(&self, identity: &Arc<Identity>) -> Result<MailFile, LoginError> {
        let person = self.person(identity.name.canonical())?;
        self.open_mail_file(&person, identity)
    }

    fn open_mail_file(&self, person: &Person, identity: &Arc<Identity>) -> Result<MailFile, LoginError> {
        let open = || self.mail.open(&person.mail_file, identity);
        let opened = match open() {
            Err(mail::Error::Notes(notes::Error::NotFound { .. })) if !self.gate.directory.is_home_of(person) => {
                let home = Name::new(&person.mail_server).abbreviated();
                let path = person.mail_file.as_str();
                tracing::warn!(target: "login", login = %person.name, home, "refused a login: the mail file is on another server; `doublet replicate {home} {path}` makes a replica");
                return Err(LoginError::MailFileElsewhere);
            }
            Err(mail::Error::Notes(notes::Error::NotFound { .. })) => {
                // The person was created elsewhere, or the mail file was deleted. It is created like any new one.
                let made = self.mail.create_if_missing(
                    &person.mail_file,
                    &person.display_name(),
                    &person.name,
                    person.quota_bytes,
                );
                made.and_then(|_| open())
            }
            other => other,
        };
        opened.map_err(|error| unavailable("mail file", &error))
    }
}

impl Credentials for Logins {
    fn check_password(&self, origin: &LoginOrigin, request: &PasswordRequest) -> Result<Login, LoginError> {
        let login = request.authentication_id();
        let proved = self.gate.directory.authenticate(login, request.password().as_bytes(), origin);
        let outcome = proved
            .map_err(|error| denied(error, origin, login))
            .and_then(|proved| self.gate.admit(origin, &proved, request.authorization_id()));
        self.gate.counts.add(origin.protocol, &outcome);
        outcome
    }

    fn is_password_known(&self, origin: &LoginOrigin, request: &PasswordRequest) -> bool {
        let password = request.password().as_bytes();
        self.gate.directory.is_password_known(request.authentication_id(), password, origin)
    }

    fn check_token(&self, origin: &LoginOrigin, request: &TokenRequest) -> Result<Login, LoginError> {
        let proved = self.gate.directory.authenticate_token(request.token.reveal(), origin);
        let outcome = proved
            .map_err(|error| denied(error, origin, "the owner of a token"))
            .and_then(|proved| self.gate.admit(origin, &proved, request.authorization_id.as_deref()));
        self.gate.counts.add(origin.protocol, &outcome);
        outcome
    }

    fn begin_scram(
        &self,
        origin: &LoginOrigin,
        first: &ClientFirst,
    ) -> Result<(Box<dyn ScramServer>, String), LoginError> {
        let begun = self.gate.directory.begin_scram(first, origin);
        let begun = begun.map_err(|error| denied(error, origin, &first.authentication_id));
        if begun.is_err() {
            self.gate.counts.add(origin.protocol, &begun);
        }
        let (exchange, server_first) = begun?;
        let gate = Arc::clone(&self.gate);
        Ok((Box::new(ScramCheck { gate, origin: *origin, first: first.clone(), exchange }), server_first))
    }

    fn end_login(&self, origin: &LoginOrigin) {
        self.gate.sessions.unregister_login(origin.connection);
    }
}

impl ScramServer for ScramCheck {
    fn verify(self: Box<Self>, last: &ClientFinal) -> Result<ScramSuccess, LoginError> {
        let Self { gate, origin, first, exchange } = *self;
        let proved = gate.directory.verify_scram(exchange, last);
        let proved = proved.map_err(|error| denied(error, &origin, &first.authentication_id));
        let outcome = proved.and_then(|(proved, server_final)| {
            let login = gate.admit(&origin, &proved, first.authorization_id.as_deref())?;
            let sessions = Some(Arc::clone(&gate.sessions));
            let registration = UnconfirmedLogin { sessions, connection: origin.connection };
            Ok(ScramSuccess { login, server_final, registration: Some(Box::new(registration)) })
        });
        gate.counts.add(origin.protocol, &outcome);
        outcome
    }

    fn withdraw(self: Box<Self>) {
        self.exchange.withdraw();
    }
}

/// Logs a refused login with details that the peer does not receive.
fn denied(error: AuthError, origin: &LoginOrigin, login: &str) -> LoginError {
    let login = Name::new(login).to_string();
    match error {
        AuthError::Unavailable(error) => {
            tracing::error!(target: "login", protocol = %origin.protocol, peer = %peer(origin), login, %error, "cannot check a login");
            LoginError::Unavailable
        }
        error => {
            tracing::info!(target: "login", protocol = %origin.protocol, peer = %peer(origin), login, reason = %error, "refused a login");
            match error {
                AuthError::Disabled | AuthError::DenyListed { .. } => LoginError::AccountDisabled,
                AuthError::Throttled { .. } => LoginError::Throttled,
                AuthError::ApplicationPasswordRequired => LoginError::ApplicationPasswordRequired,
                AuthError::Refused | AuthError::Unavailable(_) => LoginError::InvalidCredentials,
            }
        }
    }
}

/// Returns the peer's network address for the log.
fn peer(origin: &LoginOrigin) -> String {
    origin.address.map_or_else(|| "local".to_owned(), |address| address.to_string())
}

/// Returns an identity with the rights that the password of a login permits.
pub(crate) fn within_scope(identity: Arc<Identity>, scope: LoginScope) -> Arc<Identity> {
    match scope {
        LoginScope::All => identity,
        LoginScope::Reading => Arc::new(identity.as_ref().clone().reading_only()),
    }
}

fn unavailable(what: &str, error: &dyn std::fmt::Display) -> LoginError {
    tracing::error!(target: "login", %error, "the {what} is not available");
    LoginError::Unavailable
}

impl imap::backend::Accounts for Logins {
    fn open(&self, origin: &LoginOrigin, login: &Login) -> Result<MailFile, LoginError> {
        self.mail_file(origin, login)
    }
}

impl pop3::backend::Accounts for Logins {
    fn open(&self, origin: &LoginOrigin, login: &Login) -> Result<MailFile, LoginError> {
        self.mail_file(origin, login)
    }
}

impl rpc::backend::Accounts for Logins {
    fn register_session(&self) -> Box<dyn rpc::backend::SessionSlot> {
        Box::new(NativeSession(self.gate.sessions.register()))
    }
}

impl http::backend::Accounts for Logins {
    fn identify(&self, origin: &LoginOrigin, login: &Login, proof: Option<LoginProof>) -> Result<LoggedIn, LoginError> {
        let LoginCheck { directory, sessions, .. } = &*self.gate;
        let failed = |error: directory::Error| unavailable("login", &error);
        let generation = directory.generation();
        let person = directory.person(&login.authorization).map_err(failed)?.ok_or(LoginError::InvalidCredentials)?;
        if !directory.may_log_in(&person).map_err(failed)? {
            return Err(LoginError::AccountDisabled);
        }
        let present = person.password_stamp();
        if proof.is_some_and(|proof| proof.stamp != present) {
            return Err(LoginError::InvalidCredentials);
        }
        let password = login.password;
        let proved_factor = proof.and_then(|proof| proof.factor);
        if password == LoginPassword::Account && !is_factor_proved(&person, proved_factor) {
            return Err(LoginError::InvalidCredentials);
        }
        // The session of one protocol is none of another for which the password is not valid.
        let is_valid = |id| person.application_password(id).is_some_and(|known| known.is_valid_for(origin.protocol));
        if !password.application().is_none_or(is_valid) {
            return Err(LoginError::InvalidCredentials);
        }
        let identity = directory.identity(&person).map_err(failed)?;
        let registered = RegisteredLogin { person: &person, password, proved_factor };
        let is_registered = sessions.register_login(origin.connection, &registered, directory)
            && sessions.register_identity(origin.connection, &identity, directory, generation);
        match is_registered {
            true => Ok(LoggedIn { identity: within_scope(identity, password.scope()), stamp: present, password }),
            false => Err(LoginError::Unavailable),
        }
    }

    fn watch(&self, origin: &LoginOrigin, login: &Login, proof: LoginProof) -> Result<Box<dyn LoginWatch>, LoginError> {
        let registration = self.gate.sessions.register_watch();
        let origin = LoginOrigin { connection: registration.number(), ..*origin };
        self.identify(&origin, login, Some(proof))?;
        Ok(Box::new(WatchedSession(registration)))
    }

    fn check_first_factor(&self, origin: &LoginOrigin, request: &PasswordRequest) -> Result<FirstFactor, LoginError> {
        let LoginCheck { directory, counts, .. } = &*self.gate;
        let name = request.authentication_id();
        let proved = directory.authenticate_first_factor(name, request.password().as_bytes(), origin.ip());
        let proved = proved.map_err(|error| denied(error, origin, name));
        let is_code_needed = proved.as_ref().is_ok_and(|person| person.second_factor().is_some());
        if !is_code_needed {
            counts.add(origin.protocol, &proved);
        }
        let person = proved?;
        Ok(FirstFactor { login: person.name.canonical().to_owned(), stamp: person.password_stamp(), is_code_needed })
    }

    fn check_second_factor(&self, origin: &LoginOrigin, login: &str, code: &str) -> Result<CodeProof, LoginError> {
        let proved = self.gate.directory.check_second_factor(login, code, origin.ip());
        let outcome = proved.map_err(|error| denied(error, origin, login));
        self.gate.counts.add(origin.protocol, &outcome);
        Ok(match outcome? {
            FactorProof::Step { step, factor } => CodeProof::Step { step, factor },
            FactorProof::RecoveryCode { factor } => {
                tracing::info!(target: "login", protocol = %origin.protocol, peer = %peer(origin), login, "logged in with a recovery code");
                CodeProof::RecoveryCode { factor }
            }
        })
    }
}

/// A login over HTTP that is watched besides its connection.
struct WatchedSession(SessionRegistration);

impl LoginWatch for WatchedSession {
    fn termination(&self) -> &SessionTermination {
        self.0.termination()
    }
}

/// A session of the native protocol, registered so that it ends when its account changes. It is not a connection: it
/// may outlive one, and one connection may carry many sessions.
struct NativeSession(SessionRegistration);

impl rpc::backend::SessionSlot for NativeSession {
    fn number(&self) -> u64 {
        self.0.number()
    }

    fn termination(&self) -> &SessionTermination {
        self.0.termination()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::{PASSWORD, Sample};

    fn logins(sample: &Sample) -> Arc<Logins> {
        let uses = admin::sessions::open(&sample.instance).expect("they open");
        Logins::new(&sample.instance, Arc::default(), uses)
    }

    fn check(logins: &Logins, protocol: LoginProtocol, login: &str, password: &str) -> Result<String, LoginError> {
        let request = PasswordRequest::new(login.as_bytes(), password.as_bytes())?;
        logins.check_password(&LoginOrigin::local(protocol), &request).map(|login| login.name)
    }

    #[test]
    fn logins_are_checked_alike_for_all_protocols() {
        let sample = Sample::new();
        let logins = logins(&sample);
        for protocol in LoginProtocol::ALL {
            let check = |login: &str, password: &str, expected: Result<&str, LoginError>| {
                let outcome = check(&logins, protocol, login, password);
                assert_eq!(outcome.as_deref(), expected.as_ref().map(|name| *name), "{login} over {protocol}");
            };
            check("ann@acme.test", PASSWORD, Ok("CN=ann/O=acme.test"));
            check("ANN", PASSWORD, Ok("CN=ann/O=acme.test"));
            check("nobody@acme.test", PASSWORD, Err(LoginError::InvalidCredentials));
            check("eve@acme.test", PASSWORD, Err(LoginError::AccountDisabled));
            assert_eq!(logins.counts(protocol), (2, 2), "{protocol}");
        }
        let wrong = |login| check(&logins, LoginProtocol::Imap, login, "wrong");
        assert_eq!(wrong("ann"), Err(LoginError::InvalidCredentials));
        assert_eq!(wrong("eve@acme.test"), Err(LoginError::InvalidCredentials));
    }

    #[test]
    fn login_may_act_only_as_itself() {
        let sample = Sample::new();
        let logins = logins(&sample);
        let act_as = |identity: &str| {
            let request = PasswordRequest::new(b"ann", PASSWORD.as_bytes());
            let request =
                request.and_then(|request| request.with_authorization_id(identity.as_bytes())).expect("well formed");
            logins.check_password(&LoginOrigin::local(LoginProtocol::Imap), &request)
        };
        for own in ["", "ann", "Ann@acme.test", "CN=ann/O=acme.test"] {
            assert_eq!(act_as(own), Ok(Login::new("CN=ann/O=acme.test")), "{own}");
        }
        for other in ["bob", "eve", "nobody"] {
            assert_eq!(act_as(other), Err(LoginError::NotAuthorized), "{other}");
        }
        assert_eq!(logins.counts(LoginProtocol::Imap), (4, 3));
    }

    #[test]
    fn missing_mail_file_is_created_for_its_owner() {
        let sample = Sample::new();
        let logins = logins(&sample);
        let open = |login: &str| logins.mail_file(&LoginOrigin::local(LoginProtocol::Imap), &Login::new(login));
        let file = open("CN=ann/O=acme.test").expect("the mail file exists");
        assert_eq!(file.database().path(), "mail/ann.nsf");
        drop(file);
        let access = admin::people::open_as_manager(&sample.instance, "mail/ann.nsf").expect("the mail file exists");
        sample.instance.databases.database_delete(&access).expect("it can be deleted");
        assert!(open("ann").expect("it is made again").snapshot().is_ok());
        assert_eq!(open("eve").err(), Some(LoginError::AccountDisabled));
        assert_eq!(open("nobody").err(), Some(LoginError::InvalidCredentials));
    }

    #[test]
    fn unconfirmed_and_ended_logins_are_unregistered() {
        let sample = Sample::new();
        let sessions = Arc::new(SessionRegistry::default());
        let session = sessions.register();
        let directory = &sample.instance.directory;
        let ann = directory.person("ann").expect("a lookup").expect("the user exists");
        let register = || {
            assert!(sessions.register_login(session.number(), &RegisteredLogin::new(&ann), directory));
            Box::new(UnconfirmedLogin { sessions: Some(Arc::clone(&sessions)), connection: session.number() })
        };
        drop(register());
        assert_eq!(sessions.logged_in_count(), 0);
        register().confirm();
        assert_eq!(sessions.logged_in_count(), 1);
        let uses = admin::sessions::open(&sample.instance).expect("they open");
        let logins = Logins::new(&sample.instance, Arc::clone(&sessions), uses);
        logins.end_login(&LoginOrigin { connection: session.number(), ..LoginOrigin::local(LoginProtocol::Imap) });
        assert_eq!(sessions.logged_in_count(), 0);
    }

    #[test]
    fn scram_challenge_does_not_reveal_unknown_names() {
        let sample = Sample::new();
        let logins = logins(&sample);
        let origin = LoginOrigin::local(LoginProtocol::Pop3);
        for name in ["ann", "nobody"] {
            let first = ClientFirst {
                authentication_id: name.to_owned(),
                authorization_id: None,
                nonce: "abcdefghijkl".to_owned(),
                bare: format!("n={name},r=abcdefghijkl"),
            };
            let (exchange, server_first) = logins.begin_scram(&origin, &first).expect("a challenge");
            assert!(server_first.starts_with("r=abcdefghijkl"), "{server_first}");
            let last = ClientFinal { without_proof: "c=biws,r=abcdefghijkl".to_owned(), proof: [0; 32] };
            assert_eq!(exchange.verify(&last).err(), Some(LoginError::InvalidCredentials), "{name}");
        }
        assert_eq!(logins.counts(LoginProtocol::Pop3), (0, 2));
    }
}
