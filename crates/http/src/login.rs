//! Logins over HTTP: by a name and a password in each request (Basic, RFC 7617), by a token (Bearer, RFC 6750), or by
//! the cookie of a session.
//!
//! Every request is checked: a session of somebody who has got another password or second factor, or may no longer log
//! in, ends with its next request. An answer that goes on without end watches the login of its request
//! ([`Authenticator::watch`]). Passwords are checked by the pool for logins, and throttled like those of other
//! protocols.

use std::future;
use std::sync::Arc;

use axum::http::{HeaderMap, HeaderValue, header};
use base::Timestamp;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use notes::Identity;
use sasl::{Login, LoginError, LoginPassword, LoginProtocol, PasswordRequest, TokenRequest};
use store::Ticket;
use wire::{JobLabel, JobOwner, Peer, WorkerPool};

use crate::backend::{Accounts, CodeProof, FirstFactor, LoggedIn, LoginProof, LoginWatch};
use crate::pending_logins::PendingLogins;
use crate::request_context::RequestContext;
use crate::sessions::{SessionClient, SessionId, SessionLogin, Sessions};

/// The cookie of a session over TLS. Browsers accept the prefix only with `Secure`, `Path=/` and without `Domain`, so
/// no other host and no page without encryption can set it.
pub const COOKIE: &str = "__Host-doublet";

/// The cookie of a session without TLS, which is possible on this machine only.
pub const PLAIN_COOKIE: &str = "doublet";

/// The person for whom a request is executed.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The identity, with all groups. It has no more rights than the password permits.
    pub identity: Arc<Identity>,
    /// The password by which the person is logged in.
    pub password: LoginPassword,
    /// The session by which the person is logged in, if it is one.
    pub session: Option<SessionId>,
    /// What the login has proved.
    pub proof: LoginProof,
}

impl Caller {
    /// Returns the canonical name.
    #[must_use]
    pub fn login(&self) -> &str {
        self.identity.name.canonical()
    }
}

/// Reason why a request is executed for nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It has no login, or one that has ended.
    Missing,
    /// Its login was refused.
    Login(LoginError),
}

impl From<LoginError> for Refusal {
    fn from(error: LoginError) -> Self {
        Self::Login(error)
    }
}

/// A login whose password is right.
#[derive(Clone, PartialEq, Eq)]
pub enum BegunLogin {
    /// The person is logged in.
    Complete(SessionLogin),
    /// The person must enter a code. The form has this token.
    CodeNeeded(String),
}

/// Reason why a code does not complete a login.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CodeRefusal {
    /// The login has waited too long, or too many codes were wrong. It begins anew.
    Expired,
    /// The code was refused.
    Login(LoginError),
}

/// Checks the logins of requests.
#[derive(Clone)]
pub struct Authenticator {
    accounts: Arc<dyn Accounts>,
    pool: WorkerPool,
    login_pool: WorkerPool,
    sessions: Arc<Sessions>,
    pending: Arc<PendingLogins>,
}

impl Authenticator {
    /// Creates the check. `login_pool` has the threads that compute password hashes.
    #[must_use]
    pub fn new(accounts: Arc<dyn Accounts>, pool: WorkerPool, login_pool: WorkerPool, sessions: Arc<Sessions>) -> Self {
        let pending = Arc::new(PendingLogins::new(&sessions));
        Self { accounts, pool, login_pool, sessions, pending }
    }

    /// Returns the sessions.
    #[must_use]
    pub fn sessions(&self) -> &Arc<Sessions> {
        &self.sessions
    }

    /// Returns the person for whom a request is executed: by a login in its header, or by the session whose cookie has
    /// one of these names.
    pub async fn caller(
        &self,
        context: &RequestContext,
        headers: &HeaderMap,
        (protocol, cookies): (LoginProtocol, &[&str]),
    ) -> Result<Caller, Refusal> {
        let caller = match headers.get(header::AUTHORIZATION) {
            Some(value) => {
                let LoggedIn { identity, stamp, password } = self.check_header(context, value, protocol).await?;
                let proof = LoginProof { stamp, factor: None };
                Caller { identity, password, session: None, proof }
            }
            None => {
                let token = cookies.iter().find_map(|name| cookie(headers, name)).ok_or(Refusal::Missing)?;
                self.session_caller(context, token, protocol).await?
            }
        };
        context.set_account(caller.login());
        Ok(caller)
    }

