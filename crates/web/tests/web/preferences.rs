//! Preferences: time zone, page size, signature, and the undo of sending.

use std::sync::atomic::Ordering;

use axum::http::StatusCode;
use base::{Name, UidSet, ViewId};
use mail::mailbox::MailOptions;
use mail::preferences::{LockedPreferences, PREFERENCES_PROFILE, item, value};
use notes::Item;

use super::world::{ANN, Browser, File, Page, World};

const SEND: (&str, &str) = ("do", "send");

/// Saves preferences. Those that are not named become empty.
async fn save(browser: &mut Browser, fields: &[(&str, &str)]) -> Page {
    let page = browser.get("/lite/settings").await;
    let token = page.hidden("token");
    let identity = page.hidden("identity");
    let form = [("token", token.as_str()), ("identity", identity.as_str()), ("do", "preferences")];
    browser.post("/lite/settings", &[&form[..], fields].concat()).await
}

/// Returns the items of the profile document with Ann's preferences.
fn stored(world: &World) -> Vec<Item> {
    let file = world.file("ann");
    let snapshot = file.snapshot().expect("a sound store");
    let note = snapshot.reading().profile(PREFERENCES_PROFILE, Some(&Name::new(ANN))).expect("a sound store");
    note.map(|note| note.items).unwrap_or_default()
}

/// Sets Ann's preferences as another program does.
fn set_elsewhere(world: &World, preferences: &[(&str, &str)]) {
    let file = world.file("ann");
    let items: Vec<Item> =
        preferences.iter().map(|(name, value)| item(name, value).expect("a valid preference")).collect();
    let accesses = [file.depositor()];
    let mut transaction = file.mail().databases().transaction(&accesses).expect("a transaction");
    let set = transaction.writer(0).profile_set(PREFERENCES_PROFILE, Some(&Name::new(ANN)), &items, &[]);
    set.expect("the server may");
    transaction.commit().expect("a sound store");
}

#[tokio::test]
async fn preferences_are_those_that_all_programs_share() {
    let world = World::new();
    set_elsewhere(&world, &[("webMode", "full"), ("pageSize", "20"), ("timeZone", "Asia/Kolkata")]);
    let mut browser = world.logged_in("ann").await;
    let page = browser.get("/lite/settings").await;
    assert_eq!((page.hidden("rows"), page.hidden("zone")), ("20".to_owned(), "Asia/Kolkata".to_owned()));
    assert!(page.has("Times are in Asia/Kolkata."), "{}", page.text());
    assert!(page.body.len() < 60_000, "{} bytes", page.body.len());
    let fields =
        [("rows", "100"), ("zone", "Europe/Zurich"), ("threads", "true"), ("undo", "10"), ("language", "de-CH")];
    let saved = save(&mut browser, &fields).await;
    assert!(saved.has("The preferences were saved.") && saved.has("Times are in Europe/Zurich."), "{}", saved.text());
    assert!(saved.has("<option value=\"true\" selected>"), "{}", saved.text());
    let items = stored(&world);
    let found = ["pageSize", "timeZone", "collapseThreads", "undoSeconds", "language", "webMode", "signaturePlacement"]
        .map(|name| value(&items, name));
    let expected = [Some("100"), Some("Europe/Zurich"), Some("true"), Some("10"), Some("de-CH"), Some("full"), None];
    assert_eq!(found, expected, "what this page does not show stays");
    assert!(save(&mut browser, &[]).await.has("Times are in UTC."));
    assert_eq!(value(&stored(&world), "pageSize"), None, "an empty field leaves the choice to each program");
    let mut other = world.logged_in("bob").await;
    assert_eq!(other.get("/lite/settings").await.hidden("rows"), "", "another person has other preferences");
}

