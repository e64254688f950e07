//! The form of the login page, and its cookie.
//!
//! The form has a token, too, from a cookie of its own: a page of another site can log nobody in to an account of its
//! choice. [`crate::page::login`] executes it.

use askama::Template;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::Response;
use base::hex;
use http::login::cookie;
use wire::Peer;

use crate::answer;
use crate::form_token::FormSecret;
use crate::layout::Layout;
use crate::service::Service;

/// The cookie of the login form.
const COOKIE: &str = "__Host-doublet-login";

/// The same without TLS, which is possible on this machine only.
const PLAIN_COOKIE: &str = "doublet-login";

/// Number of random bytes of the cookie.
const COOKIE_BYTES: usize = 32;

/// Maximum length of the cookie.
const COOKIE_LENGTH_MAX: usize = 2 * COOKIE_BYTES;

#[derive(Template)]
#[template(path = "login.html")]
struct LoginPage {
    layout: Layout,
    name: String,
    failure: Option<&'static str>,
}

/// The content of the form when it is shown again.
#[derive(Default)]
pub(crate) struct LoginForm<'f> {
    pub(crate) name: &'f str,
    /// The status and the reason if a login was refused.
    pub(crate) failure: Option<(StatusCode, &'static str)>,
}

/// Answers with the form, and the cookie that belongs to it.
pub(crate) fn show(service: &Service, peer: &Peer, headers: &HeaderMap, shown: &LoginForm<'_>) -> Response {
    let random = service.services.random.as_ref();
    let known = cookie(headers, cookie_name(peer)).filter(|value| value.len() == COOKIE_LENGTH_MAX);
    let value = known.map_or_else(
        || {
            let mut bytes = [0; COOKIE_BYTES];
            random.fill(&mut bytes);
            hex::lower(&bytes)
        },
        str::to_owned,
    );
    let layout = Layout { token: FormSecret::of_session(&value).masked(random), ..Layout::public("Log in") };
    let status = shown.failure.map_or(StatusCode::OK, |(status, _)| status);
    let failure = shown.failure.map(|(_, failure)| failure);
    let mut response = answer::page(status, &LoginPage { layout, name: shown.name.to_owned(), failure });
    if let Some(cookie) = login_cookie(peer, &value, 3_600) {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// Answers a form of somebody whose session has ended with the login page.
pub(crate) fn show_after_session(service: &Service, peer: &Peer, headers: &HeaderMap) -> Response {
    let failure = "Your session has ended. Nothing was changed. Log in, and use the form again.";
    let failure = Some((StatusCode::UNAUTHORIZED, failure));
    show(service, peer, headers, &LoginForm { name: "", failure })
}

/// Returns the name of the cookie of the form for a peer.
pub(crate) fn cookie_name(peer: &Peer) -> &'static str {
    if peer.tls { COOKIE } else { PLAIN_COOKIE }
}

pub(crate) fn login_cookie(peer: &Peer, value: &str, seconds: u64) -> Option<HeaderValue> {
    let secure = if peer.tls { "; Secure" } else { "" };
    let name = cookie_name(peer);
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{secure}");
    HeaderValue::from_str(&text).ok()
}
