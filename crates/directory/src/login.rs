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

use base::{Clock, Random};
use sasl::{ClientFinal, ClientFirst};

use crate::directory::{Directory, DirectoryOptions};
use crate::error::{AuthError, Error, Result};
use crate::limits::{LOGIN_BYTES_MAX, PASSWORD_BYTES_MAX, SCRAM_ITERATIONS_DEFAULT};
use crate::password::{self, Decoy};
use crate::password_cache::{PasswordCache, Proof};
use crate::person::Person;
use crate::scram::{self, ProofCheck, ScramKeys};
use crate::throttle::{LoginThrottle, Network, OpenExchange, ThrottleError};

/// The state that logins need in addition to the directory.
pub(crate) struct LoginState {
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
    /// Number of logins to accounts that are disabled or on a deny list.
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
            Err(AuthError::Disabled | AuthError::DenyListed { .. }) => &self.disabled,
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
            throttle: Arc::new(LoginThrottle::new(options.throttle, Arc::clone(clock))),
            verified: PasswordCache::new(options.verified, Arc::clone(clock), random),
            decoy: Decoy::new(&options.passwords, random)?,
            scram_secret: [0; 32],
            scram_iterations: options.passwords.scram_iterations.unwrap_or(SCRAM_ITERATIONS_DEFAULT),
            counts: Counts::default(),
        })
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
    /// Authenticates a person with a password. Takes the time and the memory of an argon2 hash, unless the same login
    /// succeeded recently. The caller bounds the number of concurrent calls.
    pub fn authenticate(&self, login: &str, password: &[u8], from: IpAddr) -> Result<Arc<Person>, AuthError> {
        let outcome = self.check_login(login, password, from);
        self.credentials().counts.add(&outcome);
        outcome
    }

    /// Returns `true` if [`Directory::authenticate`] would compute no hash, because the same login succeeded recently
    /// and is not throttled.
    pub fn is_password_known(&self, login: &str, password: &[u8], from: IpAddr) -> bool {
        let attempt = self.password_attempt(login, password, from);
        attempt.is_ok_and(|attempt| self.credentials().verified.contains(&attempt.proof))
    }

    fn check_login(&self, login: &str, password: &[u8], from: IpAddr) -> Result<Arc<Person>, AuthError> {
        let PasswordAttempt { person, account, proof } = self.password_attempt(login, password, from)?;
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
    pub fn begin_scram(&self, first: &ClientFirst, from: IpAddr) -> Result<(ScramExchange, String), AuthError> {
        let outcome = self.challenge_scram(first, from);
        if outcome.is_err() {
            self.credentials().counts.add(&outcome);
        }
        outcome
    }

    fn challenge_scram(&self, first: &ClientFirst, from: IpAddr) -> Result<(ScramExchange, String), AuthError> {
        let login = first.authentication_id.as_str();
        if login.len() > LOGIN_BYTES_MAX {
            return Err(AuthError::Refused);
        }
        let login_account = self.login_account(login)?;
        let credentials = self.credentials();
        let opened = credentials.throttle.open_exchange(&login_account.throttle_key(), from);
        let attempt = opened.map_err(throttle_auth_error)?;
        let keys = login_account.scram_keys(&credentials.scram_secret, credentials.scram_iterations);
        let (check, server_first) = keys.challenge(first, &scram::nonce(self.random()));
        Ok((ScramExchange { check, person: login_account.person, attempt }, server_first))
    }

    /// Completes a SCRAM login with the client's proof. Returns the person and the server's final message.
    pub fn verify_scram(
        &self,
        exchange: ScramExchange,
        last: &ClientFinal,
    ) -> Result<(Arc<Person>, String), AuthError> {
        let proved = check_proof(exchange, last);
        let outcome = proved.and_then(|(person, server_final)| Ok((self.admit(person)?, server_final)));
        self.credentials().counts.add(&outcome);
        outcome
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

/// A login with a password that is not throttled.
struct PasswordAttempt {
    /// The person with the login name, or `None` if there is none.
    person: Option<Arc<Person>>,
    /// The name under which failures are counted.
    account: String,
    /// The key of the login in the cache of verified passwords.
    proof: Proof,
}

/// Returns the hash that a person's password is checked against.
fn stored_hash(person: Option<&Arc<Person>>) -> Option<&str> {
    person.and_then(|person| person.password_hash.as_deref())
}

/// A SCRAM login that waits for the client's proof. If it is dropped, it counts as a failed attempt.
pub struct ScramExchange {
    check: ProofCheck,
    person: Option<Arc<Person>>,
    attempt: OpenExchange,
}

impl ScramExchange {
    /// Ends the login because the server cannot go on with it. It does not count as a failed attempt.
    pub fn withdraw(self) {
        self.attempt.withdraw();
    }
}

fn check_proof(exchange: ScramExchange, last: &ClientFinal) -> Result<(Arc<Person>, String), AuthError> {
    let ScramExchange { check, person, attempt } = exchange;
    let attempt = attempt.begin().map_err(throttle_auth_error)?;
    if let (Some(server_final), Some(person)) = (check.verify(last), person) {
        attempt.report_success();
        return Ok((person, server_final));
    }
    attempt.report_failure();
    Err(AuthError::Refused)
}

fn throttle_auth_error(throttled: ThrottleError) -> AuthError {
    AuthError::Throttled { retry_after: throttled.retry_after }
}
