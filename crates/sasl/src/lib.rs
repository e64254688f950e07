//! Logins of all protocols: the SASL mechanisms of the server side (RFC 4422), and the contract with the directory.
//!
//! | module | content |
//! |---|---|
//! | [`credentials`] | [`Credentials`] and [`ScramServer`], which the server implements, and [`Login`], their outcome |
//! | [`request`] | the requests to [`Credentials`], also for logins without SASL (USER/PASS, LOGIN, HTTP Basic) |
//! | [`error`] | [`LoginError`], from which each protocol makes its replies |
//! | [`application_password`] | further passwords of an account, and what they permit |
//! | [`protocol`] | the protocols, and the origin of a login |
//! | [`mechanism`], [`context`] | the mechanisms, and those that a connection offers |
//! | [`channel_binding`] | the channel bindings of a TLS connection |
//! | [`exchange`] | the state machine of an exchange |
//! | [`mod@line`] | base64 lines, as IMAP, POP3 and SMTP exchange them |
//! | [`limits`], [`secret`] | named limits, and texts that are never shown |
//! | [`sim`] | a SCRAM exchange with fixed messages, for tests |
//!
//! An [`Exchange`] never calls [`Credentials`]. It returns a [`Check`], which the caller runs on a worker thread
//! ([`Check::run`]) or answers itself, asynchronously. Each step consumes the state before it, so that no step can be
//! skipped or repeated:
//!
//! ```text
//! Exchange::begin ──► ExchangeStep ─┬─ Challenge ── the client's response ── Exchange::step ──► ExchangeStep
//!                                   ├─ Check ── Check::run or answer ──► ExchangeStep
//!                                   ├─ Done: the login
//!                                   └─ Failed: the reason
//! ```
//!
//! A caller that may block runs the checks itself:
//!
//! ```
//! # use std::sync::Arc;
//! # use sasl::{Context, Credentials, Exchange, Login, LoginError, LoginOrigin, LoginProtocol, Mechanism};
//! # use sasl::{ExchangeStep, PasswordRequest};
//! # struct Accounts;
//! # impl Credentials for Accounts {
//! #     fn check_password(&self, _: &LoginOrigin, request: &PasswordRequest) -> Result<Login, LoginError> {
//! #         Ok(Login::new(request.authentication_id()))
//! #     }
//! # }
//! let origin = LoginOrigin::local(LoginProtocol::Imap);
//! let context = Context { is_private: true, ..Context::new(origin, &[Mechanism::Plain]) };
//! let mut step = Exchange::begin(Mechanism::Plain, Some(b"\0ann\0secret"), Arc::new(context));
//! if let ExchangeStep::Check(check) = step {
//!     step = check.run(&Accounts);
//! }
//! assert!(matches!(step, ExchangeStep::Done { login, .. } if login.name == "ann"));
//! ```
//!
//! This crate is pure: it has no I/O, no clock and no randomness. It does not include the arithmetic of SCRAM,
//! SASLprep (RFC 4013), the lookup of accounts and throttling, which belong to the directory, and security layers
//! (RFC 4422 §3.7), which TLS replaces.

pub mod application_password;
pub mod channel_binding;
pub mod context;
pub mod credentials;
pub mod error;
pub mod exchange;
#[doc(hidden)]
pub mod fuzz;
pub mod limits;
pub mod line;
pub mod mechanism;
pub mod protocol;
pub mod request;
pub mod secret;
pub mod sim;

#[cfg(test)]
mod tests;

pub use application_password::{APPLICATION_PROTOCOLS, ApplicationPasswordId, LoginPassword, LoginScope};
pub use channel_binding::{ChannelBinding, ChannelBindingType};
pub use context::{Context, OAuthDiscovery};
pub use credentials::{Credentials, Login, LoginRegistration, ScramServer, ScramSuccess};
pub use error::LoginError;
pub use exchange::{Check, Exchange, ExchangeStep, PendingCheck};
pub use line::{decode_initial_response, decode_line, encode_line};
pub use mechanism::Mechanism;
pub use protocol::{LoginOrigin, LoginProtocol};
pub use request::{CertificateRequest, ClientFinal, ClientFirst, PasswordRequest, TokenRequest};
pub use secret::Secret;
