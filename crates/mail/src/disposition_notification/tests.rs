//! Tests of notifications: their form, what is read of them, and the requests that are answered.

use base::Timestamp;

use super::*;
use crate::limits::{NOTIFICATION_RECIPIENTS_MAX, NOTIFICATION_RETURN_BYTES_MAX, NOTIFICATION_TEXT_BYTES_MAX};
use crate::mime::{PartKind, address, header, parse};

const ORIGINAL: &[u8] = b"Return-Path: <bob@far.test>\r\nFrom: bob@far.test\r\nMessage-ID: <1@far.test>\r\n\
    Disposition-Notification-To: Bob <bob@far.test>\r\nSubject: Plan\r\n\r\nText\r\n";

fn report<'a>(to: &'a [String]) -> NotificationReport<'a> {
    NotificationReport {
        from_name: "Ann, \"A\"",
        from_address: "ann@acme.test",
        to,
        subject: "Displayed: Plan",
        text: "Your message was displayed.\n",
        disposition: Disposition::DISPLAYED,
        reporting_ua: Some("pc.acme.test; Mail 1"),
        final_recipient: "rfc822; ann@acme.test",
        original_recipient: Some("rfc822; team@acme.test"),
        original_message_id: Some("<1@far.test>"),
        extension_fields: &[],
        original: None,
        message_id: "2@acme.test",
        now: Timestamp(0),
    }
}

fn to() -> Vec<String> {
    vec!["bob@far.test".to_owned()]
}

fn parsed(raw: &[u8]) -> ParsedNotification {
    ParsedNotification::parse(raw).unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(raw)))
}

#[test]
fn a_notification_has_the_form_of_the_rfc() {
    let raw = String::from_utf8(report(&to()).render()).expect("ASCII");
    let boundary = raw.split("boundary=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a boundary");
    let expected = format!(
        "From: \"Ann, \\\"A\\\"\" <ann@acme.test>\r\nTo: <bob@far.test>\r\nSubject: Displayed: Plan\r\n\
         Date: Thu, 01 Jan 1970 00:00:00 +0000\r\nMessage-ID: <2@acme.test>\r\nIn-Reply-To: <1@far.test>\r\n\
         References: <1@far.test>\r\nAuto-Submitted: auto-replied\r\nMIME-Version: 1.0\r\n\
         Content-Type: multipart/report; report-type=disposition-notification;\r\n\tboundary=\"{boundary}\"\r\n\r\n\
         --{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 7bit\r\n\r\n\
         Your message was displayed.\r\n\r\n\
         --{boundary}\r\nContent-Type: message/disposition-notification\r\n\r\n\
         Reporting-UA: pc.acme.test; Mail 1\r\nOriginal-Recipient: rfc822; team@acme.test\r\n\
         Final-Recipient: rfc822; ann@acme.test\r\nOriginal-Message-ID: <1@far.test>\r\n\
         Disposition: manual-action/MDN-sent-manually; displayed\r\n\r\n--{boundary}--\r\n"
    );
    assert_eq!(raw, expected);
}

#[test]
fn a_notification_is_read_as_it_was_written() {
    let fields = vec![("X-Room".to_owned(), "Grüße".to_owned())];
    let long = format!("Grüße\n{}\n", "x".repeat(2_000));
    let to = to();
    let report = NotificationReport {
        from_name: "Größe",
        subject: "Angezeigt: Pläne",
        text: &long,
        extension_fields: &fields,
        original: Some(ORIGINAL),
        ..report(&to)
    };
    let raw = report.render();
    assert!(raw.is_ascii() && raw.split(|byte| *byte == b'\n').all(|line| line.len() < 200));
    let found = parsed(&raw);
    assert_eq!(found.subject.as_deref(), Some("Angezeigt: Pläne"));
    assert_eq!(found.text.as_deref(), Some(&*long));
    assert_eq!(found.disposition, Disposition::DISPLAYED);
    assert_eq!(found.reporting_ua.as_deref(), Some("pc.acme.test; Mail 1"));
    assert_eq!(found.original_recipient.as_deref(), Some("rfc822; team@acme.test"));
    assert_eq!(found.final_recipient.as_deref(), Some("rfc822; ann@acme.test"));
    assert_eq!(found.original_message_id.as_deref(), Some("<1@far.test>"));
    assert_eq!((&found.extension_fields, found.errors.len(), found.gateway), (&fields, 0, None));
    assert!(found.has_original);
    let from = address::mailboxes(header::first(&raw, "From").expect("a field")).next().expect("a mailbox");
    assert_eq!(from.display_name().as_deref(), Some("Größe"));
    let structure = parse(&raw);
    let returned = structure.parts().iter().find(|part| part.kind == PartKind::Message).expect("the message");
    assert_eq!(crate::mime::slice(&raw, &returned.body), ORIGINAL);
}

