//! Connections that a request turns into something else than HTTP (RFC 9110, section 7.8), such as WebSocket.
//!
//! A handler that answers with the status 101 puts an [`Upgrade`] into the extensions of its answer. When the answer
//! has been sent, [`crate::serve`] runs it: the connection keeps its place among the connections of its address, and
//! ends when the server closes, or when the login of the connection ends.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{Request, Version};
use base::sync::Mutex;
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;

/// The bytes of a connection behind HTTP.
pub type UpgradedStream = TokioIo<Upgraded>;

/// A running protocol.
pub type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The protocol that follows on a connection after an answer with the status 101.
#[derive(Clone)]
pub struct Upgrade {
    /// `None` once it has begun.
    pending: Arc<Mutex<Option<Pending>>>,
}

struct Pending {
    upgraded: OnUpgrade,
    serve: Box<dyn FnOnce(UpgradedStream) -> Serving + Send>,
}

impl Upgrade {
    /// Creates the protocol that follows the answer to a request. Returns `None` if the connection of the request
    /// cannot change its protocol, as over HTTP/2.
    pub fn new<S, F>(request: &mut Request<Body>, serve: S) -> Option<Self>
    where
        S: FnOnce(UpgradedStream) -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let upgraded = request.extensions_mut().remove::<OnUpgrade>();
        let upgraded = upgraded.filter(|_| request.version() == Version::HTTP_11)?;
        let serve = Box::new(move |stream| -> Serving { Box::pin(serve(stream)) });
        Some(Self { pending: Arc::new(Mutex::new(Some(Pending { upgraded, serve }))) })
    }

    /// Runs the protocol until it ends. The answer must have been sent.
    pub(crate) async fn run(self) -> Result<(), hyper::Error> {
        let pending = self.pending.lock().take();
        if let Some(Pending { upgraded, serve }) = pending {
            serve(TokioIo::new(upgraded.await?)).await;
        }
        Ok(())
    }
}

impl fmt::Debug for Upgrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Upgrade")
    }
}
