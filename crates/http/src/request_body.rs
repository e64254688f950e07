//! The body of a request: how it is received, as a whole or piece by piece, within a limit and with memory of its peer.

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::{HeaderMap, header};
use base::memory::{MemoryBudget, MemoryPermit};
use bytes::Bytes;
use futures_util::StreamExt as _;

/// Limits of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyLimits {
    /// Maximum number of bytes.
    pub bytes_max: usize,
    /// Maximum time between two parts.
    pub pause_max: Duration,
}

/// A body that has arrived.
pub struct ReceivedBody {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The memory of the bytes. Must live as long as what is made from them.
    pub permit: MemoryPermit,
}

/// Reason why a body was not received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// It has more bytes than it may have.
    #[error("the body of this request can have at most {0} bytes")]
    TooLarge(usize),
    /// The server has no memory for it.
    #[error("the server has no memory left for this request, try again later")]
    NoMemory,
    /// The client paused for too long.
    #[error("the body did not arrive in time")]
    Slow,
    /// The connection ended before it was whole.
    #[error("the body did not arrive whole")]
    Incomplete,
}

/// Reads the body of a request with this header.
pub async fn receive(
    headers: &HeaderMap,
    body: Body,
    limits: BodyLimits,
    budget: &MemoryBudget,
) -> Result<ReceivedBody, BodyError> {
    let announced = announced_length(headers, limits)?.unwrap_or(0);
    let mut permit = budget.acquire(announced).map_err(|_| BodyError::NoMemory)?;
    let mut bytes = Vec::with_capacity(announced);
    let mut pieces = body.into_data_stream();
    loop {
        let Some(piece) = next_part(&mut pieces, limits).await? else { return Ok(ReceivedBody { bytes, permit }) };
        if bytes.len() + piece.len() > limits.bytes_max {
            return Err(BodyError::TooLarge(limits.bytes_max));
        }
        bytes.extend_from_slice(&piece);
        permit.grow(bytes.len().saturating_sub(permit.bytes())).map_err(|_| BodyError::NoMemory)?;
    }
}

/// A body that arrives piece by piece. Each has the same length, except the last one. So its memory does not depend on
/// its length: that of a piece, and as much for what is made from it.
pub struct BodyPieces {
    parts: BodyDataStream,
    limits: BodyLimits,
    piece_bytes: usize,
    /// The bytes of the last part that belong to later pieces.
    rest: Bytes,
    /// Number of bytes of all pieces.
    received: usize,
    _memory: MemoryPermit,
}

/// A piece of a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyPiece {
    /// The bytes. Those of the last piece may be none.
    pub bytes: Vec<u8>,
    /// `true` if the body has no more pieces.
    pub is_last: bool,
}

impl BodyPieces {
    /// Begins to receive the body of a request with this header, in pieces of `piece_bytes`.
    pub fn begin(
        headers: &HeaderMap,
        body: Body,
        limits: BodyLimits,
        (budget, piece_bytes): (&MemoryBudget, usize),
    ) -> Result<Self, BodyError> {
        let piece_bytes = piece_bytes.max(1);
        let length_max = announced_length(headers, limits)?.unwrap_or(piece_bytes).min(piece_bytes);
        let memory = budget.acquire(2 * length_max).map_err(|_| BodyError::NoMemory)?;
        let parts = body.into_data_stream();
        Ok(Self { parts, limits, piece_bytes, rest: Bytes::new(), received: 0, _memory: memory })
    }

    /// Returns the next piece.
    pub async fn next(&mut self) -> Result<BodyPiece, BodyError> {
        let mut bytes = Vec::new();
        loop {
            let taken = self.rest.split_to(self.rest.len().min(self.piece_bytes - bytes.len()));
            bytes.extend_from_slice(&taken);
            if bytes.len() == self.piece_bytes {
                return Ok(BodyPiece { bytes, is_last: false });
            }
            let Some(part) = next_part(&mut self.parts, self.limits).await? else {
                return Ok(BodyPiece { bytes, is_last: true });
            };
            self.received = self.received.saturating_add(part.len());
            if self.received > self.limits.bytes_max {
                return Err(BodyError::TooLarge(self.limits.bytes_max));
            }
            self.rest = part;
        }
    }
}

/// Returns the length that a header announces, or `None` if it announces none.
fn announced_length(headers: &HeaderMap, limits: BodyLimits) -> Result<Option<usize>, BodyError> {
    let announced: Option<usize> =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    match announced {
        Some(length) if length > limits.bytes_max => Err(BodyError::TooLarge(limits.bytes_max)),
        announced => Ok(announced),
    }
}