#[test]
fn no_text_adds_a_line() {
    let evil = "x\r\nBcc: eve@far.test\r\n\r\n--";
    let fields = vec![("X-A".to_owned(), evil.to_owned())];
    let to = vec![format!("bob@far.test>{evil}")];
    let report = NotificationReport {
        from_name: evil,
        subject: evil,
        reporting_ua: Some(evil),
        final_recipient: evil,
        original_recipient: Some(evil),
        original_message_id: Some(evil),
        extension_fields: &fields,
        message_id: evil,
        ..report(&to)
    };
    let raw = String::from_utf8(report.render()).expect("ASCII");
    assert!(raw.lines().all(|line| !line.starts_with("Bcc:")), "{raw}");
    assert_eq!(parse(raw.as_bytes()).parts().len(), 3, "{raw}");
}

#[test]
fn a_message_is_returned_whole_or_by_its_header() {
    let check = |original: &[u8], media_type: Option<(&str, &str)>| {
        let raw = NotificationReport { original: Some(original), ..report(&to()) }.render();
        let structure = parse(&raw);
        let third = structure.children(0).nth(2).map(|index| &structure.parts()[index].content);
        let found = third.map(|content| (text_of(&content.media_type), text_of(&content.subtype)));
        let expected = media_type.map(|(kind, subtype)| (kind.to_owned(), subtype.to_owned()));
        assert_eq!(found, expected, "{}", String::from_utf8_lossy(&original[..original.len().min(80)]));
        assert_eq!(parsed(&raw).has_original, media_type.is_some());
    };
    check(ORIGINAL, Some(("message", "rfc822")));
    check("Subject: x\r\n\r\nGrüße\r\n".as_bytes(), Some(("message", "rfc822")));
    check("Subject: Grüße\r\n\r\nx\r\n".as_bytes(), Some(("message", "global")));
    let large = [ORIGINAL, "x\r\n".repeat(NOTIFICATION_RETURN_BYTES_MAX / 3).as_bytes()].concat();
    check(&large, Some(("text", "rfc822-headers")));
    check(&[ORIGINAL, &[b'x'; 2_000]].concat(), Some(("text", "rfc822-headers")));
    check(&[ORIGINAL, b"\0"].concat(), Some(("text", "rfc822-headers")));
    check(format!("Subject: {}\r\n\r\n", "x".repeat(2_000)).as_bytes(), None);
}

fn text_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).to_ascii_lowercase()
}

#[test]
fn addresses_beyond_ascii_have_the_international_form() {
    let to = to();
    let report = NotificationReport {
        from_address: "größe@acme.test",
        final_recipient: &typed_address("größe@acme.test"),
        original_recipient: Some("utf-8; größe@acme.test"),
        ..report(&to)
    };
    let raw = report.render();
    let text = String::from_utf8_lossy(&raw);
    assert!(text.contains("Content-Type: message/global-disposition-notification\r\n"), "{text}");
    let found = parsed(&raw);
    assert_eq!(found.final_recipient.as_deref(), Some("utf-8; größe@acme.test"));
    assert_eq!(found.original_recipient.as_deref(), Some("utf-8; größe@acme.test"));
}

#[test]
fn notifications_of_other_programs_are_read() {
    let raw = b"Subject: Read\r\nContent-Type: multipart/report; report-type=disposition-notification; boundary=b\r\n\r\n\
        --b\r\nContent-Type: multipart/alternative; boundary=c\r\n\r\n--c\r\nContent-Type: text/html\r\n\r\n<p>It was read</p>\r\n--c--\r\n\
        --b\r\nContent-Type: MESSAGE/Disposition-Notification\r\n\r\n\
        MDN-Gateway: dns; gate.far.test\r\nfinal-recipient: rfc822;bob@far.test\r\n\
        Disposition: Automatic-Action/mdn-SENT-automatically\r\n ; Processed/error (it failed)\r\n\
        Error: one\r\nError: two\r\nX-Other: 1\r\nX-OTHER: 2\r\n\r\n--b--\r\n";
    let found = parsed(raw);
    let disposition = Disposition {
        action_mode: ActionMode::Automatic,
        sending_mode: SendingMode::Automatic,
        kind: DispositionKind::Processed,
    };
    assert_eq!(found.disposition, disposition);
    assert_eq!(found.text.as_deref().map(str::trim), Some("It was read"));
    assert_eq!(found.gateway.as_deref(), Some("dns; gate.far.test"));
    assert_eq!(found.final_recipient.as_deref(), Some("rfc822;bob@far.test"));
    assert_eq!(found.errors, ["one", "two"]);
    assert_eq!(found.extension_fields, [("X-Other".to_owned(), "1".to_owned())]);
    assert!(!found.has_original);
}

#[test]
fn other_messages_are_no_notifications() {
    let whole = String::from_utf8(report(&to()).render()).expect("ASCII");
    let check = |from: &str, to: &str| {
        let raw = whole.replace(from, to);
        assert_ne!(raw, whole, "{from}");
        assert_eq!(ParsedNotification::parse(raw.as_bytes()), None, "{raw}");
    };
    check("multipart/report", "multipart/mixed");
    check("message/disposition-notification", "message/delivery-status");
    check("Disposition: manual", "Other: manual");
    check("MDN-sent-manually", "MDN-sent-somehow");
    check("; displayed", "; denied");
    check("/MDN-sent-manually", "");
    assert_eq!(ParsedNotification::parse(b""), None);
    assert_eq!(ParsedNotification::parse(ORIGINAL), None);
}

