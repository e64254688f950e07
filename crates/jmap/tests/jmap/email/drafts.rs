//! Email/set create: what is written, and what is refused.

use jmap::email::{ComposeDefaults, ComposeError, compose};
use serde_json::{Value, json};

use super::{Blobs, DEFAULTS, composed, get, part_content, property, try_compose};

fn blobs() -> Blobs {
    let mut blobs = Blobs::default();
    blobs.0.insert("png", (b"\x89PNG\r\n\0\xff".to_vec(), Some("image/png")));
    blobs.0.insert("latin1", (b"caf\xe9\r\n".to_vec(), Some("text/plain")));
    blobs.0.insert("ascii", (b"line\r\n".to_vec(), Some("text/csv")));
    blobs.0.insert("message", (b"Subject: \xc3\xa9\n\nbody\n".to_vec(), Some("message/rfc822")));
    blobs.0.insert("unknown", (b"?".to_vec(), None));
    blobs
}

/// Checks the whole text of a message.
#[track_caller]
fn check(create: &Value, expected: &str) {
    let raw = composed(create, &blobs());
    assert_eq!(String::from_utf8_lossy(&raw).replace("\r\n", "\n"), expected);
}

#[test]
fn text_message_is_written() {
    let create = json!({
        "mailboxIds": {"a": true}, "keywords": {"$draft": true}, "receivedAt": "2018-07-10T01:05:08Z",
        "from": [{"name": "Joe Bloggs", "email": "joe@example.com"}],
        "to": [{"name": null, "email": "john@example.com"}, {"name": "M\u{fc}ller, Jos\u{e9}", "email": "m@example.com"}],
        "bcc": [{"email": "hidden@example.com"}],
        "subject": "World domination",
        "sentAt": "2018-07-10T11:05:08.123+10:00",
        "header:X-Mailer": " test",
        "cc": null,
        "textBody": [{"partId": "bd48", "type": "text/plain"}],
        "bodyValues": {"bd48": {"value": "I have the most brilliant plan.\nLet me tell you.\n", "isTruncated": false}},
    });
    let expected = "Date: Tue, 10 Jul 2018 11:05:08 +1000
From: Joe Bloggs <joe@example.com>
To: john@example.com, =?utf-8?B?TcO8bGxlciwgSm9zw6k=?= <m@example.com>
Bcc: hidden@example.com
Message-ID: <u1@server.example>
Subject: World domination
X-Mailer: test
MIME-Version: 1.0
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: 7bit

I have the most brilliant plan.
Let me tell you.
";
    check(&create, expected);
}

#[test]
fn lists_become_the_smallest_structure() {
    let create = json!({
        "messageId": ["a@b"],
        "textBody": [{"partId": "t", "type": "text/plain"}],
        "htmlBody": [{"partId": "h", "type": "text/html"}],
        "attachments": [
            {"blobId": "png", "type": "image/png", "cid": "i@x"},
            {"blobId": "png", "name": "\u{e9}.png"},
        ],
        "bodyValues": {"t": {"value": "caf\u{e9}"}, "h": {"value": "<img src=cid:i@x>"}},
    });
    let expected = "Date: Tue, 14 Nov 2023 22:13:20 +0000
Message-ID: <a@b>
MIME-Version: 1.0
Content-Type: multipart/mixed;
 boundary=\"=_u1_1\"

--=_u1_1
Content-Type: multipart/alternative;
 boundary=\"=_u1_2\"

--=_u1_2
Content-Type: text/plain; charset=utf-8
Content-Transfer-Encoding: base64

Y2Fmw6k=

--=_u1_2
Content-Type: multipart/related; type=\"text/html\";
 boundary=\"=_u1_3\"

--=_u1_3
Content-Type: text/html; charset=utf-8
Content-Transfer-Encoding: 7bit

<img src=cid:i@x>
--=_u1_3
Content-Type: image/png
Content-Disposition: inline
Content-ID: <i@x>
Content-Transfer-Encoding: base64

iVBORw0KAP8=

--=_u1_3--

--=_u1_2--

--=_u1_1
Content-Type: image/png
Content-Disposition: attachment; filename*=utf-8''%C3%A9.png
Content-Transfer-Encoding: base64

iVBORw0KAP8=

--=_u1_1--
";
    check(&create, expected);
}

