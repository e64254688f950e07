//! Forms: their fields and files, in both encodings that browsers use.
//!
//! A form is received whole, within the limit of its page and with memory of its sender, and then taken apart. Of the
//! composer's form after the end of a session, only the beginning is kept. Fields that are not UTF-8 and more fields
//! than the limit are refused.

use axum::body::Body;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Multipart};
use axum::http::{HeaderMap, Request, header};
use base::memory::{MemoryBudget, MemoryPermit};
use http::request_body::{BodyError, BodyLimits, BodyPieces, receive};

use crate::error::{Error, Result};
use crate::limits::{FORM_BYTES_MAX, FORM_FIELDS_MAX, FORM_PAUSE_MAX};

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

/// The beginning of a form: its fields before the first file.
#[derive(Debug, Default)]
pub(crate) struct FormBeginning {
    /// The fields.
    pub(crate) form: Form,
    /// `true` if files follow.
    pub(crate) has_files: bool,
    /// `true` if a field is missing, because the fields were longer than what is kept.
    pub(crate) is_cut: bool,
}

impl Form {
    /// Reads a form of at most a number of bytes.
    pub async fn receive(headers: &HeaderMap, body: Body, bytes_max: usize, memory: &MemoryBudget) -> Result<Self> {
        let limits = BodyLimits { bytes_max, pause_max: FORM_PAUSE_MAX };
        let received = receive(headers, body, limits, memory).await?;
        let mut form = Self::parse(media_type_of(headers), received.bytes).await?;
        form.permit = Some(received.permit);
        Ok(form)
    }

    /// Reads the beginning of a form of at most a number of bytes. Only [`FORM_BYTES_MAX`] of them are kept at a time,
    /// but all are received, because browsers show no answer before they have sent everything.
    pub(crate) async fn receive_beginning(
        headers: &HeaderMap,
        body: Body,
        bytes_max: usize,
        memory: &MemoryBudget,
    ) -> Result<FormBeginning> {
        let limits = BodyLimits { bytes_max, pause_max: FORM_PAUSE_MAX };
        let mut pieces = BodyPieces::begin(headers, body, limits, (memory, FORM_BYTES_MAX))?;
        let first = pieces.next().await?;
        let beginning = FormBeginning::parse(media_type_of(headers), first.bytes, first.is_last).await?;
        let mut is_last = first.is_last;
        while !is_last {
            is_last = pieces.next().await?.is_last;
        }
        Ok(beginning)
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
        let damaged = |_| damaged();
        let mut parts = parts(kind, bytes).await?;
        let mut form = Self::default();
        while let Some(part) = parts.next_field().await.map_err(damaged)? {
            check_count(form.fields.len() + form.files.len())?;
            let field = part.name().unwrap_or_default().to_owned();
            let Some(name) = part.file_name().map(str::to_owned) else {
                form.fields.push((field, utf8(&part.bytes().await.map_err(damaged)?)?));
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

    /// Returns a digest of the fields.
    #[must_use]
    pub fn digest(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        for text in self.fields.iter().flat_map(|(name, value)| [name, value]) {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.finalize()
    }

    /// Takes the files.
    pub fn take_files(&mut self) -> Vec<UploadedFile> {
        std::mem::take(&mut self.files)
    }
}

impl FormBeginning {
    /// Reads the first bytes of a form, or all.
    pub(crate) async fn parse(kind: &str, bytes: Vec<u8>, is_whole: bool) -> Result<Self> {
        if is_media_type(kind, "multipart/form-data") {
            return Self::parse_multipart(kind, bytes, is_whole).await;
        }
        let mut form = Form::parse(kind, bytes).await?;
        if !is_whole {
            form.fields.pop();
        }
        Ok(Self { form, has_files: false, is_cut: !is_whole })
    }

    async fn parse_multipart(kind: &str, bytes: Vec<u8>, is_whole: bool) -> Result<Self> {
        let mut parts = parts(kind, bytes).await?;
        let mut form = Form::default();
        loop {
            let part = match parts.next_field().await {
                Ok(Some(part)) => part,
                Ok(None) => return Ok(Self { form, ..Self::default() }),
                Err(_) => break,
            };
            check_count(form.fields.len())?;
            if let Some(file) = part.file_name() {
                let has_files = !file.is_empty();
                return Ok(Self { form, has_files, is_cut: false });
            }
            let field = part.name().unwrap_or_default().to_owned();
            let Ok(value) = part.bytes().await else { break };
            form.fields.push((field, utf8(&value)?));
        }
        if is_whole { Err(damaged()) } else { Ok(Self { form, has_files: false, is_cut: true }) }
    }
}

/// Returns the media type of the body of a request.
fn media_type_of(headers: &HeaderMap) -> &str {
    headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default()
}

/// Begins to take a form with files apart.
async fn parts(kind: &str, bytes: Vec<u8>) -> Result<Multipart> {
    let mut request = Request::new(Body::from(bytes));
    let kind = header::HeaderValue::from_str(kind).map_err(|_| Error::Incomplete)?;
    request.headers_mut().insert(header::CONTENT_TYPE, kind);
    // The size was checked when it was received.
    DefaultBodyLimit::disable().apply(&mut request);
    Multipart::from_request(request, &()).await.map_err(|_| Error::Incomplete)
}

fn damaged() -> Error {
    Error::Invalid("the form is damaged".to_owned())
}

fn utf8(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| Error::Invalid("the form is not UTF-8".to_owned()))
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

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: &str = "multipart/form-data; boundary=x";

    fn part(name: &str, value: &str) -> String {
        format!("--x\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    }

    /// Reads the first bytes of a form, and returns its fields, and whether files follow or fields are missing.
    async fn check(kind: &str, text: &str, kept: usize) -> (Vec<String>, bool, bool) {
        let bytes = text.as_bytes()[..kept.min(text.len())].to_vec();
        let read = FormBeginning::parse(kind, bytes, kept >= text.len()).await.expect("a sound form");
        let fields = read.form.fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        (fields, read.has_files, read.is_cut)
    }

    #[tokio::test]
    async fn the_beginning_of_a_form_has_its_whole_fields() {
        let fields = part("a", "one") + &part("b", "two");
        let file = part("file\"; filename=\"f.txt", &"z".repeat(100));
        let whole = format!("{fields}{file}{}--x--\r\n", part("do", "send"));
        let expected = vec!["a=one".to_owned(), "b=two".to_owned()];
        assert_eq!(check(KIND, &whole, usize::MAX).await, (expected.clone(), true, false));
        assert_eq!(check(KIND, &whole, whole.len() - 60).await, (expected.clone(), true, false));
        assert_eq!(check(KIND, &whole, fields.len() - 3).await, (expected[..1].to_vec(), false, true));
        let without = format!("{fields}{}--x--\r\n", part("file\"; filename=\"", ""));
        assert_eq!(check(KIND, &without, usize::MAX).await, (expected.clone(), false, false));
        let kind = "application/x-www-form-urlencoded";
        assert_eq!(check(kind, "a=one&b=two", usize::MAX).await, (expected.clone(), false, false));
        assert_eq!(check(kind, "a=one&b=two", 9).await, (expected[..1].to_vec(), false, true));
        let damaged = FormBeginning::parse(KIND, fields.into_bytes(), true).await;
        assert!(matches!(damaged, Err(Error::Invalid(_))));
    }
}
