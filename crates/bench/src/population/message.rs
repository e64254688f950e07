//! Messages in the format of mail (RFC 5322 and MIME), from contents.
//!
//! Header fields have encoded words (RFC 2047) where they are not ASCII, and names of files are encoded as in RFC 2231.
//! Texts are sent as they are if they are ASCII; otherwise as quoted-printable if few characters are not, and as base64
//! if many are. Lines have at most 78 characters, apart from those with a long address or file name, which have fewer
//! than 998.

mod encoding;

use base::Timestamp;

use super::attachment::Attachment;
use super::content::{BodyForm, Content};
use encoding::{TransferEncoding, encoded_words, file_name_parameter, push_base64};

/// The beginning of the boundaries between parts. Bodies have no line that begins with it: their characters after
/// quoting have no `=_`, and base64 has no `_`.
const BOUNDARY: &str = "=_bench";

/// An address with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mailbox {
    /// The name; empty if there is none.
    pub name: String,
    /// The address.
    pub address: String,
}

/// The header of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageHeader {
    /// The sender.
    pub from: Option<Mailbox>,
    /// The recipients.
    pub to: Vec<Mailbox>,
    /// When it was written, in microseconds since 1970. The server adds it if it is missing.
    pub date_us: Option<i64>,
    /// Its id with `<` and `>`. The server adds it if it is missing.
    pub message_id: Option<String>,
    /// The ids of the messages that it answers, the first one of the thread first.
    pub references: Vec<String>,
}

impl Content {
    /// Returns the content as a message without a date and a message id, which the server adds.
    pub fn message(&self, from: &str, to: &[String]) -> Vec<u8> {
        let mailbox = |name: &str, address: &str| Mailbox { name: name.to_owned(), address: address.to_owned() };
        let header = MessageHeader {
            from: Some(mailbox(&self.author, from)),
            to: to.iter().map(|address| mailbox("", address)).collect(),
            ..MessageHeader::default()
        };
        self.message_with(&header)
    }

    /// Returns the content as a message with a header.
    pub fn message_with(&self, header: &MessageHeader) -> Vec<u8> {
        let mut text = String::with_capacity(self.bytes_estimated());
        push_header(&mut text, header, &self.subject);
        match &self.attachment {
            None => self.push_body(&mut text),
            Some(attachment) => {
                let boundary = self.boundary("mixed");
                text.push_str(&format!("Content-Type: multipart/mixed;\r\n boundary=\"{boundary}\"\r\n\r\n"));
                text.push_str(&format!("--{boundary}\r\n"));
                self.push_body(&mut text);
                text.push_str(&format!("\r\n--{boundary}\r\n"));
                push_attachment(&mut text, attachment);
                text.push_str(&format!("--{boundary}--\r\n"));
            }
        }
        text.into_bytes()
    }

    /// Adds the header fields of the body, and the body.
    fn push_body(&self, text: &mut String) {
        match self.form {
            BodyForm::Plain => push_text(text, "plain", &self.body),
            BodyForm::Html => push_text(text, "html", &self.html),
            BodyForm::Alternative => {
                let boundary = self.boundary("body");
                text.push_str(&format!("Content-Type: multipart/alternative;\r\n boundary=\"{boundary}\"\r\n\r\n"));
                for (subtype, part) in [("plain", &self.body), ("html", &self.html)] {
                    text.push_str(&format!("--{boundary}\r\n"));
                    push_text(text, subtype, part);
                    text.push_str("\r\n");
                }
                text.push_str(&format!("--{boundary}--\r\n"));
            }
        }
    }

    fn boundary(&self, name: &str) -> String {
        format!("{BOUNDARY}_{name}_{}", self.reference)
    }

    fn bytes_estimated(&self) -> usize {
        let attached = self.attachment.as_ref().map_or(0, |attachment| attachment.bytes.len());
        2_000 + (self.body.len() + self.html.len() + attached) * 3 / 2
    }
}

fn push_header(text: &mut String, header: &MessageHeader, subject: &str) {
    if let Some(time_us) = header.date_us {
        text.push_str(&format!("Date: {}\r\n", Timestamp(time_us).to_rfc5322()));
    }
    if let Some(from) = &header.from {
        push_mailboxes(text, "From", std::slice::from_ref(from));
    }
    push_mailboxes(text, "To", &header.to);
    text.push_str(&format!("Subject: {}\r\n", encoded_words(subject, "Subject: ".len())));
    if let Some(id) = &header.message_id {
        text.push_str(&format!("Message-ID: {id}\r\n"));
    }
    if let Some(answered) = header.references.last() {
        text.push_str(&format!("In-Reply-To: {answered}\r\nReferences: {}\r\n", header.references.join("\r\n ")));
    }
    text.push_str("MIME-Version: 1.0\r\n");
}

fn push_mailboxes(text: &mut String, field: &str, mailboxes: &[Mailbox]) {
    let start = field.len() + 2;
    let format = |mailbox: &Mailbox| match mailbox.name.as_str() {
        "" => format!("<{}>", mailbox.address),
        name => format!("{}\r\n <{}>", encoding::phrase(name, start), mailbox.address),
    };
    let mailboxes: Vec<String> = mailboxes.iter().map(format).collect();
    if !mailboxes.is_empty() {
        text.push_str(&format!("{field}: {}\r\n", mailboxes.join(",\r\n ")));
    }
}

/// Adds the header fields of a text, an empty line, and the text.
fn push_text(text: &mut String, subtype: &str, part: &str) {
    let encoding = TransferEncoding::of(part);
    text.push_str(&format!("Content-Type: text/{subtype}; charset=utf-8\r\n"));
    text.push_str(&format!("Content-Transfer-Encoding: {}\r\n\r\n", encoding.name()));
    encoding.push(text, part);
}

fn push_attachment(text: &mut String, attachment: &Attachment) {
    text.push_str(&format!("Content-Type: {}\r\nContent-Transfer-Encoding: base64\r\n", attachment.media_type));
    text.push_str(&format!("Content-Disposition: attachment;\r\n {}\r\n\r\n", file_name_parameter(&attachment.name)));
    push_base64(text, &attachment.bytes);
}

#[cfg(test)]
mod tests;