#[test]
fn lists_read_back_as_the_same_lists() {
    let text = json!({"textBody": [{"partId": "t", "type": "text/plain"}]});
    let html = json!({"htmlBody": [{"partId": "h", "type": "text/html"}]});
    let files = json!({"attachments": [
        {"blobId": "png", "type": "image/png"}, {"blobId": "ascii", "type": "text/plain"}, {"blobId": "message"},
        {"blobId": "png", "type": "image/png", "cid": "c", "disposition": "inline"}, {"blobId": "unknown"},
    ]});
    let types = |raw: &[u8], list: &str| {
        let mut types: Vec<String> = property(raw, list)
            .as_array()
            .expect("a list")
            .iter()
            .map(|part| part["type"].as_str().expect("a type").to_owned())
            .collect();
        types.sort();
        types
    };
    let all = ["application/octet-stream", "image/png", "image/png", "message/rfc822", "text/plain"];
    for (lists, expected) in [
        (vec![&text], [&["text/plain"][..], &["text/plain"], &[]]),
        (vec![&html], [&["text/html"], &["text/html"], &[]]),
        (vec![&text, &html], [&["text/plain"], &["text/html"], &[]]),
        (vec![&html, &files], [&["text/html"], &["text/html"], &all]),
        (vec![&text, &html, &files], [&["text/plain"], &["text/html"], &all]),
        (vec![], [&["text/plain"], &["text/plain"], &[]]),
    ] {
        let mut create = json!({"bodyValues": {"t": {"value": "t"}, "h": {"value": "h"}}});
        for (name, list) in lists.iter().flat_map(|lists| lists.as_object().expect("an object")) {
            create[name] = list.clone();
        }
        let raw = composed(&create, &blobs());
        assert_eq!(["textBody", "htmlBody", "attachments"].map(|list| types(&raw, list)), expected, "{create}");
    }
}

#[test]
fn structure_is_written_as_given() {
    let create = json!({
        "subject": "x",
        "bodyStructure": {
            "type": "multipart/report", "header:X-Root": " root",
            "header:Content-Language": " de",
            "subParts": [
                {"partId": "1", "header:Content-Type": " text/plain; format=flowed; charset=us-ascii; boundary=x",
                 "header:X-Inner:asText": "\u{e9}"},
                {"partId": "2", "type": "message/delivery-status", "language": ["de", "en"], "location": "http://a/b"},
                {"blobId": "latin1", "type": "text/plain", "charset": "iso-8859-1", "name": "a b.txt", "size": 3},
                {"blobId": "message", "type": "message/rfc822", "disposition": "inline", "name": "m"},
            ],
        },
        "bodyValues": {"1": {"value": "one", "isEncodingProblem": false}, "2": {"value": "Status: 2.0.0\n"}},
    });
    let expected = "Date: Tue, 14 Nov 2023 22:13:20 +0000
Message-ID: <u1@server.example>
Subject: x
X-Root: root
Content-Language: de
MIME-Version: 1.0
Content-Type: multipart/report;
 boundary=\"=_u1_1\"
Content-Transfer-Encoding: 8bit

--=_u1_1
X-Inner: =?utf-8?B?w6k=?=
Content-Type: text/plain; charset=utf-8; format=flowed
Content-Transfer-Encoding: 7bit

one
--=_u1_1
Content-Type: message/delivery-status
Content-Language: de, en
Content-Location: http://a/b
Content-Transfer-Encoding: 7bit

Status: 2.0.0

--=_u1_1
Content-Type: text/plain; charset=iso-8859-1; name=\"a b.txt\"
Content-Transfer-Encoding: base64

Y2Fm6Q0K

--=_u1_1
Content-Type: message/rfc822
Content-Disposition: inline; filename=m
Content-Transfer-Encoding: 8bit

Subject: \u{e9}

body

--=_u1_1--
";
    check(&create, expected);
}

