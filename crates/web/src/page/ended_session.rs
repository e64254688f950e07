//! The form of the composer after the end of the session: nothing is sent, and what was typed is not lost.
//!
//! Other forms are answered with the login page. The form of the composer comes back with its text, in a page that
//! shows only what the browser has sent. The person logs in in another tab, and sends this form, which has no token. So
//! it is one of another session, and opens the composer ([`crate::page::send`]), where the person sends the message.
//! Files are not kept.

use askama::Template;
use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;

use crate::answer;
use crate::error::Result;
use crate::form::Form;
use crate::layout::Layout;
use crate::page::compose::Composer;
use crate::page::send::{kept_parts, submitted_bytes_max};
use crate::visit::EndedSession;

#[derive(Template)]
#[template(path = "ended.html")]
struct EndedPage {
    layout: Layout,
    composer: Composer,
    /// The attachments of the draft that stay.
    kept: Vec<usize>,
    has_files: bool,
    is_cut: bool,
}

/// Answers the form of the composer with its text.
pub(crate) async fn composer_page(ended: EndedSession, body: Body) -> Result<Response> {
    let EndedSession { service, peer, headers } = ended;
    let beginning =
        Form::receive_beginning(&headers, body, submitted_bytes_max(&service), &service.memory_of(&peer)).await?;
    let page = EndedPage {
        layout: Layout::public("Your session has ended"),
        composer: Composer::read(&beginning.form)?,
        kept: kept_parts(&beginning.form)?,
        has_files: beginning.has_files,
        is_cut: beginning.is_cut,
    };
    Ok(answer::page(StatusCode::UNAUTHORIZED, &page))
}
