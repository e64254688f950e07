//! Answers: whole ones, and those that are sent while they are read.

use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use http::Caller;
use store::Ticket;

use super::Service;
use crate::error::{Error, Result};

/// Returns an answer with a JSON text.
pub(crate) fn json(status: StatusCode, text: impl Into<String>) -> Response<Body> {
    (status, [(header::CONTENT_TYPE, "application/json")], text.into()).into_response()
}

/// Returns an answer with the JSON text of a version, whose revision is the tag by which clients recognise it.
pub(crate) fn tagged_json(status: StatusCode, revision: &str, text: String) -> Response<Body> {
    let mut response = json(status, text);
    if let Ok(tag) = HeaderValue::from_str(&format!("\"{revision}\"")) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

/// A part of an answer.
pub(crate) struct Part<S> {
    /// The text.
    pub(crate) text: Vec<u8>,
    /// From where the next part is read, or `None` behind the last one.
    pub(crate) next: Option<S>,
    /// What must be durable before the part is sent.
    pub(crate) ticket: Ticket,
}

/// Reads the parts of an answer.
pub(crate) type ReadPart<S> = Arc<dyn Fn(S) -> Result<Part<S>> + Send + Sync>;

/// Answers with parts, each of which is read by a job of its own when the client has taken the one before.
///
/// An error before the first part is the answer. Later ones break the connection, so that no client takes a part for
/// the whole.
pub(crate) async fn streamed<S: Send + 'static>(
    service: &Arc<Service>,
    caller: &Caller,
    command: &'static str,
    (start, read): (S, ReadPart<S>),
) -> Result<Response<Body>> {
    let first = read_part(service, caller, command, (start, &read)).await?;
    let state = (first.next, Arc::clone(service), caller.clone(), read);
    let rest = futures_util::stream::unfold(state, move |(next, service, caller, read)| async move {
        let part = read_part(&service, &caller, command, (next?, &read)).await;
        match part {
            Ok(part) => Some((Ok(Bytes::from(part.text)), (part.next, service, caller, read))),
            Err(error) => Some((Err(error), (None, service, caller, read))),
        }
    });
    let first = futures_util::stream::once(async move { Ok::<_, Error>(Bytes::from(first.text)) });
    let all: Pin<Box<dyn futures_util::Stream<Item = Result<Bytes>> + Send>> =
        Box::pin(futures_util::StreamExt::chain(first, rest));
    let mut response = json(StatusCode::OK, String::new());
    *response.body_mut() = Body::from_stream(all);
    response.headers_mut().remove(header::CONTENT_LENGTH);
    Ok(response)
}

async fn read_part<S: Send + 'static>(
    service: &Service,
    caller: &Caller,
    command: &'static str,
    (state, read): (S, &ReadPart<S>),
) -> Result<Part<S>> {
    let read = Arc::clone(read);
    service
        .run(caller, command, move || {
            let part = read(state)?;
            let ticket = part.ticket;
            Ok((part, ticket))
        })
        .await
}
