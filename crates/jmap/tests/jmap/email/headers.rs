//! Header properties: every form, and the forms that are refused.

use jmap::email::{BodyOptions, BodyProperty, EmailProperty};
use serde_json::{Value, json};

use super::property;

/// Checks the value of a property of a message that has only a header.
#[track_caller]
fn check(header: &str, name: &str, expected: Value) {
    assert_eq!(property(format!("{header}\r\n\r\n").as_bytes(), name), expected, "{name} of {header:?}");
}

#[test]
fn raw_form_is_the_value_as_it_stands() {
    check("X-A:  one\r\n two ", "header:x-a", json!("  one\r\n two "));
    check("X-A: 1\r\nX-A: 2", "header:X-A", json!(" 2"));
    check("X-A: 1\r\nX-B: 3\r\nx-a: 2", "header:X-A:all", json!([" 1", " 2"]));
    check("X-B: 1", "header:X-A", Value::Null);
    check("X-B: 1", "header:X-A:all", json!([]));
    check("X-A: caf\u{e9}\0 =?utf-8?q?x?=", "header:X-A", json!(" caf\u{e9} =?utf-8?q?x?="));
    let raw = b"X-A: caf\xe9!\r\n\r\n";
    assert_eq!(property(raw, "header:X-A"), json!(" caf\u{fffd}!"));
    let fields = json!([{"name": "x-A", "value": " 1"}, {"name": "B", "value": "2"}]);
    check("x-A: 1\r\nstray line\r\nB:2", "headers", fields);
}

#[test]
fn text_form_is_unfolded_decoded_and_normalized() {
    check("Subject: =?utf-8?q?e=CC=81?=\r\n =?utf-8?b?w6k=?= x", "subject", json!("\u{e9}\u{e9} x"));
    check("Subject:\r\n folded\r\n  twice", "header:subject:asText", json!("folded  twice"));
    check("To: a@b", "subject", Value::Null);
    check("List-Id: A <a.b>", "header:List-Id:asText", json!("A <a.b>"));
}

#[test]
fn addresses_form_of_the_rfc_example() {
    let header = "To: \"  James Smythe\" <james@example.com>, Friends:\r\n \
        jane@example.com, =?UTF-8?Q?John_Sm=C3=AEth?=\r\n <john@example.com>;";
    let james = json!({"name": "James Smythe", "email": "james@example.com"});
    let jane = json!({"name": null, "email": "jane@example.com"});
    let john = json!({"name": "John Sm\u{ee}th", "email": "john@example.com"});
    check(header, "to", json!([james, jane, john]));
    let groups = json!([{"name": null, "addresses": [james]}, {"name": "Friends", "addresses": [jane, john]}]);
    check(header, "header:To:asGroupedAddresses", groups);
}

#[test]
fn addresses_are_parsed_as_far_as_possible() {
    check("From: a@b (Comment Name)", "from", json!([{"name": "Comment Name", "email": "a@b"}]));
    check("From: \"john doe\"@b", "from", json!([{"name": null, "email": "\"john doe\"@b"}]));
    check("From: bob", "from", json!([{"name": null, "email": "bob"}]));
    check("From:", "from", json!([]));
    check("From: <>", "from", json!([]));
    check("Cc: \"A \\\"B\\\" C\" <a@b>", "cc", json!([{"name": "A \"B\" C", "email": "a@b"}]));
    let groups = json!([
        {"name": null, "addresses": [{"name": null, "email": "a@b"}, {"name": null, "email": "c@d"}]},
        {"name": "G", "addresses": []},
        {"name": null, "addresses": [{"name": null, "email": "e@f"}]},
    ]);
    check("To: a@b, c@d, G:;, e@f", "header:To:asGroupedAddresses", groups);
    let all = json!([[{"name": null, "email": "a@b"}], [{"name": null, "email": "c@d"}]]);
    check("Resent-To: a@b\r\nResent-To: c@d", "header:Resent-To:asAddresses:all", all);
}

#[test]
fn message_ids_form_is_null_if_it_cannot_be_parsed() {
    check("Message-ID: <a@b>", "messageId", json!(["a@b"]));
    check("References: <a@b>\r\n\t(<no@comment>) <c@d><e@f>", "references", json!(["a@b", "c@d", "e@f"]));
    check("In-Reply-To: Your message of \"<x@y>\" <a@b>", "inReplyTo", json!(["a@b"]));
    check("Message-ID: a@b", "messageId", Value::Null);
    check("Message-ID: <a@b", "messageId", Value::Null);
    check("Message-ID:", "messageId", Value::Null);
}

