//! Tests of uploads over the native protocol that stall or break off. They need the limits of a configured server and
//! its sockets, which hold a part of what a client sends ahead; `crates/rpc/tests/rpc` tests the limits of messages.

use client::{Client, Code, v1};

use crate::native::{PASSWORD, database, note, reason_of, with_client};
use crate::native_notes::{PLAN, plan};
use crate::{TestFolder, collect};

/// Number of 256 KiB pieces that exceed the data a client may send ahead: when the last piece has been accepted, the
/// server has read the first.
const PIECES: usize = 8;

fn header(number: u32, length_bytes: u64) -> v1::AttachFileRequest {
    let header = v1::attach_file_request::Header {
        database: database(PLAN),
        note: note(number),
        file_name: "large.bin".to_owned(),
        length_bytes,
        ..Default::default()
    };
    v1::AttachFileRequest { part: Some(v1::attach_file_request::Part::Header(header)) }
}

#[test]
fn stalled_uploads_do_not_block_other_users() {
    let (folder, server) = plan(&[("ann", "editor"), ("bob", "author")]);
    let options = folder.options(&server);
    with_client(&folder, &server, "ann", |ann| async move {
        let create = || v1::CreateNoteRequest { database: database(PLAN), ..Default::default() };
        let created = ann.notes().create_note(create()).await.expect("an editor may").into_inner().note_id;
        let mut uploads = Vec::new();
        for _ in 0..8 {
            let (pieces, stream) = client::request_channel(1);
            let mut notes = ann.notes();
            let call = tokio::spawn(async move { notes.attach_file(stream).await });
            assert!(pieces.send(header(created, 64 << 20)).await);
            for _ in 0..PIECES {
                let part = v1::attach_file_request::Part::Content(vec![7; 256 << 10]);
                assert!(pieces.send(v1::AttachFileRequest { part: Some(part) }).await, "it is taken");
            }
            uploads.push((pieces, call));
        }
        let bob = Client::connect(&options).await.expect("the server is there");
        bob.login("bob", PASSWORD).await.expect("there is memory for others");
        bob.notes().create_note(create()).await.expect("there is memory for others");
        for (_, call) in &uploads {
            call.abort();
        }
        // Changing another user's note is refused before any content arrives.
        let (pieces, stream) = client::request_channel(1);
        assert!(pieces.send(header(created, 64 << 20)).await);
        let refused = reason_of(bob.notes().attach_file(stream).await);
        assert_eq!(refused, (Code::PermissionDenied, "author".to_owned()));
    });
    server.stop();
}

#[test]
fn incomplete_mail_is_not_delivered() {
    use v1::deposit_mail_request::{Envelope, Part};
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let server = folder.serve();
    let request = |part| v1::DepositMailRequest { part: Some(part) };
    let envelope = move |length_bytes| {
        let recipients = vec!["ann@acme.test".to_owned()];
        request(Part::Envelope(Envelope { recipients, length_bytes, ..Envelope::default() }))
    };
    with_client(&folder, &server, "ann", |client| async move {
        let poll = |state, wait_ms| v1::PollNewMailRequest { state, wait_ms };
        let mut polled =
            client.changes().poll_new_mail(poll(Vec::new(), 0)).await.expect("she has access").into_inner();
        let (pieces, stream) = client::request_channel(1);
        let mut mail = client.mail();
        let call = tokio::spawn(async move { mail.deposit_mail(stream).await });
        assert!(pieces.send(envelope(0)).await);
        assert!(pieces.send(request(Part::Content(b"Subject: half\r\n\r\n".to_vec()))).await);
        for _ in 0..PIECES {
            let lines = b"half a message\r\n".repeat(16 << 10);
            assert!(pieces.send(request(Part::Content(lines))).await, "it is taken");
        }
        call.abort();
        assert!(call.await.expect_err("it was cut off").is_cancelled());
        let content = b"Subject: whole\r\n\r\nx\r\n".to_vec();
        let announced = content.len() as u64;
        let short = [envelope(announced + 1), request(Part::Content(content.clone()))];
        let refused = reason_of(client.mail().deposit_mail(client::request_stream(short)).await);
        assert_eq!(refused, (Code::InvalidArgument, "invalid".to_owned()), "less content than announced");
        let whole = [envelope(announced), request(Part::Content(content))];
        client.mail().deposit_mail(client::request_stream(whole)).await.expect("it is whole");
        loop {
            let next = poll(polled.state.clone(), 10_000);
            polled = client.changes().poll_new_mail(next).await.expect("she has access").into_inner();
            if polled.new_mail {
                break;
            }
        }
    });
    let letters = collect(&server, "ann");
    assert!(letters.len() == 1 && letters[0].contains("Subject: whole"), "{} letters", letters.len());
    server.stop();
}
