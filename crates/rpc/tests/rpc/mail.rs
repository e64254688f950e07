//! Mail that clients deposit.

use base::Name;
use proto::v1::{self, deposit_mail_request::Part};
use tonic::{Code, Status};

use crate::world::{Client, TestServer, database, note, refusal, refused, text};

const MESSAGE: &[u8] = b"From: ann@acme.test\r\nTo: bob@acme.test\r\nSubject: x\r\n\r\nhello\r\n";

fn envelope(sender: &str, recipients: &[&str], length_bytes: u64, request_id: &str) -> v1::DepositMailRequest {
    let envelope = v1::deposit_mail_request::Envelope {
        sender: sender.to_owned(),
        recipients: recipients.iter().map(|address| (*address).to_owned()).collect(),
        length_bytes,
        request_id: request_id.to_owned(),
    };
    v1::DepositMailRequest { part: Some(Part::Envelope(envelope)) }
}

fn content(bytes: &[u8]) -> v1::DepositMailRequest {
    v1::DepositMailRequest { part: Some(Part::Content(bytes.to_vec())) }
}

async fn deposit(client: &Client, parts: Vec<v1::DepositMailRequest>) -> Result<String, Status> {
    client.mail().deposit_mail(futures_util::stream::iter(parts)).await.map(|reply| reply.into_inner().id)
}

/// Returns the messages in a person's inbox.
fn inbox(server: &TestServer, login: &str) -> Vec<String> {
    let Ok(file) = server.mail.open_as_server(&format!("mail/{login}.nsf")) else { return Vec::new() };
    let snapshot = file.snapshot().expect("the mail file can be read");
    let inbox = snapshot.folder("INBOX").expect("the mail file can be read").expect("there is an inbox").id;
    let mut found = Vec::new();
    snapshot
        .entries(inbox, base::Uid(1)..=base::Uid(u32::MAX), &mut |entry| {
            let message = snapshot.message(entry.note)?.expect("an entry has its message");
            found.push(String::from_utf8_lossy(&message.raw()?).into_owned());
            Ok(std::ops::ControlFlow::Continue(()))
        })
        .expect("the mail file can be read");
    found
}

#[tokio::test]
async fn a_message_in_pieces_arrives_once_for_each_request() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let parts = || {
        let (first, rest) = MESSAGE.split_at(20);
        let length = MESSAGE.len() as u64;
        vec![envelope("", &["bob@acme.test"], length, "request-1"), content(first), content(rest)]
    };
    let id = deposit(&ann, parts()).await.expect("bob takes mail");
    assert!(!id.is_empty());
    assert_eq!(deposit(&ann, parts()).await.expect("the same request"), id);
    let found = inbox(&server, "bob");
    assert_eq!(found.len(), 1, "the repeated request is not sent twice");
    assert!(found[0].ends_with("\r\n\r\nhello\r\n") && found[0].contains("Subject: x\r\n"), "{}", found[0]);
    assert!(found[0].contains("ann@acme.test"), "the reverse path is the sender's own address");
}

#[tokio::test]
async fn request_ids_are_separate_for_each_person() {
    let server = TestServer::new();
    let length = MESSAGE.len() as u64;
    let ann = server.log_in("ann").await;
    let sent = vec![envelope("", &["bob@acme.test"], length, "7"), content(MESSAGE)];
    deposit(&ann, sent).await.expect("bob takes mail");
    let bob = server.log_in("bob").await;
    let own = b"From: bob@acme.test\r\n\r\nfrom bob\r\n";
    let sent = vec![envelope("", &["ann@acme.test"], own.len() as u64, "7"), content(own)];
    deposit(&bob, sent).await.expect("ann takes mail");
    assert_eq!((inbox(&server, "bob").len(), inbox(&server, "ann").len()), (1, 1));
}

