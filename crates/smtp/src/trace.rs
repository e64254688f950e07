//! The `Received` trace field (RFC 5321 §4.4), and dates in message format (RFC 5322 §3.3).
//!
//! The field is created before the message data arrives, so that the data is read directly after it. The name given by
//! the client is written only if it is a domain or an address literal; otherwise the socket's address is written
//! instead.

use std::fmt::Write as _;
use std::net::IpAddr;

use base::Timestamp;
use wire::Peer;

use crate::codec::path::{is_address_literal, is_domain};
use crate::envelope::Protocol;

/// The content of a trace field.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedField<'a> {
    /// The name given by the client.
    pub helo: &'a str,
    /// The remote end of the connection.
    pub peer: &'a Peer,
    /// The name of this server.
    pub hostname: &'a str,
    /// The protocol with which the message was received.
    pub protocol: Protocol,
    /// `true` if the message was announced with SMTPUTF8.
    pub smtputf8: bool,
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
    let literal = address_literal(hop.peer.ip());
    let is_name = is_domain(hop.helo) || is_address_literal(hop.helo);
    // Writing to a string cannot fail.
    let _ = write!(field, "Received: from {} ({literal})\r\n", if is_name { hop.helo } else { &literal });
    let _ = write!(field, "\tby {} with {} id {}", hop.hostname, transmission_type(hop), hop.id);
    if let Some(recipient) = hop.recipient {
        let _ = write!(field, "\r\n\tfor <{recipient}>");
    }
    if let Some(cipher) = hop.cipher {
        let _ = write!(field, "\r\n\ttls {cipher}");
    }
    let _ = write!(field, ";\r\n\t{}\r\n", format_date(hop.received));
    field
}

/// Returns an address as an address literal: `[192.0.2.1]`, `[IPv6:2001:db8::1]`.
#[must_use]
pub fn address_literal(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => format!("[{address}]"),
        IpAddr::V6(address) => format!("[IPv6:{address}]"),
    }
}

/// Returns a date and time in message format, in UTC: `Thu, 01 Jan 2026 00:00:00 +0000`.
#[must_use]
pub fn format_date(moment: Timestamp) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let days = moment.seconds().div_euclid(86_400);
    let second = moment.seconds().rem_euclid(86_400);
    let (year, month, day) = civil(days);
    let pick = |index: i64| usize::try_from(index).unwrap_or_default();
    let weekday = DAYS.get(pick(days.rem_euclid(7))).copied().unwrap_or_default();
    let month = MONTHS.get(pick(month - 1)).copied().unwrap_or_default();
    let hour = second / 3_600;
    let minute = second / 60 % 60;
    let second = second % 60;
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} +0000")
}

/// Converts days since 1970-01-01 to year, month and day of the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years begin in March, so that the leap day is the last day of the year. 400 years have 146,097 days.
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Returns the protocol by its name in the registry of mail transmission types (RFC 3848, RFC 6531).
fn transmission_type(hop: &ReceivedField<'_>) -> &'static str {
    let secure = hop.peer.tls;
    match (hop.protocol, hop.smtputf8, secure, hop.authenticated) {
        (Protocol::Smtp, ..) => "SMTP",
        (Protocol::Esmtp, false, false, false) => "ESMTP",
        (Protocol::Esmtp, false, false, true) => "ESMTPA",
        (Protocol::Esmtp, false, true, false) => "ESMTPS",
        (Protocol::Esmtp, false, true, true) => "ESMTPSA",
        (Protocol::Esmtp, true, false, false) => "UTF8SMTP",
        (Protocol::Esmtp, true, false, true) => "UTF8SMTPA",
        (Protocol::Esmtp, true, true, false) => "UTF8SMTPS",
        (Protocol::Esmtp, true, true, true) => "UTF8SMTPSA",
        (Protocol::Lmtp, false, false, false) => "LMTP",
        (Protocol::Lmtp, false, false, true) => "LMTPA",
        (Protocol::Lmtp, false, true, false) => "LMTPS",
        (Protocol::Lmtp, false, true, true) => "LMTPSA",
        (Protocol::Lmtp, true, false, false) => "UTF8LMTP",
        (Protocol::Lmtp, true, false, true) => "UTF8LMTPA",
        (Protocol::Lmtp, true, true, false) => "UTF8LMTPS",
        (Protocol::Lmtp, true, true, true) => "UTF8LMTPSA",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let check = |seconds: i64, expected: &str| assert_eq!(format_date(Timestamp::from_seconds(seconds)), expected);
        check(0, "Thu, 01 Jan 1970 00:00:00 +0000");
        check(951_782_399, "Mon, 28 Feb 2000 23:59:59 +0000");
        check(951_782_400, "Tue, 29 Feb 2000 00:00:00 +0000");
        check(1_767_225_600, "Thu, 01 Jan 2026 00:00:00 +0000");
        check(4_107_542_400, "Mon, 01 Mar 2100 00:00:00 +0000");
        check(-1, "Wed, 31 Dec 1969 23:59:59 +0000");
    }

    fn hop<'a>(helo: &'a str, peer: &'a Peer) -> ReceivedField<'a> {
        ReceivedField {
            helo,
            peer,
            hostname: "mx.example",
            protocol: Protocol::Esmtp,
            smtputf8: false,
            authenticated: false,
            cipher: None,
            id: "7-1",
            recipient: None,
            received: Timestamp::from_seconds(0),
        }
    }

    #[test]
    fn the_trace_field_is_that_of_the_rfc() {
        let peer = Peer::network("192.0.2.7:4000".parse().expect("valid"));
        let plain = received_field(&hop("client.example", &peer));
        let date = "Thu, 01 Jan 1970 00:00:00 +0000";
        assert_eq!(
            plain,
            format!(
                "Received: from client.example ([192.0.2.7])\r\n\tby mx.example with ESMTP id 7-1;\r\n\t{date}\r\n"
            )
        );
        let peer = peer.encrypted();
        let full = received_field(&ReceivedField {
            authenticated: true,
            cipher: Some("TLS13_AES_256_GCM_SHA384"),
            recipient: Some("a@b.example"),
            ..hop("[192.0.2.9]", &peer)
        });
        let expected = "Received: from [192.0.2.9] ([192.0.2.7])\r\n\tby mx.example with ESMTPSA id 7-1\r\n\tfor <a@b.example>\
                        \r\n\ttls TLS13_AES_256_GCM_SHA384;\r\n\tThu, 01 Jan 1970 00:00:00 +0000\r\n";
        assert_eq!(full, expected);
    }

    #[test]
    fn a_client_cannot_write_into_the_field() {
        let peer = Peer::network("[2001:db8::5]:4000".parse().expect("valid"));
        for helo in ["a b", "x;y", "(comment", "a\r\nX: y", ""] {
            let field = received_field(&hop(helo, &peer));
            assert!(field.starts_with("Received: from [IPv6:2001:db8::5] ([IPv6:2001:db8::5])\r\n\tby"), "{field}");
        }
    }
}
