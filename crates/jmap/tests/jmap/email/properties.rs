//! Properties that hold for any message and any draft.

use jmap::email::split_part_blob_id;
use proptest::prelude::*;
use serde_json::{Value, json};
use unicode_normalization::UnicodeNormalization;

use super::{Blobs, composed, get, part_content, property, searchable_body_text};

/// Returns a strategy for pieces of mail and of malformed mail.
fn piece() -> impl Strategy<Value = Vec<u8>> {
    let fixed = prop::sample::select(vec![
        "\r\n",
        "\n",
        "\r\n\r\n",
        "\0",
        "\r\n--b\r\n",
        "\r\n--b--\r\n",
        "\n--c\n",
        "\n--c--\n",
        "Content-Type: multipart/mixed; boundary=b\r\n",
        "Content-Type: multipart/alternative; boundary=c\r\n\r\n",
        "Content-Type: multipart/related; boundary=b\r\n\r\n",
        "Content-Type: multipart/digest; boundary=\"c\"\n",
        "Content-Type: message/rfc822\r\n\r\n",
        "Content-Type: text/html; charset=utf-16\r\n",
        "Content-Type: text/html\r\n\r\n<p class='x",
        "Content-Type: image/png; name=\"=?utf-8?q?=C3?=\"\r\n\r\n",
        "Content-Transfer-Encoding: base64\r\n\r\n",
        "Content-Transfer-Encoding: quoted-printable\r\n\r\n",
        "Content-Transfer-Encoding: x\r\n",
        "Content-Disposition: attachment; filename*0*=utf-8''a%20; filename*1=b\r\n",
        "Content-Disposition: inline\r\n\r\n",
        "Content-ID: <\r\n",
        "Content-Language: a,,b\r\n",
        "Subject: =?utf-8?q?a=20b?= =?utf-8?b?w6k=?=\r\n",
        "From: A <a@b>, g: c@d;, \"x",
        "To: =?utf-8?q?a?= <",
        "Date: Fri, 21 Nov 1997 09:55:06 -0600\r\n",
        "Message-ID: <a@b> (",
        "=C3=A9=\r\n",
        "aGVsbG8gd29ybGQhISE=",
        "<a href=\"",
        "caf\u{e9}",
    ]);
    prop_oneof![
        6 => fixed.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
        1 => "[ -~]{0,90}\r\n".prop_map(String::into_bytes),
    ]
}

const PROPERTIES: [&str; 25] = [
    "headers",
    "bodyStructure",
    "bodyValues",
    "textBody",
    "htmlBody",
    "attachments",
    "hasAttachment",
    "preview",
    "messageId",
    "inReplyTo",
    "references",
    "sender",
    "from",
    "to",
    "cc",
    "bcc",
    "replyTo",
    "subject",
    "sentAt",
    "header:To:asGroupedAddresses:all",
    "header:Subject:all",
    "header:Content-Type:asText",
    "header:From:asAddresses:all",
    "header:List-Id:asURLs",
    "header:X:asDate",
];

/// Collects the leaves of a structure.
fn leaves<'a>(part: &'a Value, found: &mut Vec<&'a Value>) {
    match part["subParts"].as_array() {
        Some(parts) => {
            assert!(part["partId"].is_null() && part["blobId"].is_null() && part["size"] == json!(0), "{part}");
            assert!(part["type"].as_str().is_some_and(|name| name.starts_with("multipart/")), "{part}");
            parts.iter().for_each(|part| leaves(part, found));
        }
        None => found.push(part),
    }
}

