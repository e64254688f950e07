//! A notification as a message (RFC 8098 §3): a `multipart/report` with a text for people, the disposition for
//! programs, and possibly the original message.
//!
//! Everything but the original message is ASCII, unless an address is not (RFC 6533). No text can add a line to the
//! message: control characters become spaces. The bytes depend on nothing but the fields.

use std::fmt::Write as _;

use base::Timestamp;
use base::line_ends::normalize_line_ends;
use base64::Engine as _;

use crate::disposition_notification::Disposition;
use crate::limits::{NOTIFICATION_LINE_BYTES_MAX, NOTIFICATION_RETURN_BYTES_MAX};
use crate::mime::message_header::top_header;
use crate::mime::transfer_encoding::STANDARD;

/// Maximum length of a line of a message (RFC 5322 §2.1.1).
const LINE_BYTES_MAX: usize = 998;

/// Length of a line of base64.
const BASE64_LINE_BYTES: usize = 76;

/// Number of bytes in an encoded word (RFC 2047 §2).
const WORD_BYTES: usize = 39;

/// The content of a notification.
#[derive(Clone, Copy, Debug)]
pub struct NotificationReport<'a> {
    /// The name of the sender. It may be empty.
    pub from_name: &'a str,
    /// The address of the sender.
    pub from_address: &'a str,
    /// The addresses that get the notification.
    pub to: &'a [String],
    /// The subject.
    pub subject: &'a str,
    /// The text for people.
    pub text: &'a str,
    /// What happened to the message.
    pub disposition: Disposition,
    /// The name of the program that reports.
    pub reporting_ua: Option<&'a str>,
    /// The address that got the message, with its type.
    pub final_recipient: &'a str,
    /// The address to which the message was sent, with its type.
    pub original_recipient: Option<&'a str>,
    /// The identifier of the message, in angle brackets.
    pub original_message_id: Option<&'a str>,
    /// Further fields for programs, with valid names.
    pub extension_fields: &'a [(String, String)],
    /// The message, if the notification returns it.
    pub original: Option<&'a [u8]>,
    /// The identifier of the notification, without angle brackets.
    pub message_id: &'a str,
    /// The current time.
    pub now: Timestamp,
}

impl NotificationReport<'_> {
    /// Returns the notification as a message.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        let unique = format!("{}\0{}", self.message_id, self.text);
        let boundary = format!("notification-{}", &blake3::hash(unique.as_bytes()).to_hex()[..24]);
        let mut out = self.header(&boundary);
        self.text_part(&mut out, &boundary);
        self.disposition_part(&mut out, &boundary);
        let mut bytes = out.into_bytes();
        if let Some(original) = self.original {
            append_original(&mut bytes, original, &boundary);
        }
        bytes.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
        bytes
    }

    fn header(&self, boundary: &str) -> String {
        let mut out = String::with_capacity(2_048);
        let to: Vec<String> = self.to.iter().map(|address| format!("<{}>", line(address))).collect();
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "From: {name}<{from}>\r\nTo: {to}\r\nSubject: {subject}\r\nDate: {date}\r\nMessage-ID: <{id}>\r\n",
            name = phrase(self.from_name),
            from = line(self.from_address),
            to = to.join(",\r\n "),
            subject = unstructured(self.subject),
            date = self.now.to_rfc5322(),
            id = line(self.message_id),
        );
        if let Some(id) = self.original_message_id.map(line) {
            let _ = write!(out, "In-Reply-To: {id}\r\nReferences: {id}\r\n");
        }
        let _ = write!(
            out,
            "Auto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n\
             Content-Type: multipart/report; report-type=disposition-notification;\r\n\tboundary=\"{boundary}\"\r\n",
        );
        out
    }

    fn text_part(&self, out: &mut String, boundary: &str) {
        let text = normalize_line_ends(self.text.as_bytes());
        let (encoding, text) = match String::from_utf8(text) {
            Ok(text) if text.is_ascii() && is_transferable(text.as_bytes()) => ("7bit", text),
            Ok(text) => ("base64", in_base64(text.as_bytes())),
            Err(error) => ("base64", in_base64(error.as_bytes())),
        };
        let _ = write!(
            out,
            "\r\n--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\n\
             Content-Transfer-Encoding: {encoding}\r\n\r\n{text}\r\n",
        );
    }

    fn disposition_part(&self, out: &mut String, boundary: &str) {
        let (media_type, encoding) = match self.is_international() {
            true => ("message/global-disposition-notification", "Content-Transfer-Encoding: 8bit\r\n"),
            false => ("message/disposition-notification", ""),
        };
        let _ = write!(out, "--{boundary}\r\nContent-Type: {media_type}\r\n{encoding}\r\n");
        if let Some(name) = self.reporting_ua {
            let _ = write!(out, "Reporting-UA: {}\r\n", unstructured(name));
        }
        let original = self.original_recipient.filter(|address| address.is_ascii() || self.is_international());
        if let Some(address) = original {
            let _ = write!(out, "Original-Recipient: {}\r\n", line(address));
        }
        let _ = write!(out, "Final-Recipient: {}\r\n", line(self.final_recipient));
        if let Some(id) = self.original_message_id {
            let _ = write!(out, "Original-Message-ID: {}\r\n", line(id));
        }
        let _ = write!(out, "Disposition: {}\r\n", self.disposition);
        for (name, value) in self.extension_fields {
            let _ = write!(out, "{}: {}\r\n", line(name), unstructured(value));
        }
    }

    /// Returns `true` if an address is not ASCII.
    fn is_international(&self) -> bool {
        !self.from_address.is_ascii() || !self.final_recipient.is_ascii() || !self.to.iter().all(|to| to.is_ascii())
    }
}