#[test]
fn blobs_are_read_back_unchanged() {
    for (blob, length) in [("png", 8), ("latin1", 6), ("ascii", 6), ("unknown", 1)] {
        let raw = composed(&json!({"bodyStructure": {"blobId": blob}}), &blobs());
        let content = part_content(&raw, 1).expect("the message has one part");
        assert_eq!(content.bytes, blobs().0[blob].0);
        assert_eq!(property(&raw, "bodyStructure")["size"], json!(length));
        assert_eq!(content.media_type, blobs().0[blob].1.unwrap_or("application/octet-stream"));
    }
}

#[test]
fn boundaries_do_not_occur_in_the_contents() {
    let text = "--=_u1_1\n--=_u1__1--\n";
    let create = json!({
        "textBody": [{"partId": "1", "type": "text/plain"}], "htmlBody": [{"partId": "1h", "type": "text/html"}],
        "bodyValues": {"1": {"value": text}, "1h": {"value": text}},
    });
    let raw = composed(&create, &blobs());
    let values = get(&raw, &["bodyValues"], &json!({"fetchAllBodyValues": true}));
    let found: Vec<&Value> =
        values["bodyValues"].as_object().expect("values").values().map(|value| &value["value"]).collect();
    assert_eq!(found, [&json!(text), &json!(text)]);
}

#[test]
fn header_fields_of_every_form_are_written() {
    let check = |name: &str, value: Value, expected: &str| {
        let raw = composed(&json!({name: value}), &blobs());
        let text = String::from_utf8_lossy(&raw);
        let expected = expected.replace('\n', "\r\n");
        assert!(text.contains(&format!("\r\n{expected}\r\n")), "{expected:?} in {text}");
    };
    check("header:X-A", json!("no space"), "X-A:no space");
    check("header:X-A", json!(" folded\r\n\tvalue"), "X-A: folded\n\tvalue");
    check("header:X-A:all", json!([" 1", " 2"]), "X-A: 1\nX-A: 2");
    check("header:X-A:asText", json!("=?utf-8?q?x?="), "X-A: =?utf-8?B?PT91dGYtOD9xP3g/PQ==?=");
    check("header:Subject:asText", json!(" x"), "Subject: =?utf-8?Q?_x?=");
    check("references", json!(["a@b", "c@d"]), "References: <a@b> <c@d>");
    check("header:List-Help:asURLs", json!(["http://a", "mailto:b"]), "List-Help: <http://a>, <mailto:b>");
    check("header:Resent-Date:asDate", json!("2020-01-02T03:04:05Z"), "Resent-Date: Thu, 02 Jan 2020 03:04:05 +0000");
    check(
        "header:Resent-Date:asDate",
        json!("2020-01-01T00:04:05-00:30"),
        "Resent-Date: Wed, 01 Jan 2020 00:04:05 -0030",
    );
    let groups = json!([
        {"name": "A B", "addresses": [{"email": "a@b"}, {"name": "C. D", "email": "c@d"}]},
        {"name": null, "addresses": [{"name": "=?x", "email": "e f@g"}]},
        {"name": "\u{e9}", "addresses": []},
    ]);
    check(
        "header:To:asGroupedAddresses",
        groups,
        "To: A B: a@b, \"C. D\" <c@d>;, =?utf-8?B?PT94?= <\"e f\"@g>, =?utf-8?B?w6k=?= :;",
    );
    check("to", json!([{"name": "half", "email": "not an address"}]), "To: half <\"not an address\">");
    check("to", json!([{"email": "\"a b\"@c"}, {"email": "a@[127.0.0.1]"}]), "To: \"a b\"@c, a@[127.0.0.1]");
}

