//! The message's own look: its HTML, sanitized, as a document in a sandbox.
//!
//! The document has an opaque origin, runs nothing, loads nothing but images that are part of the message, and sends no
//! form. It is not part of another page.

use std::collections::HashMap;
use std::sync::Arc;

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;
use mail::mime::MimeSource as _;

use crate::answer::{self, POLICY_OF_MESSAGES};
use crate::error::{Error, Result};
use crate::limits::HTML_BYTES_MAX;
use crate::message_content;
use crate::page::list::shown_subject;
use crate::page::message::{find, open};
use crate::sanitizer::sanitize_parts;
use crate::visit::Visit;

#[derive(Template)]
#[template(path = "html.html")]
struct HtmlPage {
    title: String,
    /// The sanitized HTML of each part.
    parts: Vec<String>,
}

/// Shows the HTML of a message.
pub(crate) async fn show(visit: Visit, (folder, uid): (u32, u32)) -> Result<Response> {
    let read = visit.run("html", move |file| {
        let snapshot = file.snapshot()?;
        let (_, entry) = find(&snapshot, folder, uid)?;
        let message = open(&snapshot, &entry)?;
        let parts = message_content::html_of(&message, HTML_BYTES_MAX)?;
        if parts.is_empty() {
            return Err(Error::NotFound("the HTML of the message"));
        }
        let images: Arc<HashMap<String, String>> = Arc::new(message_content::inline_images(&message)?);
        let title = shown_subject(message.header(), 300);
        Ok((HtmlPage { title, parts: sanitize_parts(&parts, &images) }, snapshot.ticket()))
    });
    let text = read.await?.render().map_err(|_| Error::Unavailable)?;
    Ok(answer::html(StatusCode::OK, text, POLICY_OF_MESSAGES))
}
