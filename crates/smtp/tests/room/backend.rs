//! A backend in memory: a few users of `b.example`, their passwords, and a list of accepted messages.
//!
//! alice and bob are local users. carol is disabled, full is over quota, and later cannot be looked up. Every password
//! is `secret`. Mail from `refuse@` is refused, mail from `lost@` does not become durable, and mail of 90,000 bytes or
//! more exceeds the capacity. Over LMTP, recipients whose name begins with `late` are refused after the message data.

use std::sync::Mutex;

use smtp::backend::{
    Accepted, Acceptor, Credentials, LoginError, RecipientReply, Recipients, SaslExchange, SaslExchangeStep,
};
use smtp::envelope::{Envelope, Protocol, Sender};
use smtp::{Refusal, Status};
use wire::Peer;

/// The backend.
#[derive(Default)]
pub struct MemoryBackend {
    pub accepted: Mutex<Vec<(Envelope, Vec<u8>)>>,
}

impl MemoryBackend {
    /// Returns the messages accepted since the last call.
    pub fn take(&self) -> Vec<(Envelope, Vec<u8>)> {
        std::mem::take(&mut *self.accepted.lock().expect("no test panics while it holds this"))
    }
}

impl Recipients for MemoryBackend {
    fn check(&self, _sender: &Sender, address: &str) -> RecipientReply {
        let address = address.to_lowercase();
        let Some((user, "b.example" | "xn--mller-kva.example" | "müller.example")) = address.split_once('@') else {
            return RecipientReply::Remote;
        };
        match user {
            "alice" | "bob" | "postmaster" | "jürgen" => RecipientReply::Local,
            "carol" => RecipientReply::Disabled,
            "full" => RecipientReply::OverQuota,
            "later" => RecipientReply::Unavailable,
            late if late.starts_with("late") => RecipientReply::Local,
            "odd" => RecipientReply::Refused(Refusal::new(550, Status(5, 7, 1), "Not today")),
            _ => RecipientReply::Unknown,
        }
    }

    fn expand(&self, _sender: &Sender, list: &str) -> Option<Vec<String>> {
        (list == "staff").then(|| vec!["alice@b.example".to_owned(), "bob@b.example".to_owned()])
    }
}

impl Credentials for MemoryBackend {
    fn authenticate(&self, _peer: &Peer, login: &str, password: &[u8]) -> Result<String, LoginError> {
        match login {
            "carol" => Err(LoginError::Disabled),
            "mallory" => Err(LoginError::Throttled),
            _ if password == b"secret" => Ok(login.to_lowercase()),
            _ => Err(LoginError::InvalidCredentials),
        }
    }

    fn scram_sha_256(&self, _peer: &Peer) -> Option<Box<dyn SaslExchange>> {
        Some(Box::new(ScriptedExchange { step: 0 }))
    }

    fn may_send_as(&self, login: &str, address: &str) -> bool {
        address.split('@').next() == Some(login)
    }
}

/// An exchange with fixed messages: the client must send `first` and `final`.
struct ScriptedExchange {
    step: u32,
}

impl SaslExchange for ScriptedExchange {
    fn step(&mut self, response: &[u8]) -> Result<SaslExchangeStep, LoginError> {
        self.step += 1;
        match (self.step, response) {
            (1, b"first") => Ok(SaslExchangeStep::Challenge(b"server first".to_vec())),
            (2, b"final") => Ok(SaslExchangeStep::Done { login: "alice".to_owned(), last: b"server final".to_vec() }),
            _ => Err(LoginError::InvalidCredentials),
        }
    }
}

impl Acceptor for MemoryBackend {
    fn accept(&self, envelope: Envelope, message: Vec<u8>) -> Result<Accepted, Refusal> {
        if envelope.sender.reverse_path.starts_with("refuse@") {
            return Err(Refusal::new(554, Status(5, 7, 1), "Not this message"));
        }
        let late =
            envelope.recipients.iter().enumerate().filter(|(_, recipient)| recipient.address.starts_with("late"));
        let refuse = |(index, _)| (index, Refusal::new(452, Status(4, 2, 2), "Mailbox full after all"));
        let refused = if envelope.protocol == Protocol::Lmtp { late.map(refuse).collect() } else { Vec::new() };
        let mut accepted = self.accepted.lock().expect("no test panics while it holds this");
        accepted.push((envelope, message));
        let is_lost = accepted.last().is_some_and(|(envelope, _)| envelope.sender.reverse_path.starts_with("lost@"));
        let durable = async move { if is_lost { Err(Refusal::temporary()) } else { Ok(()) } };
        Ok(Accepted { id: format!("Q{}", accepted.len()), durable: Box::pin(durable), refused })
    }

    fn check_capacity(&self, size_bytes: u64) -> Result<(), Refusal> {
        if size_bytes >= 90_000 { Err(Refusal::insufficient_storage()) } else { Ok(()) }
    }
}
