//! Drafts, sending once, names, and header injection.

use std::sync::atomic::Ordering;

use axum::http::StatusCode;

use super::world::{File, PASSWORD, World};

const SEND: (&str, &str) = ("do", "send");
const SAVE: (&str, &str) = ("do", "save");

#[tokio::test]
async fn drafts_keep_everything_until_they_are_sent() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let page = browser.get("/lite/compose?to=bob%40acme.test").await;
    let fields = [("bcc", "\"Eve, E\" <eve@far.test>"), ("subject", "Größe"), ("body", "one\n\ntwo"), SAVE];
    let files = [File("a.html", "text/html", b"<script>1</script>"), File("b.bin", "x/y", b"\0\x01")];
    let saved = browser.compose(&page, &fields, &files).await;
    assert!(saved.has("The draft was saved.") && saved.has("a.html") && saved.has("b.bin"), "{}", saved.text());
    let drafts = world.messages("ann", "Drafts");
    assert_eq!(drafts.len(), 1);
    let list = browser.get(&format!("/lite/folder/{}", world.folder("ann", "Drafts"))).await;
    let opened = browser.get(&list.link("Größe")).await;
    assert_eq!(
        (opened.hidden("to"), opened.hidden("bcc")),
        ("bob@acme.test".into(), "\"Eve, E\" <eve@far.test>".into())
    );
    assert_eq!(opened.hidden("form"), page.hidden("form"), "it is the same form");
    assert!(opened.has("one\n\ntwo</textarea>"), "{}", opened.text());
    let third = File("c.txt", "text/plain", b"c");
    let body = ("body", "one\n\ntwo");
    let sent = browser.compose(&opened, &[body, ("keep", "2"), SEND], &[third]).await;
    assert!(sent.has("The message was sent."), "{}", sent.text());
    assert_eq!(world.messages("ann", "Drafts").len(), 0);
    let copies = world.messages("ann", "Sent");
    assert_eq!((copies.len(), &copies[0].1), (1, &world.messages("bob", "INBOX")[0].1));
    let text = &copies[0].1;
    assert!(text.contains("a.html") && text.contains("c.txt") && !text.contains("b.bin"), "{text}");
    assert!(!text.contains("eve@far.test") && !text.contains("Bcc"), "{text}");
    assert_eq!(world.submitted()[0].recipients, ["bob@acme.test", "eve@far.test"]);
}

#[tokio::test]
async fn a_form_is_sent_once() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let page = browser.get("/lite/compose").await;
    let fields = [("to", "bob@acme.test"), ("body", "once"), SEND];
    assert!(browser.compose(&page, &fields, &[]).await.has("The message was sent."));
    let again = browser.compose(&page, &fields, &[]).await;
    assert!(again.has("It was not sent again."), "{}", again.text());
    // What a person has changed is no repetition. It comes back as a form of its own.
    let changed = [("to", "bob@acme.test"), ("body", "twice"), SEND];
    let answer = browser.compose(&page, &changed, &[]).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(answer.has("This one was not sent.") && answer.has("twice</textarea>"), "{}", answer.text());
    assert_ne!(answer.hidden("form"), page.hidden("form"));
    assert_eq!(world.submitted().len(), 1);
    // After a restart, the copy shows that the form was sent.
    browser.router = world.start();
    let again = browser.compose(&page, &fields, &[]).await;
    assert!(again.has("It was not sent again."), "{}", again.text());
    assert_eq!((world.submitted().len(), world.messages("bob", "INBOX").len()), (1, 1));
    assert_eq!(world.messages("ann", "Sent").len(), 1);
}

#[tokio::test]
async fn a_form_that_was_refused_can_be_sent_again() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let page = browser.get("/lite/compose").await;
    world.backend.is_refusing.store(true, Ordering::SeqCst);
    let fields = [("to", "bob@acme.test"), ("body", "text"), SEND];
    let file = File("a.txt", "text/plain", b"kept");
    let refused = browser.compose(&page, &fields, &[file]).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(refused.has("User unknown. Nothing was sent."), "{}", refused.text());
    assert!(refused.has("text</textarea>") && refused.has("a.txt"), "{}", refused.text());
    world.backend.is_refusing.store(false, Ordering::SeqCst);
    let keep = refused.hidden("keep");
    let sent = browser.compose(&refused, &[("body", "text"), ("keep", &keep), SEND], &[]).await;
    assert!(sent.has("The message was sent."), "{}", sent.text());
    assert!(world.messages("bob", "INBOX")[0].1.contains("kept"));
    assert_eq!(world.messages("ann", "Drafts").len(), 0);
}

#[tokio::test]
async fn attachments_of_a_draft_that_has_gone_are_not_left_out() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let page = browser.get("/lite/compose?to=bob%40acme.test").await;
    let file = File("a.txt", "text/plain", b"a");
    let first = browser.compose(&page, &[("body", "x"), SAVE], &[file]).await;
    // Another window saves the same draft, which gets another number.
    browser.compose(&first, &[("body", "y"), ("keep", "2"), SAVE], &[]).await;
    let late = browser.compose(&first, &[("body", "typed here"), ("keep", "2"), SEND], &[]).await;
    assert_eq!(late.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(late.has("in another window") && late.has("typed here</textarea>"), "{}", late.text());
    assert_eq!(world.submitted().len(), 0);
    // Without attachments, the other window's text becomes a draft of its own.
    browser.compose(&first, &[("body", "typed here"), SAVE], &[]).await;
    assert_eq!(world.messages("ann", "Drafts").len(), 2);
}

