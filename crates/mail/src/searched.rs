//! The texts of a message in which IMAP looks (RFC 9051 §6.4.4), as they are compared.
//!
//! Whoever looks into a message and whoever tells the index what is in it ask here, so that both have the same texts: those of the header are its fields
//! as people read them, with their names or without; those of the body are the decoded texts of the parts, the headers of messages within it and the names of its files; of
//! HTML, both the source and what is read of it. Of a part no more than [`SEARCH_PART_BYTES_MAX`] bytes are decoded.

use crate::casemap::{fold, fold_field};
use crate::limits::SEARCH_PART_BYTES_MAX;
use crate::mime::structure::Part;
use crate::mime::{Kind, Source, header, text};

/// The fields for which IMAP has keys of their own; the index has the words of these. Others are full of signatures and traces, of which each message has
/// hundreds of words that no other one has.
pub const INDEXED_FIELDS: [&str; 5] = ["From", "To", "Cc", "Bcc", "Subject"];

/// Asks about the values of the fields of a name until one is the right one.
pub fn find_in_field(header: &[u8], name: &str, is_right: &mut dyn FnMut(&str) -> bool) -> bool {
    let mut fields = header::fields(header).filter(|field| field.is(name));
    fields.any(|field| is_right(&fold_field(&header::decoded(field.value))))
}

/// Asks about the texts of a header until one is the right one: all its fields, with their names.
pub fn find_in_header(header: &[u8], is_right: &mut dyn FnMut(&str) -> bool) -> bool {
    header::fields(header).any(|field| is_right(&fold_field(&field_text(&field))))
}

/// Asks about the texts of a body until one is the right one. Parts are read one by one.
///
/// # Errors
///
/// Those of the source.
pub fn find_in_body<S: Source + ?Sized>(source: &S, is_right: &mut dyn FnMut(&str) -> bool) -> Result<bool, S::Error> {
    let parts = source.structure().parts();
    for (index, part) in parts.iter().enumerate() {
        if index > 0 && headers_match(source, part, &parts[part.parent.unwrap_or(0)], is_right)? {
            return Ok(true);
        }
        if part.is_text() && part_matches(source, index, part, is_right)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Asks about the header of a message within the message, or the name of a part's file.
fn headers_match<S: Source + ?Sized>(
    source: &S,
    part: &Part,
    parent: &Part,
    is_right: &mut dyn FnMut(&str) -> bool,
) -> Result<bool, S::Error> {
    if parent.kind == Kind::Message {
        let header = source.range(part.header.clone())?;
        return Ok(header::fields(&header).any(|field| is_right(&fold(&field_text(&field)))));
    }
    Ok(part.content.file_name().is_some_and(|name| is_right(&fold(&name))))
}

fn part_matches<S: Source + ?Sized>(
    source: &S,
    index: usize,
    part: &Part,
    is_right: &mut dyn FnMut(&str) -> bool,
) -> Result<bool, S::Error> {
    let Some(decoded) = text::of_part(source, index, SEARCH_PART_BYTES_MAX)? else { return Ok(false) };
    if is_right(&fold(&decoded)) {
        return Ok(true);
    }
    Ok(part.is_media("text", "html") && is_right(&fold(&text::of_html(&decoded))))
}

/// Gives a field as people read it: `Name: value`.
fn field_text(field: &header::Field<'_>) -> String {
    let value = header::decoded(field.value);
    if field.name.is_empty() { value } else { format!("{}: {value}", String::from_utf8_lossy(field.name)) }
}
