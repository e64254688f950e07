//! The body of the Email object: structure, lists, values, names and downloads.

use jmap::email::{has_attachment, part_blob_id, split_part_blob_id};
use mail::mime::parse;
use serde_json::{Value, json};

use super::{get, part_content, property};

/// Returns a multipart with these parts, each of which has its header and a blank line.
fn multipart(kind: &str, boundary: &str, parts: &[&str]) -> String {
    let parts: String = parts.iter().map(|part| format!("--{boundary}\r\n{part}\r\n")).collect();
    format!("Content-Type: multipart/{kind}; boundary={boundary}\r\n\r\n{parts}--{boundary}--\r\n")
}

/// Returns the texts of the parts in a list.
#[track_caller]
fn contents(raw: &str, list: &str) -> Vec<String> {
    let content = |part: &Value| {
        let (_, number) =
            split_part_blob_id(part["blobId"].as_str().expect("a leaf has a blob id")).expect("of a part");
        assert_eq!(part["partId"], json!(number.to_string()));
        let content = part_content(raw.as_bytes(), number).expect("the part can be downloaded");
        assert_eq!(part["size"], json!(content.bytes.len()));
        String::from_utf8(content.bytes).expect("the content is text")
    };
    property(raw.as_bytes(), list).as_array().expect("a list").iter().map(content).collect()
}

#[track_caller]
fn check_lists(raw: &str, expected: [&[&str]; 3]) {
    let found = ["textBody", "htmlBody", "attachments"].map(|list| contents(raw, list));
    assert_eq!(found, expected.map(|list| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>()), "{raw}");
}

#[test]
fn example_of_the_rfc_is_divided_as_it_says() {
    let inline = "Content-Type: text/plain\r\nContent-Disposition: inline\r\n\r\n";
    let inner = [
        &format!("{inline}B")[..],
        "Content-Type: image/jpeg\r\nContent-Disposition: inline\r\n\r\nC",
        &format!("{inline}D"),
    ];
    let alternative = multipart(
        "alternative",
        "b3",
        &[
            &multipart("mixed", "b4", &inner),
            &multipart("related", "b5", &["Content-Type: text/html\r\n\r\nE", "Content-Type: image/jpeg\r\n\r\nF"]),
        ],
    );
    let mixed = multipart(
        "mixed",
        "b2",
        &[
            &alternative,
            "Content-Type: image/jpeg\r\nContent-Disposition: attachment\r\n\r\nG",
            "Content-Type: application/x-excel\r\n\r\nH",
            "Content-Type: message/rfc822\r\n\r\nSubject: J\r\n\r\nJ",
        ],
    );
    let raw = multipart("mixed", "b1", &[&format!("{inline}A"), &mixed, &format!("{inline}K")]);
    let attachments = ["C", "F", "G", "H", "Subject: J\r\n\r\nJ"];
    check_lists(&raw, [&["A", "B", "C", "D", "K"], &["A", "E", "K"], &attachments]);
}

