//! The services that this crate needs from the rest of the server, as two narrow traits. Logins are checked with
//! [`sasl::Credentials`].
//!
//! `mail::submission` provides both, and the tests implement them in memory. All methods may block and are called on
//! worker threads, except [`RecipientLookup::resolve_cached`] and [`MessageAcceptor::check_capacity`], which must
//! return immediately.

use std::future::Future;
use std::pin::Pin;

use mail::submission::{ResolvedAddress, Submission, SubmissionService};

use crate::error::NegativeReply;

/// Provides the lookup of recipients.
pub trait RecipientLookup: Send + Sync {
    /// Returns the directory's answer about an address, or the refusal of the recipient. An address of a domain that is
    /// not local has an answer, too. Only clients that may relay can send to it.
    fn resolve(&self, address: &str) -> Result<ResolvedAddress, NegativeReply>;

    /// Resolves as [`RecipientLookup::resolve`] does, but returns `None` if the answer would have to wait for anything.
    /// An answer saves the call on a worker thread.
    fn resolve_cached(&self, _address: &str) -> Option<Result<ResolvedAddress, NegativeReply>> {
        None
    }

    /// Returns `true` if mail for this domain is delivered here. Fails if the directory cannot be read.
    fn is_local_domain(&self, domain: &str) -> Result<bool, NegativeReply>;

    /// Returns the members of a mailing list for EXPN, or `None` if the list does not exist.
    fn expand(&self, _list: &str) -> Option<Vec<String>> {
        None
    }
}

/// A message that the backend has accepted and that may not be durable yet.
pub struct PendingAcceptance {
    /// The queue ID reported to the peer.
    pub id: String,
    /// Completes when the message is durable. The reply is sent after that.
    pub durable: Pin<Box<dyn Future<Output = Result<(), NegativeReply>> + Send>>,
    /// The indexes of recipients for which the message was refused. Used only for
    /// [`mail::submission::ReceivedProtocol::Lmtp`]; in other protocols the backend accepts the message for all
    /// recipients or for none.
    pub refused: Vec<(usize, NegativeReply)>,
}

/// Accepts messages.
pub trait MessageAcceptor: Send + Sync {
    /// Checks whether a user may send with this reverse path. It is never `<>`, which every user may use.
    fn check_sender(&self, login: &str, reverse_path: &str) -> Result<(), NegativeReply>;

    /// Accepts a message that has its trace fields, or refuses it. Nothing of a refused message is kept.
    fn accept(&self, submission: Submission) -> Result<PendingAcceptance, NegativeReply>;

    /// Checks immediately whether there is capacity for a message of this size: queue, disk, load. A size of 0 means
    /// unknown.
    fn check_capacity(&self, _size_bytes: u64) -> Result<(), NegativeReply> {
        Ok(())
    }
}

impl RecipientLookup for SubmissionService {
    fn resolve(&self, address: &str) -> Result<ResolvedAddress, NegativeReply> {
        Ok(self.resolve(address)?)
    }

    fn resolve_cached(&self, address: &str) -> Option<Result<ResolvedAddress, NegativeReply>> {
        Some(self.resolve_cached(address)?.map_err(NegativeReply::from))
    }

    fn is_local_domain(&self, domain: &str) -> Result<bool, NegativeReply> {
        Ok(self.is_local_domain(domain)?)
    }

    fn expand(&self, list: &str) -> Option<Vec<String>> {
        self.list_members(list)
    }
}

impl MessageAcceptor for SubmissionService {
    fn check_sender(&self, login: &str, reverse_path: &str) -> Result<(), NegativeReply> {
        Ok(self.check_sender(login, reverse_path)?)
    }

    fn accept(&self, submission: Submission) -> Result<PendingAcceptance, NegativeReply> {
        let accepted = self.accept(submission)?;
        let durable = async move { Ok(accepted.durable.await?) };
        Ok(PendingAcceptance { id: accepted.id, durable: Box::pin(durable), refused: Vec::new() })
    }

    fn check_capacity(&self, size_bytes: u64) -> Result<(), NegativeReply> {
        Ok(self.check_capacity(size_bytes)?)
    }
}