#[tokio::test]
async fn refused_messages_are_not_delivered() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let length = MESSAGE.len() as u64;
    let bob = &["bob@acme.test"][..];
    let foreign = b"From: bob@acme.test\r\n\r\nx\r\n";
    let check = async |parts: Vec<v1::DepositMailRequest>, code: Code, reason: &str| {
        let outcome = deposit(&ann, parts).await;
        assert_eq!(refusal(outcome), refused(code, reason));
    };
    check(vec![envelope("bob@acme.test", bob, length, ""), content(MESSAGE)], Code::PermissionDenied, "sender").await;
    let parts = vec![envelope("", bob, foreign.len() as u64, ""), content(foreign)];
    check(parts, Code::PermissionDenied, "sender").await;
    let unknown = &["bob@acme.test", "zork@acme.test"];
    check(vec![envelope("", unknown, length, ""), content(MESSAGE)], Code::InvalidArgument, "recipient").await;
    let many = &["a@x.test", "b@x.test", "c@x.test", "d@x.test"];
    check(vec![envelope("", many, length, ""), content(MESSAGE)], Code::ResourceExhausted, "limit").await;
    check(vec![envelope("", bob, 100_001, ""), content(MESSAGE)], Code::ResourceExhausted, "limit").await;
    check(vec![content(MESSAGE)], Code::InvalidArgument, "invalid").await;
    check(vec![], Code::InvalidArgument, "invalid").await;
    check(vec![envelope("", bob, length + 1, ""), content(MESSAGE)], Code::InvalidArgument, "invalid").await;
    check(vec![envelope("", bob, length - 1, ""), content(MESSAGE)], Code::InvalidArgument, "invalid").await;
    assert_eq!(inbox(&server, "bob").len(), 0);
}

#[tokio::test]
async fn a_header_that_programs_read_differently_is_refused() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    for lines in ["stray\r\nBcc: x@far.test\r\n", "--x: y\r\n", "Hello,\r\nhow are you\r\n"] {
        let message = format!("From: ann@acme.test\r\n{lines}\r\nhello\r\n").into_bytes();
        let parts = vec![envelope("", &["bob@acme.test"], message.len() as u64, ""), content(&message)];
        assert_eq!(refusal(deposit(&ann, parts).await), refused(Code::InvalidArgument, "invalid"), "{lines:?}");
    }
    assert_eq!(inbox(&server, "bob").len(), 0);
}

#[tokio::test]
async fn forged_authentication_results_are_removed() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let forged = "Authentication-Results: hub.acme.test; dmarc=pass\r\n\
                  Authentication-Results: \"hub\\.acme.test\"; dmarc=pass\r\n";
    let own = "Authentication-Results: other.test; dkim=pass\r\nFrom: ann@acme.test\r\n\r\nhello\r\n";
    let message = format!("{forged}{own}").into_bytes();
    let parts = vec![envelope("", &["bob@acme.test"], message.len() as u64, ""), content(&message)];
    deposit(&ann, parts).await.expect("bob takes mail");
    let found = inbox(&server, "bob");
    assert!(found[0].ends_with(own) && !found[0].contains("dmarc=pass"), "{}", found[0]);
}

#[tokio::test]
async fn poll_reports_new_mail() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let bob = server.log_in("bob").await;
    let send = |text: &str| {
        let message = format!("From: ann@acme.test\r\n\r\n{text}\r\n").into_bytes();
        vec![envelope("", &["bob@acme.test"], message.len() as u64, ""), content(&message)]
    };
    deposit(&ann, send("one")).await.expect("bob takes mail");
    let poll = async |state: Vec<u8>| {
        let request = v1::PollNewMailRequest { state, wait_ms: 0 };
        bob.changes().poll_new_mail(request).await.expect("bob has a mail file").into_inner()
    };
    let first = poll(Vec::new()).await;
    assert_eq!((first.messages, first.unread), (1, 1));
    let same = poll(first.state.clone()).await;
    assert_eq!((same.new_mail, same.messages), (false, 1));
    deposit(&ann, send("two")).await.expect("bob takes mail");
    let next = poll(first.state).await;
    assert_eq!((next.new_mail, next.messages, next.unread), (true, 2, 2));
}

