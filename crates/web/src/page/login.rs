//! Login and logout.
//!
//! The login form ([`crate::login_form`]) has a token, too. A login begins a new session and ends the one that the
//! browser had. Of people with a second factor, it asks for a code after the password (`http::pending_logins`).

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use http::RequestContext;
use http::login::{BegunLogin, CodeRefusal, cookie, session_cookie};
use http::sessions::SessionLogin;
use sasl::{LoginError, LoginProtocol, PasswordRequest};
use wire::Peer;

use crate::answer;
use crate::error::{Error, Result};
use crate::form::Form;
use crate::form_token::FormSecret;
use crate::layout::Layout;
use crate::limits::FORM_BYTES_MAX;
use crate::login_form::{self, LoginForm, cookie_name, login_cookie};
use crate::page::list;
use crate::service::Service;
use crate::visit::{TokenState, Visit, receive_form, session_token};

#[derive(Template)]
#[template(path = "code.html")]
struct CodePage {
    layout: Layout,
    login: String,
    failure: Option<&'static str>,
}

/// Shows the login form.
pub(crate) async fn show(
    State(service): State<Arc<Service>>,
    Extension(context): Extension<RequestContext>,
    headers: HeaderMap,
) -> Response {
    login_form::show(&service, &context.peer, &headers, &LoginForm::default())
}

/// Logs somebody in.
pub(crate) async fn submit(
    State(service): State<Arc<Service>>,
    Extension(context): Extension<RequestContext>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let peer = context.peer;
    let (fields, state) = receive_public_form(&service, &peer, &headers, body).await?;
    let name = fields.text("name").trim();
    if state == TokenState::Stale {
        let failure =
            "The form was too old, or your browser does not accept cookies. Allow cookies of this site and try again.";
        let failure = Some((StatusCode::FORBIDDEN, failure));
        return Ok(login_form::show(&service, &peer, &headers, &LoginForm { name, failure }));
    }
    let authenticator = &service.services.authenticator;
    let begun = match PasswordRequest::without_sasl(name.as_bytes(), fields.text("password").as_bytes()) {
        Ok(request) => authenticator.begin_login(&context, request).await,
        Err(error) => Err(error),
    };
    match begun {
        Ok(BegunLogin::Complete(login)) => enter(&service, &context, &headers, login).await,
        Ok(BegunLogin::CodeNeeded(login)) => Ok(code_form(&service, &peer, &headers, (login, None))),
        Err(error) => {
            let failure = Some(refusal(error));
            Ok(login_form::show(&service, &peer, &headers, &LoginForm { name, failure }))
        }
    }
}

/// Logs somebody in whose password was right, by a code of the second factor.
pub(crate) async fn submit_code(
    State(service): State<Arc<Service>>,
    Extension(context): Extension<RequestContext>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let peer = context.peer;
    let (fields, state) = receive_public_form(&service, &peer, &headers, body).await?;
    if state == TokenState::Stale {
        return Err(Error::StaleForm);
    }
    let token = fields.text("login").to_owned();
    let completed = service.services.authenticator.complete_login(&context, &token, fields.text("code").to_owned());
    match completed.await {
        Ok(login) => enter(&service, &context, &headers, login).await,
        Err(CodeRefusal::Expired) => {
            let failure =
                Some((StatusCode::FORBIDDEN, "Too much time has passed, or too many codes were wrong. Log in again."));
            Ok(login_form::show(&service, &peer, &headers, &LoginForm { name: "", failure }))
        }
        Err(CodeRefusal::Login(LoginError::InvalidCredentials)) => {
            let failure = "The code is wrong, too old, or was used before. Wait for the next one.";
            Ok(code_form(&service, &peer, &headers, (token, Some((StatusCode::UNAUTHORIZED, failure)))))
        }
        Err(CodeRefusal::Login(error)) => Ok(code_form(&service, &peer, &headers, (token, Some(refusal(error))))),
    }
}