#[tokio::test]
async fn locked_preferences_count_and_cannot_be_changed() {
    let locked_preferences = LockedPreferences::parse("timeZone=Europe/Zurich, pageSize=20").expect("they are valid");
    let world = World::with_options(MailOptions { locked_preferences, ..MailOptions::default() });
    set_elsewhere(&world, &[("pageSize", "50"), ("timeZone", "UTC")]);
    let mut browser = world.logged_in("ann").await;
    let page = browser.get("/lite/settings").await;
    assert!(page.has("Times are in Europe/Zurich.") && page.has("id=\"zone\" disabled"), "{}", page.text());
    assert_eq!(page.text().matches(" disabled").count(), 2, "{}", page.text());
    assert_eq!(page.hidden("rows"), "20");
    let saved = save(&mut browser, &[("rows", "100"), ("zone", ""), ("language", "de")]).await;
    assert!(saved.has("Times are in Europe/Zurich."), "{}", saved.text());
    let items = stored(&world);
    let found = ["pageSize", "timeZone", "language"].map(|name| value(&items, name));
    assert_eq!(found, [Some("50"), Some("UTC"), Some("de")], "the choice of the person is kept");
    let wrong = save(&mut browser, &[("undo", "x")]).await;
    assert_eq!((wrong.hidden("rows"), wrong.hidden("zone")), ("20".to_owned(), "Europe/Zurich".to_owned()));
}

#[tokio::test]
async fn wrong_preferences_come_back_and_nothing_is_saved() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let cases = [
        ("rows", "9", "10 to 200"),
        ("rows", "x", "10 to 200"),
        ("zone", "Europe/Nowhere", "time zone is not known"),
        ("undo", "121", "at most 120"),
        ("language", "de_CH!", "language tag"),
        ("placement", "left", "where the signature is"),
        ("threads", "perhaps", "what lists show"),
    ];
    for (name, wrong, reason) in cases {
        let typed = [("signature", "Typed <here>"), (name, wrong)];
        let page = save(&mut browser, &typed).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY, "{name}");
        assert!(page.has(reason) && page.has("Nothing was saved."), "{name}: {}", page.text());
        assert!(page.has("Typed &#60;here&#62;</textarea>"), "{name}: {}", page.text());
    }
    assert_eq!(save(&mut browser, &[("rows", "9")]).await.hidden("rows"), "9", "it can be corrected");
    for long in ["x".repeat(65 << 10), "x\n".repeat(2_000)] {
        let page = save(&mut browser, &[("signature", &long), ("rows", "20")]).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(page.has("The signature is too long. Nothing was saved."), "{}", page.text());
    }
    assert!(stored(&world).is_empty());
    assert!(!browser.get("/lite/compose").await.has("-- "), "no signature was saved");
}

/// Returns the hour of the first time on a page.
fn hour(page: &Page) -> u32 {
    let text = page.text();
    let is_time = |index: &usize| {
        let time = &text.as_bytes()[*index..*index + 16];
        let form = time.iter().map(|byte| if byte.is_ascii_digit() { b'0' } else { *byte });
        form.eq(b"0000-00-00 00:00".iter().copied())
    };
    let start = (0..text.len() - 16).find(is_time).unwrap_or_else(|| panic!("no time in {text}"));
    text[start + 11..start + 13].parse().expect("two digits")
}

#[tokio::test]
async fn all_times_are_in_the_time_zone() {
    let world = World::new();
    let date = "Date: Mon, 5 Jan 2026 23:30:00 +0000\r\n";
    world.put("ann", "INBOX", &format!("From: bob@acme.test\r\nSubject: Late\r\n{date}\r\nx"));
    let mut browser = world.logged_in("ann").await;
    let list = browser.get("/lite/").await;
    let before = browser.get(&list.link("Late")).await;
    assert!(before.has("2026-01-05 23:30 UTC"), "{}", before.text());
    save(&mut browser, &[("zone", "Asia/Tokyo")]).await;
    let after = browser.get(&list.link("Late")).await;
    assert!(after.has("2026-01-06 08:30 JST") && after.has("Times are in Asia/Tokyo."), "{}", after.text());
    let before = hour(&list);
    for path in ["/lite/", "/lite/search?q=late", &format!("{}/conversation", list.link("Late"))] {
        let page = browser.get(path).await;
        assert_eq!(hour(&page), (before + 9) % 24, "{path}: {}", page.text());
    }
}

