//! The codec of the calls: messages are measured before they are decoded.
//!
//! The server measures requests itself, before they come to the codec, because it takes their memory from a budget.
//! Replies are measured here: another server, from which this one replicates, is not trusted with its memory.

use prost::Message;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::ProstCodec;

use crate::decode_cost::{DecodeRefused, reply_heap_bytes};

/// Maximum memory of a decoded reply in bytes. The largest are a note of 48 MiB and a page of a list of changes.
pub const REPLY_BYTES_MAX: usize = 256 << 20;

/// A message of a call.
pub trait CallMessage {
    /// The fields of a reply, as an index into the tables of [`crate::decode_cost`]; `None` for a request.
    const REPLY_SHAPE: Option<usize>;
}

/// A codec that refuses replies which would take more than [`REPLY_BYTES_MAX`].
#[derive(Debug, Clone)]
pub struct MeasuringCodec<T, U>(ProstCodec<T, U>);

impl<T, U> Default for MeasuringCodec<T, U> {
    fn default() -> Self {
        Self(ProstCodec::default())
    }
}

impl<T, U> Codec for MeasuringCodec<T, U>
where
    T: Message + Send + 'static,
    U: CallMessage + Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = <ProstCodec<T, U> as Codec>::Encoder;
    type Decoder = MeasuringDecoder<<ProstCodec<T, U> as Codec>::Decoder>;

    fn encoder(&mut self) -> Self::Encoder {
        self.0.encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        MeasuringDecoder(self.0.decoder())
    }
}

/// The decoder of [`MeasuringCodec`].
#[derive(Debug, Clone)]
pub struct MeasuringDecoder<D>(D);

impl<D> Decoder for MeasuringDecoder<D>
where
    D: Decoder<Error = Status>,
    D::Item: CallMessage,
{
    type Item = D::Item;
    type Error = Status;

    fn decode(&mut self, message: &mut DecodeBuf<'_>) -> Result<Option<D::Item>, Status> {
        if let Some(shape) = D::Item::REPLY_SHAPE {
            check(shape, message)?;
        }
        self.0.decode(message)
    }

    fn buffer_settings(&self) -> tonic::codec::BufferSettings {
        self.0.buffer_settings()
    }
}

fn check(shape: usize, message: &DecodeBuf<'_>) -> Result<(), Status> {
    use prost::bytes::Buf as _;
    let bytes = message.chunk();
    if bytes.len() < message.remaining() {
        return Err(Status::internal("a reply is not in one piece"));
    }
    match reply_heap_bytes(shape, bytes, REPLY_BYTES_MAX) {
        Ok(_) => Ok(()),
        Err(DecodeRefused::TooLarge) => Err(Status::resource_exhausted(format!(
            "a reply takes more than {} MiB of memory, so it was not read",
            REPLY_BYTES_MAX >> 20
        ))),
        Err(DecodeRefused::Malformed) => Err(Status::internal("a reply does not have the type that the call has")),
    }
}