    async fn check_header(
        &self,
        context: &RequestContext,
        value: &HeaderValue,
        protocol: LoginProtocol,
    ) -> Result<LoggedIn, Refusal> {
        let value = value.to_str().map_err(|_| Refusal::Missing)?;
        if let Some((name, password)) = basic_credentials(value) {
            let request = PasswordRequest::without_sasl(name.as_bytes(), password.as_bytes())?;
            return Ok(self.check_password(context, request, protocol).await?);
        }
        let request = TokenRequest::from_authorization(value).ok_or(Refusal::Missing)?;
        let accounts = Arc::clone(&self.accounts);
        let origin = context.origin(protocol);
        let check = move || {
            let login = accounts.check_token(&origin, &request)?;
            accounts.identify(&origin, &login, None)
        };
        Ok(self.run_login(&context.peer, check).await?)
    }

    /// Checks a name and a password of a program. The password of an account with a second factor is refused.
    pub async fn check_password(
        &self,
        context: &RequestContext,
        request: PasswordRequest,
        protocol: LoginProtocol,
    ) -> Result<LoggedIn, LoginError> {
        let accounts = Arc::clone(&self.accounts);
        let origin = context.origin(protocol);
        let check = move || {
            let login = accounts.check_password(&origin, &request)?;
            accounts.identify(&origin, &login, None)
        };
        self.run_login(&context.peer, check).await
    }

    /// Checks the password of the login page. If the person has a second factor, the login waits for a code, and the
    /// result has the token by which the form of the code refers to it.
    pub async fn begin_login(
        &self,
        context: &RequestContext,
        request: PasswordRequest,
    ) -> Result<BegunLogin, LoginError> {
        let accounts = Arc::clone(&self.accounts);
        let origin = context.origin(LoginProtocol::Http);
        let first = self.run_login(&context.peer, move || accounts.check_first_factor(&origin, &request)).await?;
        let FirstFactor { login, stamp, is_code_needed } = first;
        let login = SessionLogin { login, stamp, password: LoginPassword::Account, factor: None };
        match is_code_needed {
            false => Ok(BegunLogin::Complete(login)),
            true => Ok(BegunLogin::CodeNeeded(self.pending.add(login))),
        }
    }

    /// Checks the code of a login that waits for one. After a wrong code, the login waits for another one, some times.
    /// A code that could not be checked does not count.
    pub async fn complete_login(
        &self,
        context: &RequestContext,
        token: &str,
        code: String,
    ) -> Result<SessionLogin, CodeRefusal> {
        let login = self.pending.try_code(token).ok_or(CodeRefusal::Expired)?;
        match self.confirm_code(context, &login.login, code).await {
            Ok(factor) => {
                self.pending.remove(token);
                Ok(SessionLogin { factor: Some(factor), ..login })
            }
            Err(error) => {
                if matches!(error, LoginError::Throttled | LoginError::Unavailable) {
                    self.pending.withdraw_code(token);
                }
                Err(CodeRefusal::Login(error))
            }
        }
    }

    /// Checks the password of somebody who is logged in, before a change that needs it.
    pub async fn confirm_password(&self, context: &RequestContext, request: PasswordRequest) -> Result<(), LoginError> {
        let accounts = Arc::clone(&self.accounts);
        let origin = context.origin(LoginProtocol::Http);
        let check = move || accounts.check_first_factor(&origin, &request).map(drop);
        self.run_login(&context.peer, check).await
    }

