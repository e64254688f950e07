//! Messages: their compression, their limits before and after decompression and decoding, and the calls that go on when
//! one was refused.

use std::time::Duration;

use base::Name;
use futures_util::stream;
use proto::v1;
use tonic::Code;

use crate::world::{Client, TestServer, canonical, formula_place, note, plan, refusal, refused, text};

/// Starts a server that compresses replies for clients that accept it.
fn compressing_server() -> TestServer {
    TestServer::with(|options| options.compression = true)
}

fn limit() -> (Code, String) {
    refused(Code::ResourceExhausted, "limit")
}

#[tokio::test]
async fn messages_are_compressed_and_decompression_bombs_refused() {
    let server = compressing_server();
    let plain = server.log_in("ann").await;
    let packed = plain.clone().compressing();
    let long = text("A", &"all work and no play ".repeat(20_000));
    let created = packed.create(vec![long.clone()]).await.expect("a manager may");
    let open = v1::OpenNoteRequest {
        database: plan(),
        note: note(created.note_id),
        items: Some(v1::ItemSelection { extent: 0, names: vec!["A".to_owned()] }),
        ..Default::default()
    };
    let unpacked = plain.notes().open_note(open.clone()).await.expect("the note exists");
    assert!(unpacked.metadata().get("grpc-encoding").is_none_or(|encoding| encoding == "identity"));
    assert_eq!(unpacked.into_inner().items, std::slice::from_ref(&long));
    let reply = packed.notes().open_note(open).await.expect("the note exists");
    assert_eq!(reply.metadata().get("grpc-encoding").and_then(|encoding| encoding.to_str().ok()), Some("gzip"));
    assert_eq!(reply.into_inner().items, [long]);
    // The compressed message is small, but its content exceeds the maximum message size.
    let bomb = text("A", &"x".repeat(64 << 20));
    let status = packed.create(vec![bomb.clone()]).await.expect_err("it is too large");
    assert!(matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted), "{status}");
    let status = plain.create(vec![bomb]).await.expect_err("it is too large");
    assert!(!status.message().contains("at most 0"), "{status}");
    packed.sessions().get_session(v1::GetSessionRequest {}).await.expect("the connection lives on");
}

#[tokio::test]
async fn unauthenticated_messages_are_limited_with_and_without_compression() {
    let server = compressing_server();
    let plain = server.connect().await;
    let packed = plain.clone().compressing();
    for (stranger, compression) in [(plain, false), (packed, true)] {
        for (length, expected) in [(3_000, refused(Code::Unauthenticated, "login")), (9_000, limit())] {
            let outcome = stranger.try_log_in("ann", &"x".repeat(length)).await;
            assert_eq!(refusal(outcome), expected, "a password of {length} bytes, compressed: {compression}");
        }
        let first = v1::AuthenticateRequest { mechanism: "PLAIN".to_owned(), response: vec![b'x'; 9_000] };
        let outcome = match stranger.sessions().authenticate(stream::iter([first])).await {
            Ok(replies) => replies.into_inner().message().await,
            Err(status) => Err(status),
        };
        assert_eq!(refusal(outcome), limit(), "compressed: {compression}");
    }
}

#[tokio::test]
async fn message_that_grows_when_decoded_is_refused() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    assert_eq!(refusal(ann.create(vec![v1::Item::default(); 2_000_000]).await), limit());
    let many = (0..9_000).map(|number| text(&format!("Item{number}"), "x")).collect();
    ann.create(many).await.expect("a note may have as many items");
}

#[tokio::test]
async fn long_formula_is_refused_with_its_position() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let search = |formula: &str| {
        let request = v1::SearchNotesRequest { database: plan(), formula: formula.to_owned(), ..Default::default() };
        let ann = ann.clone();
        async move { ann.notes().search_notes(request).await.map(drop).expect_err("refused") }
    };
    let status = search("SELECT (").await;
    assert!(status.message().ends_with("SELECT (\n        ^"), "the message shows the position: {}", status.message());
    let place = formula_place(&status).expect("programs can show it");
    assert_eq!((place.what.as_str(), place.line, place.column), ("formula", 1, 9));
    assert_eq!(refusal::<()>(Err(status)), refused(Code::InvalidArgument, "formula"));
    let status = search(&format!("SELECT \"{}\" (", "é".repeat(30_000))).await;
    assert_eq!(formula_place(&status).expect("the answer fits its header").column, 30_011, "{status:?}");
}

#[tokio::test]
async fn refused_calls_do_not_end_the_connection() {
    let server = TestServer::new();
    server.mail.create("mail/ann.nsf", "Ann", &Name::new(&canonical("ann")), None).expect("there is none yet");
    let ann = server.log_in("ann").await;
    let status = ann.create(vec![text("A", &"x".repeat(9 << 20))]).await.expect_err("too large");
    assert!(matches!(status.code(), Code::OutOfRange | Code::ResourceExhausted), "{status}");
    // Calls beyond the limit of concurrent calls per connection wait for each other, and all get a reply.
    let get_session =
        |client: Client| async move { client.sessions().get_session(v1::GetSessionRequest {}).await.map(drop) };
    let calls: Vec<_> = (0..200).map(|_| tokio::spawn(get_session(ann.clone()))).collect();
    for call in calls {
        call.await.expect("it does not panic").expect("it is answered");
    }
    let mut late = tonic::Request::new(v1::PollNewMailRequest { state: Vec::new(), wait_ms: 30_000 });
    late.set_timeout(Duration::from_nanos(1));
    let status = ann.changes().poll_new_mail(late).await.expect_err("nothing comes");
    assert!(matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled), "{status}");
}
