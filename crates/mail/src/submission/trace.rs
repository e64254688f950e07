//! The `Received` trace field (RFC 5321 §4.4).
//!
//! SMTP creates the field before the message data arrives, so that the data is read directly after it. Without a name
//! from the client, the field names the client's network address twice.

use std::fmt::Write as _;
use std::net::IpAddr;

use base::{Timestamp, address_literal};

/// The protocol with which a message was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReceivedProtocol {
    /// SMTP after HELO.
    Smtp,
    /// SMTP after EHLO.
    Esmtp,
    /// LMTP.
    Lmtp,
    /// The native protocol.
    Native,
}

/// The content of a trace field.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedField<'a> {
    /// The name given by the client. It must be a domain or an address literal, so that it cannot contain syntax of
    /// the field.
    pub helo: Option<&'a str>,
    /// The client's network address.
    pub address: IpAddr,
    /// The name of this server.
    pub hostname: &'a str,
    /// The protocol with which the message was received.
    pub protocol: ReceivedProtocol,
    /// `true` if the message was announced with SMTPUTF8.
    pub smtputf8: bool,
    /// `true` if the connection is encrypted.
    pub tls: bool,
    /// `true` if the client is authenticated.
    pub authenticated: bool,
    /// The cipher suite, if TLS is used and the suite is known.
    pub cipher: Option<&'a str>,
    /// This server's identifier of the message.
    pub id: &'a str,
    /// The recipient, if there is exactly one.
    pub recipient: Option<&'a str>,
    /// The time at which the message was received.
    pub received: Timestamp,
}

/// Returns the trace field including its CRLF.
#[must_use]
pub fn received_field(hop: &ReceivedField<'_>) -> String {
    let mut field = String::with_capacity(256);
    let literal = address_literal::format(hop.address);
    // Writing to a string cannot fail.
    let _ = write!(field, "Received: from {} ({literal})\r\n", hop.helo.unwrap_or(&literal));
    let _ = write!(field, "\tby {} with {} id {}", hop.hostname, transmission_type(hop), hop.id);
    if let Some(recipient) = hop.recipient {
        let _ = write!(field, "\r\n\tfor <{recipient}>");
    }
    if let Some(cipher) = hop.cipher {
        let _ = write!(field, "\r\n\ttls {cipher}");
    }
    let _ = write!(field, ";\r\n\t{}\r\n", hop.received.to_rfc5322());
    field
}

/// Returns the protocol by its name in the registry of mail transmission types (RFC 3848, RFC 6531).
fn transmission_type(hop: &ReceivedField<'_>) -> &'static str {
    match (hop.protocol, hop.smtputf8, hop.tls, hop.authenticated) {
        (ReceivedProtocol::Smtp, ..) => "SMTP",
        (ReceivedProtocol::Native, ..) => "DOUBLET",
        (ReceivedProtocol::Esmtp, false, false, false) => "ESMTP",
        (ReceivedProtocol::Esmtp, false, false, true) => "ESMTPA",
        (ReceivedProtocol::Esmtp, false, true, false) => "ESMTPS",
        (ReceivedProtocol::Esmtp, false, true, true) => "ESMTPSA",
        (ReceivedProtocol::Esmtp, true, false, false) => "UTF8SMTP",
        (ReceivedProtocol::Esmtp, true, false, true) => "UTF8SMTPA",
        (ReceivedProtocol::Esmtp, true, true, false) => "UTF8SMTPS",
        (ReceivedProtocol::Esmtp, true, true, true) => "UTF8SMTPSA",
        (ReceivedProtocol::Lmtp, false, false, false) => "LMTP",
        (ReceivedProtocol::Lmtp, false, false, true) => "LMTPA",
        (ReceivedProtocol::Lmtp, false, true, false) => "LMTPS",
        (ReceivedProtocol::Lmtp, false, true, true) => "LMTPSA",
        (ReceivedProtocol::Lmtp, true, false, false) => "UTF8LMTP",
        (ReceivedProtocol::Lmtp, true, false, true) => "UTF8LMTPA",
        (ReceivedProtocol::Lmtp, true, true, false) => "UTF8LMTPS",
        (ReceivedProtocol::Lmtp, true, true, true) => "UTF8LMTPSA",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hop(address: &str) -> ReceivedField<'static> {
        ReceivedField {
            helo: None,
            address: address.parse().expect("an address"),
            hostname: "mx.example",
            protocol: ReceivedProtocol::Esmtp,
            smtputf8: false,
            tls: false,
            authenticated: false,
            cipher: None,
            id: "7-1",
            recipient: None,
            received: Timestamp::from_seconds(0),
        }
    }

    #[test]
    fn received_field_follows_the_rfc() {
        const DATE: &str = "Thu, 01 Jan 1970 00:00:00 +0000";
        let check = |hop: &ReceivedField<'_>, expected: &str| {
            assert_eq!(received_field(hop), format!("Received: from {expected};\r\n\t{DATE}\r\n"));
        };
        let plain = ReceivedField { helo: Some("client.example"), ..hop("192.0.2.7") };
        check(&plain, "client.example ([192.0.2.7])\r\n\tby mx.example with ESMTP id 7-1");
        let full = ReceivedField {
            tls: true,
            authenticated: true,
            cipher: Some("TLS13_AES_256_GCM_SHA384"),
            recipient: Some("a@b.example"),
            ..plain
        };
        let expected = "client.example ([192.0.2.7])\r\n\tby mx.example with ESMTPSA id 7-1\r\n\tfor <a@b.example>\
                        \r\n\ttls TLS13_AES_256_GCM_SHA384";
        check(&full, expected);
        let native = ReceivedField { protocol: ReceivedProtocol::Native, ..hop("2001:db8::5") };
        check(&native, "[IPv6:2001:db8::5] ([IPv6:2001:db8::5])\r\n\tby mx.example with DOUBLET id 7-1");
    }
}
