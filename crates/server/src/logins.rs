//! Logins, as the protocols ask for them: the directory's answers in each room's words.
//!
//! Rooms of protocols never import each other, so each has its own trait for the same questions; [`Logins`] implements them all
//! over one set of answers. A login that succeeded is known by the person's canonical name from then on.

use std::net::IpAddr;
use std::sync::Arc;

use base::Name;
use directory::{AuthError, Directory, Person, ScramLogin};
use mail::mailbox::{Mail, MailFile};
use wire::Peer;

/// Knows passwords and mail files.
pub struct Logins {
    directory: Arc<Directory>,
    mail: Arc<Mail>,
}

/// Why somebody is not let in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Denied {
    Wrong,
    Disabled,
    Throttled,
    Malformed,
    Unavailable,
}

/// The server's side of SCRAM-SHA-256.
struct Scram {
    directory: Arc<Directory>,
    from: IpAddr,
    /// After the client's first message, until its last.
    challenged: Option<ScramLogin>,
}

/// How an exchange goes on.
enum Turn {
    Challenge(Vec<u8>),
    Done(String, Vec<u8>),
}

impl Logins {
    /// Makes it.
    #[must_use]
    pub fn new(directory: Arc<Directory>, mail: Arc<Mail>) -> Arc<Self> {
        Arc::new(Self { directory, mail })
    }

    fn check(&self, peer: &Peer, login: &str, password: &[u8]) -> Result<String, Denied> {
        let outcome = self.directory.authenticate(login, password, peer.ip());
        let person = outcome.map_err(|error| denied(error, peer, login))?;
        Ok(person.name.canonical().to_owned())
    }

    fn scram(&self, peer: &Peer) -> Scram {
        Scram { directory: Arc::clone(&self.directory), from: peer.ip(), challenged: None }
    }

    fn person(&self, login: &str) -> Result<Arc<Person>, Denied> {
        let found = self.directory.person(login).map_err(|error| unavailable("login", &error))?;
        match found {
            Some(person) if person.disabled => Err(Denied::Disabled),
            Some(person) if person.mail_file.is_empty() => Err(Denied::Disabled),
            Some(person) => Ok(person),
            None => Err(Denied::Wrong),
        }
    }

    fn mail_file(&self, login: &str) -> Result<MailFile, Denied> {
        let person = self.person(login)?;
        let identity = self.directory.identity(&person).map_err(|error| unavailable("login", &error))?;
        let open = || self.mail.open(&person.mail_file, &identity);
        let opened = match open() {
            Err(mail::Error::Notes(notes::Error::NotFound { .. })) => {
                // The person came from elsewhere, or the mail file was deleted: it is made like any new one.
                let made =
                    self.mail.ensure(&person.mail_file, &person.display_name(), &person.name, person.quota_bytes);
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
        self.directory.owns_address(&person, address).unwrap_or(false)
    }
}

impl Scram {
    fn turn(&mut self, response: &[u8]) -> Result<Turn, Denied> {
        let from = Peer { address: Some((self.from, 0).into()), tls: false, loopback: self.from.is_loopback() };
        let refuse = |error| denied(error, &from, "SCRAM");
        match self.challenged.take() {
            None => {
                let (login, challenge) = self.directory.scram_begin(response, self.from).map_err(refuse)?;
                self.challenged = Some(login);
                Ok(Turn::Challenge(challenge.into_bytes()))
            }
            Some(login) => {
                let (person, last) = login.finish(response).map_err(refuse)?;
                Ok(Turn::Done(person.name.canonical().to_owned(), last.into_bytes()))
            }
        }
    }
}

/// Logs a refusal with what the peer is not told.
fn denied(error: AuthError, peer: &Peer, login: &str) -> Denied {
    let login = Name::new(login).to_string();
    match error {
        AuthError::Unavailable(error) => {
            tracing::error!(target: "login", %peer, login, %error, "cannot check a login");
            Denied::Unavailable
        }
        error => {
            tracing::info!(target: "login", %peer, login, reason = %error, "refused a login");
            match error {
                AuthError::Disabled => Denied::Disabled,
                AuthError::Throttled { .. } => Denied::Throttled,
                AuthError::Protocol(_) => Denied::Malformed,
                AuthError::Refused | AuthError::Unavailable(_) => Denied::Wrong,
            }
        }
    }
}

fn unavailable(what: &str, error: &dyn std::fmt::Display) -> Denied {
    tracing::error!(target: "login", %error, "the {what} is not available");
    Denied::Unavailable
}

/// Implements a room's traits over the answers above.
macro_rules! serve_room {
    ($room:ident, $malformed:ident) => {
        impl From<Denied> for $room::backend::LoginError {
            fn from(denied: Denied) -> Self {
                match denied {
                    Denied::Wrong => Self::Wrong,
                    Denied::Disabled => Self::Disabled,
                    Denied::Throttled => Self::Throttled,
                    Denied::Malformed => Self::$malformed,
                    Denied::Unavailable => Self::Unavailable,
                }
            }
        }

        impl $room::backend::Exchange for Scram {
            fn step(
                &mut self,
                response: &[u8],
            ) -> Result<$room::backend::ExchangeStep, $room::backend::LoginError> {
                Ok(match self.turn(response)? {
                    Turn::Challenge(challenge) => $room::backend::ExchangeStep::Challenge(challenge),
                    Turn::Done(login, last) => $room::backend::ExchangeStep::Done { login, last },
                })
            }
        }

        impl $room::backend::Credentials for Logins {
            fn authenticate(
                &self,
                peer: &Peer,
                login: &str,
                password: &[u8],
            ) -> Result<String, $room::backend::LoginError> {
                Ok(self.check(peer, login, password)?)
            }

            fn scram_sha_256(&self, peer: &Peer) -> Option<Box<dyn $room::backend::Exchange>> {
                Some(Box::new(self.scram(peer)))
            }

            serve_room!(@last $room);
        }
    };
    (@last smtp) => {
        fn may_send_as(&self, login: &str, address: &str) -> bool {
            self.may_send(login, address)
        }
    };
    (@last $room:ident) => {
        fn open(&self, login: &str) -> Result<MailFile, $room::backend::LoginError> {
            Ok(self.mail_file(login)?)
        }
    };
}

serve_room!(imap, Malformed);
serve_room!(pop3, Malformed);
serve_room!(smtp, Wrong);
