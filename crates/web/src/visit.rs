//! A request of somebody who is logged in. Every form passes its checks here, so no page can forget them. A form of
//! somebody whose session has ended is answered with the login page, or by [`crate::page::ended_session`].
//!
//! Only the cookie of a session counts: a login in the header of a request is ignored, because browsers would add it to
//! requests of other pages.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse, Response};
use base::memory::MemoryBudget;
use http::account_limits::RequestPermit;
use http::login::{COOKIE, PLAIN_COOKIE, cookie};
use http::origin::{Origins, Sender};
use http::{Caller, Refusal, RequestContext};
use mail::mailbox::MailFile;
use sasl::{LoginError, LoginPassword, LoginProtocol};
use store::Ticket;
use tokio::sync::OnceCell;
use wire::Peer;

use crate::error::{Error, Result};
use crate::form::Form;
use crate::form_token::FormSecret;
use crate::layout::{Frame, Layout};
use crate::limits::FORM_BYTES_MAX;
use crate::login_form;
use crate::notice::Notice;
use crate::personal_settings::PersonalSettings;
use crate::service::Service;

/// A request of somebody who is logged in.
pub(crate) struct Visit {
    pub(crate) service: Arc<Service>,
    pub(crate) context: RequestContext,
    pub(crate) caller: Caller,
    pub(crate) headers: HeaderMap,
    pub(crate) secret: FormSecret,
    /// The fields of the query.
    pub(crate) query: Form,
    /// What the person has chosen, after it was read.
    settings: OnceCell<PersonalSettings>,
    _permit: RequestPermit,
}

/// Whether the token of a form is one of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenState {
    /// It is.
    Valid,
    /// It is not: perhaps the person has logged in again since.
    Stale,
}

/// Reason why a request is not one of somebody who is logged in.
pub(crate) enum VisitRejection {
    /// The reason.
    Error(Error),
    /// It is a form of somebody who is not logged in any more.
    SessionEnded(EndedSession),
}

/// A request with a form of somebody whose session has ended. No page of another origin has sent it.
pub(crate) struct EndedSession {
    pub(crate) service: Arc<Service>,
    pub(crate) peer: Peer,
    pub(crate) headers: HeaderMap,
}

impl IntoResponse for VisitRejection {
    fn into_response(self) -> Response {
        match self {
            Self::Error(error) => error.into_response(),
            Self::SessionEnded(ended) => login_form::show_after_session(&ended.service, &ended.peer, &ended.headers),
        }
    }
}

impl FromRequestParts<Arc<Service>> for Visit {
    type Rejection = VisitRejection;

    async fn from_request_parts(
        parts: &mut Parts,
        service: &Arc<Service>,
    ) -> std::result::Result<Self, VisitRejection> {
        let error = match Self::begin(parts, service).await {
            Ok(visit) => return Ok(visit),
            Err(error) => error,
        };
        let is_form = matches!(error, Error::NotLoggedIn) && parts.method == Method::POST;
        let context = parts.extensions.get::<RequestContext>().filter(|_| is_form);
        let Some(context) = context else { return Err(VisitRejection::Error(error)) };
        if Origins::default().sender(&parts.headers) == Sender::Foreign {
            return Err(VisitRejection::Error(Error::ForeignOrigin));
        }
        let service = Arc::clone(service);
        let ended = EndedSession { service, peer: context.peer, headers: parts.headers.clone() };
        Err(VisitRejection::SessionEnded(ended))
    }
}

impl Visit {
    async fn begin(parts: &mut Parts, service: &Arc<Service>) -> Result<Self> {
        let Extension(context) =
            Extension::<RequestContext>::from_request_parts(parts, service).await.map_err(|_| Error::Unavailable)?;
        let mut headers = parts.headers.clone();
        headers.remove(header::AUTHORIZATION);
        let token = session_token(&context.peer, &headers).ok_or(Error::NotLoggedIn)?;
        let secret = FormSecret::of_session(token);
        let names = [cookie_name(&context.peer)];
        let by = (LoginProtocol::Http, &names[..]);
        let caller = service.services.authenticator.caller(&context, &headers, by).await;
        let caller = caller.map_err(|refusal| match refusal {
            Refusal::Missing | Refusal::Login(LoginError::InvalidCredentials | LoginError::AccountDisabled) => {
                Error::NotLoggedIn
            }
            Refusal::Login(_) => Error::Unavailable,
        })?;
        // Only the login page, which asks for the second factor, leads here.
        if caller.password != LoginPassword::Account {
            return Err(Error::NotLoggedIn);
        }
        let permit = service.requests.begin(caller.login()).ok_or(Error::TooManyRequests)?;
        let query = Form::parse_urlencoded(parts.uri.query().unwrap_or_default().as_bytes())?;
        let service = Arc::clone(service);
        let settings = OnceCell::new();
        Ok(Self { service, context, caller, headers, secret, query, settings, _permit: permit })
    }

