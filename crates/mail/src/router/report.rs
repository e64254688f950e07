//! Delivery status notifications (RFC 3461, 3462, 3464).
//!
//! A report is a `multipart/report` of three parts: a text for people, the status for programs, and the message or its
//! header. It is sent from `<>`, so that nothing answers it.

use std::fmt::Write;

use base::Timestamp;

use crate::mime::date;
use crate::router::entry::QueuedRecipient;
use crate::router::envelope::{Envelope, ReturnContent};

/// Most bytes of a message that come back whole.
const RETURN_BYTES_MAX: usize = 256 << 10;

/// What a report tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// It was delivered.
    Delivered,
    /// It was handed to a server that does not report.
    Relayed,
    /// It takes long; no action is needed.
    Delayed,
    /// It was given up.
    Failed,
}

impl Action {
    fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Relayed => "relayed",
            Self::Delayed => "delayed",
            Self::Failed => "failed",
        }
    }

    fn subject(self) -> &'static str {
        match self {
            Self::Delivered => "Delivered",
            Self::Relayed => "Relayed",
            Self::Delayed => "Delivery delayed",
            Self::Failed => "Delivery failed",
        }
    }

    fn explanation(self) -> &'static str {
        match self {
            Self::Delivered => "Your message was delivered to the following recipients:",
            Self::Relayed => {
                "Your message was handed on to a server that sends no delivery reports, for the following recipients:"
            }
            Self::Delayed => {
                "Your message could not be delivered yet to the following recipients. It is tried again; you need not do anything:"
            }
            Self::Failed => "Your message could not be delivered to the following recipients:",
        }
    }

    fn status(self, reply: &str) -> String {
        let class = match self {
            Self::Delivered | Self::Relayed => return "2.0.0".into(),
            Self::Delayed => '4',
            Self::Failed => '5',
        };
        let enhanced = reply.split([' ', '-']).find(|word| is_enhanced_status(word));
        enhanced.filter(|word| word.starts_with(class)).map_or_else(|| format!("{class}.0.0"), str::to_owned)
    }
}

fn is_enhanced_status(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| matches!(part.len(), 1..=3) && part.bytes().all(|b| b.is_ascii_digit()))
}

/// What a report is made of.
pub struct Report<'a> {
    /// What it tells.
    pub action: Action,
    /// The envelope of the message that it is about.
    pub envelope: &'a Envelope,
    /// The recipients that it is about.
    pub recipients: &'a [QueuedRecipient],
    /// The message itself.
    pub message: &'a [u8],
    /// When the message came.
    pub arrived: Timestamp,
    /// The name of this server.
    pub server: &'a str,
    /// Now.
    pub now: Timestamp,
}

impl Report<'_> {
    /// Gives the report as a message.
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
        let date = rfc5322(self.now);
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
        let _ = write!(out, "--{boundary}\r\nContent-Type: message/delivery-status\r\n\r\n");
        if let Some(id) = &self.envelope.envelope_id {
            let _ = write!(out, "Original-Envelope-Id: {}\r\n", line(id));
        }
        let _ = write!(out, "Reporting-MTA: dns; {}\r\nArrival-Date: {}\r\n", self.server, rfc5322(self.arrived));
        for queued in self.recipients {
            out.push_str("\r\n");
            if let Some(original) = &queued.recipient.original {
                let _ = write!(out, "Original-Recipient: {}\r\n", line(original));
            }
            let reply = line(&queued.last_reply);
            let (address, action) = (line(&queued.recipient.address), self.action.name());
            let status = self.action.status(&reply);
            let _ = write!(out, "Final-Recipient: rfc822; {address}\r\nAction: {action}\r\nStatus: {status}\r\n");
            if queued.mail_file.is_none() && !reply.is_empty() {
                let _ = write!(out, "Diagnostic-Code: smtp; {reply}\r\n");
            }
        }
        out.push_str("\r\n");
    }

    fn returned_part(&self, out: &mut Vec<u8>, boundary: &str) {
        let whole = self.action == Action::Failed
            && self.envelope.return_content == ReturnContent::Full
            && self.message.len() <= RETURN_BYTES_MAX;
        let (media_type, content) =
            if whole { ("message/rfc822", self.message) } else { ("text/rfc822-headers", header_of(self.message)) };
        out.extend_from_slice(format!("--{boundary}\r\nContent-Type: {media_type}\r\n\r\n").as_bytes());
        out.extend_from_slice(content);
        out.extend_from_slice(format!("\r\n--{boundary}--\r\n").as_bytes());
    }
}

fn header_of(message: &[u8]) -> &[u8] {
    let end = crate::mime::parse(message).root().header.end;
    &message[..usize::try_from(end).unwrap_or(usize::MAX).min(message.len()).min(RETURN_BYTES_MAX)]
}

/// Makes what came from outside fit on one line.
fn line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(900).collect()
}

/// Gives a time as RFC 5322 §3.3 writes it, in UTC.
#[must_use]
pub fn rfc5322(time: Timestamp) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = time.seconds().div_euclid(86_400);
    let second = time.seconds().rem_euclid(86_400);
    let (year, month, day) = date::civil_from_days(days);
    let weekday = DAYS[usize::try_from(days.rem_euclid(7)).unwrap_or(0)];
    let month = MONTHS[usize::try_from((month - 1).clamp(0, 11)).unwrap_or(0)];
    format!("{weekday}, {day} {month} {year:04} {:02}:{:02}:{:02} +0000", second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::router::envelope::Recipient;

    #[test]
    fn times_are_written_as_the_rfc_wants_them() {
        assert_eq!(rfc5322(Timestamp::from_seconds(0)), "Thu, 1 Jan 1970 00:00:00 +0000");
        assert_eq!(rfc5322(Timestamp::from_seconds(1_767_225_600)), "Thu, 1 Jan 2026 00:00:00 +0000");
    }

    #[test]
    fn a_report_is_a_well_formed_message() {
        let envelope = Envelope { id: "Q1".into(), reverse_path: "bob@acme.test".into(), ..Envelope::default() };
        let mut queued = QueuedRecipient::new(Recipient::new("no@where.test"), None, Timestamp(0));
        queued.last_reply = "550 5.1.1 no such user\r\nEvil: header".into();
        let report = Report {
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
