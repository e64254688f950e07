//! The names of the properties of Email and EmailBodyPart (RFC 8621 §4.1).
//!
//! Most properties have a fixed name. A header property is `header:{field}[:as{Form}][:all]`: any field, in a form that
//! suits the field. A form that RFC 8621 forbids for a field is no property at all, so a request for it is refused as
//! `invalidArguments`. The convenience properties (`from`, `subject`, ...) are header properties with a short name.
//!
//! A property keeps the name that the client wrote, because the answer repeats it.

use serde_json::{Map, Value};

use crate::email::limits::{FIELD_NAME_BYTES_MAX, PROPERTIES_MAX};

/// A property of Email.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EmailProperty {
    /// `id`.
    Id,
    /// `blobId`.
    BlobId,
    /// `threadId`.
    ThreadId,
    /// `mailboxIds`.
    MailboxIds,
    /// `keywords`.
    Keywords,
    /// `size`.
    Size,
    /// `receivedAt`.
    ReceivedAt,
    /// `headers`.
    Headers,
    /// A header property, or one of the convenience properties.
    Header(HeaderProperty),
    /// `bodyStructure`.
    BodyStructure,
    /// `bodyValues`.
    BodyValues,
    /// `textBody`.
    TextBody,
    /// `htmlBody`.
    HtmlBody,
    /// `attachments`.
    Attachments,
    /// `hasAttachment`.
    HasAttachment,
    /// `preview`.
    Preview,
}

/// A property of EmailBodyPart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyProperty {
    /// `partId`.
    PartId,
    /// `blobId`.
    BlobId,
    /// `size`.
    Size,
    /// `headers`.
    Headers,
    /// `name`.
    Name,
    /// `type`.
    Type,
    /// `charset`.
    Charset,
    /// `disposition`.
    Disposition,
    /// `cid`.
    Cid,
    /// `language`.
    Language,
    /// `location`.
    Location,
    /// `subParts`.
    SubParts,
    /// A header property.
    Header(HeaderProperty),
}

/// A property that shows a header field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderProperty {
    /// The name of the property as the client wrote it.
    pub name: String,
    /// The name of the header field.
    pub field: String,
    /// The form of the value.
    pub form: HeaderForm,
    /// The instances of the field that are shown.
    pub instances: HeaderInstances,
}

/// The instances of a header field that a property shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderInstances {
    /// The last one, or null.
    Last,
    /// An array of all.
    All,
}

/// A form of the value of a header field (RFC 8621 §4.1.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderForm {
    /// The value as it stands in the message.
    Raw,
    /// Unfolded and decoded text.
    Text,
    /// A list of addresses without groups.
    Addresses,
    /// A list of addresses in groups.
    GroupedAddresses,
    /// A list of message ids.
    MessageIds,
    /// A date.
    Date,
    /// A list of URLs.
    Urls,
}

/// The forms with the names that properties use. Clients name the raw form, too, although it needs no name.
const FORMS: [(&str, HeaderForm); 7] = [
    ("asRaw", HeaderForm::Raw),
    ("asText", HeaderForm::Text),
    ("asAddresses", HeaderForm::Addresses),
    ("asGroupedAddresses", HeaderForm::GroupedAddresses),
    ("asMessageIds", HeaderForm::MessageIds),
    ("asDate", HeaderForm::Date),
    ("asURLs", HeaderForm::Urls),
];

/// The convenience properties with their fields and forms.
const CONVENIENCE: [(&str, &str, HeaderForm); 11] = [
    ("messageId", "Message-ID", HeaderForm::MessageIds),
    ("inReplyTo", "In-Reply-To", HeaderForm::MessageIds),
    ("references", "References", HeaderForm::MessageIds),
    ("sender", "Sender", HeaderForm::Addresses),
    ("from", "From", HeaderForm::Addresses),
    ("to", "To", HeaderForm::Addresses),
    ("cc", "Cc", HeaderForm::Addresses),
    ("bcc", "Bcc", HeaderForm::Addresses),
    ("replyTo", "Reply-To", HeaderForm::Addresses),
    ("subject", "Subject", HeaderForm::Text),
    ("sentAt", "Date", HeaderForm::Date),
];

