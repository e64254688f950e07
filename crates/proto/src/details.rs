//! Error details in gRPC's form: a `google.rpc.Status` in the trailer `grpc-status-details-bin` that contains one
//! [`ErrorDetail`]. The two foreign messages are small and frozen, so they are defined here.

use std::borrow::Cow;

use prost::Message;
use tonic::{Code, Status};

use crate::v1::ErrorDetail;

/// Type URL of [`ErrorDetail`] within the envelope.
const TYPE_URL: &str = "type.googleapis.com/doublet.v1.ErrorDetail";

/// Maximum length in bytes of the message of a failed call. The message travels twice in the trailers, once with three
/// bytes for each byte that is not ASCII, and clients accept 16 KiB of trailers.
const MESSAGE_BYTES_MAX: usize = 2 << 10;

/// The message `google.rpc.Status`.
#[derive(Clone, PartialEq, Message)]
struct Envelope {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

/// The message `google.protobuf.Any`.
#[derive(Clone, PartialEq, Message)]
struct Any {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// Creates the status of a failed call. A message that is too long for the trailers is truncated.
#[must_use]
pub fn status(code: Code, message: &str, detail: &ErrorDetail) -> Status {
    let message = &shortened(message);
    let details = vec![Any { type_url: TYPE_URL.to_owned(), value: detail.encode_to_vec() }];
    let envelope = Envelope { code: code as i32, message: message.clone().into_owned(), details };
    Status::with_details(code, message.as_ref(), envelope.encode_to_vec().into())
}

fn shortened(message: &str) -> Cow<'_, str> {
    if message.len() <= MESSAGE_BYTES_MAX {
        return Cow::Borrowed(message);
    }
    let end = message.floor_char_boundary(MESSAGE_BYTES_MAX - '…'.len_utf8());
    Cow::Owned(format!("{}…", &message[..end]))
}

/// Decodes the detail of a failed call. Returns `None` if it is missing or invalid.
#[must_use]
pub fn detail(status: &Status) -> Option<ErrorDetail> {
    let envelope = Envelope::decode(status.details()).ok()?;
    let any = envelope.details.iter().find(|any| any.type_url == TYPE_URL)?;
    ErrorDetail::decode(any.value.as_slice()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_detail_reads_back() {
        let sent = ErrorDetail { reason: "not-found".to_owned(), detail: None };
        let failed = status(Code::NotFound, "there is none", &sent);
        assert_eq!(detail(&failed), Some(sent));
        let long = status(Code::NotFound, &"é".repeat(40_000), &ErrorDetail::default());
        assert!(
            (MESSAGE_BYTES_MAX - 3..=MESSAGE_BYTES_MAX).contains(&long.message().len()),
            "{}",
            long.message().len()
        );
        assert!(long.message().ends_with("é…"));
        assert_eq!(detail(&Status::not_found("bare")), None);
        assert_eq!(detail(&Status::with_details(Code::Internal, "broken", vec![0xff; 9].into())), None);
    }
}
