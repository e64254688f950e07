//! A backend in memory: a few users of `b.example`, their passwords, and a list of accepted messages.
//!
//! alice and bob are local users. crowd is a group with 6,000 members. carol is disabled, full is over quota, and later
//! cannot be looked up. Every password is `secret`, and SCRAM-SHA-256 plays the example of RFC 7677 for alice. Mail
//! from `refuse@` is refused, mail from `lost@` does not become durable, and mail of 90,000 bytes or more exceeds the
//! capacity. Over LMTP, recipients whose name begins with `late` are refused after the message data. `broken.example`
//! is local as well, and whether `later.example` is local cannot be looked up.

use std::sync::Mutex;

use mail::router::DeliveryTarget;
use mail::submission::{ReceivedProtocol, ResolvedAddress, Submission};
use sasl::sim::ExampleScram;
use sasl::{ClientFirst, Credentials, Login, LoginError, LoginOrigin, PasswordRequest, ScramServer};
use smtp::backend::{MessageAcceptor, PendingAcceptance, RecipientLookup};
use smtp::{EnhancedStatus, NegativeReply};

/// The backend.
#[derive(Default)]
pub struct MemoryBackend {
    pub accepted: Mutex<Vec<Submission>>,
}

impl MemoryBackend {
    /// Returns the messages accepted since the last call.
    pub fn take(&self) -> Vec<Submission> {
        std::mem::take(&mut *self.accepted.lock().expect("no test panics while it holds this"))
    }
}

impl RecipientLookup for MemoryBackend {
    fn resolve(&self, address: &str) -> Result<ResolvedAddress, NegativeReply> {
        use mail::submission::Refusal as Refused;
        let address = address.to_lowercase();
        let Some((user, "b.example" | "xn--mller-kva.example" | "müller.example")) = address.split_once('@') else {
            return Ok(ResolvedAddress::remote(address, 0));
        };
        match user {
            "crowd" => {
                let member = |number: usize| DeliveryTarget::Remote(format!("{number}@far.example"));
                Ok(ResolvedAddress::local((0..6_000).map(member).collect(), 0))
            }
            "carol" => Err(Refused::RecipientDisabled.into()),
            "full" => Err(Refused::MailboxFull.into()),
            "later" => Err(Refused::Unavailable("Cannot look up the recipient now").into()),
            "odd" => Err(NegativeReply::new(550, EnhancedStatus(5, 7, 1), "Not today")),
            user if user.starts_with("late") || ["alice", "bob", "postmaster", "jürgen"].contains(&user) => {
                Ok(ResolvedAddress::local(vec![DeliveryTarget::Remote(address)], 0))
            }
            _ => Err(Refused::UnknownRecipient.into()),
        }
    }

    fn is_local_domain(&self, domain: &str) -> Result<bool, NegativeReply> {
        match domain {
            "later.example" => Err(NegativeReply::temporary()),
            _ => Ok(["b.example", "xn--mller-kva.example", "broken.example"].contains(&domain)),
        }
    }

    fn expand(&self, list: &str) -> Option<Vec<String>> {
        (list == "staff").then(|| vec!["alice@b.example".to_owned(), "bob@b.example".to_owned()])
    }
}

impl Credentials for MemoryBackend {
    fn check_password(&self, _: &LoginOrigin, request: &PasswordRequest) -> Result<Login, LoginError> {
        match (request.authentication_id(), request.authorization_id()) {
            ("carol", _) => Err(LoginError::AccountDisabled),
            ("mallory", _) => Err(LoginError::Throttled),
            _ if request.password() != "secret" => Err(LoginError::InvalidCredentials),
            (_, Some(_)) => Err(LoginError::NotAuthorized),
            (login, None) => Ok(Login::new(login.to_lowercase())),
        }
    }

    fn begin_scram(&self, _: &LoginOrigin, first: &ClientFirst) -> Result<(Box<dyn ScramServer>, String), LoginError> {
        Ok(ExampleScram::begin(first, Login::new("alice")))
    }
}

impl MessageAcceptor for MemoryBackend {
    fn check_sender(&self, login: &str, reverse_path: &str) -> Result<(), NegativeReply> {
        let is_own = reverse_path.split('@').next() == Some(login);
        if is_own {
            Ok(())
        } else {
            Err(NegativeReply::new(553, EnhancedStatus(5, 7, 1), "You may not send from this address"))
        }
    }

    fn accept(&self, submission: Submission) -> Result<PendingAcceptance, NegativeReply> {
        let envelope = &submission.envelope;
        if envelope.reverse_path.starts_with("refuse@") {
            return Err(NegativeReply::new(554, EnhancedStatus(5, 7, 1), "Not this message"));
        }
        let late =
            envelope.recipients.iter().enumerate().filter(|(_, recipient)| recipient.address.starts_with("late"));
        let refuse = |(index, _)| (index, NegativeReply::new(452, EnhancedStatus(4, 2, 2), "Mailbox full after all"));
        let refused =
            if submission.origin.protocol == ReceivedProtocol::Lmtp { late.map(refuse).collect() } else { Vec::new() };
        let mut accepted = self.accepted.lock().expect("no test panics while it holds this");
        let is_lost = envelope.reverse_path.starts_with("lost@");
        accepted.push(submission);
        let durable = async move { if is_lost { Err(NegativeReply::temporary()) } else { Ok(()) } };
        Ok(PendingAcceptance { id: format!("Q{}", accepted.len()), durable: Box::pin(durable), refused })
    }

    fn check_capacity(&self, size_bytes: u64) -> Result<(), NegativeReply> {
        if size_bytes >= 90_000 { Err(NegativeReply::insufficient_storage()) } else { Ok(()) }
    }
}
