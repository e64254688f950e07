//! Logins for the protocols: the answers of the directory in the types of each protocol crate.
//!
//! Protocol crates never import each other, so each has its own trait for the same questions; [`Logins`] implements all
//! of them. After a successful login, a user is identified by the person's canonical name.

use std::sync::Arc;

use base::Name;
use directory::{AuthError, Directory, Person, ScramLogin};
use mail::mailbox::{MailFile, MailStore};
use wire::{Peer, SessionTermination};

use crate::config::setting::SenderPolicy;
use crate::core::Core;
use crate::counts::{LoginCounts, LoginProtocol};
use crate::sessions::{Session, Sessions};

/// Checks logins and opens mail files.
pub struct Logins {
    gate: Arc<LoginCheck>,
    mail: Arc<MailStore>,
    senders: SenderPolicy,
}

/// The check that every login passes.
struct LoginCheck {
    directory: Arc<Directory>,
    sessions: Arc<Sessions>,
    counts: LoginCounts,
}

/// The reason why a login is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LoginRefusal {
    Wrong,
    Disabled,
    Throttled,
    Malformed,
    Unavailable,
}

/// The server side of a SCRAM-SHA-256 exchange.
struct Scram {
    gate: Arc<LoginCheck>,
    door: LoginProtocol,
    from: Peer,
    /// The state between the client's first and last message.
    pending_login: Option<ScramLogin>,
}

/// The next step of an exchange.
enum ExchangeStep {
    Challenge(Vec<u8>),
    Done(String, Vec<u8>),
}

impl LoginCheck {
    /// Admits a person whose credentials have been verified, and returns the canonical name. Returns
    /// [`LoginRefusal::Wrong`] if the account was changed in the meantime.
    fn admit(&self, peer: &Peer, person: &Person) -> Result<String, LoginRefusal> {
        if self.sessions.admit(peer.connection, person, &self.directory) {
            return Ok(person.name.canonical().to_owned());
        }
        tracing::info!(target: "login", %peer, login = %person.name, "refused a login: the account was changed in the meantime");
        Err(LoginRefusal::Wrong)
    }
}

impl Logins {
    /// Creates the service.
    #[must_use]
    pub fn new(core: &Core, sessions: Arc<Sessions>) -> Arc<Self> {
        let gate = LoginCheck { directory: Arc::clone(&core.directory), sessions, counts: LoginCounts::default() };
        Arc::new(Self { gate: Arc::new(gate), mail: Arc::clone(&core.mail), senders: core.config.submission.sender })
    }

    /// Returns the number of successful and of failed logins over a protocol.
    #[must_use]
    pub fn counts(&self, door: LoginProtocol) -> (u64, u64) {
        self.gate.counts.get(door)
    }

    fn check(&self, door: LoginProtocol, peer: &Peer, login: &str, password: &[u8]) -> Result<String, LoginRefusal> {
        let proved = self.gate.directory.authenticate(login, password, peer.ip());
        let outcome =
            proved.map_err(|error| denied(error, peer, login)).and_then(|person| self.gate.admit(peer, &person));
        self.gate.counts.add(door, &outcome);
        outcome
    }

    fn scram(&self, door: LoginProtocol, peer: &Peer) -> Scram {
        Scram { gate: Arc::clone(&self.gate), door, from: *peer, pending_login: None }
    }

    fn person(&self, login: &str) -> Result<Arc<Person>, LoginRefusal> {
        let found = self.gate.directory.person(login).map_err(|error| unavailable("login", &error))?;
        match found {
            Some(person) if person.disabled => Err(LoginRefusal::Disabled),
            Some(person) if person.mail_file.is_empty() => Err(LoginRefusal::Disabled),
            Some(person) => match self.gate.directory.deny_list_of(&person) {
                Ok(None) => Ok(person),
                Ok(Some(_)) => Err(LoginRefusal::Disabled),
                Err(error) => Err(unavailable("login", &error)),
            },
            None => Err(LoginRefusal::Wrong),
        }
    }

