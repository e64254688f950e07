//! Header fields from their forms in JSON (RFC 8621 §4.1.2), for Email/set create.
//!
//! Values are checked before they are written: no value can end its field or its line. A half-finished draft may hold
//! addresses that RFC 5322 does not allow; they are quoted, so that the same text is read back.

use base::Timestamp;
use serde_json::{Map, Value};

use super::encode::{FieldWriter, text_field, without_controls, write_phrase};
use crate::email::header_form::{is_dot_atom, quoted};
use crate::email::limits::{LINE_BYTES_MAX, UNFOLDABLE_BYTES_MAX};
use crate::email::property::{HeaderForm, HeaderInstances, HeaderProperty};

/// Returns the fields that a header property describes: none if the value is null or an empty list.
///
/// # Errors
///
/// Returns a description of the reason why the value is invalid.
pub(super) fn field_lines(property: &HeaderProperty, value: &Value) -> Result<Vec<String>, String> {
    if property.field.starts_with("--") {
        return Err("The name of a header field must not begin with --".to_owned());
    }
    let values = match (property.instances, value) {
        (_, Value::Null) => return Ok(Vec::new()),
        (HeaderInstances::Last, value) => std::slice::from_ref(value),
        (HeaderInstances::All, Value::Array(values)) => values,
        (HeaderInstances::All, _) => return Err("The value must be an array".to_owned()),
    };
    let lines: Result<Vec<Option<String>>, String> = values.iter().map(|value| field_line(property, value)).collect();
    Ok(lines?.into_iter().flatten().collect())
}

fn field_line(property: &HeaderProperty, value: &Value) -> Result<Option<String>, String> {
    let name = &property.field;
    match property.form {
        HeaderForm::Raw => raw_field(name, text(value)?).map(Some),
        HeaderForm::Text => Ok(Some(text_field(name, one_line(value)?))),
        HeaderForm::Addresses => addresses_field(name, &[AddressGroup { name: None, addresses: mailboxes(value)? }]),
        HeaderForm::GroupedAddresses => addresses_field(name, &groups(value)?),
        HeaderForm::MessageIds => bracketed_field(name, &bracketed_texts(value)?, ""),
        HeaderForm::Date => Ok(Some(format!("{name}: {}\r\n", date_text(text(value)?)?))),
        HeaderForm::Urls => bracketed_field(name, &bracketed_texts(value)?, ","),
    }
}

fn text(value: &Value) -> Result<&str, String> {
    value.as_str().ok_or_else(|| "The value must be a string".to_owned())
}

/// Returns a text that cannot end its line.
///
/// # Errors
///
/// Returns a description if the value is no string or has a line end or a NUL.
pub(super) fn one_line(value: &Value) -> Result<&str, String> {
    let text = text(value)?;
    if text.contains(['\r', '\n', '\0']) {
        return Err("The value must not have line ends or NUL".to_owned());
    }
    Ok(text)
}

/// Returns a field with a value as it is. The value may be folded: each of its line ends is a CRLF before white space,
/// and no line is blank.
fn raw_field(name: &str, value: &str) -> Result<String, String> {
    let mut lines = value.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let is_continuation = |line: &str| line.starts_with([' ', '\t']) && !line.trim_ascii().is_empty();
    if value.contains('\0') || !lines.clone().all(is_continuation) || value.replace("\r\n", "").contains(['\r', '\n']) {
        return Err("The value must not have NUL, or line ends that do not fold it".to_owned());
    }
    if name.len() + 1 + first.len() > LINE_BYTES_MAX || lines.any(|line| line.len() > LINE_BYTES_MAX) {
        return Err(format!("A line of the value is longer than {LINE_BYTES_MAX} bytes"));
    }
    Ok(format!("{name}:{value}\r\n"))
}

/// A group of mailboxes, or mailboxes outside of a group.
struct AddressGroup {
    name: Option<String>,
    addresses: Vec<MailboxText>,
}