#[test]
fn long_values_are_folded() {
    let long = "word ".repeat(100);
    let create = json!({
        "subject": long.trim(),
        "header:X-E:asText": "\u{1f600}".repeat(200),
        "references": vec!["x".repeat(50); 20],
        "to": vec![json!({"name": "N\u{e4}me", "email": "someone@example.com"}); 50],
        "header:X-Word:asText": "w".repeat(2_000),
        "textBody": [{"partId": "1", "type": "text/plain", "name": "\u{e9}".repeat(200)}],
        "bodyValues": {"1": {"value": format!("{}\n \n{}\t", "l".repeat(2_000), "\u{e9}a".repeat(2_000))}},
    });
    let raw = composed(&create, &blobs());
    let text = String::from_utf8(raw.clone()).expect("the message is ASCII");
    assert!(text.is_ascii() && text.split("\r\n").all(|line| line.len() <= 78), "{text}");
    let header = text.split("\r\n\r\n").next().expect("there is a header");
    assert!(header.split("\r\n").all(|line| !line.trim().is_empty()));
    let found = get(&raw, &["subject", "header:X-E:asText", "references", "to", "header:X-Word:asText"], &json!({}));
    for name in ["header:X-E:asText", "references", "to", "header:X-Word:asText", "subject"] {
        assert_eq!(found[name], create[name], "{name}");
    }
    assert_eq!(property(&raw, "textBody")[0]["name"], create["textBody"][0]["name"]);
    let values = get(&raw, &["bodyValues"], &json!({"fetchAllBodyValues": true}));
    assert_eq!(values["bodyValues"]["1"]["value"], create["bodyValues"]["1"]["value"]);
}

/// Checks that a draft is refused because of these properties.
#[track_caller]
fn check_refused(create: Value, expected: &[&str]) {
    let mut create = create;
    create["bodyValues"] = create.get("bodyValues").cloned().unwrap_or_else(|| json!({"1": {"value": "x"}}));
    match try_compose(&create, &blobs()) {
        Err(ComposeError::InvalidProperties { properties, description }) => {
            let mut expected: Vec<&str> = expected.to_vec();
            let mut properties = properties;
            properties.sort();
            expected.sort_unstable();
            assert_eq!(properties, expected, "{create}: {description}");
            assert!(expected.iter().all(|name| description.contains(name)), "{description}");
        }
        other => panic!("{other:?}: {create}"),
    }
}

#[test]
fn properties_of_the_server_and_unknown_ones_are_refused() {
    for name in
        ["id", "blobId", "threadId", "size", "hasAttachment", "preview", "headers", "nothing", "header:From:asDate"]
    {
        check_refused(json!({name: "x"}), &[name]);
    }
    check_refused(json!({"header:Content-Type": " text/plain"}), &["header:Content-Type"]);
    check_refused(json!({"header:content-x:asText:all": ["x"]}), &["header:content-x:asText:all"]);
    check_refused(json!({"header:--b": " x"}), &["header:--b"]);
}

#[test]
fn two_properties_for_one_field_are_refused() {
    check_refused(json!({"subject": "a", "header:SUBJECT": " b"}), &["subject", "header:SUBJECT"]);
    let addresses = json!([{"email": "a@b"}]);
    let create = json!({"from": addresses, "header:From:asAddresses:all": [addresses]});
    check_refused(create, &["from", "header:From:asAddresses:all"]);
    let root = json!({"partId": "1", "header:subject": " a"});
    check_refused(json!({"subject": "a", "bodyStructure": root}), &["subject", "bodyStructure"]);
    composed(&json!({"subject": null, "header:Subject": " b"}), &blobs());
    for (name, value) in [
        ("header:Content-Type:asText", json!("text/plain")),
        ("header:content-type", json!(" text/plain")),
        ("header:Content-Disposition", json!(" inline")),
        ("header:Content-ID", json!(" <a>")),
        ("header:Content-Language", json!(" de")),
        ("header:Content-Location", json!(" a")),
    ] {
        let part = json!({"partId": "1", "type": "text/plain", "disposition": "inline", "cid": "a", "language": ["de"],
            "location": "x", name: value});
        check_refused(json!({"bodyStructure": part}), &["bodyStructure"]);
    }
    let twice = json!({"partId": "1", "header:X": " 1", "header:x:asText": "2"});
    check_refused(json!({"bodyStructure": twice}), &["bodyStructure"]);
}

