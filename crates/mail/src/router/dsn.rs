//! Delivery status notifications (RFC 3461, 3462, 3464, 6533).
//!
//! A report is a `multipart/report` of three parts: a text for people, the status for programs, and the message or its
//! header. It is sent from `<>`, so that it is never answered.
//!
//! A sender that used SMTPUTF8, or whose address requires it, receives the international form of the status and of the
//! header, with unchanged addresses. Other senders receive the ASCII form, in which a non-ASCII address is written with
//! `\x{…}` (RFC 6533 §3).

use std::fmt::Write;

use base::Timestamp;

use crate::mime::message_header::top_header;
use crate::router::entry::QueuedRecipient;
use crate::router::envelope::{Envelope, ReturnContent};

/// Maximum size of a message that is returned whole.
const RETURN_BYTES_MAX: usize = 256 << 10;

/// The event that a report describes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// The message was delivered.
    Delivered,
    /// The message was transferred to a server that does not send reports.
    Relayed,
    /// The message was passed on to all members of a group. The members are not reported individually.
    Expanded,
    /// The delivery is delayed. The sender need not act.
    Delayed,
    /// The delivery was given up.
    Failed,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Relayed => "relayed",
            Self::Expanded => "expanded",
            Self::Delayed => "delayed",
            Self::Failed => "failed",
        }
    }

    fn subject(self) -> &'static str {
        match self {
            Self::Delivered => "Delivered",
            Self::Relayed => "Relayed",
            Self::Expanded => "Delivered to a group",
            Self::Delayed => "Delivery delayed",
            Self::Failed => "Delivery failed",
        }
    }

    fn explanation(self) -> &'static str {
        match self {
            Self::Delivered => "Your message was delivered to the following recipients:",
            Self::Relayed => {
                "Your message was relayed to a server that does not send delivery reports, for the following recipients:"
            }
            Self::Expanded => "Your message was forwarded to the members of the following groups:",
            Self::Delayed => {
                "Your message could not be delivered yet to the following recipients. Delivery will be retried; you do not need to do anything:"
            }
            Self::Failed => "Your message could not be delivered to the following recipients:",
        }
    }

    fn status(self, reply: &str) -> String {
        let class = match self {
            Self::Delivered | Self::Relayed | Self::Expanded => return "2.0.0".into(),
            Self::Delayed => '4',
            Self::Failed => '5',
        };
        let enhanced = reply.split([' ', '-']).find(|word| is_enhanced_status(word));
        enhanced.filter(|word| word.starts_with(class)).map_or_else(|| format!("{class}.0.0"), str::to_owned)
    }
}

/// Returns `true` if the report about a message has the international form.
pub(crate) fn is_international(envelope: &Envelope) -> bool {
    envelope.smtputf8 || !envelope.reverse_path.is_ascii()
}

/// Returns `true` if a text is an SMTP reply: a reply code followed by a space, a hyphen or the end of the text.
fn is_reply(text: &str) -> bool {
    let (code, rest) = text.split_at_checked(3).unwrap_or_default();
    code.starts_with(['2', '4', '5'])
        && code.bytes().all(|b| b.is_ascii_digit())
        && (rest.is_empty() || rest.starts_with([' ', '-']))
}

fn is_enhanced_status(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| matches!(part.len(), 1..=3) && part.bytes().all(|b| b.is_ascii_digit()))
}

/// The data of a report.
pub struct DsnReport<'a> {
    /// The event that the report describes.
    pub action: Action,
    /// The envelope of the reported message.
    pub envelope: &'a Envelope,
    /// The reported recipients.
    pub recipients: &'a [QueuedRecipient],
    /// The reported message.
    pub message: &'a [u8],
    /// The time of arrival of the message.
    pub arrived: Timestamp,
    /// The name of this server.
    pub server: &'a str,
    /// The current time.
    pub now: Timestamp,
}