#[test]
fn usual_structures_are_divided() {
    let plain = "Content-Type: text/plain\r\n\r\nplain";
    let html = "Content-Type: text/html\r\n\r\n<p>html";
    let image = "Content-Type: image/png\r\n\r\nPNG";
    let file = "Content-Type: application/pdf\r\n\r\nPDF";
    check_lists("Subject: x\r\n\r\nbody", [&["body"], &["body"], &[]]);
    check_lists(html, [&["<p>html"], &["<p>html"], &[]]);
    check_lists(image, [&["PNG"], &["PNG"], &[]]);
    check_lists(file, [&[], &[], &["PDF"]]);
    check_lists(&multipart("alternative", "b", &[plain, html]), [&["plain"], &["<p>html"], &[]]);
    check_lists(&multipart("alternative", "b", &[html]), [&["<p>html"], &["<p>html"], &[]]);
    check_lists(&multipart("alternative", "b", &[plain]), [&["plain"], &["plain"], &[]]);
    check_lists(&multipart("alternative", "b", &[plain, image, file]), [&["plain"], &["plain"], &["PNG", "PDF"]]);
    check_lists(&multipart("mixed", "b", &[plain, image]), [&["plain", "PNG"], &["plain", "PNG"], &[]]);
    check_lists(&multipart("related", "b", &[html, image]), [&["<p>html"], &["<p>html"], &["PNG"]]);
    check_lists(&multipart("unknown", "b", &[plain, file]), [&["plain"], &["plain"], &["PDF"]]);
    let named = "Content-Type: text/plain; name=a.txt\r\n\r\nnamed";
    check_lists(
        &multipart("mixed", "b", &[named, plain, named]),
        [&["named", "plain"], &["named", "plain"], &["named"]],
    );
    let attached = "Content-Type: text/plain\r\nContent-Disposition: ATTACHMENT\r\n\r\nattached";
    check_lists(attached, [&[], &[], &["attached"]]);
    let nested = multipart("alternative", "c", &[plain, html]);
    check_lists(&multipart("alternative", "b", &[&nested, plain]), [&["plain", "plain"], &["<p>html"], &[]]);
    let digest = multipart("digest", "b", &["\r\nSubject: one\r\n\r\n1", "\r\nSubject: two\r\n\r\n2"]);
    check_lists(&digest, [&[], &[], &["Subject: one\r\n\r\n1", "Subject: two\r\n\r\n2"]]);
}

#[test]
fn parts_have_the_properties_of_their_fields() {
    let raw = multipart(
        "mixed",
        "b",
        &[
            "\r\nplain",
            "Content-Type: TEXT/HTML (comment); charset=\"ISO-8859-1\"\r\nContent-Language: de, en-US\r\n\
             Content-Location: http://a/\r\n b\r\nContent-ID: <a@b>\r\nContent-Transfer-Encoding: base64\r\n\r\nPHA+6Q==",
            "Content-Type: image/png; name=\"=?utf-8?q?=C3=A9?=.png\"\r\n\
             Content-Disposition: Attachment (x); filename*0*=utf-8''%E2%82; filename*1*=%AC; filename*2=.png\r\n\r\n",
            "Content-Type: application/x; name=\"=?utf-8?q?=C3=A9?=\"\r\n\r\nX",
            "Content-Type: message/rfc822; charset=x\r\n\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\nz\r\n--c--",
        ],
    );
    let expected = json!({
        "partId": null, "blobId": null, "size": 0, "name": null, "type": "multipart/mixed", "charset": null,
        "disposition": null, "cid": null, "language": null, "location": null, "subParts": [
            {"partId": "1", "blobId": "G1-1", "size": 5, "name": null, "type": "text/plain", "charset": "us-ascii",
             "disposition": null, "cid": null, "language": null, "location": null},
            {"partId": "2", "blobId": "G1-2", "size": 4, "name": null, "type": "text/html", "charset": "ISO-8859-1",
             "disposition": null, "cid": "a@b", "language": ["de", "en-US"], "location": "http://a/b"},
            {"partId": "3", "blobId": "G1-3", "size": 0, "name": "\u{20ac}.png", "type": "image/png", "charset": null,
             "disposition": "attachment", "cid": null, "language": null, "location": null},
            {"partId": "4", "blobId": "G1-4", "size": 1, "name": "\u{e9}", "type": "application/x", "charset": null,
             "disposition": null, "cid": null, "language": null, "location": null},
            {"partId": "5", "blobId": "G1-5", "size": 60, "name": null, "type": "message/rfc822", "charset": "x",
             "disposition": null, "cid": null, "language": null, "location": null},
        ],
    });
    assert_eq!(property(raw.as_bytes(), "bodyStructure"), expected);
    let options = json!({"bodyProperties": ["subParts", "headers", "header:CONTENT-TYPE:asText"]});
    let found = get(b"X: y\r\nContent-Type: text/plain\r\n\r\nz", &["textBody", "bodyStructure"], &options);
    let headers = json!([{"name": "X", "value": " y"}, {"name": "Content-Type", "value": " text/plain"}]);
    let part = json!({"subParts": null, "headers": headers, "header:CONTENT-TYPE:asText": "text/plain"});
    assert_eq!(found["textBody"], json!([part]));
    assert_eq!(found["bodyStructure"], part);
}