/// The properties of Email with fixed names.
const FIXED: [(&str, EmailProperty); 15] = [
    ("id", EmailProperty::Id),
    ("blobId", EmailProperty::BlobId),
    ("threadId", EmailProperty::ThreadId),
    ("mailboxIds", EmailProperty::MailboxIds),
    ("keywords", EmailProperty::Keywords),
    ("size", EmailProperty::Size),
    ("receivedAt", EmailProperty::ReceivedAt),
    ("headers", EmailProperty::Headers),
    ("bodyStructure", EmailProperty::BodyStructure),
    ("bodyValues", EmailProperty::BodyValues),
    ("textBody", EmailProperty::TextBody),
    ("htmlBody", EmailProperty::HtmlBody),
    ("attachments", EmailProperty::Attachments),
    ("hasAttachment", EmailProperty::HasAttachment),
    ("preview", EmailProperty::Preview),
];

/// The properties of EmailBodyPart with fixed names.
const FIXED_BODY: [(&str, BodyProperty); 12] = [
    ("partId", BodyProperty::PartId),
    ("blobId", BodyProperty::BlobId),
    ("size", BodyProperty::Size),
    ("headers", BodyProperty::Headers),
    ("name", BodyProperty::Name),
    ("type", BodyProperty::Type),
    ("charset", BodyProperty::Charset),
    ("disposition", BodyProperty::Disposition),
    ("cid", BodyProperty::Cid),
    ("language", BodyProperty::Language),
    ("location", BodyProperty::Location),
    ("subParts", BodyProperty::SubParts),
];

/// The fields that RFC 5322 and RFC 2369 define, in lower case, with the parsed forms that RFC 8621 allows for them.
/// Other fields may have any form.
const DEFINED_FIELDS: [(&str, &[HeaderForm]); 29] = {
    use HeaderForm::{Addresses, Date, GroupedAddresses, MessageIds, Text, Urls};
    const ADDRESS: &[HeaderForm] = &[Addresses, GroupedAddresses];
    [
        ("date", &[Date]),
        ("from", ADDRESS),
        ("sender", ADDRESS),
        ("reply-to", ADDRESS),
        ("to", ADDRESS),
        ("cc", ADDRESS),
        ("bcc", ADDRESS),
        ("message-id", &[MessageIds]),
        ("in-reply-to", &[MessageIds]),
        ("references", &[MessageIds]),
        ("subject", &[Text]),
        ("comments", &[Text]),
        ("keywords", &[Text]),
        ("resent-date", &[Date]),
        ("resent-from", ADDRESS),
        ("resent-sender", ADDRESS),
        ("resent-to", ADDRESS),
        ("resent-cc", ADDRESS),
        ("resent-bcc", ADDRESS),
        ("resent-reply-to", ADDRESS),
        ("resent-message-id", &[MessageIds]),
        ("return-path", &[]),
        ("received", &[]),
        ("list-help", &[Urls]),
        ("list-unsubscribe", &[Urls]),
        ("list-subscribe", &[Urls]),
        ("list-post", &[Urls]),
        ("list-owner", &[Urls]),
        ("list-archive", &[Urls]),
    ]
};

impl HeaderForm {
    /// Returns `true` if RFC 8621 allows this form for a field. The name of the field is compared ignoring case.
    #[must_use]
    pub fn is_allowed_for(self, field: &str) -> bool {
        let defined = DEFINED_FIELDS.iter().find(|(name, _)| name.eq_ignore_ascii_case(field));
        self == Self::Raw || defined.is_none_or(|(_, forms)| forms.contains(&self))
    }
}