#[test]
fn bodies_that_violate_a_rule_are_refused() {
    let text = json!({"partId": "1", "type": "text/plain"});
    let html = json!({"partId": "1", "type": "text/html"});
    check_refused(json!({"bodyStructure": text, "textBody": [text]}), &["bodyStructure", "textBody"]);
    let create = json!({"bodyStructure": text, "htmlBody": [html], "attachments": []});
    check_refused(create, &["bodyStructure", "htmlBody", "attachments"]);
    check_refused(json!({"textBody": []}), &["textBody"]);
    check_refused(json!({"textBody": [text, text]}), &["textBody"]);
    check_refused(json!({"textBody": [html]}), &["textBody"]);
    check_refused(json!({"textBody": text}), &["textBody"]);
    check_refused(json!({"htmlBody": [text]}), &["htmlBody"]);
    check_refused(json!({"htmlBody": [{"partId": "1"}]}), &["htmlBody"]);
    check_refused(json!({"htmlBody": [html, html]}), &["htmlBody"]);
    check_refused(json!({"attachments": [1]}), &["attachments"]);
    for values in [
        json!({"1": {"value": "x", "isTruncated": true}}),
        json!({"1": {"value": "x", "isEncodingProblem": true}}),
        json!({"1": {"value": "x", "charset": "utf-8"}}),
        json!({"1": {}}),
        json!({"1": "x"}),
        json!([]),
    ] {
        check_refused(json!({"bodyValues": values}), &["bodyValues"]);
    }
}

#[test]
fn parts_that_violate_a_rule_are_refused() {
    for part in [
        json!({"partId": "2"}),
        json!({"partId": "1", "blobId": "png"}),
        json!({"type": "text/plain"}),
        json!({"partId": "1", "charset": "utf-8"}),
        json!({"partId": "1", "size": 1}),
        json!({"partId": "1", "headers": []}),
        json!({"partId": "1", "unknown": 1}),
        json!({"partId": "1", "subject": "x"}),
        json!({"partId": "1", "header:From:asDate": "2020-01-01T00:00:00Z"}),
        json!({"partId": "1", "header:Content-Transfer-Encoding": " 8bit"}),
        json!({"partId": "1", "header:content-transfer-encoding:asText": "8bit"}),
        json!({"partId": "1", "type": "multipart/mixed"}),
        json!({"partId": "1", "header:Content-Type": " multipart/mixed"}),
        json!({"partId": "1", "header:Content-Type": " nonsense"}),
        json!({"type": "multipart/mixed", "subParts": []}),
        json!({"type": "text/plain", "subParts": [{"partId": "1"}]}),
        json!({"type": "multipart/mixed", "subParts": [{"partId": "1"}], "blobId": "png"}),
        json!({"type": "multipart/mixed", "subParts": [{"partId": "2"}]}),
        json!({"partId": "1", "type": "text"}),
        json!({"partId": "1", "type": "text/plain; x=y"}),
        json!({"partId": 1}),
        json!({"blobId": "latin1", "charset": "a b"}),
        json!({"partId": "1", "disposition": "a b"}),
        json!({"partId": "1", "cid": "<a>"}),
        json!({"partId": "1", "language": "de"}),
        json!({"partId": "1", "language": ["d e"]}),
        json!({"partId": "1", "location": "a b"}),
        json!({"partId": "1", "name": "x".repeat(2_000)}),
        json!("text"),
    ] {
        check_refused(json!({"bodyStructure": part}), &["bodyStructure"]);
    }
    let mut deep = json!({"partId": "1"});
    for _ in 0..40 {
        deep = json!({"subParts": [deep]});
    }
    check_refused(json!({"bodyStructure": deep}), &["bodyStructure"]);
    let mut fields = json!({"partId": "1"});
    for number in 0..2_000 {
        fields[format!("header:X-{number}")] = json!(" x");
    }
    check_refused(json!({"bodyStructure": fields}), &["bodyStructure"]);
    let many = vec![json!({"partId": "1"}); 2_000];
    check_refused(json!({"bodyStructure": {"subParts": many}}), &["bodyStructure"]);
}