#[test]
fn dates_keep_their_zone() {
    check("Date: Thu, 30 Oct 2014 14:12:00 +0800", "sentAt", json!("2014-10-30T14:12:00+08:00"));
    check("Date: 30 Oct 2014 14:12:00 GMT", "sentAt", json!("2014-10-30T14:12:00Z"));
    check("Date: 1 Jan 2015 00:30 -0330 (NST)", "sentAt", json!("2015-01-01T00:30:00-03:30"));
    check("Date: yesterday", "sentAt", Value::Null);
    check("X-D: 30 Oct 2014 14:12:00 +0000", "header:X-D:asDate", json!("2014-10-30T14:12:00Z"));
}

#[test]
fn urls_are_without_brackets_and_comments() {
    let header = "List-Unsubscribe: (by mail) <mailto:x@y?subject=a>,\r\n <https://a\r\n /b> (web)";
    check(header, "header:List-Unsubscribe:asURLs", json!(["mailto:x@y?subject=a", "https://a/b"]));
    check("List-Post: NO", "header:list-post:asURLs", Value::Null);
}

#[test]
fn names_are_kept_as_the_client_wrote_them() {
    for name in ["header:SUBJECT:asText", "header:x-Foo:all", "header:to:asAddresses:all", "subject", "preview", "size"]
    {
        assert_eq!(EmailProperty::parse(name).map(|property| property.name().to_owned()).as_deref(), Some(name));
    }
    for name in ["partId", "header:Content-Type", "subParts", "header:X:asURLs:all"] {
        assert_eq!(BodyProperty::parse(name).map(|property| property.name().to_owned()).as_deref(), Some(name));
    }
}

#[test]
fn forms_that_do_not_suit_a_field_are_refused() {
    const FORMS: [&str; 6] = ["asText", "asAddresses", "asGroupedAddresses", "asMessageIds", "asDate", "asURLs"];
    for (fields, allowed) in [
        (&["From", "sender", "Reply-To", "To", "Cc", "Bcc", "Resent-Bcc"][..], &FORMS[1..3]),
        (&["Subject", "Comments", "Keywords"], &FORMS[..1]),
        (&["Message-ID", "In-Reply-To", "references", "Resent-Message-ID"], &FORMS[3..4]),
        (&["Date", "Resent-Date"], &FORMS[4..5]),
        (&["List-Help", "List-Unsubscribe", "List-Subscribe", "List-Post", "List-Owner", "List-Archive"], &FORMS[5..]),
        (&["Return-Path", "Received"], &[]),
        (&["X-Anything", "List-Id", "Content-Type"], &FORMS[..]),
    ] {
        for field in fields {
            assert!(EmailProperty::parse(&format!("header:{field}")).is_some());
            assert!(EmailProperty::parse(&format!("header:{field}:all")).is_some());
            for form in FORMS {
                let name = format!("header:{field}:{form}");
                assert_eq!(EmailProperty::parse(&name).is_some(), allowed.contains(&form), "{name}");
            }
        }
    }
}

#[test]
fn names_that_are_no_property_are_refused() {
    for name in [
        "",
        "Subject",
        "header:",
        "header::all",
        "header:a b",
        "header:caf\u{e9}",
        "header:X:asraw",
        "header:X:astext",
        "header:X:all:asText",
        "header:X:all:all",
        "header:X:asText:",
        "header:X:asText:asDate",
        "Header:X",
        "partId",
        "bodystructure",
    ] {
        assert!(EmailProperty::parse(name).is_none(), "{name}");
    }
    assert!(BodyProperty::parse("subject").is_none() && BodyProperty::parse("header:From:asDate").is_none());
}

#[test]
fn arguments_of_wrong_types_are_refused() {
    for arguments in [
        json!({"bodyProperties": "partId"}),
        json!({"bodyProperties": [1]}),
        json!({"bodyProperties": ["nothing"]}),
        json!({"bodyProperties": ["header:From:asDate"]}),
        json!({"fetchTextBodyValues": 1}),
        json!({"fetchHTMLBodyValues": "true"}),
        json!({"fetchAllBodyValues": []}),
        json!({"maxBodyValueBytes": -1}),
        json!({"maxBodyValueBytes": 1.5}),
    ] {
        let result = BodyOptions::from_arguments(arguments.as_object().expect("an object"));
        assert!(result.is_err(), "{arguments}");
    }
    let nulls = json!({"bodyProperties": null, "fetchAllBodyValues": null, "maxBodyValueBytes": null, "ids": 1});
    assert_eq!(BodyOptions::from_arguments(nulls.as_object().expect("an object")), Ok(BodyOptions::default()));
}
