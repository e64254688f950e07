//! Message disposition notifications as objects (RFC 9007 §2): the MDN that a client sends, and the one that it reads.

use mail::disposition_notification::parsed::is_defined_field;
use mail::disposition_notification::{ActionMode, Disposition, DispositionKind, ParsedNotification, SendingMode};
use mail::limits::{NOTIFICATION_FIELDS_MAX, NOTIFICATION_LINE_BYTES_MAX, NOTIFICATION_TEXT_BYTES_MAX};
use serde_json::{Map, Value, json};

use crate::error::SetError;

/// The properties that clients set.
const SETTABLE: [&str; 8] = [
    "forEmailId",
    "subject",
    "textBody",
    "includeOriginalMessage",
    "reportingUA",
    "disposition",
    "finalRecipient",
    "extensionFields",
];

/// The properties that only the server sets.
const SERVER_SET: [&str; 4] = ["mdnGateway", "originalRecipient", "originalMessageId", "error"];

/// An MDN that a client sends.
#[derive(Clone, Debug, PartialEq)]
pub struct NewDisposition {
    /// `forEmailId`.
    pub email: String,
    /// `subject`.
    pub subject: Option<String>,
    /// `textBody`.
    pub text: Option<String>,
    /// `includeOriginalMessage`, if the client has set it.
    pub includes_original: Option<bool>,
    /// `reportingUA`.
    pub reporting_ua: Option<String>,
    /// `disposition`.
    pub disposition: Disposition,
    /// The address in `finalRecipient`, without its type.
    pub final_recipient: Option<String>,
    /// `extensionFields`.
    pub extension_fields: Vec<(String, String)>,
}

impl NewDisposition {
    /// Checks the properties of an MDN.
    pub fn parse(object: &Value) -> Result<Self, SetError> {
        let members = object.as_object();
        let members = members.ok_or_else(|| SetError::described("invalidProperties", "an MDN is an object"))?;
        check_names(members)?;
        let text = match text_of(members, "textBody", NOTIFICATION_TEXT_BYTES_MAX) {
            Err(_) if members.get("textBody").is_some_and(Value::is_string) => {
                return Err(SetError::described("tooLarge", "textBody is longer than the server accepts"));
            }
            other => other?,
        };
        let email = text_of(members, "forEmailId", NOTIFICATION_LINE_BYTES_MAX)?;
        let email = email.ok_or_else(|| invalid("forEmailId", "an MDN is about an Email"))?;
        Ok(Self {
            email,
            subject: line_of(members, "subject")?,
            text,
            includes_original: parse_flag(members, "includeOriginalMessage")?,
            reporting_ua: line_of(members, "reportingUA")?,
            disposition: parse_disposition(members.get("disposition").unwrap_or(&Value::Null))?,
            final_recipient: line_of(members, "finalRecipient")?.map(|text| address_of(&text)),
            extension_fields: parse_extension_fields(members.get("extensionFields").unwrap_or(&Value::Null))?,
        })
    }
}

/// Returns the MDN that a message contains. `email` is the message that it is about, if it is known.
#[must_use]
pub fn to_json(parsed: &ParsedNotification, email: Option<&str>) -> Value {
    let extension_fields: Map<String, Value> =
        parsed.extension_fields.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "forEmailId": email,
        "subject": parsed.subject,
        "textBody": parsed.text,
        "includeOriginalMessage": parsed.has_original,
        "reportingUA": parsed.reporting_ua,
        "disposition": {
            "actionMode": parsed.disposition.action_mode.name(),
            "sendingMode": parsed.disposition.sending_mode.name(),
            "type": parsed.disposition.kind.name(),
        },
        "mdnGateway": parsed.gateway,
        "originalRecipient": parsed.original_recipient,
        "finalRecipient": parsed.final_recipient,
        "originalMessageId": parsed.original_message_id,
        "error": if parsed.errors.is_empty() { Value::Null } else { json!(parsed.errors) },
        "extensionFields": if extension_fields.is_empty() { Value::Null } else { Value::Object(extension_fields) },
    })
}

fn check_names(members: &Map<String, Value>) -> Result<(), SetError> {
    let is_set = |name: &&str| members.get(*name).is_some_and(|value| !value.is_null());
    let server_set: Vec<&str> = SERVER_SET.into_iter().filter(is_set).collect();
    if !server_set.is_empty() {
        return Err(SetError::invalid_properties(&server_set, "the server sets these properties"));
    }
    let is_known = |name: &str| SETTABLE.contains(&name) || SERVER_SET.contains(&name);
    let unknown: Vec<&str> = members.keys().map(String::as_str).filter(|name| !is_known(name)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    Err(SetError::invalid_properties(&unknown, "an MDN has no such properties"))
}

fn parse_disposition(value: &Value) -> Result<Disposition, SetError> {
    let wrong = || invalid("disposition", "it needs an actionMode, a sendingMode and a type, each of RFC 9007");
    let members = value.as_object().filter(|members| members.len() == 3).ok_or_else(wrong)?;
    // Names are case-sensitive here.
    let name = |member: &str| {
        let name = members.get(member).and_then(Value::as_str);
        name.filter(|name| !name.bytes().any(|byte| byte.is_ascii_uppercase())).ok_or_else(wrong)
    };
    Ok(Disposition {
        action_mode: ActionMode::from_name(name("actionMode")?).ok_or_else(wrong)?,
        sending_mode: SendingMode::from_name(name("sendingMode")?).ok_or_else(wrong)?,
        kind: DispositionKind::from_name(name("type")?).ok_or_else(wrong)?,
    })
}

fn parse_extension_fields(value: &Value) -> Result<Vec<(String, String)>, SetError> {
    let wrong = |description: &str| invalid("extensionFields", description);
    let members = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Object(members) if members.len() <= NOTIFICATION_FIELDS_MAX => members,
        _ => return Err(wrong("it is not an object with few members")),
    };
    let field = |(name, value): (&String, &Value)| {
        // What is left of a line is for the value.
        let is_name =
            (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':');
        if !is_name || is_defined_field(name) {
            return Err(wrong("a name is not that of an extension field"));
        }
        match value.as_str().filter(|text| is_line(text)) {
            Some(text) => Ok((name.clone(), text.to_owned())),
            None => Err(wrong("a value is not a string, too long, or has control characters")),
        }
    };
    members.iter().map(field).collect()
}

fn parse_flag(members: &Map<String, Value>, name: &str) -> Result<Option<bool>, SetError> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(invalid(name, "the value is not a boolean")),
    }
}

fn line_of(members: &Map<String, Value>, name: &str) -> Result<Option<String>, SetError> {
    match text_of(members, name, NOTIFICATION_LINE_BYTES_MAX)? {
        Some(text) if !is_line(&text) => Err(invalid(name, "the text has control characters")),
        other => Ok(other),
    }
}

fn text_of(members: &Map<String, Value>, name: &str, bytes_max: usize) -> Result<Option<String>, SetError> {
    match members.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.len() <= bytes_max => Ok(Some(text.clone())),
        Some(_) => Err(invalid(name, "the value is not a string, or it is too long")),
    }
}

fn is_line(text: &str) -> bool {
    text.len() <= NOTIFICATION_LINE_BYTES_MAX && !text.chars().any(char::is_control)
}

/// Returns an address without its type, such as `rfc822;`.
fn address_of(text: &str) -> String {
    let (_, address) = text.split_once(';').unwrap_or(("", text));
    address.trim().to_owned()
}

fn invalid(property: &str, description: &str) -> SetError {
    SetError::invalid_properties(&[property], description)
}