#[tokio::test]
async fn message_content_cannot_be_changed() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let letter = vec![envelope("", &["ann@acme.test"], MESSAGE.len() as u64, ""), content(MESSAGE)];
    deposit(&ann, letter).await.expect("ann takes mail");
    let mail = || database("mail/ann.nsf");
    let all = v1::ItemSelection { extent: v1::item_selection::Extent::All.into(), names: Vec::new() };
    let request = v1::SearchNotesRequest { database: mail(), items: Some(all), ..Default::default() };
    let mut replies = ann.notes().search_notes(request).await.expect("she has access").into_inner();
    let found = replies.message().await.expect("she has access").expect("a message").notes.remove(0);
    let header = found.header.expect("a header");
    let update = |items| {
        let request =
            v1::UpdateNoteRequest { database: mail(), note: note(header.note_id), items, ..Default::default() };
        let ann = ann.clone();
        async move { ann.notes().update_note(request).await }
    };
    update(vec![text("Categories", "work")]).await.expect("she has access");
    let open = v1::OpenNoteRequest { database: mail(), note: note(header.note_id), ..Default::default() };
    let now = ann.notes().open_note(open).await.expect("she has access").into_inner().header.expect("a header");
    assert_eq!((now.size_bytes, now.sequence), (header.size_bytes, header.sequence + 1), "mail programs rely on it");
    let body = found.items.into_iter().find(|item| item.name == "$MIME").expect("a message has one");
    update(vec![body.clone()]).await.expect("it is the same content");
    let other = v1::Item { value: text("x", "other").value, ..body };
    let invalid = refused(Code::InvalidArgument, "invalid");
    assert_eq!(refusal(update(vec![other]).await), invalid);
    let header = v1::attach_file_request::Header {
        database: mail(),
        note: note(header.note_id),
        file_name: "more.txt".to_owned(),
        ..Default::default()
    };
    let part = v1::attach_file_request::Part::Header(header);
    let stream = futures_util::stream::iter([v1::AttachFileRequest { part: Some(part) }]);
    assert_eq!(refusal(ann.notes().attach_file(stream).await), invalid);
}

#[tokio::test]
async fn only_registered_servers_forward_mail() {
    let server = TestServer::new();
    let parts = || {
        let recipient = |address: &str, mail_file: &str| v1::ForwardedRecipient {
            address: address.to_owned(),
            mail_file: mail_file.to_owned(),
            ..v1::ForwardedRecipient::default()
        };
        let envelope = v1::ForwardedEnvelope {
            reverse_path: "ann@acme.test".to_owned(),
            recipients: vec![recipient("team@acme.test", "mail/bob.nsf"), recipient("gone@acme.test", "mail/gone.nsf")],
            length_bytes: MESSAGE.len() as u64,
            ..v1::ForwardedEnvelope::default()
        };
        vec![v1::DepositMailRequest { part: Some(Part::Forwarded(envelope)) }, content(MESSAGE)]
    };
    let ann = server.log_in("ann").await;
    assert_eq!(refusal(deposit(&ann, parts()).await), refused(Code::PermissionDenied, "server-only"));
    let spoke = Name::new("CN=spoke/O=Acme");
    let other = server.connect_as(Some(spoke.clone())).await;
    assert_eq!(refusal(deposit(&other, parts()).await), refused(Code::PermissionDenied, "server-only"));
    server.directory.servers_register(&[(spoke.clone(), None)]).expect("valid");
    deposit(&other, parts()).await.expect("it is registered");
    let found = inbox(&server, "bob");
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("Return-Path: <ann@acme.test>\r\nReceived: ") && found[0].ends_with("hello\r\n"),
        "{}",
        found[0]
    );
    let reports = inbox(&server, "ann");
    assert!(
        reports.len() == 1 && reports[0].contains("gone@acme.test"),
        "what cannot be delivered is reported: {reports:?}"
    );
    let repeated_for = |mail_files: &[&str], text: &[u8]| {
        let recipient =
            |file: &&str| v1::ForwardedRecipient { mail_file: (*file).to_owned(), ..v1::ForwardedRecipient::default() };
        let envelope = v1::ForwardedEnvelope {
            recipients: mail_files.iter().map(recipient).collect(),
            request_id: "once".to_owned(),
            ..v1::ForwardedEnvelope::default()
        };
        vec![v1::DepositMailRequest { part: Some(Part::Forwarded(envelope)) }, content(text)]
    };
    let repeated = |text: &[u8]| repeated_for(&["mail/bob.nsf"], text);
    let id = deposit(&other, repeated(MESSAGE)).await.expect("it is registered");
    assert_eq!(deposit(&other, repeated(MESSAGE)).await.expect("the reply was lost"), id);
    assert_eq!(inbox(&server, "bob").len(), 2, "the repetition is not delivered");
    let [of_bob, of_ann] = ["bob", "ann"].map(|who| inbox(&server, who).len());
    deposit(&other, repeated_for(&["mail/ann.nsf", "mail/bob.nsf"], MESSAGE)).await.expect("one recipient is new");
    assert_eq!([inbox(&server, "bob").len(), inbox(&server, "ann").len()], [of_bob, of_ann + 1]);
    let another = deposit(&other, repeated(&[MESSAGE, b"more\r\n"].concat())).await;
    assert_eq!(refusal(another), refused(Code::InvalidArgument, "invalid"));
    server.directory.server_remove(&spoke).expect("it is registered");
    assert_eq!(refusal(deposit(&other, parts()).await), refused(Code::PermissionDenied, "access"));
}