    /// Reads a form without files.
    pub(crate) async fn form(&self, body: Body) -> Result<Form> {
        match self.form_within(body, FORM_BYTES_MAX).await? {
            (form, TokenState::Valid) => Ok(form),
            (_, TokenState::Stale) => Err(Error::StaleForm),
        }
    }

    /// Reads a form of at most a number of bytes. The caller must not change anything if its token is stale.
    pub(crate) async fn form_within(&self, body: Body, bytes_max: usize) -> Result<(Form, TokenState)> {
        receive_form(&self.headers, body, bytes_max, (&self.secret, &self.memory())).await
    }

    /// Returns the memory for this request.
    fn memory(&self) -> MemoryBudget {
        self.service.memory_of(&self.context.peer)
    }

    /// Runs work on the mail file, and waits until what it has read or written is durable.
    pub(crate) async fn run<R, F>(&self, command: &'static str, work: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce(&MailFile) -> Result<(R, Ticket)> + Send + 'static,
    {
        self.service.run_in_file(&self.caller, command, work).await
    }

    /// Runs work on the mail file like [`Visit::run`]. It has the settings of the person, which the same job reads.
    pub(crate) async fn run_with_settings<R, F>(&self, command: &'static str, work: F) -> Result<R>
    where
        R: Send + 'static,
        F: FnOnce(&MailFile, &PersonalSettings) -> Result<(R, Ticket)> + Send + 'static,
    {
        let known = self.settings.get().cloned();
        let ran = self.run(command, move |file| {
            let (settings, read) = match known {
                Some(settings) => (settings, Ticket::NONE),
                None => PersonalSettings::read(file)?,
            };
            let (reply, ticket) = work(file, &settings)?;
            Ok(((reply, settings), read.max(ticket)))
        });
        let (reply, settings) = ran.await?;
        self.settings.get_or_init(async move || settings).await;
        Ok(reply)
    }

    /// Returns the settings of the person. Reads them if no job of this request has.
    pub(crate) async fn settings(&self) -> Result<&PersonalSettings> {
        self.settings.get_or_try_init(|| PersonalSettings::load(&self.service, &self.caller)).await
    }

    /// Returns the frame of a page.
    pub(crate) async fn layout(&self, title: impl Into<String>) -> Result<Layout> {
        let title = title.into();
        Ok(self.frame().layout(title, &self.settings().await?.zone))
    }

    /// Returns the frame of a page, for a job that has the settings.
    pub(crate) fn frame(&self) -> Frame {
        let text = self.query.text("done");
        Frame {
            account: self.caller.identity.name.abbreviated(),
            token: self.secret.masked(self.service.services.random.as_ref()),
            notice: Notice::read(text, self.query.text("sig"), &self.secret),
        }
    }

    /// Returns `true` if a page of another origin, or a browser that loads pages in advance, sends this request.
    pub(crate) fn is_indirect(&self) -> bool {
        let purpose = self.headers.get("sec-purpose").or_else(|| self.headers.get("purpose"));
        purpose.is_some() || Origins::default().sender(&self.headers) == Sender::Foreign
    }
}

/// Reads a form, and checks who sends it and its token.
pub(crate) async fn receive_form(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
    (secret, memory): (&FormSecret, &MemoryBudget),
) -> Result<(Form, TokenState)> {
    if Origins::default().sender(headers) == Sender::Foreign {
        return Err(Error::ForeignOrigin);
    }
    let form = Form::receive(headers, body, bytes_max, memory).await?;
    let state = if secret.is_token(form.text("token")) { TokenState::Valid } else { TokenState::Stale };
    Ok((form, state))
}

/// Returns the name of the cookie of a session for a peer.
pub(crate) fn cookie_name(peer: &Peer) -> &'static str {
    if peer.tls { COOKIE } else { PLAIN_COOKIE }
}

/// Returns the token of the session of a request.
pub(crate) fn session_token<'h>(peer: &Peer, headers: &'h HeaderMap) -> Option<&'h str> {
    cookie(headers, cookie_name(peer)).filter(|token| !token.is_empty())
}
