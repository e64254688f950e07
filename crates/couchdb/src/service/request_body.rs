//! The body of a request: how it is read, decompressed and parsed, and the memory that it takes.
//!
//! What is parsed from a body is about as large as the body, so the memory is held until it is dropped, too.

use axum::body::Body;
use axum::http::header;
use base::memory::MemoryPermit;
use http::Caller;
use http::request_body::{BodyError, BodyLimits, ReceivedBody, receive};
use store::Ticket;

use super::Call;
use crate::compression::{AttachmentDecompressor, gunzip};
use crate::error::{Error, Result};
use crate::limits::{BODY_BYTES_MAX, BODY_PAUSE_MAX};

/// The body of a request.
pub(super) struct SentBody {
    pub(super) bytes: Vec<u8>,
    /// The memory of the body.
    pub(super) permit: MemoryPermit,
}

/// What was parsed from a body, and the memory that it takes.
pub(super) struct Parsed<T> {
    pub(super) value: T,
    /// Must live as long as the value.
    pub(super) permit: MemoryPermit,
}

impl SentBody {
    /// Returns the text of a JSON body.
    pub(super) fn text(&self) -> Result<&str> {
        text_of(&self.bytes)
    }

    /// Returns the body as it was before it was compressed, of at most `bytes_max` bytes.
    fn decompressed(mut self, bytes_max: usize) -> Result<Self> {
        let permit = &mut self.permit;
        let mut hold = |bytes| permit.grow(bytes).map_err(|_| no_memory());
        let bytes = gunzip(&self.bytes, bytes_max, &mut hold)?;
        let bytes = bytes.ok_or_else(|| Error::BadRequest("the body is not valid gzip".to_owned()))?;
        Ok(Self { bytes, ..self })
    }
}

/// Returns the text of a JSON body.
pub(super) fn text_of(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| Error::BadRequest("invalid UTF-8 JSON".to_owned()))
}

/// Returns the error of a request for which the server has no memory.
pub(super) fn no_memory() -> Error {
    Error::Exhausted("the server has no memory left for this request, try again later")
}

impl Call {
    /// Returns the value of a header field of the request that has the form of text.
    pub(super) fn field(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// Reads the body of the request of a caller who has logged in. It counts as memory of the peer until the permit is
    /// dropped. A compressed body is decompressed, and the limit is that of the decompressed one.
    pub(super) async fn read_body(&self, caller: &Caller, body: Body) -> Result<SentBody> {
        self.read_body_within(caller, body, BODY_BYTES_MAX).await
    }

    /// Reads the body of the request, as `read_body` does, with another limit.
    pub(super) async fn read_body_within(&self, caller: &Caller, body: Body, bytes_max: usize) -> Result<SentBody> {
        let is_compressed = self.is_body_compressed()?;
        let sent = self.receive_body(body, bytes_max).await?;
        if !is_compressed {
            return Ok(sent);
        }
        self.service.run(caller, "decompress", move || Ok((sent.decompressed(bytes_max)?, Ticket::NONE))).await
    }

    /// Reads the body of a request that anybody may send. It must not be compressed.
    pub(super) async fn read_login_body(&self, body: Body, bytes_max: usize) -> Result<SentBody> {
        if self.is_body_compressed()? {
            return Err(Error::UnsupportedMedia("the body of a login must not be compressed".to_owned()));
        }
        self.receive_body(body, bytes_max).await
    }

    fn is_body_compressed(&self) -> Result<bool> {
        match self.field(header::CONTENT_ENCODING).map(str::trim) {
            None | Some("" | "identity") => Ok(false),
            Some(coding) if coding.eq_ignore_ascii_case("gzip") => Ok(true),
            Some(coding) => Err(Error::UnsupportedMedia(format!(
                "{coding} is not a supported content encoding; send the body with gzip, or as it is"
            ))),
        }
    }

    async fn receive_body(&self, body: Body, bytes_max: usize) -> Result<SentBody> {
        let budget = self.service.services.memory.share_of(&self.context.peer.memory_owner());
        let limits = BodyLimits { bytes_max, pause_max: BODY_PAUSE_MAX };
        match receive(&self.headers, body, limits, &budget).await {
            Ok(ReceivedBody { bytes, permit }) => Ok(SentBody { bytes, permit }),
            Err(BodyError::NoMemory) => Err(no_memory()),
            Err(error @ BodyError::TooLarge(_)) => Err(Error::TooLarge(error.to_string())),
            Err(error @ (BodyError::Slow | BodyError::Incomplete)) => Err(Error::BadRequest(error.to_string())),
        }
    }

    /// Parses the body of a request on a worker, because it may be large.
    pub(super) async fn parse_body<T: Send + 'static>(
        &self,
        caller: &Caller,
        sent: SentBody,
        parse: impl FnOnce(&str) -> Result<T> + Send + 'static,
    ) -> Result<Parsed<T>> {
        self.parse_documents(caller, sent, move |bytes, _| parse(text_of(bytes)?)).await
    }

    /// Parses the body of a request with documents on a worker. Contents of attachments that are decompressed take
    /// memory of the same budget.
    pub(super) async fn parse_documents<T: Send + 'static>(
        &self,
        caller: &Caller,
        sent: SentBody,
        parse: impl FnOnce(&[u8], &mut AttachmentDecompressor<'_>) -> Result<T> + Send + 'static,
    ) -> Result<Parsed<T>> {
        let work = move || {
            let SentBody { bytes, mut permit } = sent;
            let mut hold = |bytes| permit.grow(bytes).map_err(|_| no_memory());
            let value = parse(&bytes, &mut AttachmentDecompressor::new(&mut hold))?;
            Ok((Parsed { value, permit }, Ticket::NONE))
        };
        self.service.run(caller, "parse", work).await
    }
}
