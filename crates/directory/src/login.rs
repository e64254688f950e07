//! Login with a password or through SCRAM-SHA-256.
//!
//! Every kind of login performs the same checks in the same order: throttling for account and network address, then the
//! proof, and only then whether the account is disabled or on a deny list. A name that does not exist is looked up,
//! hashed and throttled like one that exists, and all its spellings get the same salt (`login_account`).
//!
//! A failed login returns an [`AuthError`] for the peer. Logging the attempted name is left to the caller. A SCRAM
//! login that is begun and not ended counts as failed.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::{Clock, Random, Timestamp};
use sasl::{ClientFinal, ClientFirst, LoginOrigin, LoginPassword, LoginProtocol};

use crate::application_password;
use crate::directory::{Directory, DirectoryOptions};
use crate::error::{AuthError, Error, Result};
use crate::key::LookupKey;
use crate::limits::{LOGIN_BYTES_MAX, PASSWORD_BYTES_MAX, SCRAM_ITERATIONS_DEFAULT};
use crate::password::{self, Decoy};
use crate::password_cache::{PasswordCache, Proof};
use crate::person::Person;
use crate::record::Record;
use crate::scram::{self, ProofCheck, ScramKeys};
use crate::throttle::{LoginThrottle, Network, OpenExchange, ThrottleError};

/// The state that logins need in addition to the directory.
pub(crate) struct LoginState {
    clock: Arc<dyn Clock>,
    throttle: Arc<LoginThrottle>,
    verified: PasswordCache<PasswordCheck>,
    decoy: Decoy,
    /// Secret from which the salts of unknown accounts are derived.
    scram_secret: [u8; 32],
    scram_iterations: u32,
    counts: Counts,
}

/// Counts of login outcomes since the directory was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LoginStatistics {
    /// Number of successful logins.
    pub succeeded: u64,
    /// Number of logins with an unknown name or a wrong proof.
    pub refused: u64,
    /// Number of logins refused without a check because of too many failures.
    pub throttled: u64,
    /// Number of logins with a right password to accounts that are disabled, on a deny list, or need another password
    /// for the protocol.
    pub disabled: u64,
    /// Number of logins that could not be checked.
    pub unavailable: u64,
    /// Number of password hashes computed. The remaining password logins were answered from the cache.
    pub hashes: u64,
}

/// The counters behind [`LoginStatistics`].
#[derive(Debug, Default)]
struct Counts {
    succeeded: AtomicU64,
    refused: AtomicU64,
    throttled: AtomicU64,
    disabled: AtomicU64,
    unavailable: AtomicU64,
    hashes: AtomicU64,
}