    fn mail_file(&self, login: &str) -> Result<MailFile, LoginRefusal> {
        let person = self.person(login)?;
        let identity = self.gate.directory.identity(&person).map_err(|error| unavailable("login", &error))?;
        let open = || self.mail.open(&person.mail_file, &identity);
        let opened = match open() {
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

    fn may_send(&self, login: &str, address: &str) -> bool {
        let Ok(person) = self.person(login) else {
            return false;
        };
        self.senders == SenderPolicy::Any || self.gate.directory.owns_address(&person, address).unwrap_or(false)
    }
}

impl Scram {
    fn turn(&mut self, response: &[u8]) -> Result<ExchangeStep, LoginRefusal> {
        let outcome = self.advance(response);
        if !matches!(outcome, Ok(ExchangeStep::Challenge(_))) {
            self.gate.counts.add(self.door, &outcome);
        }
        outcome
    }

    fn advance(&mut self, response: &[u8]) -> Result<ExchangeStep, LoginRefusal> {
        let from = self.from;
        let refuse = |error| denied(error, &from, "SCRAM");
        match self.pending_login.take() {
            None => {
                let begun = self.gate.directory.scram_begin(response, from.ip());
                let (login, challenge) = begun.map_err(refuse)?;
                self.pending_login = Some(login);
                Ok(ExchangeStep::Challenge(challenge.into_bytes()))
            }
            Some(login) => {
                let (person, last) = self.gate.directory.scram_finish(login, response).map_err(refuse)?;
                Ok(ExchangeStep::Done(self.gate.admit(&from, &person)?, last.into_bytes()))
            }
        }
    }
}

/// Logs a refused login with details that the peer does not receive.
fn denied(error: AuthError, peer: &Peer, login: &str) -> LoginRefusal {
    let login = Name::new(login).to_string();
    match error {
        AuthError::Unavailable(error) => {
            tracing::error!(target: "login", %peer, login, %error, "cannot check a login");
            LoginRefusal::Unavailable
        }
        error => {
            tracing::info!(target: "login", %peer, login, reason = %error, "refused a login");
            match error {
                AuthError::Disabled | AuthError::DenyListed { .. } => LoginRefusal::Disabled,
                AuthError::Throttled { .. } => LoginRefusal::Throttled,
                AuthError::Protocol(_) => LoginRefusal::Malformed,
                AuthError::Refused | AuthError::Unavailable(_) => LoginRefusal::Wrong,
            }
        }
    }
}

fn unavailable(what: &str, error: &dyn std::fmt::Display) -> LoginRefusal {
    tracing::error!(target: "login", %error, "the {what} is not available");
    LoginRefusal::Unavailable
}

/// Implements the traits of a protocol crate on top of the functions above.
macro_rules! impl_backend {
    ($protocol:ident, $login_protocol:ident, $malformed:ident) => {
        impl From<LoginRefusal> for $protocol::backend::LoginError {
            fn from(refusal: LoginRefusal) -> Self {
                match refusal {
                    LoginRefusal::Wrong => Self::InvalidCredentials,
                    LoginRefusal::Disabled => Self::Disabled,
                    LoginRefusal::Throttled => Self::Throttled,
                    LoginRefusal::Malformed => Self::$malformed,
                    LoginRefusal::Unavailable => Self::Unavailable,
                }
            }
        }

        impl $protocol::backend::SaslExchange for Scram {
            fn step(
                &mut self,
                response: &[u8],
            ) -> Result<$protocol::backend::SaslExchangeStep, $protocol::backend::LoginError> {
                Ok(match self.turn(response)? {
                    ExchangeStep::Challenge(challenge) => $protocol::backend::SaslExchangeStep::Challenge(challenge),
                    ExchangeStep::Done(login, last) => $protocol::backend::SaslExchangeStep::Done { login, last },
                })
            }
        }

        impl $protocol::backend::Credentials for Logins {
            fn authenticate(
                &self,
                peer: &Peer,
                login: &str,
                password: &[u8],
            ) -> Result<String, $protocol::backend::LoginError> {
                Ok(self.check(LoginProtocol::$login_protocol, peer, login, password)?)
            }

            fn scram_sha_256(&self, peer: &Peer) -> Option<Box<dyn $protocol::backend::SaslExchange>> {
                Some(Box::new(self.scram(LoginProtocol::$login_protocol, peer)))
            }

            impl_backend!(@last $protocol);
        }
    };
    (@last rpc) => {
        fn register_session(&self) -> Box<dyn rpc::backend::SessionSlot> {
            Box::new(NativeSession(self.gate.sessions.begin()))
        }
    };
    (@last smtp) => {
        fn may_send_as(&self, login: &str, address: &str) -> bool {
            self.may_send(login, address)
        }
    };
    (@last $protocol:ident) => {
        fn open(&self, login: &str) -> Result<MailFile, $protocol::backend::LoginError> {
            Ok(self.mail_file(login)?)
        }
    };
}

impl_backend!(imap, Imap, Malformed);
impl_backend!(pop3, Pop3, Malformed);
impl_backend!(smtp, Submission, InvalidCredentials);
impl_backend!(rpc, Native, Malformed);

/// A session of the native protocol, registered so that it ends when its account changes. It is not a connection: it
/// may outlive one, and one connection may carry many sessions.
struct NativeSession(Session);

impl rpc::backend::SessionSlot for NativeSession {
    fn number(&self) -> u64 {
        self.0.number()
    }

    fn dismissal(&self) -> &SessionTermination {
        self.0.dismissal()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{PASSWORD, Sample};

    fn logins(sample: &Sample) -> Arc<Logins> {
        Logins::new(&sample.core, Arc::default())
    }

    #[test]
    fn logins_are_checked_alike_for_all_rooms() {
        let sample = Sample::new();
        let logins = logins(&sample);
        let check = |login: &str, password: &str, expected: Result<&str, LoginRefusal>| {
            let outcome = logins.check(LoginProtocol::Imap, &Peer::local(), login, password.as_bytes());
            assert_eq!(outcome.as_deref(), expected.as_ref().map(|name| *name), "{login}");
        };
        check("ann@acme.test", PASSWORD, Ok("CN=ann/O=acme.test"));
        check("ANN", PASSWORD, Ok("CN=ann/O=acme.test"));
        check("ann", "wrong", Err(LoginRefusal::Wrong));
        check("nobody@acme.test", PASSWORD, Err(LoginRefusal::Wrong));
        check("eve@acme.test", PASSWORD, Err(LoginRefusal::Disabled));
        check("eve@acme.test", "wrong", Err(LoginRefusal::Wrong));
        assert_eq!(logins.counts(LoginProtocol::Imap), (2, 4));
        let pop3: &dyn pop3::backend::Credentials = logins.as_ref();
        assert_eq!(
            pop3.authenticate(&Peer::local(), "ann", b"wrong"),
            Err(pop3::backend::LoginError::InvalidCredentials)
        );
        let smtp: &dyn smtp::backend::Credentials = logins.as_ref();
        assert_eq!(
            smtp.authenticate(&Peer::local(), "eve", PASSWORD.as_bytes()),
            Err(smtp::backend::LoginError::Disabled)
        );
        assert_eq!((logins.counts(LoginProtocol::Pop3), logins.counts(LoginProtocol::Submission)), ((0, 1), (0, 1)));
    }

    #[test]
    fn the_mail_file_opens_for_its_owner_and_is_made_when_it_is_missing() {
        let sample = Sample::new();
        let logins = logins(&sample);
        let file = logins.mail_file("CN=ann/O=acme.test").expect("the mail file exists");
        assert_eq!(file.database().path(), "mail/ann.nsf");
        drop(file);
        let access = crate::admin::people::open_as_manager(&sample.core, "mail/ann.nsf").expect("the mail file exists");
        sample.core.notes.database_delete(&access).expect("it can go");
        assert!(logins.mail_file("ann").expect("it is made again").view().is_ok());
        assert_eq!(logins.mail_file("eve").err(), Some(LoginRefusal::Disabled));
        assert_eq!(logins.mail_file("nobody").err(), Some(LoginRefusal::Wrong));
    }

    #[test]
    fn people_send_in_their_own_names_only() {
        let sample = Sample::new();
        let logins = logins(&sample);
        let check = |address: &str, may| assert_eq!(logins.may_send("CN=ann/O=acme.test", address), may, "{address}");
        check("ann@acme.test", true);
        check("ann+lists@acme.test", true);
        check("bob@acme.test", false);
        check("ann@elsewhere.test", false);
        assert!(!logins.may_send("eve", "eve@acme.test"));
        let sample = Sample::with(&["submission.sender=any"]);
        let logins = self::logins(&sample);
        assert!(logins.may_send("ann", "bob@acme.test") && !logins.may_send("eve", "eve@acme.test"));
    }

    #[test]
    fn broken_exchanges_are_refused() {
        let sample = Sample::new();
        let logins = logins(&sample);
        assert_eq!(
            logins.scram(LoginProtocol::Pop3, &Peer::local()).turn(b"nonsense").err(),
            Some(LoginRefusal::Malformed)
        );
        let mut exchange = logins.scram(LoginProtocol::Pop3, &Peer::local());
        assert!(matches!(exchange.turn(b"n,,n=ann,r=abcdefghijkl"), Ok(ExchangeStep::Challenge(_))));
        assert_eq!(exchange.turn(b"c=biws,r=abcdefghijkl,p=AAAA").err(), Some(LoginRefusal::Malformed));
        assert_eq!(logins.counts(LoginProtocol::Pop3), (0, 2));
        // A login name that does not exist gets a challenge like any other.
        assert!(matches!(
            logins.scram(LoginProtocol::Pop3, &Peer::local()).turn(b"n,,n=nobody,r=abcdefghijkl"),
            Ok(ExchangeStep::Challenge(_))
        ));
    }
}
