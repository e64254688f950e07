//! The message that the composer writes (RFC 5322, MIME), by `mail-builder`.
//!
//! A message for recipients has no `Bcc`; a draft has, together with what the composer needs to go on. The bytes depend
//! on nothing but the fields: the boundary is made from the identifier of the form. Texts with control characters
//! cannot become fields: [`fn@line`] refuses them.

use std::borrow::Cow;

use base::line_ends::normalize_line_ends;
use base::{Timestamp, Unid};
use mail::mime::address::{self, Mailbox};
use mail::mime::message_header::{append_without, top_fields};
use mail::mime::{encoded_word, header};
use mail_builder::MessageBuilder;
use mail_builder::headers::HeaderType;
use mail_builder::headers::address::Address;
use mail_builder::headers::content_type::ContentType;
use mail_builder::headers::date::Date;
use mail_builder::headers::message_id::MessageId;
use mail_builder::headers::text::Text;
use mail_builder::mime::{BodyPart, MimePart};

use crate::error::{Error, Result};
use crate::limits::{FILE_NAME_BYTES_MAX, LINE_BYTES_MAX, MESSAGE_ID_BYTES_MAX, REFERENCES_MAX};
use crate::shown_text;

/// The field of a draft with the message that it answers or forwards.
pub const ORIGINAL_FIELD: &str = "X-Doublet-Original";

/// A file of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingFile {
    /// The name.
    pub name: String,
    /// The media type.
    pub media_type: String,
    /// The content.
    pub content: Vec<u8>,
}

/// The content of the composer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outgoing {
    /// The name of the sender.
    pub from_name: String,
    /// The address of the sender.
    pub from_address: String,
    /// Recipients, as they were typed.
    pub to: String,
    /// Further recipients.
    pub cc: String,
    /// Recipients whom the others do not see.
    pub bcc: String,
    /// The subject.
    pub subject: String,
    /// The text.
    pub body: String,
    /// The identifier of the message that this one answers, in angle brackets.
    pub in_reply_to: String,
    /// The identifiers of the conversation, separated by spaces.
    pub references: String,
    /// The message that this one answers or forwards, as the composer names it.
    pub original: String,
    /// The identifier of the form, 32 hexadecimal digits.
    pub form: String,
    /// The files.
    pub files: Vec<OutgoingFile>,
}

/// What a message is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It stays in the folder with drafts.
    Draft,
    /// It is sent.
    Sending,
}

/// Checks a line of the composer. It becomes a field of the header, so it has no line ends and no control characters.
pub fn line(text: &str, what: &str) -> Result<String> {
    if text.len() > LINE_BYTES_MAX {
        return Err(Error::Invalid(format!("{what} is too long")));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::Invalid(format!("{what} has line ends or control characters")));
    }
    Ok(text.trim().to_owned())
}

/// Returns the mailboxes of a line with addresses.
#[must_use]
pub fn mailboxes(line: &str) -> Vec<Mailbox> {
    address::mailboxes(line.as_bytes()).filter(|mailbox| !mailbox.local.is_empty() || mailbox.name.is_some()).collect()
}

/// Returns `true` for an address to which mail can be sent.
#[must_use]
pub fn is_address(mailbox: &Mailbox) -> bool {
    let is_plain = |text: &[u8]| {
        !text.is_empty() && !text.iter().any(|byte| byte.is_ascii_control() || b" <>,;\"()".contains(byte))
    };
    is_plain(&mailbox.local) && is_plain(&mailbox.domain) && std::str::from_utf8(&mailbox.local).is_ok()
}

/// Returns the identifiers of messages in a text that are well formed.
#[must_use]
pub fn message_ids(text: &str) -> Vec<String> {
    let is_id = |id: &&str| {
        let is_inner = |c: char| c.is_ascii_graphic() && !"<>".contains(c);
        id.len() <= MESSAGE_ID_BYTES_MAX && id.contains('@') && id.chars().all(is_inner)
    };
    let words = text.split_ascii_whitespace();
    let inner = words.filter_map(|word| word.strip_prefix('<')?.strip_suffix('>'));
    inner.filter(is_id).map(str::to_owned).collect()
}