#[tokio::test]
async fn names_become_addresses_or_are_refused() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let page = browser.get("/lite/compose").await;
    let looked = browser.compose(&page, &[("to", "bob, zoe"), ("body", "x"), ("do", "look")], &[]).await;
    assert_eq!(looked.hidden("to"), "bob@acme.test, zoe");
    assert!(looked.has("Nobody is known as <bdi>zoe</bdi>"), "{}", looked.text());
    let refused = browser.compose(&page, &[("to", "bob, zoe"), ("body", "x"), SEND], &[]).await;
    assert!(refused.has("Nobody is known as zoe."), "{}", refused.text());
    let refused = browser.compose(&page, &[("to", ""), ("body", "x"), SEND], &[]).await;
    assert!(refused.has("no recipients"), "{}", refused.text());
    let many: Vec<String> = (0..11).map(|number| format!("p{number}@far.test")).collect();
    let refused = browser.compose(&page, &[("to", &many.join(",")), ("body", "x"), SEND], &[]).await;
    assert!(refused.has("at most 10 recipients"), "{}", refused.text());
    assert!(browser.compose(&page, &[("to", "bob"), ("body", "x"), SEND], &[]).await.has("was sent"));
    assert_eq!(world.submitted()[0].recipients, ["bob@acme.test"]);
    let found = browser.get("/lite/addresses?q=bo").await;
    assert!(found.has("/lite/compose?to=bob%40acme.test"), "{}", found.text());
}

#[tokio::test]
async fn no_field_of_the_composer_becomes_another_one() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let page = browser.get("/lite/compose?to=bob%40acme.test").await;
    let attack = "x\r\nBcc: eve@far.test";
    for name in ["to", "cc", "bcc", "subject", "in_reply_to", "references", "original", "form"] {
        let answer = browser.compose(&page, &[(name, attack), ("body", "x"), SEND], &[]).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{name}");
        assert!(answer.has("Go back, correct it"), "{}", answer.text());
    }
    for name in ["subject", "references"] {
        let answer = browser.compose(&page, &[(name, "a\0b"), ("body", "x"), SEND], &[]).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{name}");
    }
    assert_eq!(world.submitted().len(), 0);
    let file = File("a%0D%0ABcc: eve@far.test\u{202e}txt.exe", "text/html\"; x=\"y", b"a");
    browser.compose(&page, &[("body", "x\r\nBcc: eve@far.test"), SEND], &[file]).await;
    let delivered = &world.messages("bob", "INBOX")[0].1;
    let (header, _) = delivered.split_once("\r\n\r\n").expect("a header");
    assert!(!header.contains("eve@far.test"), "{header}");
    let query = browser.get("/lite/compose?to=a%0d%0aBcc%3a+b%40c").await;
    assert_eq!(query.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn limits_of_a_message_are_kept() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let page = browser.get("/lite/compose?to=bob%40acme.test").await;
    let large = vec![b'x'; 900 << 10];
    let refused = browser.compose(&page, &[("body", "x"), SEND], &[File("a", "x/y", &large)]).await;
    assert!(refused.has("larger than 1.0 MB"), "{}", refused.text());
    let larger = vec![b'x'; 2 << 20];
    let refused = browser.compose(&page, &[("body", "x"), SEND], &[File("a", "x/y", &larger)]).await;
    assert_eq!(refused.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert!(refused.has("fewer or smaller attachments"), "{}", refused.text());
    let endless: Vec<(&str, &str)> = (0..1_100).map(|_| ("x", "y")).chain([SEND]).collect();
    let refused = browser.compose(&page, &endless, &[]).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert_eq!(world.submitted().len(), 0);
}

#[tokio::test]
async fn forwarded_messages_take_their_files_along() {
    let world = World::new();
    let raw = "From: bob@acme.test\r\nSubject: plan\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\nsee\r\n\
               --x\r\nContent-Disposition: attachment; filename=plan.bin\r\n\r\nplanned\r\n--x--\r\n";
    let uid = world.put("ann", "INBOX", raw);
    let mut browser = world.logged_in("ann").await;
    let inbox = world.folder("ann", "INBOX");
    let composer = browser.get(&format!("/lite/compose?forward={inbox}.{uid}")).await;
    assert_eq!(composer.hidden("subject"), "Fwd: plan");
    assert!(composer.has("name=\"attach_original\" value=\"1\" checked"), "{}", composer.text());
    let fields = [("to", "bob"), ("body", "fyi"), ("attach_original", "1"), SEND];
    assert!(browser.compose(&composer, &fields, &[]).await.has("was sent"));
    let delivered = &world.messages("bob", "INBOX")[0].1;
    assert!(delivered.contains("message/rfc822") && delivered.contains("planned"), "{delivered}");
    assert!(delivered.contains(raw), "the attached message is unchanged");
}

#[tokio::test]
async fn concurrent_requests_of_an_account_are_limited() {
    let mut world = World::new();
    world.options.uploads_per_account_max = 0;
    let mut browser = world.logged_in("ann").await;
    let page = browser.get("/lite/compose").await;
    assert_eq!(page.status, StatusCode::OK);
    let refused = browser.compose(&page, &[("do", "save")], &[]).await;
    assert_eq!(refused.status, StatusCode::TOO_MANY_REQUESTS);
    world.options.requests_per_account_max = 0;
    let mut browser = world.browser();
    browser.log_in("ann", PASSWORD).await;
    assert_eq!(browser.get("/lite/compose").await.status, StatusCode::TOO_MANY_REQUESTS);
}