#[tokio::test]
async fn pages_read_the_preferences_in_the_job_that_reads_the_mail_file() {
    let world = World::new();
    let uid = world.put("ann", "INBOX", "From: bob@acme.test\r\nSubject: x\r\n\r\ny");
    let mut browser = world.logged_in("ann").await;
    let list = format!("/lite/folder/{}", world.folder("ann", "INBOX"));
    let message = format!("{list}/{uid}");
    for path in [&list, &message, &format!("{message}/conversation"), "/lite/folders", "/lite/search"] {
        let before = world.backend.opened.load(Ordering::SeqCst);
        let page = browser.get(path).await;
        assert!(page.has("Times are in UTC."), "{path}: {}", page.text());
        assert_eq!(world.backend.opened.load(Ordering::SeqCst) - before, 1, "{path}");
    }
}

#[tokio::test]
async fn lists_have_the_rows_that_were_chosen_and_old_links_lead_to_the_last_page() {
    let world = World::new();
    for number in 0..45 {
        world.put("ann", "INBOX", &format!("Subject: Number {number}\r\n\r\nx"));
    }
    let mut browser = world.logged_in("ann").await;
    save(&mut browser, &[("rows", "10")]).await;
    let path = format!("/lite/folder/{}", world.folder("ann", "INBOX"));
    let first = browser.get(&path).await;
    let last = browser.get(&first.link("Last")).await;
    assert!(last.has("41–45 of 45") && last.has("Page 5 of 5"), "{}", last.text());
    save(&mut browser, &[("rows", "20")]).await;
    for query in ["page=5", "page=5&sort=subject", "page=5&threads=1"] {
        let page = browser.get(&format!("{path}?{query}")).await;
        assert_eq!(page.status, StatusCode::OK);
        assert!(page.has("41–45 of 45") && page.has("Page 3 of 3"), "{query}: {}", page.text());
    }
}

#[tokio::test]
async fn the_signature_is_put_into_new_messages_and_answers() {
    let world = World::new();
    let uid = world.put("ann", "INBOX", "From: bob@acme.test\r\nSubject: x\r\n\r\nHello");
    let inbox = world.folder("ann", "INBOX");
    let mut browser = world.logged_in("ann").await;
    let saved = save(&mut browser, &[("signature", "Ann\r\nAcme & Co.")]).await;
    assert!(saved.has("Signature of ann@acme.test"), "{}", saved.text());
    assert!(saved.has("\nAnn\nAcme &#38; Co.</textarea>"), "{}", saved.text());
    let reply = format!("/lite/compose?reply={inbox}.{uid}");
    let forward = format!("/lite/compose?forward={inbox}.{uid}");
    let new = browser.get("/lite/compose").await;
    assert!(new.has("\n\n\n-- \nAnn\nAcme &#38; Co.\n</textarea>"), "{}", new.text());
    let answer = browser.get(&reply).await;
    assert!(answer.has("\n\n\nAnn\nAcme &#38; Co.\n\nOn "), "{}", answer.text());
    save(&mut browser, &[("signature", "Ann"), ("placement", "belowQuote")]).await;
    assert!(browser.get(&reply).await.has("&#62; Hello\n\n-- \nAnn\n</textarea>"));
    assert!(browser.get(&forward).await.has("Hello\n\n-- \nAnn\n</textarea>"));
    let draft = browser.compose(&new, &[("body", "typed"), ("do", "save")], &[]).await;
    assert!(draft.has("\ntyped</textarea>") && !draft.has("Ann\n</textarea>"), "a draft stays as it is");
    save(&mut browser, &[("signature", "Ann"), ("placement", "none")]).await;
    for path in ["/lite/compose", &reply, &forward] {
        assert!(!browser.get(path).await.has("Ann\n"), "{path}");
    }
}