/// A mailbox as it is written.
struct MailboxText {
    name: Option<String>,
    /// The address, without angle brackets.
    address: String,
}

fn groups(value: &Value) -> Result<Vec<AddressGroup>, String> {
    let groups = value.as_array().ok_or("The value must be an array of EmailAddressGroup")?;
    let group = |value: &Value| {
        let object = value.as_object().ok_or("An EmailAddressGroup must be an object")?;
        check_keys(object, &["name", "addresses"])?;
        let addresses = mailboxes(object.get("addresses").unwrap_or(&Value::Null))?;
        Ok(AddressGroup { name: name(object)?, addresses })
    };
    groups.iter().map(group).collect()
}

fn mailboxes(value: &Value) -> Result<Vec<MailboxText>, String> {
    let addresses = value.as_array().ok_or("The value must be an array of EmailAddress")?;
    addresses.iter().map(mailbox).collect()
}

fn mailbox(value: &Value) -> Result<MailboxText, String> {
    let object = value.as_object().ok_or("An EmailAddress must be an object")?;
    check_keys(object, &["name", "email"])?;
    let email = object.get("email").ok_or("An EmailAddress must have an email")?;
    let address = address_text(&without_controls(one_line(email)?));
    if address.len() > UNFOLDABLE_BYTES_MAX {
        return Err("An address is too long".to_owned());
    }
    Ok(MailboxText { name: name(object)?, address })
}

fn check_keys(object: &Map<String, Value>, keys: &[&str]) -> Result<(), String> {
    match object.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(format!("There is no property {key:?}")),
        None => Ok(()),
    }
}

fn name(object: &Map<String, Value>) -> Result<Option<String>, String> {
    match object.get("name") {
        None | Some(Value::Null) => Ok(None),
        Some(name) => Ok(Some(one_line(name)?.to_owned()).filter(|name| !without_controls(name).trim().is_empty())),
    }
}

/// Returns an address as it is written. A text that is no address becomes a quoted local part.
fn address_text(email: &str) -> String {
    let email = email.trim();
    if let Some((local, domain)) = email.rsplit_once('@')
        && is_domain(domain)
    {
        let local = unquoted(local);
        let is_plain = is_dot_atom(&local) && !local.contains("=?");
        return if is_plain { format!("{local}@{domain}") } else { format!("{}@{domain}", quoted(&local)) };
    }
    if email.is_empty() || (is_dot_atom(email) && !email.contains("=?")) { email.to_owned() } else { quoted(email) }
}

/// Returns `true` if a text is a domain, or an address literal in brackets.
fn is_domain(text: &str) -> bool {
    let literal = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    match literal {
        Some(literal) => {
            !literal.is_empty() && literal.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".:-".contains(&byte))
        }
        None => is_dot_atom(text),
    }
}

/// Returns the content of a quoted string, or a text that is no quoted string as it is.
fn unquoted(text: &str) -> String {
    let Some(inside) = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')) else { return text.to_owned() };
    let mut content = String::new();
    let mut characters = inside.chars();
    while let Some(character) = characters.next() {
        content.push(if character == '\\' { characters.next().unwrap_or('\\') } else { character });
    }
    content
}

fn addresses_field(name: &str, groups: &[AddressGroup]) -> Result<Option<String>, String> {
    let mut field = FieldWriter::new(name);
    let mut is_empty = true;
    for group in groups {
        if group.name.is_none() && group.addresses.is_empty() {
            continue;
        }
        if !std::mem::take(&mut is_empty) {
            field.append(",");
        }
        write_group(&mut field, group);
    }
    Ok((!is_empty).then(|| field.finish()))
}

fn write_group(field: &mut FieldWriter, group: &AddressGroup) {
    if let Some(name) = &group.name {
        if write_phrase(field, name) {
            field.word(":");
        } else {
            field.append(":");
        }
    }
    for (position, mailbox) in group.addresses.iter().enumerate() {
        if position > 0 {
            field.append(",");
        }
        match &mailbox.name {
            Some(name) => {
                write_phrase(field, name);
                field.word(&format!("<{}>", mailbox.address));
            }
            None if mailbox.address.is_empty() => field.word("<>"),
            None => field.word(&mailbox.address),
        }
    }
    if group.name.is_some() {
        field.append(";");
    }
}