impl HeaderProperty {
    /// Parses a name that begins with `header:`. Returns `None` if it is no header property, or if its form is not
    /// allowed for its field.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let mut pieces = name.strip_prefix("header:")?.split(':');
        let field = pieces.next().filter(|field| is_field_name(field))?;
        let mut form = HeaderForm::Raw;
        let mut instances = HeaderInstances::Last;
        let mut next = pieces.next();
        if let Some((_, named)) = next.and_then(|next| FORMS.iter().find(|(form, _)| *form == next)) {
            form = *named;
            next = pieces.next();
        }
        if next == Some("all") {
            instances = HeaderInstances::All;
            next = pieces.next();
        }
        let is_valid = next.is_none() && form.is_allowed_for(field);
        is_valid.then(|| Self { name: name.to_owned(), field: field.to_owned(), form, instances })
    }

    /// Returns the convenience property of this name.
    #[must_use]
    pub fn convenience(name: &str) -> Option<Self> {
        let (name, field, form) = CONVENIENCE.iter().find(|(convenience, ..)| *convenience == name)?;
        Some(Self {
            name: (*name).to_owned(),
            field: (*field).to_owned(),
            form: *form,
            instances: HeaderInstances::Last,
        })
    }
}

/// Returns `true` if a text can be the name of a header field: printable ASCII without a colon.
fn is_field_name(name: &str) -> bool {
    let is_printable = name.bytes().all(|byte| matches!(byte, 33..=57 | 59..=126));
    !name.is_empty() && name.len() <= FIELD_NAME_BYTES_MAX && is_printable
}

impl EmailProperty {
    /// The properties that Email/get returns if the client names none.
    pub const DEFAULT: [&str; 24] = [
        "id",
        "blobId",
        "threadId",
        "mailboxIds",
        "keywords",
        "size",
        "receivedAt",
        "messageId",
        "inReplyTo",
        "references",
        "sender",
        "from",
        "to",
        "cc",
        "bcc",
        "replyTo",
        "subject",
        "sentAt",
        "hasAttachment",
        "preview",
        "bodyValues",
        "textBody",
        "htmlBody",
        "attachments",
    ];

    /// The number of properties at the beginning of [`Self::DEFAULT`] that Email/parse leaves out.
    const DEFAULT_METADATA: usize = 7;

    /// Returns the properties that Email/get returns if the client names none.
    #[must_use]
    pub fn defaults() -> Vec<Self> {
        Self::DEFAULT.iter().filter_map(|name| Self::parse(name)).collect()
    }

    /// Returns the properties that Email/parse returns if the client names none.
    #[must_use]
    pub fn parse_defaults() -> Vec<Self> {
        Self::defaults().split_off(Self::DEFAULT_METADATA)
    }

    /// Parses a name. Returns `None` if there is no such property, or if its form is not allowed for its field.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        if name.starts_with("header:") {
            return HeaderProperty::parse(name).map(Self::Header);
        }
        let fixed = FIXED.iter().find(|(fixed, _)| *fixed == name).map(|(_, property)| property.clone());
        fixed.or_else(|| HeaderProperty::convenience(name).map(Self::Header))
    }

    /// Returns the name as the client wrote it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Header(header) => &header.name,
            fixed => FIXED.iter().find(|(_, property)| property == fixed).map_or("", |(name, _)| name),
        }
    }

    /// Returns `true` if the value needs headers or contents of parts.
    #[must_use]
    pub fn needs_parts(&self) -> bool {
        matches!(self, Self::BodyStructure | Self::BodyValues | Self::TextBody | Self::HtmlBody | Self::Attachments)
    }

    /// Returns `true` if the value does not depend on the bytes of the message.
    #[must_use]
    pub fn is_metadata(&self) -> bool {
        matches!(
            self,
            Self::Id
                | Self::BlobId
                | Self::ThreadId
                | Self::MailboxIds
                | Self::Keywords
                | Self::Size
                | Self::ReceivedAt
        )
    }
}

impl BodyProperty {
    /// The properties of parts that are returned if the client names none.
    pub const DEFAULT: [&str; 10] =
        ["partId", "blobId", "size", "name", "type", "charset", "disposition", "cid", "language", "location"];

    /// Parses a name. Returns `None` if there is no such property, or if its form is not allowed for its field.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        if name.starts_with("header:") {
            return HeaderProperty::parse(name).map(Self::Header);
        }
        FIXED_BODY.iter().find(|(fixed, _)| *fixed == name).map(|(_, property)| property.clone())
    }

    /// Returns the name as the client wrote it.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Header(header) => &header.name,
            fixed => FIXED_BODY.iter().find(|(_, property)| property == fixed).map_or("", |(name, _)| name),
        }
    }
}