/// Returns the next part of a body, of any length, or `None` behind the end.
async fn next_part(parts: &mut BodyDataStream, limits: BodyLimits) -> Result<Option<Bytes>, BodyError> {
    let next = tokio::time::timeout(limits.pause_max, parts.next()).await;
    next.map_err(|_| BodyError::Slow)?.transpose().map_err(|_| BodyError::Incomplete)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    async fn check(body: Body, announced: Option<&'static str>, memory: usize) -> Result<Vec<u8>, BodyError> {
        let mut headers = HeaderMap::new();
        if let Some(length) = announced {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static(length));
        }
        let budget = MemoryBudget::new(memory);
        let limits = BodyLimits { bytes_max: 10, pause_max: Duration::from_secs(5) };
        let received = receive(&headers, body, limits, &budget).await;
        if let Ok(ReceivedBody { bytes, permit }) = &received {
            assert_eq!((permit.bytes(), budget.held_bytes()), (bytes.len(), bytes.len()));
        }
        received.map(|received| received.bytes)
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_are_received_within_their_limits() {
        assert_eq!(check(Body::from("0123456789"), None, 100).await, Ok(b"0123456789".to_vec()));
        assert_eq!(check(Body::from("01234567890"), None, 100).await, Err(BodyError::TooLarge(10)));
        assert_eq!(check(Body::from("0"), Some("11"), 100).await, Err(BodyError::TooLarge(10)));
        assert_eq!(check(Body::from("012345"), None, 5).await, Err(BodyError::NoMemory));
        let endless = futures_util::stream::pending::<Result<&'static [u8], std::io::Error>>();
        assert_eq!(check(Body::from_stream(endless), None, 100).await, Err(BodyError::Slow));
        let broken = futures_util::stream::iter([Ok(&b"01"[..]), Err(std::io::Error::other("gone"))]);
        assert_eq!(check(Body::from_stream(broken), None, 100).await, Err(BodyError::Incomplete));
    }

    /// Returns the pieces of four bytes in which a body is received.
    async fn pieces(body: Body, announced: Option<&'static str>, memory: usize) -> Result<Vec<String>, BodyError> {
        let mut headers = HeaderMap::new();
        if let Some(length) = announced {
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static(length));
        }
        let budget = MemoryBudget::new(memory);
        let limits = BodyLimits { bytes_max: 10, pause_max: Duration::from_secs(5) };
        let mut pieces = BodyPieces::begin(&headers, body, limits, (&budget, 4))?;
        let held = budget.held_bytes();
        let mut received = Vec::new();
        loop {
            let piece = pieces.next().await?;
            assert_eq!(budget.held_bytes(), held, "a body does not take more memory while it arrives");
            received.push(String::from_utf8(piece.bytes).expect("digits"));
            if piece.is_last {
                return Ok(received);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_are_received_in_pieces() {
        assert_eq!(pieces(Body::from("0123456789"), None, 8).await, Ok(["0123", "4567", "89"].map(Into::into).into()));
        let parts = futures_util::stream::iter(["0", "1", "234567"].map(Ok::<_, std::io::Error>));
        let received = pieces(Body::from_stream(parts), None, 8).await;
        assert_eq!(received, Ok(["0123", "4567", ""].map(Into::into).into()));
        assert_eq!(pieces(Body::from("01"), Some("2"), 4).await, Ok(vec!["01".to_owned()]));
        assert_eq!(pieces(Body::empty(), None, 8).await, Ok(vec![String::new()]));
        assert_eq!(pieces(Body::from("0"), None, 7).await, Err(BodyError::NoMemory));
        assert_eq!(pieces(Body::from("01234567890"), None, 8).await, Err(BodyError::TooLarge(10)));
        assert_eq!(pieces(Body::from("0"), Some("11"), 8).await, Err(BodyError::TooLarge(10)));
        let endless = futures_util::stream::pending::<Result<&'static [u8], std::io::Error>>();
        assert_eq!(pieces(Body::from_stream(endless), None, 8).await, Err(BodyError::Slow));
        let broken = futures_util::stream::iter([Ok(&b"01"[..]), Err(std::io::Error::other("gone"))]);
        assert_eq!(pieces(Body::from_stream(broken), None, 8).await, Err(BodyError::Incomplete));
    }
}
