//! Tests of responses: what is understood, and what hostile servers send.

use proptest::prelude::*;
use tokio::io::AsyncWriteExt as _;

use super::super::message_parts::attachment_sections;
use super::*;

/// Reads the only response of a server.
async fn read_bytes(bytes: &[u8]) -> Result<Response, String> {
    let mut connection = connection_with(bytes).await;
    read(&mut connection).await.map_err(|error| format!("{}: {}", error.code, error.text))
}

/// Reads the only response of a server, and parses it if it is a status.
async fn read_status_of(bytes: &[u8]) -> Result<Option<Response>, CallError> {
    read_status(&mut connection_with(bytes).await).await
}

/// Returns a connection to a server that has sent these bytes and closed it.
async fn connection_with(bytes: &[u8]) -> LineConnection {
    let (near, mut far) = tokio::io::duplex(bytes.len().max(1));
    far.write_all(bytes).await.expect("there is space");
    LineConnection::over(near)
}

async fn values(text: &str) -> Vec<Value> {
    match read_bytes(text.as_bytes()).await {
        Ok(Response::Numbered { values, .. } | Response::Data { values, .. }) => values,
        other => panic!("{text}: {other:?}"),
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

#[tokio::test]
async fn statuses_have_codes_and_texts() {
    let status = |line: &'static str| async move {
        match read_bytes(format!("{line}\r\n").as_bytes()).await {
            Ok(Response::Status(status)) => status,
            other => panic!("{line}: {other:?}"),
        }
    };
    let appended = status("d7 OK [APPENDUID 38505 3955] APPEND completed").await;
    assert_eq!((appended.tag.as_deref(), appended.status), (Some("d7"), Status::Ok));
    assert_eq!(appended.code_after("appenduid"), Some("38505 3955"));
    assert_eq!(appended.text, "APPEND completed");
    let text = status("* ok no brackets {12}").await;
    assert_eq!((text.tag, text.code, text.text.as_str()), (None, None, "no brackets {12}"));
    assert_eq!(status("* BYE").await.status, Status::Bye);
    assert_eq!(status("a NO [ALERT").await.text, "[ALERT", "brackets that do not end are text");
    assert_eq!(read_bytes(b"+ go on {3}\r\n").await, Ok(Response::Continuation));
    assert_eq!(read_bytes(b"+\r\n").await, Ok(Response::Continuation));
}

#[tokio::test]
async fn only_statuses_and_continuations_are_parsed_of_some_responses() {
    let check = async |bytes: &str, is_parsed| {
        let response = read_status_of(bytes.as_bytes()).await;
        assert_eq!(response.map(|parsed| parsed.is_some()), Ok(is_parsed), "{bytes}");
    };
    check("* OK [UIDVALIDITY 7] valid\r\n", true).await;
    check("d1 NO never\r\n", true).await;
    check("+ go on\r\n", true).await;
    check("* 1 FETCH (BODY[] {5}\r\nab\r\nc)\r\n", false).await;
    check("* 1 FETCH ((((\r\n", false).await;
    check("* SEARCH 1 2\r\n", false).await;
}

#[tokio::test]
async fn values_are_atoms_strings_literals_and_lists() {
    let fetched =
        values("* 12 FETCH (UID 7 FLAGS (\\Seen) ENVELOPE (\"a \\\"b\\\\\" NIL nil) RFC822.SIZE 44)\r\n").await;
    let list = fetched[0].list().expect("a list");
    assert_eq!(value_of(list, "uid"), Some(&text("7")));
    let envelope = vec![text("a \"b\\"), Value::Nil, Value::Nil];
    assert_eq!(value_of(list, "ENVELOPE"), Some(&Value::List(envelope)));
    let fetched = values("* 1 FETCH (BODY[HEADER.FIELDS (FROM TO)] {6}\r\na\r\nb)( UID 9 BODY[1]<0> \"x\")\r\n").await;
    let list = fetched[0].list().expect("a list");
    let literal = Value::Literal { length: 6, head: b"a\r\nb)(".to_vec() };
    assert_eq!(value_of(list, "BODY[HEADER.FIELDS (FROM TO)]"), Some(&literal));
    assert_eq!((value_of(list, "UID"), value_of(list, "BODY[1]<0>")), (Some(&text("9")), Some(&text("x"))));
    let listed = values("* LIST (\\HasNoChildren) \"/\" {4}\r\nSent\r\n").await;
    assert_eq!(listed[2].text().as_deref(), Some("Sent"));
    let binary = values("* 1 FETCH (BINARY[1] ~{2}\r\n\0\0)\r\n").await;
    assert_eq!(binary[0].list().map(<[Value]>::len), Some(2));
}

#[tokio::test]
async fn large_literals_are_counted_and_not_kept() {
    let mut bytes = b"* 1 FETCH (BODY[] {100000}\r\n".to_vec();
    bytes.extend([b'x'; 100_000]);
    bytes.extend(b")\r\n");
    let Ok(Response::Numbered { values, .. }) = read_bytes(&bytes).await else { panic!("a message") };
    let Some(Value::Literal { length, head }) = values[0].list().and_then(|list| list.get(1)) else { panic!() };
    assert_eq!((*length, head.len()), (100_000, HEAD_BYTES_MAX));
}

#[tokio::test]
async fn searches_of_any_mailbox_are_counted() {
    let numbers: String = (1..=200_000).map(|number| format!(" {number}")).collect();
    match read_bytes(format!("* SEARCH{numbers}\r\n").as_bytes()).await {
        Ok(Response::Search { found, count }) => assert_eq!((found.len(), found[999], count), (1_000, 1_000, 200_000)),
        other => panic!("{other:?}"),
    }
    assert_eq!(read_bytes(b"* SEARCH\r\n").await, Ok(Response::Search { found: vec![], count: 0 }));
}

#[tokio::test]
async fn hostile_responses_are_errors() {
    let lists = format!("* LIST {}\r\n", "(".repeat(40));
    let literals = format!("* LIST {}", "{1}\r\nx ".repeat(LITERALS_MAX + 1));
    let long = format!("* LIST {}\r\n", "x".repeat(LINE_BYTES_MAX));
    let cases = [
        ("* LIST (\r\n", "too few values"),
        ("* LIST )\r\n", "a parenthesis that closes nothing"),
        ("* LIST \"a\r\n", "a quoted string without an end"),
        ("* LIST \"a\\\r\n", "a quoted string without an end"),
        ("* LIST \"{1}\r\nx\r\n", "a quoted string without an end"),
        ("*\r\n", "too few words"),
        ("\r\n", "too few words"),
        ("a1 FINE\r\n", "a tag without a status"),
        ("* 7\r\n", "too few words"),
        ("* 1 FETCH (BODY[] {99999999999999999999999}\r\n", "announces a content of"),
        ("* 1 FETCH (BODY[] {67108865}\r\n", "announces a content of 67108865 bytes"),
        ("* 1 FETCH (BODY[] {10}\r\nshort", "closed the connection"),
        ("* 1 FETCH (BODY[]", "closed the connection"),
        (lists.as_str(), "too many lists within each other"),
        (literals.as_str(), "a response without an end"),
        (long.as_str(), "a line of"),
    ];
    for (bytes, expected) in cases {
        let error = read_bytes(bytes.as_bytes()).await.expect_err("it is an error");
        assert!(error.contains(expected), "{error:?} instead of {expected:?}");
    }
}

#[tokio::test]
async fn attachments_are_the_parts_that_are_no_text() {
    let check = |structure: &'static str, expected: &'static [&'static str]| async move {
        let values = values(&format!("* 1 FETCH (BODYSTRUCTURE {structure})\r\n")).await;
        let structure = value_of(values[0].list().expect("a list"), "BODYSTRUCTURE").expect("a structure");
        assert_eq!(attachment_sections(structure), expected, "{structure:?}");
    };
    check("(\"TEXT\" \"PLAIN\" NIL NIL NIL \"7BIT\" 10 1 NIL NIL NIL)", &[]).await;
    check("(\"APPLICATION\" \"PDF\" NIL NIL NIL \"BASE64\" 10 NIL (\"attachment\" (\"filename\" \"a\")) NIL)", &["1"])
        .await;
    check(
        "((\"TEXT\" \"PLAIN\" NIL NIL NIL \"7BIT\" 10 1)(\"TEXT\" \"CSV\" NIL NIL NIL \"7BIT\" 9 1 NIL (\"ATTACHMENT\" NIL) NIL)\
         ((\"TEXT\" \"PLAIN\" NIL NIL NIL \"7BIT\" 1 1)(\"IMAGE\" \"PNG\" NIL NIL NIL \"BASE64\" 1) \"RELATED\") \"MIXED\")",
        &["2", "3.2"],
    )
    .await;
    check("NIL", &[]).await;
    check("()", &["1"]).await;
}

/// Pieces of which responses of servers are made, whole and broken.
const PIECES: &[&str] = &[
    "* ", "a1 ", "OK ", "NO ", "[", "]", "(", ")", "\"", "\\", "{3}\r\n", "{", "}", "~", " ", "abc", "\r\n", "1 ",
    "FETCH ", "BODY[] ", "NIL", "LIST ", "SEARCH ", "+ ", "EXISTS", "{0}\r\n", "\0", "\u{e9}",
];

proptest! {
    #[test]
    fn nothing_that_a_server_sends_is_fatal(indexes in prop::collection::vec(0..PIECES.len(), 0..60)) {
        let bytes: String = indexes.into_iter().map(|index| PIECES[index]).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        // A response or an error: it does not panic, and it ends.
        let _ = runtime.block_on(read_bytes(bytes.as_bytes()));
        let _ = runtime.block_on(read_status_of(bytes.as_bytes()));
    }

    #[test]
    fn strings_come_back_as_they_were(string in "[ -~]{0,40}") {
        let quoted = string.replace('\\', "\\\\").replace('"', "\\\"");
        let line = format!("* LIST \"{quoted}\" {{{}}}\r\n{string}\r\n", string.len());
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let Ok(Response::Data { values, .. }) = runtime.block_on(read_bytes(line.as_bytes())) else { panic!("{line}") };
        prop_assert!(values[0].text().is_some_and(|text| text == string));
        prop_assert!(values[1].text().is_some_and(|text| text == string));
    }
}
