//! The body of a request: how it is received, within a limit and with memory of its peer.

use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use base::memory::{MemoryBudget, MemoryPermit};
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
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
    let announced: usize = announced.unwrap_or(0);
    if announced > limits.bytes_max {
        return Err(BodyError::TooLarge(limits.bytes_max));
    }
    let mut permit = budget.acquire(announced).map_err(|_| BodyError::NoMemory)?;
    let mut bytes = Vec::with_capacity(announced);
    let mut pieces = body.into_data_stream();
    loop {
        let next = tokio::time::timeout(limits.pause_max, pieces.next()).await;
        let Some(piece) = next.map_err(|_| BodyError::Slow)? else { return Ok(ReceivedBody { bytes, permit }) };
        let piece = piece.map_err(|_| BodyError::Incomplete)?;
        if bytes.len() + piece.len() > limits.bytes_max {
            return Err(BodyError::TooLarge(limits.bytes_max));
        }
        bytes.extend_from_slice(&piece);
        permit.grow(bytes.len().saturating_sub(permit.bytes())).map_err(|_| BodyError::NoMemory)?;
    }
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
}