/// The arguments of Email/get and Email/parse that are about bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyOptions {
    /// The properties of each part.
    pub body_properties: Vec<BodyProperty>,
    /// `true` if `bodyValues` includes the text parts of `textBody`.
    pub fetch_text_body_values: bool,
    /// `true` if `bodyValues` includes the text parts of `htmlBody`.
    pub fetch_html_body_values: bool,
    /// `true` if `bodyValues` includes all text parts.
    pub fetch_all_body_values: bool,
    /// Maximum length of a value in `bodyValues`. There is no limit if it is 0.
    pub body_value_bytes_max: u64,
}

impl Default for BodyOptions {
    fn default() -> Self {
        Self {
            body_properties: BodyProperty::DEFAULT.iter().filter_map(|name| BodyProperty::parse(name)).collect(),
            fetch_text_body_values: false,
            fetch_html_body_values: false,
            fetch_all_body_values: false,
            body_value_bytes_max: 0,
        }
    }
}

impl BodyOptions {
    /// Returns the options with which all can be fetched that a client has sent: properties of a message with their
    /// values.
    #[must_use]
    pub fn of_sent(properties: &[(&String, &Value)]) -> Self {
        let mut options = Self::default();
        let mut open: Vec<&Value> = Vec::new();
        for (name, value) in properties {
            match name.as_str() {
                "bodyValues" => {
                    options.fetch_all_body_values = value.as_object().is_some_and(|texts| !texts.is_empty())
                }
                "bodyStructure" | "textBody" | "htmlBody" | "attachments" => open.push(value),
                _ => {}
            }
        }
        while let Some(next) = open.pop() {
            open.extend(next.as_array().into_iter().flatten());
            let Some(members) = next.as_object() else { continue };
            for property in members.keys().filter_map(|name| BodyProperty::parse(name)) {
                if options.body_properties.len() < PROPERTIES_MAX && !options.body_properties.contains(&property) {
                    options.body_properties.push(property);
                }
            }
            open.extend(members.get("subParts"));
        }
        options
    }

    /// Reads the options from the arguments of a method call. Other arguments are ignored.
    ///
    /// # Errors
    ///
    /// Returns a description for `invalidArguments`.
    pub fn from_arguments(arguments: &Map<String, Value>) -> Result<Self, String> {
        let mut options = Self {
            fetch_text_body_values: flag(arguments, "fetchTextBodyValues")?,
            fetch_html_body_values: flag(arguments, "fetchHTMLBodyValues")?,
            fetch_all_body_values: flag(arguments, "fetchAllBodyValues")?,
            ..Self::default()
        };
        match arguments.get("maxBodyValueBytes") {
            None | Some(Value::Null) => {}
            Some(value) => {
                let message = || "maxBodyValueBytes must be an unsigned integer".to_owned();
                options.body_value_bytes_max = value.as_u64().ok_or_else(message)?;
            }
        }
        match arguments.get("bodyProperties") {
            None | Some(Value::Null) => {}
            Some(value) => options.body_properties = body_properties(value)?,
        }
        Ok(options)
    }
}

fn flag(arguments: &Map<String, Value>, name: &str) -> Result<bool, String> {
    match arguments.get(name) {
        None | Some(Value::Null) => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(_) => Err(format!("{name} must be a boolean")),
    }
}

fn body_properties(value: &Value) -> Result<Vec<BodyProperty>, String> {
    let names = value.as_array().ok_or("bodyProperties must be an array of strings")?;
    if names.len() > PROPERTIES_MAX {
        return Err(format!("bodyProperties may have at most {PROPERTIES_MAX} names"));
    }
    let parse = |name: &Value| {
        let name = name.as_str().ok_or("bodyProperties must be an array of strings")?;
        BodyProperty::parse(name).ok_or_else(|| format!("bodyProperties: there is no property {name:?}"))
    };
    names.iter().map(parse).collect()
}