/// Returns the identifier of a message in angle brackets, or an empty text if it has none that is well formed.
#[must_use]
pub fn message_id_of(header: &[u8]) -> String {
    let value = header::first(header, "Message-ID").map(header::decode_value).unwrap_or_default();
    message_ids(&value).first().map(|id| format!("<{id}>")).unwrap_or_default()
}

/// Returns the field `References` of an answer to a message (RFC 5322, section 3.6.4).
#[must_use]
pub fn references_of(header: &[u8]) -> String {
    let value = |name: &str| header::first(header, name).map(header::decode_value).unwrap_or_default();
    let mut ids = message_ids(&value("References"));
    if ids.is_empty() {
        ids = message_ids(&value("In-Reply-To"));
    }
    ids.extend(message_ids(&value("Message-ID")).into_iter().take(1));
    if ids.len() > REFERENCES_MAX {
        ids.drain(1..=ids.len() - REFERENCES_MAX);
    }
    ids.iter().map(|id| format!("<{id}>")).collect::<Vec<_>>().join(" ")
}

/// Returns the UNID of the copy of a message that can be withdrawn. It is the identifier of the message in the queue,
/// too. Nobody else can compute it before the message is delivered, because the identifier of the form is random. The
/// account is part of it, so a form of another account with the same identifier has another one.
#[must_use]
pub fn copy_unid(account: &str, form: &str) -> Unid {
    let mut hasher = blake3::Hasher::new_derive_key("doublet lite web mail: UNID of a copy that can be withdrawn");
    hasher.update(form.as_bytes()).update(account.as_bytes());
    let mut unid = [0; 16];
    hasher.finalize_xof().fill(&mut unid);
    Unid(unid)
}

/// Returns the name of a file without folders and control characters.
#[must_use]
pub fn file_name(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let clean: String = shown_text::on_one_line(last).replace(['\u{fffd}', '"'], "_");
    let clean = clean.trim().trim_start_matches('.');
    let name = &clean[..clean.floor_char_boundary(FILE_NAME_BYTES_MAX)];
    if name.is_empty() { "attachment".to_owned() } else { name.to_owned() }
}

impl Outgoing {
    /// Returns the identifier of the message, without angle brackets.
    #[must_use]
    pub fn message_id(form: &str, hostname: &str) -> String {
        format!("{form}@{hostname}")
    }

    /// Writes the message.
    pub fn write(&self, purpose: Purpose, hostname: &str, now: Timestamp) -> Result<Vec<u8>> {
        let mut builder = MessageBuilder::new()
            .date(Date::new(now.seconds()))
            .message_id(Self::message_id(&self.form, hostname))
            .from(Address::new_address(
                Some(self.from_name.clone()).filter(|name| !name.is_empty()),
                self.from_address.clone(),
            ));
        for (name, line) in [("To", &self.to), ("Cc", &self.cc)] {
            builder = with_addresses(builder, name, line);
        }
        if purpose == Purpose::Draft {
            builder = with_addresses(builder, "Bcc", &self.bcc);
            if !self.original.is_empty() {
                builder = builder.header(ORIGINAL_FIELD, HeaderType::Text(Text::new(self.original.clone())));
            }
        }
        builder = builder.subject(self.subject.clone());
        for (name, text) in [("In-Reply-To", &self.in_reply_to), ("References", &self.references)] {
            let ids = message_ids(text);
            if !ids.is_empty() {
                builder = builder.header(name, HeaderType::MessageId(MessageId::new_list(ids.into_iter())));
            }
        }
        let written = builder.body(self.body_part()).write_to_vec().map_err(|_| Error::Unavailable)?;
        Ok(normalize_line_ends(&written))
    }

    /// Returns the fields of the header that only the draft of this message has, as they are in it.
    pub fn draft_fields(&self, hostname: &str, now: Timestamp) -> Result<String> {
        let draft =
            Self { bcc: self.bcc.clone(), original: self.original.clone(), form: self.form.clone(), ..Self::default() };
        let written = draft.write(Purpose::Draft, hostname, now)?;
        let fields = top_fields(&written).filter(|(_, field)| field.is("Bcc") || field.is(ORIGINAL_FIELD));
        let fields: Vec<u8> = fields.flat_map(|(_, field)| field.raw).copied().collect();
        String::from_utf8(fields).map_err(|_| Error::Unavailable)
    }