#[tokio::test]
async fn a_repetition_of_a_held_message_offers_the_undo_and_none_sends_a_withdrawn_one() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    save(&mut browser, &[("undo", "10")]).await;
    let page = browser.get("/lite/compose").await;
    let fields = [("to", "bob@acme.test"), ("body", "First text."), SEND];
    let sent = browser.compose(&page, &fields, &[]).await;
    let again = browser.compose(&page, &fields, &[]).await;
    assert!(again.has(">Undo<"), "a browser shows the second answer only: {}", again.text());
    assert_eq!(again.hidden("id"), sent.hidden("id"));
    let undo = [("token", again.hidden("token")), ("id", again.hidden("id"))];
    let undo: Vec<(&str, &str)> = undo.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert!(browser.post("/lite/compose/undo", &undo).await.has("It is a draft again."));
    // The old page of the composer does not send it, neither now nor after a restart, nor if the draft has gone.
    for what in ["at once", "after a restart", "without the draft"] {
        let repeated = browser.compose(&page, &fields, &[]).await;
        assert_eq!(repeated.status, StatusCode::UNPROCESSABLE_ENTITY, "{what}");
        assert!(repeated.has("was withdrawn") && repeated.has("First text.</textarea>"), "{what}: {}", repeated.text());
        assert_ne!(repeated.hidden("form"), page.hidden("form"), "{what}");
        browser.router = world.start();
        if what == "after a restart" {
            remove(&world, "Drafts", world.messages("ann", "Drafts")[0].0);
        }
    }
    world.wait(60);
    assert!(world.messages("bob", "INBOX").is_empty() && world.backend.router.list().is_empty());
    // What came back is a form of its own, whether sending can still be undone or not.
    save(&mut browser, &[]).await;
    let repeated = browser.compose(&page, &fields, &[]).await;
    let sent = browser.compose(&repeated, &[("body", "First text."), SEND], &[]).await;
    assert!(sent.has("The message was sent."), "{}", sent.text());
    assert_eq!(world.messages("bob", "INBOX").len(), 1);
}

/// Removes a message of Ann, as a mail program does.
fn remove(world: &World, folder: &str, uid: u32) {
    let file = world.file("ann");
    let view = ViewId(world.folder("ann", folder));
    file.delete(view, &UidSet::from(uid..=uid)).expect("a sound store");
}

#[tokio::test]
async fn a_form_that_was_held_is_known_after_a_restart_wherever_its_copy_is() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    save(&mut browser, &[("undo", "10")]).await;
    let page = browser.get("/lite/compose").await;
    let fields = [("to", "bob@acme.test"), ("body", "Held."), SEND];
    assert!(browser.compose(&page, &fields, &[]).await.has("will be sent in 10 seconds"));
    world.wait(11);
    let uids = UidSet::from(1..=u32::MAX);
    let [sent, inbox] = ["Sent", "INBOX"].map(|name| ViewId(world.folder("ann", name)));
    let moved = world.file("ann").move_up_to(sent, &uids, inbox, 10).expect("a sound store");
    browser.router = world.start();
    let again = browser.compose(&page, &fields, &[]).await;
    assert!(again.has("It was not sent again."), "{}", again.text());
    remove(&world, "INBOX", moved.pairs[0].1.0);
    browser.router = world.start();
    let again = browser.compose(&page, &fields, &[]).await;
    assert!(again.has("was sent and its copy deleted"), "{}", again.text());
    assert_eq!(world.messages("bob", "INBOX").len(), 1);
}

/// Sends a message to Bob, with a hidden recipient and a file, which can be withdrawn for ten seconds.
async fn send_held(world: &World, browser: &mut Browser) -> Page {
    save(browser, &[("undo", "10")]).await;
    let uid = world.put("ann", "INBOX", "From: bob@acme.test\r\nSubject: plan\r\nMessage-ID: <1@b>\r\n\r\nx");
    let reply = format!("/lite/compose?reply={}.{uid}", world.folder("ann", "INBOX"));
    let page = browser.get(&reply).await;
    let fields = [("bcc", "Eve <eve@acme.test>"), ("body", "See the file."), SEND];
    browser.compose(&page, &fields, &[File("plan.txt", "text/plain", b"planned")]).await
}