/// Checks what RFC 8621 says about the object of any message.
fn check_object(raw: &[u8], bytes_max: u64) {
    let options = json!({"fetchAllBodyValues": true, "maxBodyValueBytes": bytes_max});
    let object = get(raw, &PROPERTIES, &options);
    assert!(object.keys().map(String::as_str).eq(PROPERTIES), "the object has the properties of the request");
    for name in ["subject", "header:To:asGroupedAddresses:all", "headers"] {
        assert_eq!(property(raw, name), object[name], "the header alone has the same fields");
    }
    let mut parts = Vec::new();
    leaves(&object["bodyStructure"], &mut parts);
    let mut numbers = Vec::new();
    for part in &parts {
        let (blob, number) =
            split_part_blob_id(part["blobId"].as_str().expect("a leaf has a blob")).expect("of a part");
        assert_eq!((blob, &part["partId"]), ("G1", &json!(number.to_string())));
        let content = part_content(raw, number).expect("a leaf can be downloaded");
        assert_eq!(part["size"], json!(content.bytes.len()), "{part}");
        assert_eq!([&part["type"], &part["name"]], [&json!(content.media_type), &json!(content.name)]);
        assert!(!content.media_type.starts_with("multipart/"));
        numbers.push(number);
    }
    assert!(!numbers.is_empty() && numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    let list = |name: &str| object[name].as_array().expect("a list").clone();
    let [text, html, attachments] = ["textBody", "htmlBody", "attachments"].map(list);
    for part in text.iter().chain(&html).chain(&attachments) {
        assert!(parts.contains(&part), "the lists consist of leaves");
    }
    for part in &parts {
        let is_in = |list: &[Value]| list.contains(part);
        assert!(is_in(&text) || is_in(&html) || is_in(&attachments), "each leaf is in a list: {part}");
    }
    let is_downloadable = |part: &Value| part["disposition"] != json!("inline");
    assert_eq!(object["hasAttachment"], json!(attachments.iter().any(is_downloadable)));
    check_values(object["bodyValues"].as_object().expect("an object"), &parts, bytes_max);
    assert!(object["preview"].as_str().expect("a string").chars().count() <= 256);
    let _ = searchable_body_text(raw);
}

fn check_values(values: &serde_json::Map<String, Value>, parts: &[&Value], bytes_max: u64) {
    let is_text = |part: &&&Value| part["type"].as_str().is_some_and(|name| name.starts_with("text/"));
    let expected: Vec<&str> = parts.iter().filter(is_text).filter_map(|part| part["partId"].as_str()).collect();
    assert!(values.keys().eq(expected.iter()), "there is a value of each text");
    for value in values.values() {
        let text = value["value"].as_str().expect("a string");
        assert!(!text.contains("\r\n") && (bytes_max == 0 || text.len() as u64 <= bytes_max));
    }
}

/// Returns a strategy for texts that a user may enter in one line.
fn line() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,120}",
        "[a-z\u{e4}\u{f6}\u{fc} ]{0,60}",
        "(=\\?utf-8\\?q\\?x\\?= ?|[\u{1f600}-\u{1f64f}\u{200d}\u{fe0f}]|[,;:<>@\"\\\\()]| |a){0,60}",
        "\\PC{0,200}",
    ]
}

/// Returns a text as a parser returns it.
fn normalized(text: &str) -> String {
    text.chars().filter(|character| !character.is_control()).nfc().collect()
}

/// Returns a strategy for addresses, complete and incomplete ones.
fn email() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[a-z0-9.!#$%&'*+=?^_`{|}~-]{1,20}@[a-z0-9-]{1,10}(\\.[a-z]{2,5}){1,2}",
        1 => "[a-z\u{e4}]{1,8}@[a-z\u{e4}]{1,8}\\.example",
        1 => "[a-z ,;<>()@:.\"\\\\]{1,20}",
        1 => "[a-z ,;<>()@:.]{1,20}@example\\.com",
    ]
}

/// Returns the address that is read if this one was written.
fn read_email(written: &str) -> String {
    let raw = composed(&json!({"to": [{"name": "n", "email": written}]}), &Blobs::default());
    property(&raw, "to")[0]["email"].as_str().expect("an address").to_owned()
}

fn mailbox() -> impl Strategy<Value = (Option<String>, String)> {
    (prop::option::of(line()), email())
}

/// Returns the JSON of a mailbox as it is written and as it is read.
fn mailbox_objects((name, email): &(Option<String>, String)) -> [Value; 2] {
    let read_name = name.as_deref().map(|name| normalized(name).trim().to_owned()).filter(|name| !name.is_empty());
    [json!({"name": name, "email": email}), json!({"name": read_name, "email": read_email(email)})]
}