#[test]
fn long_parts_of_a_notification_are_cut() {
    let text = "x\n".repeat(NOTIFICATION_TEXT_BYTES_MAX);
    let raw = NotificationReport { text: &text, ..report(&to()) }.render();
    let found = parsed(&raw).text.expect("a text");
    assert!(found.len() <= NOTIFICATION_TEXT_BYTES_MAX && found.starts_with("x\nx\n"), "{}", found.len());
}

/// Checks the recipients of a request, and whether it comes from the sender of the message.
#[track_caller]
fn check_request(fields: &str, expected: Option<(&[&str], bool)>) {
    let header = format!("Return-Path: <bob@far.test>\r\n{fields}\r\n\r\n");
    let found = NotificationRequest::of_header(header.as_bytes());
    let found = found.as_ref().map(|request| (request.recipients.clone(), request.matches_return_path()));
    let expected = expected.map(|(to, matches)| (to.iter().map(|to| (*to).to_owned()).collect(), matches));
    assert_eq!(found, expected, "{fields}");
}

#[test]
fn requests_need_few_valid_addresses() {
    let one = |address: &str| format!("Disposition-Notification-To: {address}");
    check_request(&one("bob@far.test"), Some((&["bob@far.test"], true)));
    check_request(&one("Bob <bob@FAR.test>"), Some((&["bob@FAR.test"], true)));
    check_request(&one("Bob@far.test"), Some((&["Bob@far.test"], false)));
    check_request(&one("eve@evil.test"), Some((&["eve@evil.test"], false)));
    check_request(&one("bob@far.test, bob@FAR.TEST"), Some((&["bob@far.test"], true)));
    check_request(&one("bob@far.test, eve@evil.test"), Some((&["bob@far.test", "eve@evil.test"], false)));
    check_request(&one(""), None);
    check_request(&one("bob"), None);
    check_request(&one("<>"), None);
    check_request(&one("bob@far.test, nobody"), None);
    check_request(&one("\"bob x\"@far.test"), None);
    check_request("Subject: x", None);
    check_request(&format!("{}\r\n{}", one("bob@far.test"), one("bob@far.test")), None);
    let many: Vec<String> = (0..=NOTIFICATION_RECIPIENTS_MAX).map(|number| format!("a{number}@far.test")).collect();
    check_request(&one(&many.join(", ")), None);
    check_request(&one(&format!("{}@far.test", "x".repeat(2_000))), None);
}

#[test]
fn reports_and_requests_with_requirements_are_not_answered() {
    let request = "Disposition-Notification-To: bob@far.test";
    let options = |value: &str| format!("{request}\r\nDisposition-Notification-Options: {value}");
    check_request(&options("x=optional,1"), Some((&["bob@far.test"], true)));
    check_request(&options("x=optional,1; y = Required , 2"), None);
    check_request(&options("x=required"), None);
    let media = |value: &str| format!("{request}\r\nContent-Type: {value}");
    check_request(&media("text/plain"), Some((&["bob@far.test"], true)));
    check_request(&media("multipart/report; report-type=disposition-notification; boundary=b"), None);
    check_request(&media("multipart/report; report-type=delivery-status; boundary=b"), None);
}

#[test]
fn the_null_path_and_a_missing_one_match_nobody() {
    let check = |header: &str, return_path: Option<&str>| {
        let header = format!("{header}Disposition-Notification-To: bob@far.test\r\n\r\n");
        let request = NotificationRequest::of_header(header.as_bytes()).expect("a request");
        assert_eq!((request.return_path.as_deref(), request.matches_return_path()), (return_path, false), "{header}");
    };
    check("", None);
    check("Return-Path: <>\r\n", Some(""));
}

#[test]
fn a_request_tells_what_is_known_of_the_message() {
    let header = b"Message-ID: junk <1@far.test>\r\nSubject: =?utf-8?Q?Pl=C3=A4ne?=\r\n\
        Original-Recipient: rfc822 ; team@acme.test\r\nDisposition-Notification-To: bob@far.test\r\n\r\n";
    let request = NotificationRequest::of_header(header).expect("a request");
    assert_eq!(request.message_id.as_deref(), Some("<1@far.test>"));
    assert_eq!(request.original_recipient.as_deref(), Some("rfc822; team@acme.test"));
    assert_eq!(request.default_subject(DispositionKind::Displayed), "Displayed: Pläne");
    let text = request.default_text(DispositionKind::Deleted, "ann@acme.test");
    assert_eq!(text, "Your message \"Pläne\" to ann@acme.test was deleted. It may have been displayed before.\r\n");
    let bare = NotificationRequest::of_header(
        b"Disposition-Notification-To: bob@far.test\r\n\
        Original-Recipient: no type\r\nMessage-ID: <\xc3\xa4@x>\r\n\r\n",
    );
    let bare = bare.expect("a request");
    assert_eq!((&bare.original_recipient, &bare.message_id), (&None, &None));
    assert_eq!(bare.default_subject(DispositionKind::Displayed), "Displayed:");
}
