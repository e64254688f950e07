//! The texts of a message that IMAP SEARCH examines (RFC 9051 §6.4.4), in the form in which they are compared.
//!
//! Searches in a message and the full-text index both take their texts from this module, so that they always use the
//! same texts. A [`BodyTextReader`] returns those of the body in pieces. The texts of the header are its decoded
//! fields, with or without their names, and for the keys that search addresses also the addresses as ENVELOPE shows
//! them. The texts of the body are the decoded texts of the parts, the headers of messages within it and the names of
//! its files. HTML is included twice, as source and as displayed text; [`BodyTexts::Displayed`] leaves the source out.
//! At most [`SEARCH_PART_BYTES_MAX`] bytes of a part are decoded, and the character set of a longer text is guessed for
//! each of its pieces if the part does not name it.
//!
//! [`SEARCH_PART_BYTES_MAX`]: crate::limits::SEARCH_PART_BYTES_MAX

mod body_text_reader;

use crate::casemap::fold_field;
use crate::mime::address::{self, AddressListEntry, Mailbox};
use crate::mime::header::HeaderField;
use crate::mime::{MimeSource, encoded_word, header};

pub use body_text_reader::{BodyPiece, BodyTextReader};

/// The fields that have their own IMAP search keys. The index contains the words of these fields. Other fields are full
/// of signatures and traces: each message has hundreds of words there that occur in no other message.
pub const INDEXED_FIELDS: [&str; 5] = ["From", "To", "Cc", "Bcc", "Subject"];

/// The fields of [`INDEXED_FIELDS`] that contain addresses.
pub const ADDRESS_FIELDS: [&str; 4] = ["From", "To", "Cc", "Bcc"];

/// Returns `true` if `is_right` accepts the value of a field with this name. It is called for one value after another
/// until it returns `true`.
pub fn find_in_field(header: &[u8], name: &str, is_right: &mut dyn FnMut(&str) -> bool) -> bool {
    let mut fields = header::fields(header).filter(|field| field.is(name));
    fields.any(|field| is_right(&folded_value(&field)))
}

/// Returns `true` if `is_right` accepts the addresses of a field with this name. It is called for the value as written
/// and, if it differs, for the addresses as ENVELOPE shows them: `name <local@domain>, ...`, without comments, quotes
/// and white space within an address.
pub fn find_in_addresses(header: &[u8], name: &str, is_right: &mut dyn FnMut(&str) -> bool) -> bool {
    let mut fields = header::fields(header).filter(|field| field.is(name));
    fields.any(|field| {
        let (written, addresses) = folded_addresses(&field);
        is_right(&written) || addresses.is_some_and(|addresses| is_right(&addresses))
    })
}

/// The texts of a body that a search examines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyTexts {
    /// All texts, with the source of HTML parts, as IMAP searches.
    All,
    /// The texts that people see: HTML parts as they are displayed (RFC 8621 §4.4.1).
    Displayed,
}

/// Returns `true` if `is_right` accepts a text of the body. It is called for one text after another until it returns
/// `true`.
///
/// # Errors
///
/// Returns the errors of the source.
pub fn find_in_body<S: MimeSource + ?Sized>(
    source: &S,
    texts: BodyTexts,
    is_right: &mut dyn FnMut(&str) -> bool,
) -> Result<bool, S::Error> {
    let mut reader = BodyTextReader::default();
    let mut piece = BodyPiece::default();
    let mut text = String::new();
    let mut displayed = String::new();
    while reader.read(source, &mut piece)? {
        if texts == BodyTexts::All || !piece.is_html {
            text.push_str(&piece.text);
        }
        displayed.push_str(&piece.displayed);
        if !piece.is_last {
            continue;
        }
        if [&text, &displayed].into_iter().any(|text| !text.is_empty() && is_right(text)) {
            return Ok(true);
        }
        text.clear();
        displayed.clear();
    }
    Ok(false)
}

/// Returns a header field with its name, in the form in which it is compared.
#[must_use]
pub fn folded_field(field: &HeaderField<'_>) -> String {
    fold_field(&field_text(field))
}

/// Returns the value of a header field, in the form in which it is compared.
#[must_use]
pub fn folded_value(field: &HeaderField<'_>) -> String {
    fold_field(&header::decode_value(field.value))
}

/// Returns the value of a field with addresses, and the addresses as ENVELOPE shows them if they differ from it, in the
/// form in which they are compared.
#[must_use]
pub fn folded_addresses(field: &HeaderField<'_>) -> (String, Option<String>) {
    let written = header::decode_value(field.value);
    let addresses = addresses_text(field.value);
    let differs = addresses != written;
    (fold_field(&written), differs.then(|| fold_field(&addresses)))
}

/// Returns a field in readable form: `Name: value`.
fn field_text(field: &HeaderField<'_>) -> String {
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