/// Appends the part with the original message: the whole one, or its header if the message is large or has lines that
/// not every server passes on.
fn append_original(out: &mut Vec<u8>, original: &[u8], boundary: &str) {
    let original = normalize_line_ends(original);
    let header = top_header(&original);
    let is_whole = original.len() <= NOTIFICATION_RETURN_BYTES_MAX && is_transferable(&original);
    let content = if is_whole { &original } else { header };
    if content.len() > NOTIFICATION_RETURN_BYTES_MAX || !is_transferable(content) {
        return;
    }
    let media_type = match (is_whole, header.is_ascii()) {
        (true, true) => "message/rfc822",
        (true, false) => "message/global",
        (false, true) => "text/rfc822-headers",
        (false, false) => "message/global-headers",
    };
    let encoding = if content.is_ascii() { "" } else { "Content-Transfer-Encoding: 8bit\r\n" };
    out.extend_from_slice(format!("\r\n--{boundary}\r\nContent-Type: {media_type}\r\n{encoding}\r\n").as_bytes());
    out.extend_from_slice(content);
}

/// Returns `true` if bytes can be sent without an encoding: their lines are short, and no byte is zero.
fn is_transferable(bytes: &[u8]) -> bool {
    !bytes.contains(&0) && bytes.split(|byte| *byte == b'\n').all(|line| line.len() <= LINE_BYTES_MAX)
}

fn in_base64(bytes: &[u8]) -> String {
    let encoded = STANDARD.encode(bytes);
    let mut lines = String::with_capacity(encoded.len() + encoded.len() / 32);
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (first, after) = rest.split_at(rest.len().min(BASE64_LINE_BYTES));
        lines.push_str(first);
        lines.push_str("\r\n");
        rest = after;
    }
    lines
}

/// Converts external text to one line.
fn line(text: &str) -> String {
    let text = &text[..text.floor_char_boundary(NOTIFICATION_LINE_BYTES_MAX)];
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Returns the value of an unstructured field.
fn unstructured(text: &str) -> String {
    let text = line(text);
    if text.is_ascii() && !text.contains("=?") { text } else { encoded_words(&text) }
}

/// Returns a name before an address in angle brackets, with a space if it is not empty.
fn phrase(name: &str) -> String {
    let name = line(name);
    let name = name.trim();
    if name.is_empty() {
        String::new()
    } else if name.is_ascii() && !name.contains("=?") {
        format!("\"{}\" ", name.replace('\\', "\\\\").replace('"', "\\\""))
    } else {
        format!("{} ", encoded_words(name))
    }
}

/// Returns a text as encoded words on lines of their own, each with whole characters.
fn encoded_words(text: &str) -> String {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (first, after) = rest.split_at(rest.floor_char_boundary(WORD_BYTES));
        words.push(format!("=?utf-8?B?{}?=", STANDARD.encode(first)));
        rest = after;
    }
    words.join("\r\n ")
}