proptest! {
    #[test]
    fn objects_of_any_bytes_are_consistent(raw in prop::collection::vec(any::<u8>(), 0..300), bytes_max in 0_u64..20) {
        check_object(&raw, bytes_max);
    }

    #[test]
    fn objects_of_generated_messages_are_consistent(
        pieces in prop::collection::vec(piece(), 0..40),
        bytes_max in 0_u64..50,
    ) {
        check_object(&pieces.concat(), bytes_max);
    }

    #[test]
    fn texts_are_read_as_they_were_written(text in line()) {
        let raw = composed(&json!({"subject": text, "header:X-Text:asText": text}), &Blobs::default());
        prop_assert!(raw.is_ascii());
        let expected = json!(normalized(&text));
        prop_assert_eq!(&property(&raw, "subject"), &expected, "{}", String::from_utf8_lossy(&raw));
        prop_assert_eq!(&property(&raw, "header:X-Text:asText"), &expected);
    }

    #[test]
    fn addresses_are_read_as_they_were_written(mailboxes in prop::collection::vec(mailbox(), 1..6)) {
        let objects: Vec<[Value; 2]> = mailboxes.iter().map(mailbox_objects).collect();
        let written: Vec<&Value> = objects.iter().map(|[written, _]| written).collect();
        let read: Vec<&Value> =
            objects.iter().map(|[_, read]| read).filter(|read| read["name"] != json!(null) || read["email"] != "").collect();
        let raw = composed(&json!({"to": written}), &Blobs::default());
        prop_assert_eq!(&property(&raw, "to"), &json!(read), "{}", String::from_utf8_lossy(&raw));
    }

    #[test]
    fn groups_are_read_as_they_were_written(
        groups in prop::collection::vec((line(), prop::collection::vec(mailbox(), 0..3)), 1..4),
    ) {
        let mut written = Vec::new();
        let mut read = Vec::new();
        for (name, mailboxes) in &groups {
            let read_name = normalized(name).trim().to_owned();
            let objects: Vec<[Value; 2]> = mailboxes.iter().map(mailbox_objects).collect();
            let [written_members, read_members] = [0, 1].map(|index| objects.iter().map(|pair| &pair[index]).collect::<Vec<_>>());
            if read_name.is_empty() {
                continue;
            }
            written.push(json!({"name": name, "addresses": written_members}));
            let is_kept = |member: &&&Value| member["name"] != json!(null) || member["email"] != "";
            let read_members: Vec<&&Value> = read_members.iter().filter(is_kept).collect();
            read.push(json!({"name": read_name, "addresses": read_members}));
        }
        let raw = composed(&json!({"header:Cc:asGroupedAddresses": written}), &Blobs::default());
        let expected = if read.is_empty() { Value::Null } else { json!(read) };
        let found = property(&raw, "header:Cc:asGroupedAddresses");
        prop_assert_eq!(&found, &expected, "{}", String::from_utf8_lossy(&raw));
    }

    #[test]
    fn addresses_that_rfc_5322_allows_do_not_change(
        local in "[a-z0-9!#$%&'*+/=?^_`{|}~-]{1,10}(\\.[a-z0-9]{1,5}){0,2}",
        domain in "[a-z0-9-]{1,10}(\\.[a-z]{2,5}){1,2}",
    ) {
        let email = format!("{local}@{domain}");
        prop_assert_eq!(read_email(&email), email);
    }

    #[test]
    fn file_names_and_contents_are_read_as_they_were_written(
        name in line(),
        text in "(\\PC|\n|\t| |\r\n|[\u{0}-\u{8}]){0,400}",
        bytes in prop::collection::vec(any::<u8>(), 0..300),
        media_type in prop::sample::select(vec!["application/pdf", "text/csv", "image/png", "application/json"]),
    ) {
        let name: String = name.chars().take(250).collect();
        let mut blobs = Blobs::default();
        blobs.0.insert("blob", (bytes.clone(), None));
        let create = json!({
            "textBody": [{"partId": "1", "type": "text/plain"}],
            "attachments": [{"blobId": "blob", "type": media_type, "name": name}],
            "bodyValues": {"1": {"value": text}},
        });
        let raw = composed(&create, &blobs);
        prop_assert!(raw.is_ascii());
        let attachment = &property(&raw, "attachments")[0];
        let written_name: String = name.chars().filter(|character| !character.is_control()).collect();
        let expected_name = if written_name.is_empty() { Value::Null } else { json!(written_name) };
        prop_assert_eq!(&attachment["name"], &expected_name, "{}", String::from_utf8_lossy(&raw));
        prop_assert_eq!(&attachment["type"], &json!(media_type));
        let (_, number) = split_part_blob_id(attachment["blobId"].as_str().expect("a blob")).expect("of a part");
        prop_assert_eq!(part_content(&raw, number).map(|content| content.bytes), Some(bytes));
        let values = get(&raw, &["bodyValues"], &json!({"fetchTextBodyValues": true}));
        let value = &values["bodyValues"]["1"];
        prop_assert_eq!(&value["value"], &json!(text.replace("\r\n", "\n")), "{}", String::from_utf8_lossy(&raw));
        prop_assert_eq!(&value["isEncodingProblem"], &json!(false));
    }
}