impl Counts {
    fn add<T>(&self, outcome: &Result<T, AuthError>) {
        let count = match outcome {
            Ok(_) => &self.succeeded,
            Err(AuthError::Refused) => &self.refused,
            Err(AuthError::Throttled { .. }) => &self.throttled,
            Err(AuthError::Disabled | AuthError::DenyListed { .. } | AuthError::ApplicationPasswordRequired) => {
                &self.disabled
            }
            Err(AuthError::Unavailable(_)) => &self.unavailable,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    fn read(&self) -> LoginStatistics {
        let value = |count: &AtomicU64| count.load(Ordering::Relaxed);
        LoginStatistics {
            succeeded: value(&self.succeeded),
            refused: value(&self.refused),
            throttled: value(&self.throttled),
            disabled: value(&self.disabled),
            unavailable: value(&self.unavailable),
            hashes: value(&self.hashes),
        }
    }
}

/// The result of checking a password.
#[derive(Debug, Clone)]
enum PasswordCheck {
    Right,
    Wrong,
    Throttled(Duration),
    Broken(Error),
}

impl LoginState {
    pub(crate) fn new(options: &DirectoryOptions, clock: &Arc<dyn Clock>, random: &dyn Random) -> Result<Self> {
        Ok(Self {
            clock: Arc::clone(clock),
            throttle: Arc::new(LoginThrottle::new(options.throttle, Arc::clone(clock))),
            verified: PasswordCache::new(options.verified, Arc::clone(clock), random),
            decoy: Decoy::new(&options.passwords, random)?,
            scram_secret: [0; 32],
            scram_iterations: options.passwords.scram_iterations.unwrap_or(SCRAM_ITERATIONS_DEFAULT),
            counts: Counts::default(),
        })
    }

    pub(crate) fn throttle(&self) -> &Arc<LoginThrottle> {
        &self.throttle
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub(crate) fn set_scram_secret(&mut self, secret: [u8; 32]) {
        self.scram_secret = secret;
    }

    fn check_password(&self, account: &str, stored: Option<&str>, password: &[u8], from: IpAddr) -> PasswordCheck {
        let attempt = match self.throttle.begin(account, from) {
            Ok(attempt) => attempt,
            Err(ThrottleError { retry_after }) => return PasswordCheck::Throttled(retry_after),
        };
        self.counts.hashes.fetch_add(1, Ordering::Relaxed);
        let Some(stored) = stored else {
            self.decoy.verify_decoy(password);
            return PasswordCheck::Wrong;
        };
        match password::verify(stored, password) {
            Ok(true) => {
                attempt.report_success();
                PasswordCheck::Right
            }
            Ok(false) => {
                attempt.report_failure();
                PasswordCheck::Wrong
            }
            Err(error) => {
                attempt.report_inconclusive();
                PasswordCheck::Broken(error.into())
            }
        }
    }
}

impl Directory {
    /// Authenticates a person with the password of the account, or with an application password for the protocol.
    /// Takes the time and the memory of an argon2 hash, unless it is an application password, or the same login
    /// succeeded recently. The caller bounds the number of concurrent calls.
    ///
    /// The password of an account with a second factor is refused ([`AuthError::ApplicationPasswordRequired`]).
    pub fn authenticate(
        &self,
        login: &str,
        password: &[u8],
        origin: &LoginOrigin,
    ) -> Result<AuthenticatedPerson, AuthError> {
        let outcome = self.check_login(login, password, origin);
        self.credentials().counts.add(&outcome);
        outcome
    }

    /// Authenticates a person with the password of the account, for a caller that then asks for the second factor if
    /// the person has one ([`Directory::check_second_factor`]).
    pub fn authenticate_first_factor(
        &self,
        login: &str,
        password: &[u8],
        from: IpAddr,
    ) -> Result<Arc<Person>, AuthError> {
        let attempt = self.password_attempt(login, password, from);
        let outcome = attempt.and_then(|attempt| self.check_account_password(attempt, password, from));
        self.credentials().counts.add(&outcome);
        outcome
    }

    /// Authenticates a person with an application password alone, which is a bearer token then (RFC 6750).
    pub fn authenticate_token(&self, token: &str, origin: &LoginOrigin) -> Result<AuthenticatedPerson, AuthError> {
        let outcome = self.check_token(token, origin);
        self.credentials().counts.add(&outcome);
        outcome
    }

    /// Returns `true` if [`Directory::authenticate`] would compute no hash, because it is an application password, or
    /// the same login succeeded recently, and it is not throttled.
    pub fn is_password_known(&self, login: &str, password: &[u8], origin: &LoginOrigin) -> bool {
        if self.application_login(login, password, origin.protocol).is_ok_and(|found| found.is_some()) {
            return true;
        }
        let attempt = self.password_attempt(login, password, origin.ip());
        attempt.is_ok_and(|attempt| self.credentials().verified.contains(&attempt.proof))
    }

    /// Returns the person with a login name and the application password, if the person has it for the protocol.
    fn application_login(
        &self,
        login: &str,
        password: &[u8],
        protocol: LoginProtocol,
    ) -> Result<Option<(Arc<Person>, LoginPassword)>> {
        if login.len() > LOGIN_BYTES_MAX || password.len() > PASSWORD_BYTES_MAX {
            return Ok(None);
        }
        let person = self.person(login)?;
        Ok(person.and_then(|person| application_password_of(&person, password, protocol)))
    }

    fn check_login(
        &self,
        login: &str,
        password: &[u8],
        origin: &LoginOrigin,
    ) -> Result<AuthenticatedPerson, AuthError> {
        // An application password cannot be guessed, so it is admitted even while guesses at the password of the
        // account are throttled: strangers do not lock out mail clients.
        if let Some((person, password)) = self.application_login(login, password, origin.protocol)? {
            return Ok(AuthenticatedPerson { person: self.admit(person)?, password });
        }
        let attempt = self.password_attempt(login, password, origin.ip())?;
        let person = self.check_account_password(attempt, password, origin.ip())?;
        AuthenticatedPerson { person, password: LoginPassword::Account }.without_second_factor()
    }

    fn check_token(&self, token: &str, origin: &LoginOrigin) -> Result<AuthenticatedPerson, AuthError> {
        let id = application_password::id_of_text(token);
        let found = match id.map(|id| self.find(&LookupKey::application_password(id))).transpose()?.flatten() {
            Some(Record::Person(person)) => application_password_of(&person, token.as_bytes(), origin.protocol),
            _ => None,
        };
        if let Some((person, password)) = found {
            return Ok(AuthenticatedPerson { person: self.admit(person)?, password });
        }
        // A token names no account, so failures count against its network. A right one cannot be guessed, and is
        // admitted whatever others have tried from there.
        let account = format!("\u{1}token from {}", origin.ip());
        let attempt = self.credentials().throttle.begin(&account, origin.ip()).map_err(throttle_auth_error)?;
        attempt.report_failure();
        Err(AuthError::Refused)
    }

    /// Checks the password of an account.
    fn check_account_password(
        &self,
        attempt: PasswordAttempt,
        password: &[u8],
        from: IpAddr,
    ) -> Result<Arc<Person>, AuthError> {
        let PasswordAttempt { person, account, proof } = attempt;
        let credentials = self.credentials();
        let verdict = if credentials.verified.contains(&proof) {
            PasswordCheck::Right
        } else {
            let check = || credentials.check_password(&account, stored_hash(person.as_ref()), password, from);
            credentials.verified.verify_shared(proof, || self.cache_verdict(proof, check()))
        };
        match (verdict, person) {
            (PasswordCheck::Right, Some(person)) => self.admit(person),
            (PasswordCheck::Right | PasswordCheck::Wrong, _) => Err(AuthError::Refused),
            (PasswordCheck::Throttled(retry_after), _) => Err(AuthError::Throttled { retry_after }),
            (PasswordCheck::Broken(error), _) => Err(AuthError::Unavailable(error)),
        }
    }

    /// Finds the account of a login with a password. Returns an error if the login is refused without checking it.
    fn password_attempt(&self, login: &str, password: &[u8], from: IpAddr) -> Result<PasswordAttempt, AuthError> {
        if login.len() > LOGIN_BYTES_MAX || password.len() > PASSWORD_BYTES_MAX {
            return Err(AuthError::Refused);
        }
        let login_account = self.login_account(login)?;
        let account = login_account.throttle_key();
        let person = login_account.person;
        let credentials = self.credentials();
        credentials.throttle.check(&account, from).map_err(throttle_auth_error)?;
        let stored = stored_hash(person.as_ref()).unwrap_or_default();
        let proof = credentials.verified.proof(&account, password, Network::from_address(from), stored);
        Ok(PasswordAttempt { person, account, proof })
    }

    /// Begins a SCRAM-SHA-256 login with the client's first message. Returns the login in progress and the server's
    /// first message. The caller checks the authorization identity after [`Directory::verify_scram`]. If it drops the
    /// login instead, that counts as a failed attempt.
    ///
    /// The client may prove the password of the account or an application password for the protocol.
    pub fn begin_scram(&self, first: &ClientFirst, origin: &LoginOrigin) -> Result<(ScramExchange, String), AuthError> {
        let outcome = self.challenge_scram(first, origin);
        if outcome.is_err() {
            self.credentials().counts.add(&outcome);
        }
        outcome
    }

    fn challenge_scram(&self, first: &ClientFirst, origin: &LoginOrigin) -> Result<(ScramExchange, String), AuthError> {
        let login = first.authentication_id.as_str();
        if login.len() > LOGIN_BYTES_MAX {
            return Err(AuthError::Refused);
        }
        let login_account = self.login_account(login)?;
        let credentials = self.credentials();
        let opened = credentials.throttle.open_exchange(&login_account.throttle_key(), origin.ip());
        let attempt = opened.map_err(throttle_auth_error)?;
        let keys = login_account.scram_keys(&credentials.scram_secret, credentials.scram_iterations);
        let person = login_account.person;
        let applications = person.as_ref().map(|person| scram_applications(person, &keys, origin.protocol));
        let applications = applications.unwrap_or_default();
        let (check, server_first) = keys.challenge(first, &scram::nonce(self.random()));
        let check = check.or(applications.iter().map(|(keys, _)| keys.clone()));
        let passwords = applications.into_iter().map(|(_, password)| password);
        let passwords = std::iter::once(LoginPassword::Account).chain(passwords).collect();
        Ok((ScramExchange { check, person, passwords, attempt }, server_first))
    }

    /// Completes a SCRAM login with the client's proof. Returns the person and the server's final message.
    pub fn verify_scram(
        &self,
        exchange: ScramExchange,
        last: &ClientFinal,
    ) -> Result<(AuthenticatedPerson, String), AuthError> {
        let proved = check_proof(exchange, last);
        let outcome = proved.and_then(|(proved, server_final)| {
            let person = self.admit(Arc::clone(&proved.person))?;
            Ok((AuthenticatedPerson { person, ..proved }.without_second_factor()?, server_final))
        });
        self.credentials().counts.add(&outcome);
        outcome
    }

    /// Returns keys with the salt and the iterations that a login name has in SCRAM.
    pub(crate) fn scram_challenge_of(&self, login: &str) -> Result<ScramKeys> {
        let credentials = self.credentials();
        Ok(self.login_account(login)?.scram_keys(&credentials.scram_secret, credentials.scram_iterations))
    }

    /// Returns the keys for checking SCRAM proofs of an account, or `None` if it has none.
    pub fn scram_sha_256(&self, login: &str) -> Result<Option<ScramKeys>> {
        Ok(self.person(login)?.and_then(|person| person.scram.clone()))
    }

    /// Returns `true` if a text is a name, login name or address of a person.
    pub fn is_name_of(&self, text: &str, person: &Person) -> Result<bool> {
        Ok(text.len() <= LOGIN_BYTES_MAX && self.person(text)?.is_some_and(|other| other.note == person.note))
    }

    /// Returns `true` if a person may log in: the account is neither disabled nor on a deny list.
    ///
    /// Every login checks this after the proof. Code that acts for a session checks it again, because a session ends
    /// some time after its account was changed.
    pub fn may_log_in(&self, person: &Person) -> Result<bool> {
        Ok(self.exclusion(person)?.is_none())
    }

    /// Returns the person with the given login name, name or address, or `None` if there is none or the person may not
    /// log in ([`Directory::may_log_in`]).
    pub fn active_person(&self, login_or_address: &str) -> Result<Option<Arc<Person>>> {
        let Some(person) = self.person(login_or_address)? else { return Ok(None) };
        Ok(self.may_log_in(&person)?.then_some(person))
    }

    /// Returns the login statistics.
    pub fn login_statistics(&self) -> LoginStatistics {
        self.credentials().counts.read()
    }

    /// Admits an authenticated person who may log in.
    fn admit(&self, person: Arc<Person>) -> Result<Arc<Person>, AuthError> {
        match self.exclusion(&person)? {
            Some(reason) => Err(reason),
            None => Ok(person),
        }
    }

    /// Returns the reason why a person may not log in with any proof, or `None` if the person may log in.
    fn exclusion(&self, person: &Person) -> Result<Option<AuthError>> {
        if person.disabled {
            return Ok(Some(AuthError::Disabled));
        }
        let list = self.deny_list_of(person)?;
        Ok(list.map(|list| AuthError::DenyListed { list: list.to_string() }))
    }

    fn cache_verdict(&self, proof: Proof, verdict: PasswordCheck) -> PasswordCheck {
        if matches!(verdict, PasswordCheck::Right) {
            self.credentials().verified.insert(proof);
        }
        verdict
    }
}

/// A person who has proved a password.
#[derive(Debug, Clone)]
pub struct AuthenticatedPerson {
    /// The person.
    pub person: Arc<Person>,
    /// The password.
    pub password: LoginPassword,
}

impl AuthenticatedPerson {
    /// Returns an error if the person must enter a code, too.
    fn without_second_factor(self) -> Result<Self, AuthError> {
        if self.password == LoginPassword::Account && self.person.second_factor().is_some() {
            return Err(AuthError::ApplicationPasswordRequired);
        }
        Ok(self)
    }
}

/// A login with a password that is not throttled.
struct PasswordAttempt {
    /// The person with the login name, or `None` if there is none.
    person: Option<Arc<Person>>,
    /// The name under which failures are counted.
    account: String,
    /// The key of the login in the cache of verified passwords.
    proof: Proof,
}

/// Returns the person and the application password, if the person has it for the protocol.
fn application_password_of(
    person: &Arc<Person>,
    password: &[u8],
    protocol: LoginProtocol,
) -> Option<(Arc<Person>, LoginPassword)> {
    let found = person.find_application_password(password, protocol)?;
    Some((Arc::clone(person), LoginPassword::Application { id: found.id, scope: found.scope }))
}

/// Returns the application passwords of a person for a protocol that have SCRAM keys with the same challenge as others.
fn scram_applications(person: &Person, keys: &ScramKeys, protocol: LoginProtocol) -> Vec<(ScramKeys, LoginPassword)> {
    let known = person.application_passwords().iter().filter(|known| known.is_valid_for(protocol));
    let with_keys = known.filter_map(|known| Some((known, known.scram.as_ref()?)));
    let usable = with_keys.filter(|(_, own)| own.has_challenge_of(keys));
    usable.map(|(it, own)| (own.clone(), LoginPassword::Application { id: it.id, scope: it.scope })).collect()
}

/// Returns the hash that a person's password is checked against.
fn stored_hash(person: Option<&Arc<Person>>) -> Option<&str> {
    person.and_then(|person| person.password_hash.as_deref())
}

/// A SCRAM login that waits for the client's proof. If it is dropped, it counts as a failed attempt.
pub struct ScramExchange {
    check: ProofCheck,
    person: Option<Arc<Person>>,
    /// The passwords that the keys of the check belong to.
    passwords: Vec<LoginPassword>,
    attempt: OpenExchange,
}

impl ScramExchange {
    /// Ends the login because the server cannot go on with it. It does not count as a failed attempt.
    pub fn withdraw(self) {
        self.attempt.withdraw();
    }
}

fn check_proof(exchange: ScramExchange, last: &ClientFinal) -> Result<(AuthenticatedPerson, String), AuthError> {
    let ScramExchange { check, person, passwords, attempt } = exchange;
    let attempt = attempt.begin().map_err(throttle_auth_error)?;
    let proved = check.verify_any(last).and_then(|(place, text)| Some((*passwords.get(place)?, text)));
    if let (Some((password, server_final)), Some(person)) = (proved, person) {
        match password {
            LoginPassword::Account => attempt.report_success(),
            // It says nothing about guesses at the password of the account.
            LoginPassword::Application { .. } => attempt.report_inconclusive(),
        }
        return Ok((AuthenticatedPerson { person, password }, server_final));
    }
    attempt.report_failure();
    Err(AuthError::Refused)
}

pub(crate) fn throttle_auth_error(throttled: ThrottleError) -> AuthError {
    AuthError::Throttled { retry_after: throttled.retry_after }
}