#[tokio::test]
async fn a_message_is_held_and_can_be_withdrawn_to_its_draft() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let sent = send_held(&world, &mut browser).await;
    assert!(sent.has("will be sent in 10 seconds") && sent.has(">Undo<"), "{}", sent.text());
    assert_eq!((world.messages("ann", "Sent").len(), world.messages("bob", "INBOX").len()), (1, 0));
    assert!(!world.messages("ann", "Sent")[0].1.contains("eve@acme.test"), "the copy has no Bcc");
    let token = sent.hidden("token");
    let id = sent.hidden("id");
    let undo = [("token", token.as_str()), ("id", id.as_str())];

    // The token of the form and the owner of the message count.
    let mut bob = world.logged_in("bob").await;
    let bobs = bob.get("/lite/folders").await.hidden("token");
    let stolen = bob.post("/lite/compose/undo", &[("token", &bobs), ("id", &id)]).await;
    assert_eq!(stolen.status, StatusCode::NOT_FOUND);
    assert_eq!(
        browser.post("/lite/compose/undo", &[("token", &bobs), ("id", &id)]).await.status,
        StatusCode::FORBIDDEN
    );
    for wrong in ["", "x", "00000000000000000000000000000000"] {
        let answer = browser.post("/lite/compose/undo", &[("token", &token), ("id", wrong)]).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{wrong}");
    }

    let draft = browser.post("/lite/compose/undo", &undo).await;
    assert!(draft.has("It is a draft again.") && draft.has("See the file.</textarea>"), "{}", draft.text());
    assert!(draft.has("plan.txt"), "{}", draft.text());
    assert_eq!(draft.hidden("bcc"), "Eve <eve@acme.test>");
    assert!(draft.hidden("original").starts_with("r."), "the answered message is known");
    assert_eq!((world.messages("ann", "Sent").len(), world.messages("ann", "Drafts").len()), (0, 1));
    let again = browser.post("/lite/compose/undo", &undo).await;
    assert!(again.has("It is a draft again."), "a repetition finds the draft: {}", again.text());
    assert_eq!(world.messages("ann", "Drafts").len(), 1);
    world.wait(60);
    assert!(world.messages("bob", "INBOX").is_empty() && world.backend.router.list().is_empty());

    let keep = draft.hidden("keep");
    let sent = browser.compose(&draft, &[("body", "Now."), ("keep", &keep), SEND], &[]).await;
    assert!(sent.has("will be sent in 10 seconds"), "the draft is another form: {}", sent.text());
    world.wait(11);
    let delivered = world.messages("bob", "INBOX");
    assert_eq!((delivered.len(), world.messages("ann", "Drafts").len()), (1, 0));
    assert!(delivered[0].1.contains("Now.") && delivered[0].1.contains("plan.txt"), "{}", delivered[0].1);
}

#[tokio::test]
async fn a_message_that_was_sent_is_not_withdrawn() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let sent = send_held(&world, &mut browser).await;
    let fields = [("token", sent.hidden("token")), ("id", sent.hidden("id"))];
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    world.wait(11);
    assert_eq!(world.messages("bob", "INBOX").len(), 1);
    let late = browser.post("/lite/compose/undo", &fields).await;
    assert!(late.has("It is too late: the message was sent."), "{}", late.text());
    assert_eq!((world.messages("ann", "Sent").len(), world.messages("ann", "Drafts").len()), (1, 0));
}

#[tokio::test]
async fn messages_are_sent_at_once_unless_the_person_wants_time() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    for undo in ["", "0"] {
        save(&mut browser, &[("undo", undo)]).await;
        let page = browser.get("/lite/compose?to=bob%40acme.test").await;
        let sent = browser.compose(&page, &[("body", "x"), SEND], &[]).await;
        assert!(sent.has("The message was sent.") && !sent.has(">Undo<"), "{undo:?}: {}", sent.text());
    }
    assert_eq!(world.messages("bob", "INBOX").len(), 2);
}