    /// Checks a code of the second factor of a person, and uses it up. Returns when the factor was added.
    pub async fn confirm_code(
        &self,
        context: &RequestContext,
        login: &str,
        code: String,
    ) -> Result<Timestamp, LoginError> {
        let accounts = Arc::clone(&self.accounts);
        let sessions = Arc::clone(&self.sessions);
        let origin = context.origin(LoginProtocol::Http);
        let name = login.to_owned();
        let check = move || match accounts.check_second_factor(&origin, &name, &code)? {
            CodeProof::RecoveryCode { factor } => Ok((factor, Ticket::NONE)),
            CodeProof::Step { step, factor } => match sessions.use_code((&name, factor), step) {
                Ok(Some(ticket)) => Ok((factor, ticket)),
                Ok(None) => Err(LoginError::InvalidCredentials),
                Err(error) => {
                    tracing::error!(target: "http", %error, "the use of a code cannot be written");
                    Err(LoginError::Unavailable)
                }
            },
        };
        let (factor, ticket) = self.run_login(&context.peer, check).await?;
        self.sessions.durable(ticket).await.map_err(|_| LoginError::Unavailable)?;
        Ok(factor)
    }

    async fn run_login<R: Send + 'static>(
        &self,
        peer: &Peer,
        check: impl FnOnce() -> Result<R, LoginError> + Send + 'static,
    ) -> Result<R, LoginError> {
        let label = JobLabel::new(JobOwner::stranger(peer.ip()), "http", "login");
        self.login_pool.run_awaited(label, check).await.map_err(|_| LoginError::Unavailable)?
    }

    /// Returns the person of a session with a token, and counts the use.
    pub async fn session_caller(
        &self,
        context: &RequestContext,
        token: &str,
        protocol: LoginProtocol,
    ) -> Result<Caller, Refusal> {
        let (session, login) = self.sessions.find(token).ok_or(Refusal::Missing)?;
        let proof = login.proof();
        let label = JobLabel::new(JobOwner::account(&login.login), "http", "session");
        let login = Login::new(login.login).with_password(login.password);
        let accounts = Arc::clone(&self.accounts);
        let sessions = Arc::clone(&self.sessions);
        let origin = context.origin(protocol);
        let identified = self.pool.run_awaited(label, move || {
            let identified = accounts.identify(&origin, &login, Some(proof));
            match identified {
                Ok(_) => sessions.record_use(&session),
                Err(LoginError::InvalidCredentials | LoginError::AccountDisabled) => sessions.end(&session),
                Err(_) => {}
            }
            identified
        });
        match identified.await.map_err(|_| LoginError::Unavailable)? {
            Ok(LoggedIn { identity, password, .. }) => Ok(Caller { identity, password, session: Some(session), proof }),
            Err(LoginError::InvalidCredentials | LoginError::AccountDisabled) => Err(Refusal::Missing),
            Err(error) => Err(error.into()),
        }
    }

    /// Begins to watch the login of a request whose answer goes on without end.
    pub async fn watch(
        &self,
        context: &RequestContext,
        caller: &Caller,
        protocol: LoginProtocol,
    ) -> Result<WatchedLogin, LoginError> {
        let label = JobLabel::new(JobOwner::account(caller.login()), "http", "session");
        let login = Login::new(caller.login()).with_password(caller.password);
        let accounts = Arc::clone(&self.accounts);
        let origin = context.origin(protocol);
        let proof = caller.proof;
        let watched = self.pool.run_awaited(label, move || accounts.watch(&origin, &login, proof)).await;
        let watch = watched.map_err(|_| LoginError::Unavailable)??;
        Ok(WatchedLogin { watch, session: caller.session, sessions: Arc::clone(&self.sessions) })
    }

    /// Begins a session for somebody who has just logged in, and ends the one that the request had before. Returns the
    /// token of the new one, when its note is durable.
    pub async fn begin_session(
        &self,
        context: &RequestContext,
        headers: &HeaderMap,
        login: SessionLogin,
        earlier: Option<&str>,
    ) -> Result<String, LoginError> {
        let client = SessionClient::new(context.peer.ip(), headers.get(header::USER_AGENT));
        let earlier = earlier.map(SessionId::of_token);
        let label = JobLabel::new(JobOwner::account(&login.login), "http", "session");
        let sessions = Arc::clone(&self.sessions);
        let begun = self.pool.run_awaited(label, move || {
            if let Some(earlier) = earlier {
                sessions.end(&earlier);
            }
            sessions.begin(login, client)
        });
        let begun = begun.await.map_err(|_| LoginError::Unavailable)?;
        let (token, ticket) = begun.map_err(|error| {
            tracing::error!(target: "http", %error, "a session could not begin");
            LoginError::Unavailable
        })?;
        self.sessions.durable(ticket).await.map_err(|_| LoginError::Unavailable)?;
        Ok(token)
    }

    /// Ends a session.
    pub async fn end_session(&self, context: &RequestContext, session: SessionId) -> Result<(), LoginError> {
        let label = JobLabel::new(JobOwner::stranger(context.peer.ip()), "http", "session");
        let sessions = Arc::clone(&self.sessions);
        self.pool.run_awaited(label, move || sessions.end(&session)).await.map_err(|_| LoginError::Unavailable)
    }
}