/// Reads a form of somebody who is not logged in. Its token belongs to the cookie of the login form; without the
/// cookie, it is stale.
async fn receive_public_form(
    service: &Service,
    peer: &Peer,
    headers: &HeaderMap,
    body: Body,
) -> Result<(Form, TokenState)> {
    let cookie = cookie(headers, cookie_name(peer));
    let secret = FormSecret::of_session(cookie.unwrap_or_default());
    let (fields, state) = receive_form(headers, body, FORM_BYTES_MAX, (&secret, &service.memory_of(peer))).await?;
    Ok((fields, if cookie.is_none() { TokenState::Stale } else { state }))
}

/// Begins the session of somebody who is logged in, and sends the browser to the inbox.
async fn enter(
    service: &Service,
    context: &RequestContext,
    headers: &HeaderMap,
    login: SessionLogin,
) -> Result<Response> {
    let peer = context.peer;
    let authenticator = &service.services.authenticator;
    context.set_account(&login.login);
    let begun = authenticator.begin_session(context, headers, login, session_token(&peer, headers)).await;
    let token = begun.map_err(|_| Error::Unavailable)?;
    let seconds = authenticator.sessions().age_max().as_secs();
    let mut response = answer::redirect(&first_page(service, context, &token).await);
    let cookies = [session_cookie(&peer, &token, seconds), login_cookie(&peer, "", 0)];
    for cookie in cookies.into_iter().flatten() {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Returns the address of the page after the login: the inbox itself, because each redirection costs a round trip.
/// If it cannot be opened now, the page behind `/lite/` says why.
async fn first_page(service: &Service, context: &RequestContext, token: &str) -> String {
    let caller = service.services.authenticator.session_caller(context, token, LoginProtocol::Http).await;
    let Ok(caller) = caller else { return "/lite/".to_owned() };
    let found = service.run_in_file(&caller, "inbox", list::inbox_address).await;
    found.unwrap_or_else(|_| "/lite/".to_owned())
}

/// Logs out.
pub(crate) async fn log_out(visit: Visit, body: Body) -> Result<Response> {
    visit.form(body).await?;
    if let Some(session) = visit.caller.session {
        let ended = visit.service.services.authenticator.end_session(&visit.context, session).await;
        ended.map_err(|_| Error::Unavailable)?;
    }
    let mut response = answer::redirect("/lite/login");
    if let Some(cookie) = session_cookie(&visit.context.peer, "", 0) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Answers with the form for a code, for the login with a token.
fn code_form(
    service: &Service,
    peer: &Peer,
    headers: &HeaderMap,
    (login, failure): (String, Option<(StatusCode, &'static str)>),
) -> Response {
    // The form for the password has set the cookie. Without it, the form for the code is refused like any stale one.
    let value = cookie(headers, cookie_name(peer)).unwrap_or_default();
    let token = FormSecret::of_session(value).masked(service.services.random.as_ref());
    let layout = Layout { token, ..Layout::public("Second step") };
    let status = failure.map_or(StatusCode::OK, |(status, _)| status);
    answer::page(status, &CodePage { layout, login, failure: failure.map(|(_, failure)| failure) })
}

/// Returns the status and the text of a refused login.
fn refusal(error: LoginError) -> (StatusCode, &'static str) {
    match error {
        LoginError::AccountDisabled => (StatusCode::FORBIDDEN, "This account is disabled. Ask your administrator."),
        LoginError::Throttled => {
            (StatusCode::TOO_MANY_REQUESTS, "Too many logins have failed. Wait some minutes and try again.")
        }
        LoginError::MailFileElsewhere => (StatusCode::FORBIDDEN, "Your mail file is on another server. Log in there."),
        LoginError::Unavailable => {
            (StatusCode::SERVICE_UNAVAILABLE, "Logins cannot be checked now. Try again in a minute.")
        }
        _ => (StatusCode::UNAUTHORIZED, "The name or the password is wrong. Try again."),
    }
}
