//! The texts of a message that IMAP SEARCH examines (RFC 9051 §6.4.4), in the form in which they are compared.
//!
//! Searches in a message and the full-text index both take their texts from this module, so that they always use the
//! same texts. The texts of the header are its decoded fields, with or without their names, and for the keys that
//! search addresses also the addresses as ENVELOPE shows them. The texts of the body are the decoded texts of the
//! parts, the headers of messages within it and the names of its files. HTML is included twice, as source and as
//! displayed text. At most [`SEARCH_PART_BYTES_MAX`] bytes of a part are decoded.

use crate::casemap::{fold, fold_field};
use crate::limits::SEARCH_PART_BYTES_MAX;
use crate::mime::address::{self, AddressListEntry, Mailbox};
use crate::mime::structure::Part;
use crate::mime::{MimeSource, PartKind, encoded_word, header, text};

/// The fields that have their own IMAP search keys. The index contains the words of these fields. Other fields are full
/// of signatures and traces: each message has hundreds of words there that occur in no other message.
pub const INDEXED_FIELDS: [&str; 5] = ["From", "To", "Cc", "Bcc", "Subject"];

/// The fields of [`INDEXED_FIELDS`] that contain addresses.
pub const ADDRESS_FIELDS: [&str; 4] = ["From", "To", "Cc", "Bcc"];

/// Returns `true` if `is_right` accepts the value of a field with this name. It is called for one value after another
/// until it returns `true`.
pub fn find_in_field(header: &[u8], name: &str, is_right: &mut dyn FnMut(&str) -> bool) -> bool {
    let mut fields = header::fields(header).filter(|field| field.is(name));
    fields.any(|field| is_right(&fold_field(&header::decode_value(field.value))))
}

/// Returns `true` if `is_right` accepts the addresses of a field with this name. It is called for the value as written
/// and, if it differs, for the addresses as ENVELOPE shows them: `name <local@domain>, ...`, without comments, quotes
/// and white space within an address.
pub fn find_in_addresses(header: &[u8], name: &str, is_right: &mut dyn FnMut(&str) -> bool) -> bool {
    let mut fields = header::fields(header).filter(|field| field.is(name));
    fields.any(|field| {
        let written = header::decode_value(field.value);
        if is_right(&fold_field(&written)) {
            return true;
        }
        let addresses = addresses_text(field.value);
        addresses != written && is_right(&fold_field(&addresses))
    })
}

/// Returns `true` if `is_right` accepts the text of a header field. It is called for all fields, with their names,
/// until it returns `true`.
pub fn find_in_header(header: &[u8], is_right: &mut dyn FnMut(&str) -> bool) -> bool {
    header::fields(header).any(|field| is_right(&fold_field(&field_text(&field))))
}

/// Returns `true` if `is_right` accepts a text of the body. It is called for one text after another until it returns
/// `true`. Parts are read one by one.
///
/// # Errors
///
/// Returns the errors of the source.
pub fn find_in_body<S: MimeSource + ?Sized>(
    source: &S,
    is_right: &mut dyn FnMut(&str) -> bool,
) -> Result<bool, S::Error> {
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

/// Returns `true` if `is_right` accepts a header field of a message within the message, or the file name of a part.
fn headers_match<S: MimeSource + ?Sized>(
    source: &S,
    part: &Part,
    parent: &Part,
    is_right: &mut dyn FnMut(&str) -> bool,
) -> Result<bool, S::Error> {
    if parent.kind == PartKind::Message {
        let header = source.range(part.header.clone())?;
        return Ok(header::fields(&header).any(|field| is_right(&fold(&field_text(&field)))));
    }
    Ok(part.content.file_name().is_some_and(|name| is_right(&fold(&name))))
}

fn part_matches<S: MimeSource + ?Sized>(
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

/// Returns a field in readable form: `Name: value`.
fn field_text(field: &header::HeaderField<'_>) -> String {
    let value = header::decode_value(field.value);
    if field.name.is_empty() { value } else { format!("{}: {value}", String::from_utf8_lossy(field.name)) }
}

/// Returns the addresses of a field in readable form, without comments.
fn addresses_text(value: &[u8]) -> String {
    let mut all = String::new();
    let mut separator = "";
    for entry in address::parse(value) {
        let (text, next_separator) = match entry {
            AddressListEntry::Mailbox(mailbox) => (mailbox_text(&mailbox), ", "),
            AddressListEntry::GroupStart(name) => (format!("{}:", encoded_word::decode(&name)), " "),
            AddressListEntry::GroupEnd => continue,
        };
        all.push_str(separator);
        all.push_str(&text);
        separator = next_separator;
    }
    all
}

fn mailbox_text(mailbox: &Mailbox) -> String {
    let address = mailbox.address();
    match mailbox.display_name() {
        Some(name) => format!("{name} <{address}>"),
        None => address,
    }
}