/// The login of a request whose answer goes on without end. It ends with a change of the account, as a connection does,
/// and with its session.
pub struct WatchedLogin {
    watch: Box<dyn LoginWatch>,
    session: Option<SessionId>,
    sessions: Arc<Sessions>,
}

impl WatchedLogin {
    /// Returns `true` if the login has ended.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        let is_session_over = self.session.is_some_and(|session| !self.sessions.is_valid(&session));
        is_session_over || self.watch.termination().is_terminated()
    }

    /// Waits until the login has ended.
    pub async fn ended(&self) {
        let session_end = async {
            match &self.session {
                Some(session) => self.sessions.ended(session).await,
                None => future::pending().await,
            }
        };
        tokio::select! {
            () = self.watch.termination().terminated() => {}
            () = session_end => {}
        }
    }
}

/// Returns the value of a cookie (RFC 6265).
#[must_use]
pub fn cookie<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
}

/// Returns the cookie of a session for a peer. An empty token removes it from the browser.
#[must_use]
pub fn session_cookie(peer: &Peer, token: &str, seconds: u64) -> Option<HeaderValue> {
    let (name, secure) = if peer.tls { (COOKIE, "; Secure") } else { (PLAIN_COOKIE, "") };
    let text = format!("{name}={token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).ok()
}

/// Returns the name and the password of the field `Authorization` with the scheme Basic (RFC 7617).
fn basic_credentials(value: &str) -> Option<(String, String)> {
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(STANDARD.decode(encoded.trim()).ok()?).ok()?;
    decoded.split_once(':').map(|(name, password)| (name.to_owned(), password.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookies_are_found_by_their_whole_name() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; doublet=x=y"));
        headers.append(header::COOKIE, HeaderValue::from_static("__Host-doublet=z"));
        assert_eq!(cookie(&headers, "doublet"), Some("x=y"));
        assert_eq!(cookie(&headers, COOKIE), Some("z"));
        assert_eq!(cookie(&headers, "let"), None);
    }

    #[test]
    fn cookies_of_plain_connections_have_no_prefix() {
        let text = |peer: &Peer| session_cookie(peer, "t", 5).map(|value| value.to_str().expect("ASCII").to_owned());
        let local = Peer::local();
        assert_eq!(text(&local).as_deref(), Some("doublet=t; Path=/; HttpOnly; SameSite=Lax; Max-Age=5"));
        let secure = "__Host-doublet=t; Path=/; HttpOnly; SameSite=Lax; Max-Age=5; Secure";
        assert_eq!(text(&local.encrypted()).as_deref(), Some(secure));
    }

    #[test]
    fn basic_credentials_end_at_the_first_colon() {
        let found =
            |scheme: &str, credentials: &[u8]| basic_credentials(&format!("{scheme} {}", STANDARD.encode(credentials)));
        assert_eq!(found("bAsIc", b"ann:pass:word"), Some(("ann".to_owned(), "pass:word".to_owned())));
        assert_eq!(found("Bearer", b"ann:x"), None);
        assert_eq!(found("Basic", b"ann"), None);
        assert_eq!(found("Basic", b"\xff:x"), None);
        assert_eq!(basic_credentials("Basic ###"), None);
    }
}
