//! Memory estimate for a message, made from its bytes before it is decoded.
//!
//! A few bytes of a message can become hundreds in memory: an empty element of a list has two bytes on the wire, and
//! after decoding it is a record with space for all its fields. Code that accepts messages from untrusted peers
//! therefore calls [`heap_bytes`] first. It walks the fields according to the definitions in `proto/`, allocates
//! nothing, and stops when the sum gets too large.
//!
//! Promises: the sum is at least what the decoder requests from the allocator, including the texts themselves. The
//! decoder splits every message accepted here into the same fields, because both parse keys and lengths with the same
//! functions.
//!
//! Not included: groups, which are not used in `proto/`. A message with a group is rejected.

use prost::encoding::{WireType, decode_key, decode_varint};

/// Minimum cost of a nested message in bytes: the record, counted twice because lists grow by doubling.
pub const MESSAGE_COST_BYTES: usize = 768;

/// Cost of a text in bytes, in addition to its content: its place in a list, counted twice because lists grow by
/// doubling, and the minimum that an allocator provides.
pub const TEXT_COST_BYTES: usize = 80;

/// Cost of a number in bytes: eight, counted twice because lists grow by doubling.
pub const NUMBER_COST_BYTES: usize = 16;

/// Maximum nesting depth of messages. The definitions in `proto/` have fewer levels.
const DEPTH_MAX: usize = 16;

/// Reason why a message is not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeRefused {
    /// The message would take more memory than allowed.
    TooLarge,
    /// The bytes are not a valid message of this kind.
    Malformed,
}

/// Wire format of a field.
#[derive(Clone, Copy)]
enum WireKind {
    /// A number of variable length; packed in lists.
    Varint,
    /// A number with this number of bytes; packed in lists.
    Fixed(usize),
    /// A text or bytes.
    Bytes,
    /// A message, as its index in `SHAPES`.
    Message(usize),
}

include!(concat!(env!("OUT_DIR"), "/shapes.rs"));

/// Returns the number of bytes of memory that the request of a call takes when decoded. Fails if it exceeds
/// `bytes_max`. `path` is the path of the call as in [`crate::METHODS`]; `message` is the uncompressed request.
pub fn heap_bytes(path: &str, message: &[u8], bytes_max: usize) -> Result<usize, DecodeRefused> {
    let (_, shape) = REQUESTS.iter().find(|(name, _)| *name == path).ok_or(DecodeRefused::Malformed)?;
    let mut walk = CostCounter { left: bytes_max };
    walk.message(*shape, message, DEPTH_MAX)?;
    Ok(bytes_max - walk.left)
}

/// Returns the number of bytes of memory that a reply takes when decoded. Fails if it exceeds `bytes_max`. `shape` is
/// [`crate::codec::CallMessage::REPLY_SHAPE`] of its type.
pub fn reply_heap_bytes(shape: usize, message: &[u8], bytes_max: usize) -> Result<usize, DecodeRefused> {
    let mut walk = CostCounter { left: bytes_max };
    walk.message(shape, message, DEPTH_MAX)?;
    Ok(bytes_max - walk.left)
}

/// Traversal of a message with the remaining memory budget.
struct CostCounter {
    left: usize,
}

impl CostCounter {
    fn count(&mut self, bytes: usize) -> Result<(), DecodeRefused> {
        self.left = self.left.checked_sub(bytes).ok_or(DecodeRefused::TooLarge)?;
        Ok(())
    }

    fn message(&mut self, shape: usize, mut rest: &[u8], depth_max: usize) -> Result<(), DecodeRefused> {
        let depth_max = depth_max.checked_sub(1).ok_or(DecodeRefused::Malformed)?;
        while !rest.is_empty() {
            let (number, wire) = decode_key(&mut rest).map_err(|_| DecodeRefused::Malformed)?;
            let known = SHAPES[shape].iter().find(|(other, _)| *other == number).map(|(_, kind)| *kind);
            match wire {
                WireType::Varint => {
                    decode_varint(&mut rest).map_err(|_| DecodeRefused::Malformed)?;
                    self.count(NUMBER_COST_BYTES)?;
                }
                WireType::SixtyFourBit => self.fixed(&mut rest, 8)?,
                WireType::ThirtyTwoBit => self.fixed(&mut rest, 4)?,
                WireType::LengthDelimited => {
                    let content = take(&mut rest)?;
                    self.content(known, content, depth_max)?;
                }
                WireType::StartGroup | WireType::EndGroup => return Err(DecodeRefused::Malformed),
            }
        }
        Ok(())
    }

    fn fixed(&mut self, rest: &mut &[u8], length: usize) -> Result<(), DecodeRefused> {
        *rest = rest.get(length..).ok_or(DecodeRefused::Malformed)?;
        self.count(NUMBER_COST_BYTES)
    }

