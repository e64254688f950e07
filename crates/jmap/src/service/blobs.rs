//! Uploads and downloads.
//!
//! A download is what a message or an attachment has, so its sender has chosen it. The answer is therefore always a
//! download with a policy that permits nothing: a browser neither shows it as a page of this server nor guesses its
//! type.

use std::sync::Arc;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, Query, Request};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use bytes::Bytes;
use http::RequestContext;
use http::content::{Content, answer_with};
use http::problem::Problem;
use serde::Deserialize;
use store::Ticket;

use super::api::refused_body;
use super::{Answer, Service, asking_for_login, failed, unavailable};
use crate::blob::{self, OpenedBlob};
use crate::error::MethodError;

/// The policy of downloads: no script, no frame, no form, even if a browser shows one as a page.
const POLICY: &str = "default-src 'none'; sandbox; frame-ancestors 'none'";

/// The query of a download.
#[derive(Debug, Deserialize)]
pub(super) struct DownloadQuery {
    /// The media type that the client wants. Types that browsers execute are replaced.
    #[serde(alias = "type")]
    accept: Option<String>,
}

pub(super) async fn upload(
    Extension(service): Extension<Arc<Service>>,
    Extension(context): Extension<RequestContext>,
    Path(account): Path<String>,
    request: Request,
) -> Response<Body> {
    let (head, body) = request.into_parts();
    let answered = receive_upload(&service, &context, account, (&head.headers, body)).await;
    answered.unwrap_or_else(|problem| asking_for_login(problem, &head.headers))
}

async fn receive_upload(
    service: &Arc<Service>,
    context: &RequestContext,
    account: String,
    (headers, body): (&HeaderMap, Body),
) -> Answer {
    let caller = service.caller(context, headers).await?;
    let permit = service.uploads.begin(&caller.login).ok_or_else(|| {
        Problem::new(StatusCode::TOO_MANY_REQUESTS, "too many uploads at the same time; wait until one has ended")
    })?;
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media_type = media_type.unwrap_or("application/octet-stream").to_owned();
    let bytes_max = usize::try_from(service.parts.services.limits.upload_bytes_max).unwrap_or(usize::MAX);
    let received = service.body(context, headers, body, bytes_max).await.map_err(refused_body)?;
    let of_job = caller.clone();
    let stored = service.run(&caller, "upload", move |services| {
        let _held = (permit, received.permit);
        let bytes = Bytes::from(received.bytes);
        (blob::upload(services, &of_job, &account, bytes, &media_type), Ticket::NONE)
    });
    let stored = stored.await?.map_err(|error| problem_of("upload", &error))?;
    let stored = stored.map_err(|problem| Problem::new(StatusCode::PAYLOAD_TOO_LARGE, problem.to_string()))?;
    let fields = [(header::CONTENT_TYPE, "application/json")];
    Ok((StatusCode::CREATED, fields, stored.to_string()).into_response())
}

pub(super) async fn download(
    Extension(service): Extension<Arc<Service>>,
    Extension(context): Extension<RequestContext>,
    Path((account, blob, name)): Path<(String, String, String)>,
    Query(query): Query<DownloadQuery>,
    headers: HeaderMap,
) -> Response<Body> {
    let answered = async {
        let caller = service.caller(&context, &headers).await?;
        let tag = format!("\"{blob}\"");
        let of_job = caller.clone();
        let opened = service.run(&caller, "download", move |services| {
            match blob::open_blob(services, &of_job, &account, &blob) {
                Ok((opened, ticket)) => (Ok(opened), ticket),
                Err(error) => (Err(error), Ticket::NONE),
            }
        });
        let OpenedBlob { bytes, media_type, .. } = opened.await?.map_err(|error| problem_of("download", &error))?;
        let wanted = query.accept.unwrap_or(media_type);
        let media_type = blob::safe_media_type(&wanted);
        let mut response = answer_with(&headers, Content { bytes, media_type: &media_type, tag: &tag });
        let fields = response.headers_mut();
        if let Ok(disposition) = HeaderValue::from_str(&blob::content_disposition(&name)) {
            fields.insert(header::CONTENT_DISPOSITION, disposition);
        }
        fields.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
        // A blob never changes. Other people at the same browser must not find it.
        fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("private, immutable, max-age=31536000"));
        Ok::<_, Problem>(response)
    };
    answered.await.unwrap_or_else(|problem| asking_for_login(problem, &headers))
}

fn problem_of(command: &'static str, error: &MethodError) -> Problem {
    match error.kind {
        "accountNotFound" | "blobNotFound" => Problem::new(StatusCode::NOT_FOUND, "there is no such account or blob"),
        "accountReadOnly" | "forbidden" => Problem::new(StatusCode::FORBIDDEN, "the account is read-only"),
        "serverUnavailable" => unavailable(),
        kind => failed(command, &kind),
    }
}
