//! The addresses of the resources that a client makes from the templates of the Session object (RFC 8620 §2): uploads,
//! downloads and events.
//!
//! The routes, the templates, and what a request names by its path and its query are here together, so that a client
//! that expands a template (RFC 6570) reaches what it has named. Texts may have any characters. A request whose address
//! cannot be read is refused with status 400 before its login is checked.

use std::time::Duration;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::StatusCode;
use axum::http::request::Parts;
use http::problem::Problem;
use serde::Deserialize;

use crate::SessionUrls;
use crate::limits::{EVENT_PING_MAX, EVENT_PING_MIN};
use crate::type_selection::TypeSelection;

/// The route of uploads.
pub(crate) const UPLOAD_ROUTE: &str = "/jmap/upload/{account}/";

/// The route of downloads.
pub(crate) const DOWNLOAD_ROUTE: &str = "/jmap/download/{account}/{blob}/{name}";

/// The route of the event source.
pub(crate) const EVENTS_ROUTE: &str = "/jmap/events";

/// Returns the addresses and templates of the resources for clients that have reached the server at an address.
pub(crate) fn session_urls(base: &str) -> SessionUrls {
    SessionUrls {
        api: format!("{base}/jmap/api"),
        download: format!("{base}/jmap/download/{{accountId}}/{{blobId}}/{{name}}?accept={{type}}"),
        upload: format!("{base}/jmap/upload/{{accountId}}/"),
        event_source: format!("{base}/jmap/events?types={{types}}&closeafter={{closeafter}}&ping={{ping}}"),
        websocket: Some(format!("{}/jmap/ws", base.replacen("http", "ws", 1))),
    }
}

/// What the address of an upload names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UploadAddress {
    /// The identifier of the account.
    pub(crate) account: String,
}

impl<S: Send + Sync> FromRequestParts<S> for UploadAddress {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, state).await;
        let Path(account) = path.map_err(|error: PathRejection| invalid(error.body_text()))?;
        Ok(Self { account })
    }
}

/// What the address of a download names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DownloadAddress {
    /// The identifier of the account.
    pub(crate) account: String,
    /// The identifier of the blob.
    pub(crate) blob: String,
    /// The name under which the client saves it.
    pub(crate) name: String,
    /// The media type that the client wants. Types that browsers execute are replaced.
    pub(crate) media_type: Option<String>,
}

#[derive(Deserialize)]
struct DownloadQuery {
    #[serde(alias = "type")]
    accept: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for DownloadAddress {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::from_request_parts(parts, state).await;
        let Path((account, blob, name)) = path.map_err(|error: PathRejection| invalid(error.body_text()))?;
        let query = Query::from_request_parts(parts, state).await;
        let Query(DownloadQuery { accept }) = query.map_err(|error: QueryRejection| invalid(error.body_text()))?;
        Ok(Self { account, blob, name, media_type: accept })
    }
}

/// What the address of an event source names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EventsAddress {
    /// The types about which the client wants to know.
    pub(crate) types: TypeSelection,
    /// `true` if the answer ends after the first event.
    pub(crate) is_one_event: bool,
    /// The time between two pings, if the client wants any.
    pub(crate) ping: Option<Duration>,
}

#[derive(Deserialize)]
struct EventsQuery {
    /// `*`, or a list of types.
    #[serde(default = "all_types")]
    types: String,
    /// `state`: the answer ends after the first event. `no`: it does not.
    #[serde(default)]
    closeafter: String,
    /// Seconds between two pings; 0 for none.
    #[serde(default)]
    ping: u64,
}

fn all_types() -> String {
    "*".to_owned()
}

impl<S: Send + Sync> FromRequestParts<S> for EventsAddress {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::from_request_parts(parts, state).await;
        let Query(query) = query.map_err(|error: QueryRejection| invalid(error.body_text()))?;
        let EventsQuery { types, closeafter, ping } = query;
        let is_one_event = match closeafter.as_str() {
            "state" => true,
            "no" | "" => false,
            _ => return Err(invalid("closeafter is `state` or `no`".to_owned())),
        };
        let ping = (ping > 0).then(|| Duration::from_secs(ping).clamp(EVENT_PING_MIN, EVENT_PING_MAX));
        Ok(Self { types: TypeSelection::parse(&types), is_one_event, ping })
    }
}

fn invalid(reason: String) -> Problem {
    Problem::new(StatusCode::BAD_REQUEST, reason)
}
