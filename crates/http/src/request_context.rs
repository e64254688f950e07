//! What is known about a request besides its header: its peer, and the account for which it is executed.

use std::sync::{Arc, OnceLock};

use sasl::{LoginOrigin, LoginProtocol};
use wire::Peer;

/// The context of a request. Every request has it as an extension.
#[derive(Debug, Clone)]
pub struct RequestContext {
    /// The peer of the connection.
    pub peer: Peer,
    /// The account, for the access log. Empty until somebody has logged in.
    account: Arc<OnceLock<String>>,
}

impl RequestContext {
    /// Creates the context of a request of a peer.
    #[must_use]
    pub fn new(peer: Peer) -> Self {
        Self { peer, account: Arc::default() }
    }

    /// Returns the origin of a login by this request.
    #[must_use]
    pub fn origin(&self, protocol: LoginProtocol) -> LoginOrigin {
        self.peer.login_origin(protocol)
    }

    /// Records the account for which the request is executed.
    pub fn set_account(&self, name: &str) {
        // A request is executed for one account, so the first one stays.
        let _ = self.account.set(name.to_owned());
    }

    /// Returns the account for which the request is executed.
    #[must_use]
    pub fn account(&self) -> Option<&str> {
        self.account.get().map(String::as_str)
    }
}
