//! The addresses of the pages.
//!
//! `/` chooses the mode. Today this is always the lite web mail.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use axum::{Extension, Router};
use http::RequestContext;
use http::request_body::{BodyLimits, receive};
use http::statistics::with_route_names;
use sasl::LoginProtocol;

use crate::answer;
use crate::error::{Error, Result};
use crate::layout::style_name;
use crate::limits::{FORM_PAUSE_MAX, REPORT_BYTES_MAX};
use crate::login_form::{self, LoginForm};
use crate::notice::UNDO_PATH;
use crate::page::{
    action, addresses, compose, confirmation, conversation, download, ended_session, folders, html, list, login,
    message, search, security, send, settings, undo,
};
use crate::service::Service;
use crate::visit::{Visit, VisitRejection, session_token};

/// The numbers of a path: those of a folder, a message and a part.
type Numbers<T> = std::result::Result<Path<T>, PathRejection>;

impl Service {
    /// Returns the routes.
    pub fn routes(self: &Arc<Self>) -> Router {
        let router = Router::new()
            .route("/", get(choose_mode))
            .route("/lite", get(async || answer::redirect("/lite/")))
            .route("/lite/", get(list::inbox))
            .route("/lite/style/{name}", get(style))
            .route(answer::REPORT_PATH, post(count_report))
            .route("/lite/login", get(login::show).post(login::submit))
            .route("/lite/login/code", post(login::submit_code))
            .route("/lite/logout", post(login::log_out))
            .route("/lite/folders", get(folders::show).post(folders::submit))
            .route("/lite/folder/{folder}", get(list_of).post(action_in))
            .route("/lite/folder/{folder}/{message}", get(message_of))
            .route("/lite/folder/{folder}/{message}/confirmation", post(confirmation_of))
            .route("/lite/folder/{folder}/{message}/conversation", get(conversation_of))
            .route("/lite/folder/{folder}/{message}/html", get(html_of))
            .route("/lite/folder/{folder}/{message}/raw", get(raw_of))
            .route("/lite/folder/{folder}/{message}/part/{part}", get(part_of))
            .route("/lite/compose", get(compose::show).post(composer_form))
            .route(UNDO_PATH, post(undo::submit))
            .route("/lite/search", get(search::show))
            .route("/lite/addresses", get(addresses::show))
            .route("/lite/settings", get(settings::show).post(settings::submit))
            .route("/lite/settings/security", get(security::show).post(security::submit))
            .route("/lite/settings/factor", get(security::show_factor).post(security::submit_factor));
        let router = router.with_state(Arc::clone(self));
        with_route_names(router).fallback(async || Error::NotFound("the page"))
    }
}

/// Chooses between the modes of the web mail. The preference of the person, the browser and the operator will decide
/// here once there are several. Without a session, the login page is shown here: a redirection to it would cost a round
/// trip.
async fn choose_mode(
    State(service): State<Arc<Service>>,
    Extension(context): Extension<RequestContext>,
    headers: HeaderMap,
) -> Response {
    let authenticator = &service.services.authenticator;
    let is_logged_in = match session_token(&context.peer, &headers) {
        Some(token) => authenticator.session_caller(&context, token, LoginProtocol::Http).await.is_ok(),
        None => false,
    };
    match is_logged_in {
        true => answer::redirect("/lite/"),
        false => login_form::show(&service, &context.peer, &headers, &LoginForm::default()),
    }
}

async fn style(State(service): State<Arc<Service>>, name: Numbers<String>, headers: HeaderMap) -> Result<Response> {
    let Path(name) = numbers(name)?;
    if name == style_name() { Ok(service.style.answer(&headers)) } else { Err(Error::NotFound("the style sheet")) }
}

/// Takes the report of a browser that a page violates its policy. The statistics of routes count it. Strangers can send
/// reports, too, so their contents are not logged.
async fn count_report(
    State(service): State<Arc<Service>>,
    Extension(context): Extension<RequestContext>,
    headers: HeaderMap,
    body: Body,
) -> Result<StatusCode> {
    let limits = BodyLimits { bytes_max: REPORT_BYTES_MAX, pause_max: FORM_PAUSE_MAX };
    receive(&headers, body, limits, &service.memory_of(&context.peer)).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn list_of(visit: Visit, folder: Numbers<u32>) -> Result<Response> {
    list::show(visit, numbers(folder)?.0).await
}

async fn action_in(visit: Visit, folder: Numbers<u32>, body: Body) -> Result<Response> {
    action::submit(visit, numbers(folder)?.0, body).await
}

/// Executes the form of the composer. It is not lost if the session has ended.
async fn composer_form(visit: std::result::Result<Visit, VisitRejection>, body: Body) -> Result<Response> {
    match visit {
        Ok(visit) => send::submit(visit, body).await,
        Err(VisitRejection::SessionEnded(ended)) => ended_session::composer_page(ended, body).await,
        Err(VisitRejection::Error(error)) => Err(error),
    }
}

async fn message_of(visit: Visit, message: Numbers<(u32, u32)>) -> Result<Response> {
    message::show(visit, numbers(message)?.0).await
}

async fn confirmation_of(visit: Visit, message: Numbers<(u32, u32)>, body: Body) -> Result<Response> {
    confirmation::submit(visit, numbers(message)?.0, body).await
}

async fn conversation_of(visit: Visit, message: Numbers<(u32, u32)>) -> Result<Response> {
    conversation::show(visit, numbers(message)?.0).await
}

async fn html_of(visit: Visit, message: Numbers<(u32, u32)>) -> Result<Response> {
    html::show(visit, numbers(message)?.0).await
}

async fn raw_of(visit: Visit, message: Numbers<(u32, u32)>) -> Result<Response> {
    download::raw(visit, numbers(message)?.0).await
}

async fn part_of(visit: Visit, part: Numbers<(u32, u32, usize)>) -> Result<Response> {
    let Path((folder, uid, part)) = numbers(part)?;
    download::part(visit, (folder, uid), part).await
}

/// Returns the numbers of a path. Anything else than numbers names nothing.
fn numbers<T>(path: Numbers<T>) -> Result<Path<T>> {
    path.map_err(|_| Error::NotFound("the page"))
}
