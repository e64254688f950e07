//! Answers: pages with their header fields, redirections, and downloads.
//!
//! A page may load the style sheet of this server and nothing else, may send forms only here, and is shown in no frame
//! of another page.

use askama::Template;
use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http::content::{POLICY_OF_DOWNLOADS, Presentation, content_disposition};

/// Where browsers report violations of a policy.
pub(crate) const REPORT_PATH: &str = "/lite/csp-report";

/// The Content Security Policy of pages.
pub const POLICY_OF_PAGES: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; \
                                   frame-ancestors 'none'; base-uri 'none'; report-uri /lite/csp-report";

/// The Content Security Policy of the HTML of a message.
pub const POLICY_OF_MESSAGES: &str = "sandbox; default-src 'none'; img-src data:; style-src 'unsafe-inline'; \
                                      form-action 'none'; frame-ancestors 'none'; base-uri 'none'; \
                                      report-uri /lite/csp-report";

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");

/// Answers with a page.
pub(crate) fn page(status: StatusCode, page: &impl Template) -> Response {
    match page.render() {
        Ok(text) => html(status, text, POLICY_OF_PAGES),
        Err(error) => {
            tracing::error!(target: "web", %error, "a page could not be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}

/// Answers with an HTML text and its policy.
pub(crate) fn html(status: StatusCode, text: String, policy: &'static str) -> Response {
    let fields = [(header::CONTENT_TYPE, HTML), (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy))];
    (status, fields, text).into_response()
}

/// Answers with a redirection to a page that the browser gets.
pub(crate) fn redirect(target: &str) -> Response {
    match HeaderValue::from_str(target) {
        Ok(target) => (StatusCode::SEE_OTHER, [(header::LOCATION, target)]).into_response(),
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

/// A file to be downloaded.
pub(crate) struct Download {
    /// The media type. Browsers do not look for another one.
    pub(crate) media_type: &'static str,
    /// The name of the file.
    pub(crate) name: String,
    /// How the browser treats it.
    pub(crate) presentation: Presentation,
}

impl Download {
    /// Answers with the content.
    pub(crate) fn answer(&self, content: Body) -> Response {
        let fields = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.media_type)),
            (header::CONTENT_DISPOSITION, content_disposition(self.presentation, &self.name)),
            (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY_OF_DOWNLOADS)),
            (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        ];
        (fields, content).into_response()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::STYLE;

    #[test]
    fn the_style_sheet_is_small_and_loads_nothing() {
        assert!(STYLE.len() <= 8 << 10, "{} bytes", STYLE.len());
        assert!(!STYLE.contains("url(") && !STYLE.contains("@import"));
    }
}