impl DsnReport<'_> {
    /// Returns the report as a message.
    #[must_use]
    pub fn render(&self) -> Vec<u8> {
        let boundary = format!("report-{}", &blake3::hash(self.message).to_hex()[..24]);
        let mut out = self.header(&boundary);
        self.text_part(&mut out, &boundary);
        self.status_part(&mut out, &boundary);
        let mut bytes = out.into_bytes();
        self.returned_part(&mut bytes, &boundary);
        bytes
    }

    fn header(&self, boundary: &str) -> String {
        let mut out = String::with_capacity(2_048);
        let id = format!("{}.{}.{}", self.envelope.id, self.action.name(), self.now.0);
        let date = self.now.to_rfc5322();
        let _ = write!(
            out,
            "From: Mail Delivery System <MAILER-DAEMON@{server}>\r\nTo: <{to}>\r\nSubject: {subject}\r\nDate: {date}\r\n\
             Message-ID: <{id}@{server}>\r\nAuto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n\
             Content-Type: multipart/report; report-type=delivery-status;\r\n\tboundary=\"{boundary}\"\r\n\r\n",
            server = self.server,
            to = line(&self.envelope.reverse_path),
            subject = self.action.subject(),
        );
        out
    }

    fn text_part(&self, out: &mut String, boundary: &str) {
        let _ = write!(
            out,
            "--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\
             This is the mail system at {}.\r\n\r\n{}\r\n\r\n",
            self.server,
            self.action.explanation(),
        );
        for queued in self.recipients {
            let _ = write!(out, "  <{}>\r\n", line(&queued.recipient.address));
            if !queued.last_reply.is_empty() {
                let _ = write!(out, "      {}\r\n", line(&queued.last_reply));
            }
        }
        out.push_str("\r\n");
    }

    fn status_part(&self, out: &mut String, boundary: &str) {
        let (media_type, encoding) = if is_international(self.envelope) {
            ("message/global-delivery-status", "Content-Transfer-Encoding: 8bit\r\n")
        } else {
            ("message/delivery-status", "")
        };
        let _ = write!(out, "--{boundary}\r\nContent-Type: {media_type}\r\n{encoding}\r\n");
        if let Some(id) = &self.envelope.envelope_id {
            let _ = write!(out, "Original-Envelope-Id: {}\r\n", self.ascii_text(id));
        }
        let _ = write!(out, "Reporting-MTA: dns; {}\r\nArrival-Date: {}\r\n", self.server, self.arrived.to_rfc5322());
        for queued in self.recipients {
            out.push_str("\r\n");
            if let Some(original) = &queued.recipient.original {
                let (kind, address) = original.split_once(';').unwrap_or(("rfc822", original));
                let _ = write!(out, "Original-Recipient: {};{}\r\n", line(kind), self.typed_address(address).1);
            }
            let reply = line(&queued.last_reply);
            let (kind, address) = self.typed_address(&queued.recipient.address);
            let action = self.action.name();
            let status = self.action.status(&reply);
            let _ = write!(out, "Final-Recipient: {kind}; {address}\r\nAction: {action}\r\nStatus: {status}\r\n");
            if queued.mail_file.is_none() && is_reply(&reply) {
                let _ = write!(out, "Diagnostic-Code: smtp; {}\r\n", self.ascii_text(&reply));
            }
        }
        out.push_str("\r\n");
    }

    /// Returns the type of an address, and the address as this report may write it.
    fn typed_address(&self, address: &str) -> (&'static str, String) {
        let kind = if address.is_ascii() { "rfc822" } else { "utf-8" };
        if is_international(self.envelope) {
            return (kind, line(address));
        }
        let spell = |c: char| if c.is_ascii() { c.to_string() } else { format!("\\x{{{:X}}}", u32::from(c)) };
        (kind, line(address).chars().map(spell).collect())
    }

    /// Returns a text as this report may contain it: in ASCII, unless the report is international.
    fn ascii_text(&self, text: &str) -> String {
        let text = line(text);
        if is_international(self.envelope) {
            return text;
        }
        text.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect()
    }

    fn returned_part(&self, out: &mut Vec<u8>, boundary: &str) {
        let whole = self.action == Action::Failed
            && self.envelope.return_content == ReturnContent::Full
            && self.message.len() <= RETURN_BYTES_MAX;
        let content = if whole { self.message } else { header_of(self.message) };
        // An international part may contain only UTF-8.
        let international = is_international(self.envelope) && std::str::from_utf8(content).is_ok();
        let media_type = match (whole, international) {
            (true, true) => "message/global",
            (true, false) => "message/rfc822",
            (false, true) => "message/global-headers",
            (false, false) => "text/rfc822-headers",
        };
        let encoding = if content.is_ascii() { "" } else { "Content-Transfer-Encoding: 8bit\r\n" };
        out.extend_from_slice(format!("--{boundary}\r\nContent-Type: {media_type}\r\n{encoding}\r\n").as_bytes());
        out.extend_from_slice(content);
        out.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    }
}

