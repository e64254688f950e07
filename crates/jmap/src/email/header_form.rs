//! The forms of header fields as JSON (RFC 8621 §4.1.2).
//!
//! Reading never fails: a list of addresses yields what can be recognized, and a list of message ids or URLs, or a
//! date, that cannot be parsed is null. Fields of any length are read, in linear time; crate `mail` bounds the number
//! of addresses.

use base::Timestamp;
use mail::mime::address::{self, AddressListEntry, Mailbox};
use mail::mime::date::HeaderDate;
use mail::mime::header::HeaderField;
use serde_json::{Value, json};

use crate::email::header_text;
use crate::email::property::{HeaderForm, HeaderInstances, HeaderProperty};

/// Returns the value of a header property. `fields` are the fields of the header in their order.
pub(crate) fn property_value(property: &HeaderProperty, fields: &[HeaderField<'_>]) -> Value {
    let mut matching = fields.iter().filter(|field| field.is(&property.field));
    match property.instances {
        HeaderInstances::Last => matching.next_back().map_or(Value::Null, |field| value(property.form, field.value)),
        HeaderInstances::All => matching.map(|field| value(property.form, field.value)).collect(),
    }
}

/// Returns all fields with their values in the form *Raw*.
pub(crate) fn all_fields(fields: &[HeaderField<'_>]) -> Value {
    let object = |field: &HeaderField<'_>| json!({ "name": raw(field.name), "value": raw(field.value) });
    fields.iter().map(object).collect()
}

/// Returns the value of a field in a form.
pub(crate) fn value(form: HeaderForm, folded: &[u8]) -> Value {
    match form {
        HeaderForm::Raw => Value::String(raw(folded)),
        HeaderForm::Text => Value::String(header_text::decode(folded)),
        HeaderForm::Addresses => addresses(folded),
        HeaderForm::GroupedAddresses => grouped_addresses(folded),
        HeaderForm::MessageIds | HeaderForm::Urls => bracketed(folded).map_or(Value::Null, Value::from),
        HeaderForm::Date => HeaderDate::parse(folded).map_or(Value::Null, |date| Value::String(date_text(date))),
    }
}

/// Returns bytes as they are, without NUL. Invalid UTF-8 is replaced.
fn raw(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') { text.replace('\0', "") } else { text.into_owned() }
}

fn addresses(folded: &[u8]) -> Value {
    address::mailboxes(folded).filter_map(|mailbox| mailbox_object(&mailbox)).collect()
}

fn grouped_addresses(folded: &[u8]) -> Value {
    let mut groups: Vec<(Option<String>, Vec<Value>)> = Vec::new();
    let mut is_open = false;
    for entry in address::parse(folded) {
        match entry {
            AddressListEntry::GroupStart(name) => {
                groups.push((Some(display_name(&name)), Vec::new()));
                is_open = true;
            }
            AddressListEntry::GroupEnd => is_open = false,
            AddressListEntry::Mailbox(mailbox) => {
                let Some(object) = mailbox_object(&mailbox) else { continue };
                match groups.last_mut() {
                    Some((name, members)) if is_open || name.is_none() => members.push(object),
                    _ => groups.push((None, vec![object])),
                }
            }
        }
    }
    groups.into_iter().map(|(name, members)| json!({ "name": name, "addresses": members })).collect()
}

/// Returns an EmailAddress. Returns `None` for `<>`.
fn mailbox_object(mailbox: &Mailbox) -> Option<Value> {
    let name = mailbox.name.as_deref().map(display_name).filter(|name| !name.is_empty());
    let email = addr_spec(mailbox);
    (name.is_some() || !email.is_empty()).then(|| json!({ "name": name, "email": email }))
}

fn display_name(name: &[u8]) -> String {
    header_text::decode(name).trim().to_owned()
}

/// Returns the address as RFC 5322 writes it: a local part that is no dot-atom is quoted. A text without `@` is
/// returned as it is.
fn addr_spec(mailbox: &Mailbox) -> String {
    let local = raw(&mailbox.local);
    let domain = raw(&mailbox.domain);
    if domain.is_empty() {
        local
    } else if is_dot_atom(&local) {
        format!("{local}@{domain}")
    } else {
        format!("{}@{domain}", quoted(&local))
    }
}

/// Returns `true` if a text is a dot-atom, with or without characters beyond ASCII (RFC 5322 §3.2.3, RFC 6532).
pub(crate) fn is_dot_atom(text: &str) -> bool {
    text.split('.').all(|atom| !atom.is_empty() && atom.chars().all(is_atom_character))
}

/// Returns `true` if a character may be in an atom (RFC 5322 §3.2.3, RFC 6532).
pub(crate) fn is_atom_character(character: char) -> bool {
    let is_ascii_atom = character.is_ascii_alphanumeric() || "!#$%&'*+-/=?^_`{|}~".contains(character);
    is_ascii_atom || (!character.is_ascii() && !character.is_control() && !character.is_whitespace())
}

/// Returns a text as a quoted string.
pub(crate) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Returns the texts in angle brackets: message ids or URLs. Returns `None` if there are none, or if a bracket is not
/// closed. Comments, and the phrases of old In-Reply-To fields, are skipped.
fn bracketed(folded: &[u8]) -> Option<Vec<String>> {
    let mut texts = Vec::new();
    let mut rest = folded;
    while let Some((byte, after)) = rest.split_first() {
        rest = match byte {
            b'<' => {
                let end = memchr::memchr(b'>', after)?;
                let text: Vec<u8> =
                    after[..end].iter().copied().filter(|byte| !byte.is_ascii_whitespace() && *byte != 0).collect();
                if !text.is_empty() {
                    texts.push(String::from_utf8_lossy(&text).into_owned());
                }
                &after[end + 1..]
            }
            b'"' => skip_enclosed(after, [b'"', b'"']),
            b'(' => skip_enclosed(after, [b'(', b')']),
            _ => after,
        };
    }
    (!texts.is_empty()).then_some(texts)
}

/// Returns the text after a comment or quoted string, of which the first character has been read.
fn skip_enclosed(text: &[u8], [open, close]: [u8; 2]) -> &[u8] {
    let mut depth = 1_usize;
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'\\' {
            rest = after.get(1..).unwrap_or_default();
        } else if *byte == close {
            depth -= 1;
            if depth == 0 {
                break;
            }
        } else if *byte == open {
            depth += 1;
        }
    }
    rest
}

/// Returns a date in the sender's zone as RFC 3339 writes it.
fn date_text(date: HeaderDate) -> String {
    let offset = date.offset_minutes;
    let local = Timestamp(date.timestamp.0.saturating_add(i64::from(offset) * 60_000_000));
    let text = local.to_rfc3339();
    if offset == 0 {
        return text;
    }
    let text = text.trim_end_matches('Z');
    let sign = if offset < 0 { '-' } else { '+' };
    format!("{text}{sign}{:02}:{:02}", offset.abs() / 60, offset.abs() % 60)
}
