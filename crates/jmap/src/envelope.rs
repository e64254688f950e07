//! The envelope of a submission (RFC 8621 §7): given by the client, or made from the message.

use base::Timestamp;
use mail::mime::address::mailboxes;
use mail::mime::message_header::top_fields;
use serde_json::{Map, Value, json};

use crate::arguments::{as_unsigned, parse_utc_date};
use crate::error::SetError;
use crate::limits::DELAYED_SEND_MAX;

/// Who sends a message to whom, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct SentEnvelope {
    /// The reverse path.
    pub sender: String,
    /// The recipients.
    pub recipients: Vec<String>,
    /// Those recipients that are no addresses.
    pub malformed: Vec<String>,
    /// The time of the release (RFC 4865), if it is not now.
    pub release_at: Option<Timestamp>,
    /// The parameters of the sender, as the client has given them.
    parameters: Option<Map<String, Value>>,
}

impl SentEnvelope {
    /// Reads the property `envelope`.
    pub fn parse(envelope: &Value, now: Timestamp) -> Result<Self, SetError> {
        let Value::Object(object) = envelope else { return Err(invalid("the envelope is not an object")) };
        if object.keys().any(|name| !["mailFrom", "rcptTo"].contains(&name.as_str())) {
            return Err(invalid("an envelope has mailFrom and rcptTo"));
        }
        let (sender, parameters) = address_of(&envelope["mailFrom"])?;
        if is_malformed(sender) {
            return Err(invalid("an address has characters that it cannot have"));
        }
        let release_at = release_of(parameters, now)?;
        let recipients = envelope["rcptTo"].as_array().ok_or_else(|| invalid("rcptTo is not a list"))?;
        let recipients = recipients.iter().map(|recipient| match address_of(recipient)? {
            (address, parameters) if parameters.is_none_or(Map::is_empty) => Ok(address.to_owned()),
            _ => Err(invalid("parameters of recipients are not supported")),
        });
        let recipients = recipients.collect::<Result<Vec<String>, SetError>>()?;
        let malformed = recipients.iter().filter(|address| is_malformed(address)).cloned().collect();
        let parameters = parameters.cloned();
        Ok(Self { sender: sender.to_owned(), recipients, malformed, release_at, parameters })
    }

    /// Makes the envelope of a message: its recipients are those that it names, each once.
    #[must_use]
    pub fn of_message(raw: &[u8], identity: &str) -> Self {
        let mut recipients: Vec<String> = Vec::new();
        for (_, field) in top_fields(raw) {
            if !["To", "Cc", "Bcc"].iter().any(|name| field.is(name)) {
                continue;
            }
            for address in mailboxes(field.value).map(|mailbox| mailbox.address()) {
                if !recipients.iter().any(|known| known.eq_ignore_ascii_case(&address)) {
                    recipients.push(address);
                }
            }
        }
        let sender = identity.to_owned();
        Self { sender, recipients, malformed: Vec::new(), release_at: None, parameters: None }
    }

    /// Returns the property `envelope`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        let recipient = |email: &String| json!({ "email": email, "parameters": null });
        json!({
            "mailFrom": { "email": self.sender, "parameters": self.parameters },
            "rcptTo": self.recipients.iter().map(recipient).collect::<Vec<_>>(),
        })
    }
}

type Parameters<'v> = Option<&'v Map<String, Value>>;

/// Reads an Address object.
fn address_of(value: &Value) -> Result<(&str, Parameters<'_>), SetError> {
    let address = value["email"].as_str().ok_or_else(|| invalid("an address has no email"))?;
    match &value["parameters"] {
        Value::Null => Ok((address, None)),
        Value::Object(parameters) => Ok((address, Some(parameters))),
        _ => Err(invalid("parameters is not an object")),
    }
}

/// Returns `true` if an address has characters that separate words or lines of commands.
fn is_malformed(address: &str) -> bool {
    address.bytes().any(|byte| byte.is_ascii_control() || byte == b' ')
}

/// Reads the parameters HOLDFOR and HOLDUNTIL (RFC 4865), whose values are texts.
fn release_of(parameters: Parameters<'_>, now: Timestamp) -> Result<Option<Timestamp>, SetError> {
    let mut release_at = None;
    for (name, value) in parameters.into_iter().flatten() {
        let at = if name.eq_ignore_ascii_case("HOLDFOR") {
            let seconds = value.as_str().and_then(|text| text.parse().ok()).or_else(|| as_unsigned(value));
            let seconds = seconds.ok_or_else(|| invalid("HOLDFOR is not a number of seconds"))?;
            now.after(std::time::Duration::from_secs(seconds.min(u64::from(u32::MAX))))
        } else if name.eq_ignore_ascii_case("HOLDUNTIL") {
            value.as_str().and_then(parse_utc_date).ok_or_else(|| invalid("HOLDUNTIL is not a UTCDate"))?
        } else {
            return Err(invalid(format!("the parameter {name} is not supported")));
        };
        if release_at.replace(at).is_some() {
            return Err(invalid("HOLDFOR and HOLDUNTIL exclude each other"));
        }
    }
    match release_at {
        Some(at) if at > now.after(DELAYED_SEND_MAX) => Err(invalid("the message cannot be held for so long")),
        other => Ok(other.filter(|at| *at > now)),
    }
}

fn invalid(description: impl Into<String>) -> SetError {
    SetError::invalid_properties(&["envelope"], description)
}