    /// Counts a length-delimited field. The decoder skips a field that is not defined, so it costs nothing.
    fn content(&mut self, known: Option<WireKind>, content: &[u8], depth_max: usize) -> Result<(), DecodeRefused> {
        let numbers = |count: usize| count.saturating_mul(NUMBER_COST_BYTES);
        match known {
            None => Ok(()),
            Some(WireKind::Bytes) => self.count(content.len().saturating_add(TEXT_COST_BYTES)),
            Some(WireKind::Fixed(length)) => self.count(numbers(content.len().div_ceil(length))),
            Some(WireKind::Varint) => self.count(numbers(content.iter().filter(|byte| **byte < 0x80).count())),
            Some(WireKind::Message(shape)) => {
                self.count(MESSAGE_COST_BYTES)?;
                self.message(shape, content, depth_max)
            }
        }
    }
}

/// Splits off the content of a length-delimited field.
fn take<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8], DecodeRefused> {
    let length = decode_varint(rest).ok().and_then(|length| usize::try_from(length).ok());
    let (content, behind) = length.and_then(|length| rest.split_at_checked(length)).ok_or(DecodeRefused::Malformed)?;
    *rest = behind;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::v1;

    const CREATE: &str = "/doublet.v1.Notes/CreateNote";

    fn check(path: &str, message: &[u8], bytes_max: usize, expected: Result<usize, DecodeRefused>) {
        assert_eq!(heap_bytes(path, message, bytes_max), expected, "{path} {:?}", &message[..message.len().min(20)]);
    }

    #[test]
    fn replies_are_measured_before_they_are_decoded() {
        use crate::codec::CallMessage as _;
        let shape = v1::ReplicaNotes::REPLY_SHAPE.expect("it is a reply");
        let notes = vec![v1::ReplicaNote::default(); 1_000];
        let message = v1::ReplicaNotes { notes }.encode_to_vec();
        assert!(message.len() < 3_000, "an empty note has two bytes on the wire");
        assert_eq!(reply_heap_bytes(shape, &message, 100_000), Err(DecodeRefused::TooLarge));
        assert_eq!(reply_heap_bytes(shape, &message, 1_000_000), Ok(1_000 * MESSAGE_COST_BYTES));
        assert_eq!(v1::ReadReplicaNotesRequest::REPLY_SHAPE, None, "the server measures requests itself");
    }

    #[test]
    fn every_call_has_a_shape() {
        for path in crate::METHODS {
            check(path, &[], 0, Ok(0));
        }
        check("/doublet.v1.Notes/Nothing", &[], 9, Err(DecodeRefused::Malformed));
    }

    #[test]
    fn elements_count_for_what_they_become() {
        let empty = [0x1a, 0];
        check(CREATE, &empty.repeat(3), 3 * MESSAGE_COST_BYTES, Ok(3 * MESSAGE_COST_BYTES));
        check(CREATE, &empty.repeat(3), 3 * MESSAGE_COST_BYTES - 1, Err(DecodeRefused::TooLarge));
        check(CREATE, &empty.repeat(4_000_000), 96 << 20, Err(DecodeRefused::TooLarge));
        let names = v1::LookupNamesRequest { names: vec![String::new(), "ann".to_owned()] };
        check("/doublet.v1.Directory/LookupNames", &names.encode_to_vec(), 999, Ok(2 * TEXT_COST_BYTES + 3));
        let folders = v1::CreateNoteRequest { folder_ids: vec![1, 300, 70_000], ..Default::default() };
        check(CREATE, &folders.encode_to_vec(), 999, Ok(3 * NUMBER_COST_BYTES));
        let kind = v1::value::Kind::NumberList(v1::NumberList { values: vec![1.0, 2.0] });
        let item = v1::Item { value: Some(v1::Value { kind: Some(kind) }), ..Default::default() };
        let numbers = v1::CreateNoteRequest { items: vec![item], ..Default::default() };
        let within = 3 * MESSAGE_COST_BYTES + 2 * NUMBER_COST_BYTES;
        check(CREATE, &numbers.encode_to_vec(), 9_999, Ok(within));
    }

    #[test]
    fn what_is_no_message_is_refused_and_what_is_not_known_passed_over() {
        check(CREATE, &[0xfa, 0x7f, 3, 1, 2, 3], 0, Ok(0));
        for broken in [&[0x1a][..], &[0x1a, 5, 1], &[0x80; 11], &[0x09, 1], &[0x0d, 1], &[0x0b, 0x0c], &[0x00, 0x00]] {
            check(CREATE, broken, 999, Err(DecodeRefused::Malformed));
        }
    }

    #[test]
    fn no_record_is_larger_than_it_is_counted_with() {
        let lists = [
            size_of::<v1::Item>(),
            size_of::<v1::NoteKey>(),
            size_of::<v1::Value>(),
            size_of::<v1::ColumnDesign>(),
            size_of::<v1::Tumbler>(),
            size_of::<v1::AclEntry>(),
        ];
        assert!(lists.iter().all(|size| size * 2 <= MESSAGE_COST_BYTES), "{lists:?}");
    }
}
