//! The confirmation that a message was displayed: nothing is sent without the button, and nothing twice.

use std::sync::atomic::Ordering;

use axum::http::StatusCode;

use super::world::{Browser, Page, World};

const QUESTION: &str = "The sender asks to be told that you have read this message.";

const REQUEST: &str = "Return-Path: <bob@acme.test>\r\nFrom: bob@acme.test\r\nTo: ann@acme.test\r\n\
    Message-ID: <1@acme.test>\r\nDisposition-Notification-To: Bob <bob@acme.test>\r\nSubject: Plan\r\n\r\nText";

fn address(world: &World, folder: &str, uid: base::Uid) -> String {
    format!("/lite/folder/{}/{uid}", world.folder("ann", folder))
}

/// Puts a message into a folder, and opens its page.
async fn opened(world: &World, browser: &mut Browser, (folder, raw): (&str, &str)) -> (String, Page) {
    let uid = world.put("ann", folder, raw);
    let path = address(world, folder, uid);
    let page = browser.get(&path).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.text());
    (path, page)
}

async fn press(browser: &mut Browser, path: &str, token: &str) -> Page {
    browser.post(&format!("{path}/confirmation"), &[("token", token)]).await
}

#[tokio::test]
async fn only_the_button_sends_a_confirmation_and_only_once() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let uid = world.put("ann", "INBOX", REQUEST);
    let path = address(&world, "INBOX", uid);
    let page = browser.get(&path).await;
    assert!(
        page.has(QUESTION) && page.has("Send a confirmation") && !page.has("The confirmation goes to"),
        "{}",
        page.text()
    );
    let token = page.hidden("token");
    for path in [format!("{path}/html"), format!("{path}/raw"), path.clone()] {
        browser.get(&path).await;
    }
    assert_eq!((world.submitted().len(), world.messages("bob", "INBOX").len()), (0, 0), "reading sends nothing");
    let sent = press(&mut browser, &path, &token).await;
    assert!(sent.has("The confirmation was sent.") && !sent.has(QUESTION), "{}", sent.text());
    assert_eq!(world.keywords("ann", "INBOX", uid), ["$MDNSent"]);
    let again = press(&mut browser, &path, &token).await;
    assert!(again.has("it was confirmed before. Nothing was sent."), "{}", again.text());
    let received = world.messages("bob", "INBOX");
    let [(_, report)] = received.as_slice() else { panic!("{received:?}") };
    for text in [
        "Return-Path: <>\r\n",
        "To: <bob@acme.test>\r\n",
        "Subject: Displayed: Plan\r\n",
        "Final-Recipient: rfc822; ann@acme.test\r\n",
        "Original-Message-ID: <1@acme.test>\r\n",
        "Disposition: manual-action/MDN-sent-manually; displayed\r\n",
    ] {
        assert!(report.contains(text), "{text:?} in {report}");
    }
    assert!(!report.contains("Reporting-UA"), "{report}");
    assert_eq!(world.submitted().len(), 1);
}

#[tokio::test]
async fn a_request_of_another_address_has_a_warning() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let elsewhere = REQUEST.replace("Bob <bob@acme.test>", "eve@far.test");
    let (path, page) = opened(&world, &mut browser, ("INBOX", &elsewhere)).await;
    let warning = "The confirmation goes to eve@far.test, but the message came from bob@acme.test.";
    assert!(page.has(QUESTION) && page.has(warning), "{}", page.text());
    for path in ["", "Return-Path: <>\r\n"] {
        let raw = REQUEST.replace("Return-Path: <bob@acme.test>\r\n", path);
        let (_, page) = opened(&world, &mut browser, ("INBOX", &raw)).await;
        let warning = "The confirmation goes to bob@acme.test. The message does not show that it came from there.";
        assert!(page.has(warning), "{}", page.text());
    }
    assert!(press(&mut browser, &path, &page.hidden("token")).await.has("The confirmation was sent."));
    assert_eq!(world.submitted()[0].recipients, ["eve@far.test"]);
}

#[tokio::test]
async fn messages_without_a_single_valid_address_have_no_button() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let field = "Disposition-Notification-To: Bob <bob@acme.test>\r\n";
    let others = [
        ("INBOX", REQUEST.replace(field, "")),
        ("INBOX", REQUEST.replace(field, "Disposition-Notification-To: bob\r\n")),
        ("INBOX", REQUEST.replace(field, "Disposition-Notification-To: bob@acme.test, eve@far.test\r\n")),
        ("INBOX", REQUEST.replace(field, &format!("{field}Disposition-Notification-Options: x=required,1\r\n"))),
        ("INBOX", REQUEST.replace(field, &format!("{field}Content-Type: multipart/report; boundary=b\r\n"))),
        ("Sent", REQUEST.to_owned()),
        ("Drafts", REQUEST.to_owned()),
        ("Junk", REQUEST.to_owned()),
    ];
    for (folder, raw) in &others {
        let (path, page) = opened(&world, &mut browser, (folder, raw)).await;
        assert!(!page.has(QUESTION), "{folder}: {raw}");
        let token = page.hidden("token");
        let refused = press(&mut browser, &path, &token).await;
        assert!(refused.has("The message asks for no confirmation"), "{folder}: {}", refused.text());
    }
    assert_eq!(world.submitted().len(), 0);
}

#[tokio::test]
async fn strangers_cannot_press_the_button() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let (path, page) = opened(&world, &mut browser, ("INBOX", REQUEST)).await;
    for token in ["", "AAAA"] {
        assert_eq!(press(&mut browser, &path, token).await.status, StatusCode::FORBIDDEN);
    }
    let form = format!("{path}/confirmation");
    assert_eq!(browser.get(&form).await.status, StatusCode::METHOD_NOT_ALLOWED);
    let token = page.hidden("token");
    browser.fields = vec![("sec-fetch-site", "cross-site".to_owned())];
    assert_eq!(press(&mut browser, &path, &token).await.status, StatusCode::FORBIDDEN);
    browser.fields.clear();
    let mut other = world.logged_in("bob").await;
    let token = other.get("/lite/folders").await.hidden("token");
    let number = path.rsplit('/').next().expect("a number");
    let elsewhere = format!("/lite/folder/{}/{number}", world.folder("bob", "INBOX"));
    assert_eq!(press(&mut other, &elsewhere, &token).await.status, StatusCode::NOT_FOUND);
    assert_eq!(world.submitted().len(), 0);
}

#[tokio::test]
async fn a_confirmation_that_was_refused_can_be_sent_later() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let (path, page) = opened(&world, &mut browser, ("INBOX", REQUEST)).await;
    world.backend.is_refusing.store(true, Ordering::SeqCst);
    let token = page.hidden("token");
    let refused = press(&mut browser, &path, &token).await;
    assert!(refused.has("User unknown. Nothing was sent.") && refused.has(QUESTION), "{}", refused.text());
    world.backend.is_refusing.store(false, Ordering::SeqCst);
    assert!(press(&mut browser, &path, &token).await.has("The confirmation was sent."));
}
