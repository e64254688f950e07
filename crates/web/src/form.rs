//! Forms: their fields and files, in both encodings that browsers use.
//!
//! A form is received whole, within the limit of its page and with memory of its sender, and then taken apart. Fields
//! that are not UTF-8 and more fields than the limit are refused.

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Multipart};
use axum::http::{HeaderMap, Request, header};
use base::memory::{MemoryBudget, MemoryPermit};
use http::request_body::{BodyError, BodyLimits, receive};

use crate::error::{Error, Result};
use crate::limits::{FORM_FIELDS_MAX, FORM_PAUSE_MAX};

/// A file that came with a form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UploadedFile {
    /// The name that the browser gave it.
    pub name: String,
    /// The media type that the browser named.
    pub media_type: String,
    /// The content.
    pub content: Vec<u8>,
}

/// A form.
#[derive(Debug, Default)]
pub struct Form {
    fields: Vec<(String, String)>,
    files: Vec<UploadedFile>,
    /// The memory of the form.
    permit: Option<MemoryPermit>,
}

impl Form {
    /// Reads a form of at most a number of bytes.
    pub async fn receive(headers: &HeaderMap, body: Body, bytes_max: usize, memory: &MemoryBudget) -> Result<Self> {
        let limits = BodyLimits { bytes_max, pause_max: FORM_PAUSE_MAX };
        let received = receive(headers, body, limits, memory).await?;
        let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let mut form = Self::parse(kind, received.bytes).await?;
        form.permit = Some(received.permit);
        Ok(form)
    }

    /// Reads a form that was received, by its media type.
    pub(crate) async fn parse(kind: &str, bytes: Vec<u8>) -> Result<Self> {
        if is_media_type(kind, "multipart/form-data") {
            Self::parse_multipart(kind, bytes).await
        } else if is_media_type(kind, "application/x-www-form-urlencoded") {
            Self::parse_urlencoded(&bytes)
        } else {
            Err(Error::Invalid("the request is not a form".to_owned()))
        }
    }

    /// Reads the fields of a query or of a form without files.
    pub fn parse_urlencoded(bytes: &[u8]) -> Result<Self> {
        let mut fields = Vec::new();
        for (name, value) in form_urlencoded::parse(bytes) {
            check_count(fields.len())?;
            fields.push((name.into_owned(), value.into_owned()));
        }
        Ok(Self { fields, ..Self::default() })
    }

    async fn parse_multipart(kind: &str, bytes: Vec<u8>) -> Result<Self> {
        let damaged = |_| Error::Invalid("the form is damaged".to_owned());
        let mut request = Request::new(Body::from(bytes));
        let kind = header::HeaderValue::from_str(kind).map_err(|_| Error::Incomplete)?;
        request.headers_mut().insert(header::CONTENT_TYPE, kind);
        // The size was checked when it was received.
        DefaultBodyLimit::disable().apply(&mut request);
        let mut parts = Multipart::from_request(request, &()).await.map_err(|_| Error::Incomplete)?;
        let mut form = Self::default();
        while let Some(part) = parts.next_field().await.map_err(damaged)? {
            check_count(form.fields.len() + form.files.len())?;
            let field = part.name().unwrap_or_default().to_owned();
            let Some(name) = part.file_name().map(str::to_owned) else {
                let value = part.bytes().await.map_err(damaged)?;
                let value = String::from_utf8(value.to_vec())
                    .map_err(|_| Error::Invalid("the form is not UTF-8".to_owned()))?;
                form.fields.push((field, value));
                continue;
            };
            let media_type = part.content_type().unwrap_or_default().to_owned();
            let content = part.bytes().await.map_err(damaged)?.to_vec();
            // Browsers send an empty file for a field that was left empty.
            if !name.is_empty() || !content.is_empty() {
                form.files.push(UploadedFile { name, media_type, content });
            }
        }
        Ok(form)
    }

    /// Returns the first field with a name, or an empty text.
    #[must_use]
    pub fn text(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// Returns all fields with a name.
    pub fn all<'f>(&'f self, name: &'f str) -> impl Iterator<Item = &'f str> {
        let named = self.fields.iter().filter(move |(known, _)| known == name);
        named.map(|(_, value)| value.as_str())
    }

    /// Returns `true` if a field with a name was sent.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(known, _)| known == name)
    }

    /// Returns a field as a number.
    #[must_use]
    pub fn number(&self, name: &str) -> Option<u32> {
        self.text(name).parse().ok()
    }

    /// Takes the files.
    pub fn take_files(&mut self) -> Vec<UploadedFile> {
        std::mem::take(&mut self.files)
    }
}

fn check_count(count: usize) -> Result<()> {
    if count < FORM_FIELDS_MAX { Ok(()) } else { Err(Error::Invalid("the form has too many fields".to_owned())) }
}

fn is_media_type(kind: &str, expected: &str) -> bool {
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(expected)
}

impl From<BodyError> for Error {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::TooLarge(_) => Self::TooLarge(error.to_string()),
            BodyError::NoMemory => Self::Unavailable,
            BodyError::Slow | BodyError::Incomplete => Self::Incomplete,
        }
    }
}
