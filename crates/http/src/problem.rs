//! Errors as JSON (RFC 9457), for clients that are programs.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// The media type of a problem.
pub const PROBLEM_TYPE: &str = "application/problem+json";

/// A problem with a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The status of the answer.
    pub status: StatusCode,
    /// The type, a URI. `about:blank` if the status says everything.
    pub kind: &'static str,
    /// What happened, and what to do next.
    pub detail: String,
}

impl Problem {
    /// Creates a problem whose status says what kind of problem it is.
    #[must_use]
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, kind: "about:blank", detail: detail.into() }
    }

    /// Returns the JSON text.
    #[must_use]
    pub fn json(&self) -> String {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let status = self.status.as_u16();
        json!({ "type": self.kind, "title": title, "status": status, "detail": self.detail }).to_string()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, [(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE))], self.json()).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_escaped() {
        let problem = Problem::new(StatusCode::BAD_REQUEST, "no \"quotes\"\n");
        let parsed: serde_json::Value = serde_json::from_str(&problem.json()).expect("valid JSON");
        assert_eq!(parsed["detail"], "no \"quotes\"\n");
        assert_eq!((&parsed["status"], &parsed["title"]), (&400.into(), &"Bad Request".into()));
    }
}