#[test]
fn values_of_wrong_types_are_refused() {
    for (name, value) in [
        ("subject", json!(1)),
        ("from", json!("a@b")),
        ("from", json!({"email": "a@b"})),
        ("from", json!(["a@b"])),
        ("from", json!([{"name": "x"}])),
        ("from", json!([{"email": null}])),
        ("from", json!([{"email": "a@b", "name": 1}])),
        ("from", json!([{"email": "a@b", "x": 1}])),
        ("messageId", json!("a@b")),
        ("messageId", json!(["a@b", "c@d"])),
        ("messageId", json!(["<a@b>"])),
        ("inReplyTo", json!(["a b"])),
        ("inReplyTo", json!([""])),
        ("sentAt", json!("yesterday")),
        ("sentAt", json!("2020-13-01T00:00:00Z")),
        ("sentAt", json!("2020-01-01T00:00:00")),
        ("sentAt", json!("2020-01-01T00:00:00[UTC]")),
        ("sentAt", json!("2020-01-01 00:00:00Z")),
        ("sentAt", json!(1)),
        ("header:X:all", json!("x")),
        ("header:X:asText:all", json!([1])),
        ("header:X:asGroupedAddresses", json!([{"name": "x"}])),
        ("header:X:asURLs", json!(["a\u{e9}"])),
        ("header:X", json!("x".repeat(1_000))),
    ] {
        check_refused(json!({name: value}), &[name]);
    }
}

#[test]
fn no_value_adds_a_field_or_a_line() {
    for end in ["\r", "\n", "\r\n", "\0", "\r\nX-Injected: y", "\n\nbody", "\r\n \r\nX-Injected: y", "\r\n\r\n"] {
        let bad = format!("a@b{end}");
        for (name, value) in [
            ("subject", json!(bad)),
            ("header:X", json!(bad)),
            ("header:X:all", json!([bad])),
            ("from", json!([{"email": bad}])),
            ("from", json!([{"email": "a@b", "name": bad}])),
            ("header:To:asGroupedAddresses", json!([{"name": bad, "addresses": []}])),
            ("messageId", json!([bad])),
            ("sentAt", json!(format!("2020-01-01T00:00:00Z{end}"))),
            ("header:List-Help:asURLs", json!([bad])),
        ] {
            check_refused(json!({name: value}), &[name]);
        }
        for name in ["type", "name", "disposition", "cid", "location", "header:X", "header:Content-Type"] {
            check_refused(
                json!({"bodyStructure": {"partId": "1", name: format!("text/plain{end}")}}),
                &["bodyStructure"],
            );
        }
        check_refused(json!({"bodyStructure": {"blobId": "png", "charset": bad}}), &["bodyStructure"]);
        check_refused(json!({"bodyStructure": {"partId": "1", "language": [bad]}}), &["bodyStructure"]);
        let name = format!("header:X{end}");
        check_refused(json!({&name: " y"}), &[&name]);
    }
}

#[test]
fn missing_blobs_are_named_and_large_messages_refused() {
    let missing = json!({"attachments": [{"blobId": "a"}, {"blobId": "png"}, {"blobId": "b"}, {"blobId": "a"}]});
    assert_eq!(try_compose(&missing, &blobs()), Err(ComposeError::BlobNotFound(vec!["a".into(), "b".into()])));
    let create = json!({"bodyStructure": {"partId": "1"}, "bodyValues": {"1": {"value": "x".repeat(1_000)}}});
    let length = composed(&create, &blobs()).len() as u64;
    let with_limit = |size_bytes_max: u64| {
        let defaults = ComposeDefaults { size_bytes_max, ..DEFAULTS };
        compose(create.as_object().expect("an object"), &blobs(), &defaults).map(|raw| raw.len() as u64)
    };
    assert_eq!(with_limit(length), Ok(length));
    assert_eq!(with_limit(length - 1), Err(ComposeError::TooLarge));
    assert_eq!(with_limit(10), Err(ComposeError::TooLarge));
}
