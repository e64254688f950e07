//! Properties of the MIME code that must hold for arbitrary bytes.

use std::convert::Infallible;

use super::skeleton::{ContentId, Segment, Skeleton, join, split};
use super::structure::{TransferEncoding, header_end, header_end_within};
use super::transfer_encoding::{self, TransferDecoder};
use super::{InMemoryMessage, Structure, address, date, encoded_word, header, message_header, parse, text};
use crate::casemap::{PieceFolder, fold};
use crate::disposition_notification::{NotificationRequest, ParsedNotification};
use crate::mime::DamagedRecord;

/// Maximum length of bytes of which pieces are compared with the whole. It is below the lengths at which a line of
/// quoted-printable, or a sequence of combining marks, is divided.
const COMPARED_BYTES_MAX: usize = 1 << 10;

/// Parses bytes in every possible way and panics if a property does not hold. The entry point of the fuzzers.
pub fn check_arbitrary_bytes(data: &[u8]) {
    let structure = parse(data);
    assert_eq!(structure.length(), data.len() as u64, "the structure has the length of the message");
    assert_eq!(
        Structure::decode(&structure.encode()).as_ref(),
        Ok(&structure),
        "an encoded structure decodes to the same structure"
    );
    check_header(data, &structure);
    for size_bytes_min in [1, 64] {
        check_skeleton(data, &structure, size_bytes_min);
    }
    let whole = InMemoryMessage::new(data, &structure);
    let Ok(_) = text::preview(&whole);
    for index in 0..structure.parts().len().min(20) {
        let Ok(_) = text::of_part(&whole, index, 1_000);
        let _ = structure.parts()[index].content.file_name();
    }
    for field in header::fields(data).take(20) {
        let _ = (header::decode_value(field.value), address::parse(field.value), date::HeaderDate::parse(field.value));
    }
    let _ = (
        encoded_word::decode(data),
        address::parse(data),
        date::HeaderDate::parse(data),
        text::of_html(&String::from_utf8_lossy(data)),
    );
    let _ = (ParsedNotification::parse(data), NotificationRequest::of_header(message_header::top_header(data)));
    check_foreign(data);
    if data.len() <= COMPARED_BYTES_MAX {
        check_pieces(data);
    }
}

/// Checks that bytes and texts in pieces are decoded and folded like the whole.
fn check_pieces(data: &[u8]) {
    for encoding in [TransferEncoding::Base64, TransferEncoding::QuotedPrintable] {
        let whole = transfer_encoding::decode(&encoding, data, usize::MAX);
        let pieces = TransferDecoder::new(&encoding).map(|mut decoder| {
            let mut decoded = Vec::new();
            data.chunks(data.len() / 3 + 1).for_each(|piece| decoder.push(piece, &mut decoded));
            decoder.finish(&mut decoded);
            decoded
        });
        assert_eq!(pieces.as_deref(), whole.as_deref(), "pieces of a body are decoded like the whole");
    }
    let text = String::from_utf8_lossy(data);
    let (left, right) = text.split_at(text.floor_char_boundary(text.len() / 2));
    let mut folder = PieceFolder::default();
    let mut folded = String::new();
    folder.push(left, &mut folded);
    folder.push(right, &mut folded);
    folder.finish(&mut folded);
    assert_eq!(folded, fold(&text), "pieces of a text are folded like the whole");
}

/// Checks that all readers of headers find the same end and the same fields.
fn check_header(data: &[u8], structure: &Structure) {
    let end = structure.root().header.end as usize;
    assert_eq!(header_end(data), end, "the header of a message ends where its structure says");
    assert_eq!(header_end_within(data, data.len()), Some(end), "no header is longer than its message");
    if let Some(less) = end.checked_sub(1) {
        assert_eq!(header_end_within(data, less), None, "a longer header is detected");
    }
    let fields: Vec<_> = header::fields(&data[..end]).collect();
    let fields_end: usize = fields.iter().map(|field| field.raw.len()).sum();
    assert!(header::is_blank_line(&data[fields_end..end]), "a header consists of its fields and a blank line");
    let named: Vec<_> = fields.iter().copied().filter(|field| !field.name.is_empty()).collect();
    let found: Vec<_> = message_header::top_fields(data).collect();
    assert!(found.iter().all(|(range, field)| &data[range.clone()] == field.raw), "the ranges are those of the fields");
    assert!(found.iter().map(|(_, field)| *field).eq(named), "all fields of the header are found");
    if message_header::find_fault(data).is_none() {
        assert!(found.iter().map(|(_, field)| *field).eq(header::fields(data)), "a blank line ends a sound header");
    }
}

/// Checks that a skeleton restores its message, in whole and in ranges.
fn check_skeleton(data: &[u8], structure: &Structure, size_bytes_min: usize) {
    let segments = split(data, structure, size_bytes_min);
    assert_eq!(join(&segments), data, "segments join to the message");
    let count = segments.iter().filter(|segment| matches!(segment, Segment::Part(_))).count();
    let mut contents: Vec<Vec<u8>> = Vec::new();
    let Ok(skeleton) = Skeleton::from_segments::<Infallible>(segments, |content| {
        contents.push(content.into_owned());
        Ok(id_of(contents.len() - 1))
    });
    let stored = skeleton.encode();
    let skeleton = Skeleton::decode(&stored).expect("a skeleton that was just encoded can be decoded");
    assert_eq!(skeleton.parts().count(), count, "every part is stored");
    let read = |id: &ContentId, range: std::ops::Range<u64>| -> Result<Vec<u8>, DamagedRecord> {
        let content = contents.get(place_of(id)).ok_or(DamagedRecord("content"))?;
        content.get(range.start as usize..range.end as usize).map(<[u8]>::to_vec).ok_or(DamagedRecord("content"))
    };
    assert_eq!(skeleton.join(read).as_deref(), Ok(data), "the skeleton restores the message");
    let length = data.len();
    for (start, end) in [(0, length / 2), (length / 3, length), (length / 2, length / 2 + 1), (length, length + 5)] {
        let expected = &data[start.min(length)..end.min(length)];
        assert_eq!(
            skeleton.range(start as u64..end as u64, read).as_deref(),
            Ok(expected),
            "a range from the skeleton equals that range of the message"
        );
    }
}

/// Decodes the bytes as stored records, although they are not.
fn check_foreign(data: &[u8]) {
    if let Ok(structure) = Structure::decode(data) {
        assert_eq!(
            Structure::decode(&structure.encode()),
            Ok(structure),
            "an accepted structure decodes to the same structure"
        );
    }
    if let Ok(skeleton) = Skeleton::decode(data) {
        let length = skeleton.length();
        for range in [0..length.min(1_000), length / 2..length.min(length / 2 + 100)] {
            let _ = skeleton.range(range, |_, wanted| {
                let wanted = wanted.end.saturating_sub(wanted.start);
                if wanted > 100_000 { Err(DamagedRecord("content")) } else { Ok(vec![b'x'; wanted as usize]) }
            });
        }
    }
}

fn id_of(place: usize) -> ContentId {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&(place as u64).to_be_bytes());
    ContentId(id)
}

fn place_of(id: &ContentId) -> usize {
    id.0[..8].iter().fold(0, |place, byte| place << 8 | usize::from(*byte))
}