    fn body_part(&self) -> MimePart<'_> {
        let text = MimePart::new(
            ContentType::new("text/plain").attribute("charset", "utf-8"),
            BodyPart::Text(Cow::Owned(self.body.replace("\r\n", "\n").replace('\r', "\n").replace('\n', "\r\n"))),
        );
        if self.files.is_empty() {
            return text;
        }
        let files = self.files.iter().map(|file| {
            let kind = media_type(&file.media_type);
            let part = MimePart::new(ContentType::new(kind.clone()), BodyPart::Binary(Cow::Borrowed(&file.content)));
            let part = part.attachment(file.name.clone());
            // An attached message is not encoded (RFC 2046, section 5.2.1).
            if kind == "message/rfc822" { part.transfer_encoding("8bit") } else { part }
        });
        let parts = std::iter::once(text).chain(files).collect();
        let boundary = format!("=_doublet_{}", self.form);
        MimePart::new(ContentType::new("multipart/mixed").attribute("boundary", boundary), BodyPart::Multipart(parts))
    }
}

/// Returns a message that was sent as a draft: with the identifier of another form, and the fields that only a draft
/// has.
#[must_use]
pub fn draft_of_sent(raw: &[u8], draft_fields: &str, form: &str, hostname: &str) -> Vec<u8> {
    let id = Outgoing::message_id(form, hostname);
    let mut draft = format!("Message-ID: <{id}>\r\n{draft_fields}").into_bytes();
    let others = top_fields(raw).filter(|(_, field)| field.is("Message-ID")).map(|(range, _)| range);
    append_without(&mut draft, raw, others);
    draft
}

/// Adds a field with addresses. A draft may have lines that are no addresses yet; they are kept as they were typed.
fn with_addresses<'b>(builder: MessageBuilder<'b>, name: &'static str, line: &str) -> MessageBuilder<'b> {
    let mailboxes = mailboxes(line);
    if mailboxes.is_empty() && line.is_empty() {
        return builder;
    }
    if mailboxes.is_empty() || !mailboxes.iter().all(is_address) {
        return builder.header(name, HeaderType::Text(Text::new(line.to_owned())));
    }
    let addresses = mailboxes.iter().map(|mailbox| {
        let name = mailbox.name.as_deref().map(encoded_word::decode).filter(|name| !name.is_empty());
        Address::new_address(name, mailbox.address())
    });
    builder.header(name, HeaderType::Address(Address::new_list(addresses.collect())))
}

