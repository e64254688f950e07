//! The contents of test messages. All messages are different, and some share an attachment with others.

use std::fmt;
use std::sync::Arc;

/// The bytes of a message. They are compared byte for byte and displayed in short form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Content(pub Arc<Vec<u8>>);

impl Content {
    /// Creates a content from bytes.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(bytes))
    }

    /// Returns the content in its delivered form, under a Return-Path field.
    pub fn delivered(&self, reverse_path: &str) -> Self {
        let mut bytes = format!("Return-Path: <{reverse_path}>\r\n").into_bytes();
        bytes.extend_from_slice(&self.0);
        Self::new(bytes)
    }

    /// Returns `true` if this is a report of the router, delivered or queued.
    pub fn is_report(&self) -> bool {
        let own = b"From: Mail Delivery System";
        self.0.starts_with(own) || self.0.strip_prefix(b"Return-Path: <>\r\n").is_some_and(|rest| rest.starts_with(own))
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = String::from_utf8_lossy(&self.0[..self.0.len().min(70)]).into_owned();
        write!(f, "{} bytes {start:?}", self.0.len())
    }
}

/// Creates message number `serial`. `attachment` selects one of a few shared attachments, counted from 0.
pub fn message(serial: u64, attachment: Option<u64>, text_bytes: usize) -> Vec<u8> {
    let text = "All work and no play.\r\n".repeat(text_bytes / 23);
    let head = format!("From: ann@acme.test\r\nSubject: number {serial}\r\nX-Serial: {serial}\r\n");
    let Some(attachment) = attachment else { return format!("{head}\r\n{serial}\r\n{text}").into_bytes() };
    let line = format!("{attachment:04}").repeat(19);
    let encoded = format!("{line}\r\n").repeat(6 + attachment as usize * 20);
    format!(
        "{head}MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=cut\r\n\r\n--cut\r\n\r\n{serial}\r\n{text}\r\n\
         --cut\r\nContent-Type: application/octet-stream\r\nContent-Transfer-Encoding: base64\r\n\r\n{encoded}--cut--\r\n"
    )
    .into_bytes()
}