fn header_of(message: &[u8]) -> &[u8] {
    let header = top_header(message);
    header.get(..RETURN_BYTES_MAX).unwrap_or(header)
}

/// Converts external text to one line.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(900).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::envelope::Recipient;

    /// Renders a failure of one recipient and returns the lines that contain `: `, among them those of its status.
    fn status(envelope: &Envelope, address: &str, reply: &str) -> Vec<String> {
        let recipient = Recipient { original: Some(format!("utf-8;{address}")), ..Recipient::new(address) };
        let queued =
            QueuedRecipient { last_reply: reply.into(), ..QueuedRecipient::new(recipient, None, Timestamp(0)) };
        let message = "Subject: Grüße\r\n\r\n".as_bytes();
        let now = Timestamp(0);
        let action = Action::Failed;
        let server = "mx.acme.test";
        let raw = DsnReport { action, envelope, recipients: &[queued], message, arrived: now, server, now }.render();
        String::from_utf8_lossy(&raw).lines().filter(|line| line.contains(": ")).map(str::to_owned).collect()
    }

    #[test]
    fn only_smtp_replies_become_diagnostic_codes() {
        let envelope = Envelope { reverse_path: "bob@acme.test".into(), ..Envelope::default() };
        let check = |reply: &str, expected: Option<&str>| {
            let lines = status(&envelope, "a@b.test", reply);
            let found = lines.iter().find_map(|line| line.strip_prefix("Diagnostic-Code: smtp; "));
            assert_eq!(found, expected, "{reply}");
        };
        check("550 5.1.1 unknown (mx.b.test)", Some("550 5.1.1 unknown (mx.b.test)"));
        check("550", Some("550"));
        check("550 größer", Some("550 gr??er"));
        check("5.1.2 there is no such domain", None);
        check("5.4.7 gave up after 9 attempts; the last reply was: 450 later", None);
        check("no", None);
    }

    #[test]
    fn addresses_are_encoded_for_the_senders_capabilities() {
        let has =
            |lines: &[String], wanted: &str| assert!(lines.iter().any(|line| line == wanted), "{wanted}: {lines:#?}");
        let ascii = Envelope { reverse_path: "bob@acme.test".into(), ..Envelope::default() };
        let lines = status(&ascii, "jörg@b.test", "550 no");
        has(&lines, "Final-Recipient: utf-8; j\\x{F6}rg@b.test");
        has(&lines, "Original-Recipient: utf-8;j\\x{F6}rg@b.test");
        has(&lines, "Content-Type: message/delivery-status");
        has(&lines, "Content-Type: text/rfc822-headers");
        let international = Envelope { smtputf8: true, ..ascii };
        let lines = status(&international, "jörg@b.test", "550 nö");
        has(&lines, "Final-Recipient: utf-8; jörg@b.test");
        has(&lines, "Diagnostic-Code: smtp; 550 nö");
        has(&lines, "Content-Type: message/global-delivery-status");
        has(&lines, "Content-Type: message/global-headers");
        has(&status(&international, "a@b.test", "550 no"), "Final-Recipient: rfc822; a@b.test");
    }

    #[test]
    fn a_report_is_a_well_formed_message() {
        let envelope = Envelope { id: "Q1".into(), reverse_path: "bob@acme.test".into(), ..Envelope::default() };
        let mut queued = QueuedRecipient::new(Recipient::new("no@where.test"), None, Timestamp(0));
        queued.last_reply = "550 5.1.1 no such user\r\nEvil: header".into();
        let report = DsnReport {
            action: Action::Failed,
            envelope: &envelope,
            recipients: &[queued],
            message: b"Subject: lost\r\n\r\nsecret text\r\n",
            arrived: Timestamp(0),
            server: "mx.acme.test",
            now: Timestamp::from_seconds(60),
        };
        let raw = report.render();
        let text = String::from_utf8_lossy(&raw);
        assert_eq!(crate::mime::parse(&raw).parts().len(), 4);
        assert!(text.contains("Status: 5.1.1\r\n") && text.contains("Final-Recipient: rfc822; no@where.test\r\n"));
        assert!(text.contains("Subject: lost") && !text.contains("secret text") && !text.contains("\r\nEvil:"));
    }
}