/// Returns a media type that a browser named, if it is one and no container. Everything else is any file.
fn media_type(text: &str) -> String {
    let essence = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_token = |text: &str| {
        !text.is_empty()
            && text.len() < 80
            && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&b))
    };
    let is_valid = essence.split_once('/').is_some_and(|(kind, subtype)| {
        is_token(kind) && is_token(subtype) && kind != "multipart" && (kind != "message" || subtype == "rfc822")
    });
    if is_valid { essence } else { "application/octet-stream".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outgoing() -> Outgoing {
        Outgoing {
            from_name: "Ann, \"A\"".to_owned(),
            from_address: "ann@acme.test".to_owned(),
            to: "Bob Größe <bob@acme.test>, \"x, y\" <c@d.test>".to_owned(),
            bcc: "eve@acme.test".to_owned(),
            subject: "Grüße".to_owned(),
            body: "one\ntwo".to_owned(),
            form: "0123".to_owned(),
            in_reply_to: "<a@b> <bad\r\nX: y@z>".to_owned(),
            ..Outgoing::default()
        }
    }

    fn written(outgoing: &Outgoing, purpose: Purpose) -> String {
        let bytes = outgoing.write(purpose, "mx.acme.test", Timestamp(0)).expect("it can be written");
        String::from_utf8(bytes).expect("ASCII")
    }

    #[test]
    fn a_message_for_recipients_has_no_hidden_ones() {
        let text = written(&outgoing(), Purpose::Sending);
        assert!(!text.contains("eve@") && text.contains("Message-ID: <0123@mx.acme.test>"), "{text}");
        let header = text.as_bytes();
        assert_eq!(header::first(header, "Subject").map(header::decode_value).as_deref(), Some("Grüße"));
        let to: Vec<Mailbox> = address::mailboxes(header::first(header, "To").expect("To")).collect();
        assert_eq!(to.len(), 2);
        assert_eq!(to[0].display_name().as_deref(), Some("Bob Größe"));
        assert!(!text.contains("X: y"), "{text}");
        assert_eq!(written(&outgoing(), Purpose::Sending), text, "it is the same each time");
        let draft = written(&Outgoing { to: "bob".to_owned(), ..outgoing() }, Purpose::Draft);
        assert!(draft.contains("Bcc: <eve@acme.test>") && draft.contains("To: bob\r\n"), "{draft}");
    }

    #[test]
    fn a_sent_message_is_a_draft_again_with_its_hidden_recipients() {
        let original = "r.5.17".to_owned();
        let outgoing = Outgoing { original, ..outgoing() };
        let sent = written(&outgoing, Purpose::Sending);
        let fields = outgoing.draft_fields("mx.acme.test", Timestamp(0)).expect("they can be written");
        assert_eq!(fields, "Bcc: <eve@acme.test>\r\nX-Doublet-Original: r.5.17\r\n");
        let draft = draft_of_sent(sent.as_bytes(), &fields, "4567", "mx.acme.test");
        let id = header::first(&draft, "Message-ID").map(<[u8]>::trim_ascii);
        assert_eq!(id, Some(&b"<4567@mx.acme.test>"[..]));
        assert_eq!(header::fields(&draft).filter(|field| field.is("Message-ID")).count(), 1);
        assert_eq!(header::first(&draft, "Bcc").map(header::decode_value).as_deref(), Some("<eve@acme.test>"));
        let body = |text: &[u8]| String::from_utf8_lossy(text).split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        assert_eq!(body(&draft), body(sent.as_bytes()));
        let plain = Outgoing { bcc: String::new(), original: String::new(), ..outgoing };
        assert_eq!(plain.draft_fields("mx.acme.test", Timestamp(0)).ok().as_deref(), Some(""));
    }

    #[test]
    fn files_follow_the_text() {
        let files = vec![
            OutgoingFile {
                name: file_name("../a\r\nb.txt"),
                media_type: "text/html".to_owned(),
                content: b"<b>".to_vec(),
            },
            OutgoingFile {
                name: "m.eml".to_owned(),
                media_type: "message/rfc822".to_owned(),
                content: b"A: b\r\n\r\nc".to_vec(),
            },
        ];
        let text = written(&Outgoing { files, ..outgoing() }, Purpose::Sending);
        let structure = mail::mime::parse(text.as_bytes());
        let names: Vec<Option<String>> = structure.parts().iter().map(|part| part.content.file_name()).collect();
        assert!(names.contains(&Some("a__b.txt".to_owned())), "{names:?}");
        assert!(text.contains("\r\n\r\nA: b\r\n\r\nc\r\n"), "{text}");
    }

    #[test]
    fn lines_with_line_ends_are_refused() {
        assert!(line("a\r\nBcc: b", "the subject").is_err() && line("a\0", "the subject").is_err());
        assert_eq!(line(" a ", "the subject").ok().as_deref(), Some("a"));
    }

    #[test]
    fn references_are_bounded() {
        let ids: Vec<String> = (0..50).map(|number| format!("<{number}@x>")).collect();
        let header = format!("References: {}\r\nMessage-ID: <last@x>\r\n\r\n", ids.join(" "));
        let found = references_of(header.as_bytes());
        assert!(found.starts_with("<0@x> <32@x>") && found.ends_with("<49@x> <last@x>"), "{found}");
        assert_eq!(found.split(' ').count(), REFERENCES_MAX);
    }
}