#[test]
fn damaged_structures_are_shown() {
    let without_boundary = "Content-Type: multipart/mixed\r\n\r\ntext";
    let part = property(without_boundary.as_bytes(), "bodyStructure");
    assert_eq!([&part["type"], &part["partId"]], [&json!("text/plain"), &json!("1")]);
    check_lists(without_boundary, [&["text"], &["text"], &[]]);
    check_lists("", [&[""], &[""], &[]]);
    let encoded = "Content-Type: message/rfc822\r\nContent-Transfer-Encoding: base64\r\n\r\nQTogYgoKYw==";
    check_lists(encoded, [&[], &[], &["A: b\n\nc"]]);
    let unclosed =
        "Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n\r\none\r\n--b\r\nContent-Type: text/html\r\n\r\ntwo";
    check_lists(unclosed, [&["one", "two"], &["one", "two"], &[]]);
}

/// Returns the values of a message by the ids of their parts: value, isEncodingProblem, isTruncated.
#[track_caller]
fn values(raw: &[u8], options: &Value) -> Vec<(String, String, bool, bool)> {
    let found = get(raw, &["bodyValues"], options);
    let values = found["bodyValues"].as_object().expect("an object");
    let value = |(id, value): (&String, &Value)| {
        let flag = |name: &str| value[name].as_bool().expect("a boolean");
        let text = value["value"].as_str().expect("a string").to_owned();
        (id.clone(), text, flag("isEncodingProblem"), flag("isTruncated"))
    };
    values.iter().map(value).collect()
}

#[test]
fn values_are_included_as_requested() {
    let parts = ["\r\nplain", "Content-Type: text/html\r\n\r\nhtml"];
    let alternative = multipart("alternative", "c", &parts);
    let calendar = "Content-Type: text/calendar\r\n\r\ncalendar";
    let raw = multipart("mixed", "b", &[&alternative, calendar, "Content-Type: image/png\r\n\r\nPNG"]);
    let ids = |options: Value| values(raw.as_bytes(), &options).into_iter().map(|value| value.1).collect::<Vec<_>>();
    assert_eq!(ids(json!({})), [""; 0]);
    assert_eq!(ids(json!({"fetchTextBodyValues": true})), ["plain"]);
    assert_eq!(ids(json!({"fetchHTMLBodyValues": true})), ["html"]);
    assert_eq!(ids(json!({"fetchHTMLBodyValues": true, "fetchTextBodyValues": true})), ["plain", "html"]);
    assert_eq!(ids(json!({"fetchAllBodyValues": true})), ["plain", "html", "calendar"]);
}

#[track_caller]
fn check_value(header: &str, body: &[u8], expected: (&str, bool)) {
    let raw = [header.as_bytes(), b"\r\n\r\n", body].concat();
    let found = values(&raw, &json!({"fetchAllBodyValues": true}));
    assert_eq!(found, [("1".to_owned(), expected.0.to_owned(), expected.1, false)], "{header}");
}

#[test]
fn values_are_decoded_and_problems_reported() {
    check_value("X: y", b"a\r\nb\nc\rd\r\n", ("a\nb\nc\rd\n", false));
    check_value("X: y", b"a\r\r\nb\r", ("a\nb\r", false));
    check_value("Content-Type: text/plain; charset=iso-8859-1", b"caf\xe9", ("caf\u{e9}", false));
    check_value("Content-Type: text/plain; charset=utf-8", b"caf\xe9!", ("caf\u{fffd}!", true));
    check_value("Content-Type: text/plain; charset=x-unknown", b"caf\xc3\xa9", ("caf\u{e9}", true));
    check_value("X: y", b"caf\xc3\xa9", ("caf\u{e9}", false));
    check_value("X: y", b"caf\xe9", ("caf\u{e9}", true));
    check_value("Content-Transfer-Encoding: x-unknown", b"abc", ("abc", true));
    check_value("Content-Transfer-Encoding: quoted-printable", b"a=3Db=\r\nc=C3=A9", ("a=bc\u{e9}", false));
    check_value("Content-Transfer-Encoding: base64", b"w6k=", ("\u{e9}", false));
}