/// Returns texts that are written in angle brackets: message ids or URLs.
fn bracketed_texts(value: &Value) -> Result<Vec<&str>, String> {
    let values = value.as_array().ok_or("The value must be an array of strings")?;
    let check = |value| {
        let text = one_line(value)?;
        let is_valid = text.chars().all(|character| character.is_ascii_graphic() && !"<>".contains(character));
        if !is_valid || text.is_empty() || text.len() > UNFOLDABLE_BYTES_MAX {
            return Err(format!("{text:?} is not a message id or URL without angle brackets"));
        }
        Ok(text)
    };
    values.iter().map(check).collect()
}

fn bracketed_field(name: &str, texts: &[&str], separator: &str) -> Result<Option<String>, String> {
    if name.eq_ignore_ascii_case("Message-ID") && texts.len() > 1 {
        return Err("A message has a single message id".to_owned());
    }
    let mut field = FieldWriter::new(name);
    for (position, text) in texts.iter().enumerate() {
        if position > 0 {
            field.append(separator);
        }
        field.word(&format!("<{text}>"));
    }
    Ok((!texts.is_empty()).then(|| field.finish()))
}

/// Returns a date of RFC 3339 as RFC 5322 writes it, in the same zone. Fractions of seconds are dropped.
fn date_text(date: &str) -> Result<String, String> {
    let message = || format!("{date:?} is not a date like 2026-01-01T12:00:00+02:00");
    let instant: jiff::Timestamp = date.parse().map_err(|_| message())?;
    let zone = zone_of(date.as_bytes()).ok_or_else(message)?;
    let [sign, hour_tens, hour_ones, _, minute_tens, minute_ones] = zone;
    let number = |tens: u8, ones: u8| i64::from(tens - b'0') * 10 + i64::from(ones - b'0');
    let minutes = number(hour_tens, hour_ones) * 60 + number(minute_tens, minute_ones);
    let offset = if sign == b'-' { -minutes } else { minutes };
    let local = Timestamp::from_seconds(instant.as_second() + offset * 60).to_utc();
    let sign = char::from(sign);
    Ok(format!("{} {sign}{:02}{:02}", local.strftime("%a, %d %b %Y %H:%M:%S"), minutes / 60, minutes % 60))
}

/// Returns the zone of a date in the form `YYYY-MM-DDThh:mm:ss+hh:mm`, with or without a fraction of a second. The zone
/// may be `Z`. Returns `None` if the text has another form.
fn zone_of(text: &[u8]) -> Option<[u8; 6]> {
    const DATE: &[u8] = b"0000-00-00T00:00:00";
    const ZONE: &[u8] = b"+00:00";
    let has_form = |text: &[u8], form: &[u8]| {
        let matches = |(byte, form): (&u8, &u8)| match form {
            b'0' => byte.is_ascii_digit(),
            b'+' => matches!(byte, b'+' | b'-'),
            form => byte == form,
        };
        text.len() == form.len() && text.iter().zip(form).all(matches)
    };
    let (local, zone) = match text.strip_suffix(b"Z") {
        Some(local) => (local, ZONE),
        None => text.split_at_checked(text.len().saturating_sub(ZONE.len()))?,
    };
    let (date, fraction) = local.split_at_checked(DATE.len())?;
    let digits = fraction.strip_prefix(b".").unwrap_or(b"0");
    let is_fraction = fraction.is_empty() || (!digits.is_empty() && digits.iter().all(u8::is_ascii_digit));
    let is_valid = has_form(date, DATE) && is_fraction && fraction.first().is_none_or(|first| *first == b'.');
    (is_valid && has_form(zone, ZONE)).then(|| zone.try_into().ok()).flatten()
}