#[test]
fn values_are_truncated_at_characters_and_outside_tags() {
    let check = |header: &str, body: &str, bytes_max: u64, expected: &str, is_truncated: bool| {
        let options = json!({"fetchAllBodyValues": true, "maxBodyValueBytes": bytes_max});
        let found = values(format!("{header}\r\n\r\n{body}").as_bytes(), &options);
        assert_eq!(found, [("1".to_owned(), expected.to_owned(), false, is_truncated)], "{body} {bytes_max}");
    };
    check("X: y", "a\u{e9}b", 0, "a\u{e9}b", false);
    check("X: y", "a\u{e9}b", 4, "a\u{e9}b", false);
    check("X: y", "a\u{e9}b", 3, "a\u{e9}", true);
    check("X: y", "a\u{e9}b", 2, "a", true);
    check("X: y", "\u{1f600}", 3, "", true);
    check("X: y", "a\r\nb", 3, "a\nb", false);
    check("Content-Type: text/html", "Hi <a href='x'>y</a>", 10, "Hi ", true);
    check("Content-Type: text/html", "Hi <a href='x'>y</a>", 16, "Hi <a href='x'>y", true);
    check("Content-Type: text/plain", "Hi <a href='x'>y</a>", 10, "Hi <a href", true);
}

#[test]
fn attachments_are_detected() {
    let check = |raw: &str, expected: bool| {
        assert_eq!(has_attachment(&parse(raw.as_bytes())), expected, "{raw}");
        assert_eq!(property(raw.as_bytes(), "hasAttachment"), json!(expected), "{raw}");
    };
    let html = "Content-Type: text/html\r\n\r\nhtml";
    check("X: y\r\n\r\ntext", false);
    check("Content-Type: image/png\r\n\r\nPNG", false);
    check(&multipart("mixed", "b", &["\r\na", "Content-Type: application/pdf\r\n\r\nPDF"]), true);
    let inline = "Content-Type: image/png\r\nContent-Disposition: inline\r\nContent-ID: <a>\r\n\r\nPNG";
    check(&multipart("related", "b", &[html, inline]), false);
    check(&multipart("related", "b", &[html, "Content-Type: image/png\r\n\r\nPNG"]), true);
}

#[test]
fn preview_is_plain_text() {
    let raw = multipart("alternative", "b", &["\r\n", "Content-Type: text/html\r\n\r\n<b>Hi</b>\r\n there"]);
    assert_eq!(property(raw.as_bytes(), "preview"), json!("Hi there"));
    let long = property(format!("\r\n{}", "w\u{f6}rd ".repeat(1_000)).as_bytes(), "preview");
    let characters = long.as_str().map_or(0, |text| text.chars().count());
    assert!((100..=256).contains(&characters), "{long}");
}

#[test]
fn part_blob_ids_lead_back_to_the_part() {
    let id = part_blob_id("G1-x", 12);
    assert_eq!(split_part_blob_id(&id), Some(("G1-x", 12)));
    assert_eq!(split_part_blob_id(&part_blob_id(&id, 3)), Some((&id[..], 3)));
    for id in ["", "G1", "G1-", "-1", "G1-01", "G1-0", "G1-+1", "G1-99999999999", "G1-1x"] {
        assert_eq!(split_part_blob_id(id), None, "{id}");
    }
    let content = part_content(b"Content-Type: text/plain; name=a\r\n\r\nx", 1).expect("there is a part 1");
    assert_eq!(
        (&content.bytes[..], &content.media_type[..], content.name.as_deref()),
        (&b"x"[..], "text/plain", Some("a"))
    );
    assert_eq!(part_content(b"\r\nx", 2), None);
    assert_eq!(part_content(multipart("mixed", "b", &["\r\nx"]).as_bytes(), 0), None);
}
