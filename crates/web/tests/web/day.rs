//! A day of mail with links and forms only.

use axum::http::StatusCode;

use super::world::{File, Page, World};

const MESSAGE: &str = "From: Bob <bob@acme.test>\r\nTo: ann@acme.test\r\nSubject: Lunch <today>?\r\n\
    Message-ID: <1@b>\r\nDate: Mon, 5 Jan 2026 12:00:00 +0000\r\n\r\nShall we? See https://acme.test/menu.\r\n";

#[tokio::test]
async fn mail_is_read_answered_filed_and_found() {
    let world = World::new();
    let uid = world.put("ann", "INBOX", MESSAGE);
    let inbox = world.folder("ann", "INBOX");
    let mut browser = world.browser();
    let first = browser.send("GET", "/", None, Vec::new()).await;
    assert!(first.has("<h1 dir=\"auto\">Log in</h1>"), "the login page needs no redirection: {}", first.text());
    let list = browser.log_in("ann", "secret").await;
    assert!(list.has("Inbox, 1–1 of 1") && list.has("New"), "{}", list.text());
    assert_eq!(browser.send("GET", "/", None, Vec::new()).await.field("location"), "/lite/");
    let message = browser.get(&list.link("Lunch &#60;today&#62;?")).await;
    assert!(message.has("Shall we?") && message.has("href=\"https://acme.test/menu\""), "{}", message.text());
    assert_eq!(world.flags("ann", "INBOX", uid), ["\\Seen"]);

    let composer = browser.get(&message.link("Reply")).await;
    assert!(composer.has("value=\"Re: Lunch"), "{}", composer.text());
    assert!(composer.has("\n&#62; Shall we?"), "{}", composer.text());
    let file = File("Menü.txt", "text/plain", b"soup");
    let sent = browser.compose(&composer, &[("body", "Yes.\r\nÄ"), ("do", "send")], &[file]).await;
    assert!(sent.has("The message was sent."), "{}", sent.text());
    let delivered = world.messages("bob", "INBOX");
    assert_eq!(delivered.len(), 1);
    assert_eq!(world.messages("ann", "Sent")[0].1, delivered[0].1, "the copy has the same bytes");
    assert!(delivered[0].1.contains("In-Reply-To: <1@b>"), "{}", delivered[0].1);
    assert_eq!(world.flags("ann", "INBOX", uid), ["\\Answered", "\\Seen"]);

    let mut other = world.logged_in("bob").await;
    let list = other.get("/lite/").await;
    assert!(list.has("File"), "{}", list.text());
    let answer = other.get(&list.link("Re: Lunch &#60;today&#62;?")).await;
    let file = other.get(&format!("{}/part/2", list.link("Re: Lunch &#60;today&#62;?"))).await;
    assert!(answer.has("Menü.txt"), "{}", answer.text());
    assert_eq!((file.body.as_slice(), file.field("content-type")), (&b"soup"[..], "text/plain"));
    assert!(file.field("content-disposition").starts_with("attachment; filename=\"Men_.txt\""));

    let archive = world.folder("ann", "Archive").to_string();
    let list = browser.get("/lite/").await;
    let token = list.hidden("token");
    let path = format!("/lite/folder/{inbox}");
    let uid = uid.to_string();
    let moved = browser.post(&path, &[("token", &token), ("uid", &uid), ("do", "move"), ("to", &archive)]).await;
    assert!(moved.has("1 message was moved to Archive."), "{}", moved.text());
    assert_eq!((world.messages("ann", "INBOX").len(), world.messages("ann", "Archive").len()), (0, 1));

    let path = format!("/lite/folder/{archive}");
    let uid = world.messages("ann", "Archive")[0].0.to_string();
    let deleted = browser.post(&path, &[("token", &token), ("uid", &uid), ("do", "delete")]).await;
    assert!(deleted.has("moved to Trash") && deleted.has(">Undo<"), "{}", deleted.text());
    let trash = format!("/lite/folder/{}", world.folder("ann", "Trash"));
    let undo = [("token", deleted.hidden("token")), ("uids", deleted.hidden("uids")), ("to", deleted.hidden("to"))];
    let mut undo: Vec<(&str, &str)> = undo.iter().map(|(name, value)| (*name, value.as_str())).collect();
    undo.push(("do", "move"));
    browser.post(&trash, &undo).await;
    assert_eq!((world.messages("ann", "Trash").len(), world.messages("ann", "Archive").len()), (0, 1));

    let found = browser.get("/lite/search?q=menu+LUNCH").await;
    assert!(found.has("Archive") && found.has("Lunch &#60;today&#62;?"), "{}", found.text());
    for (query, expected) in [("q=lunch&in=subject", 1), ("q=menu&in=subject", 0), ("q=bob&in=from", 1), ("q=soup", 0)]
    {
        let found = browser.get(&format!("/lite/search?{query}&folder={archive}")).await;
        assert_eq!(found.text().matches("href=\"/lite/folder/").count(), expected, "{query}");
    }

    let out = browser.post("/lite/logout", &[("token", &token)]).await;
    assert!(out.has("Log in"));
    // The cookie of a session that has ended is as good as none.
    browser.cookies.insert("doublet".to_owned(), "0".repeat(64));
    let first = browser.send("GET", "/", None, Vec::new()).await;
    assert!(first.has("<h1 dir=\"auto\">Log in</h1>"), "{}", first.text());
    browser.cookies.remove("doublet");
    assert!(browser.cookies.is_empty() || !browser.cookies.contains_key("doublet"), "{:?}", browser.cookies);
    assert_eq!(browser.send("GET", "/lite/folders", None, Vec::new()).await.field("location"), "/lite/login");
}

#[tokio::test]
async fn lists_show_one_page_and_its_position() {
    let world = World::new();
    for number in 0..120 {
        world.put("ann", "INBOX", &format!("From: p{:03}@b.test\r\nSubject: Number {number}\r\n\r\nx", 500 - number));
    }
    let mut browser = world.logged_in("ann").await;
    let path = format!("/lite/folder/{}", world.folder("ann", "INBOX"));
    let first = browser.get(&path).await;
    assert!(first.has("Inbox, 1–50 of 120") && first.has(">Number 119<") && !first.has(">Number 69<"));
    assert!(first.body.len() < 40_000, "{} bytes", first.body.len());
    let second = browser.get(&first.link("Next")).await;
    assert!(second.has("51–100 of 120") && second.has(">Number 69<") && second.has(">Number 20<"));
    let last = browser.get(&format!("{path}?page=99999")).await;
    assert!(last.has("101–120 of 120") && last.has(">Number 0<") && !last.has(">Number 20<"));
    let oldest = browser.get(&format!("{path}?sort=date&order=up")).await;
    assert!(oldest.has(">Number 0<") && !oldest.has(">Number 50<"));
    let by_sender = browser.get(&format!("{path}?sort=who")).await;
    let text = by_sender.text();
    assert!(text.find(">Number 119<") < text.find(">Number 118<"), "p381 is before p382");
    for wrong in ["page=0", "page=-1", "page=x", "sort=%00", "order=%ff"] {
        assert_eq!(browser.get(&format!("{path}?{wrong}")).await.status, StatusCode::OK, "{wrong}");
    }
}

#[tokio::test]
async fn all_messages_of_a_folder_are_marked_and_moved_in_parts() {
    let world = World::new();
    for number in 0..620 {
        world.put("ann", "INBOX", &format!("Subject: {number}\r\n\r\nx"));
    }
    let mut browser = world.logged_in("ann").await;
    let inbox = world.folder("ann", "INBOX");
    let list = browser.get("/lite/").await;
    let token = list.hidden("token");
    let until = list.hidden("until");
    let late = world.put("ann", "INBOX", "Subject: late\r\n\r\nx");
    let all = [("token", token.as_str()), ("until", until.as_str()), ("all", "1")];
    let path = format!("/lite/folder/{inbox}");
    let read = browser.post(&path, &[&all[..], &[("do", "read")]].concat()).await;
    assert!(read.has("620 messages are marked as read."), "{}", read.text());
    let moved = browser.post(&path, &[&all[..], &[("do", "delete")]].concat()).await;
    assert!(moved.has("620 messages were moved to Trash."), "{}", moved.text());
    assert_eq!(world.messages("ann", "INBOX").iter().map(|(uid, _)| *uid).collect::<Vec<_>>(), [late.0]);

    let trash = format!("/lite/folder/{}", world.folder("ann", "Trash"));
    let list = browser.get(&trash).await;
    let until = list.hidden("until");
    let empty = [("token", token.as_str()), ("until", until.as_str()), ("all", "1"), ("do", "delete")];
    let question = browser.post(&trash, &empty).await;
    assert!(question.has("cannot be restored"), "{}", question.text());
    assert_eq!(world.messages("ann", "Trash").len(), 620);
    let uids = question.hidden("uids");
    let emptied = browser.post(&trash, &[("token", &token), ("do", "destroy"), ("uids", &uids)]).await;
    assert!(emptied.has("620 messages are deleted for ever."), "{}", emptied.text());
    assert_eq!(world.messages("ann", "Trash").len(), 0);
}

/// Returns the fields of the undo of a notice.
fn undo_of(page: &Page) -> Vec<(&'static str, String)> {
    assert!(page.has(">Undo<"), "{}", page.text());
    ["token", "uids", "to", "undo", "do"].into_iter().map(|name| (name, page.hidden(name))).collect()
}

fn borrowed<'f>(fields: &'f [(&'static str, String)]) -> Vec<(&'f str, &'f str)> {
    fields.iter().map(|(name, value)| (*name, value.as_str())).collect()
}

#[tokio::test]
async fn a_second_click_is_answered_like_the_first_one() {
    let world = World::new();
    for number in 0..3 {
        world.put("ann", "INBOX", &format!("Subject: {number}\r\n\r\nx"));
    }
    let mut browser = world.logged_in("ann").await;
    let mut tab = browser.tab();
    let path = format!("/lite/folder/{}", world.folder("ann", "INBOX"));
    let token = browser.get(&path).await.hidden("token");
    let form = [("token", token.as_str()), ("uid", "1"), ("uid", "2"), ("do", "delete")];
    // The first answer does not matter to a browser that has sent the form again.
    let (first, second) = tokio::join!(browser.post(&path, &form), tab.post(&path, &form));
    let third = browser.post(&path, &form).await;
    let undo = undo_of(&first);
    for page in [&first, &second, &third] {
        assert!(page.has("2 messages were moved to Trash."), "{}", page.text());
        assert_eq!(undo_of(page)[1..], undo[1..]);
    }
    assert_eq!((world.messages("ann", "INBOX").len(), world.messages("ann", "Trash").len()), (1, 2));
    // Another selection of the same page is another form.
    let other = [("token", token.as_str()), ("uid", "3"), ("do", "delete")];
    assert!(browser.post(&path, &other).await.has("1 message was moved to Trash."));

    let trash = format!("/lite/folder/{}", world.folder("ann", "Trash"));
    let undone = browser.post(&trash, &borrowed(&undo)).await;
    let again = browser.post(&trash, &borrowed(&undo)).await;
    for page in [&undone, &again] {
        assert!(page.has("2 messages were moved to Inbox."), "{}", page.text());
    }
    assert_eq!(undo_of(&again)[1..], undo_of(&undone)[1..]);
    assert_eq!((world.messages("ann", "INBOX").len(), world.messages("ann", "Trash").len()), (2, 1));
    // The first form no longer says what has been undone.
    let late = browser.post(&path, &form).await;
    assert!(late.has("The messages were moved or deleted before.") && !late.has(">Undo<"), "{}", late.text());
    assert_eq!(world.messages("ann", "INBOX").len(), 2);
    // After a restart, nothing is known, and nothing is moved twice.
    browser.router = world.start();
    let late = browser.post(&trash, &borrowed(&undo)).await;
    assert!(late.has("moved or deleted before."), "{}", late.text());
}

#[tokio::test]
async fn folders_are_created_renamed_and_deleted() {
    let world = World::new();
    let mut browser = world.logged_in("ann").await;
    let token = browser.get("/lite/folders").await.hidden("token");
    let create = browser.post("/lite/folders", &[("token", &token), ("do", "create"), ("name", "Work/ü")]).await;
    assert!(create.has("The folder Work/ü was created.") && create.has(">Work/ü</a>"), "{}", create.text());
    let again = browser.post("/lite/folders", &[("token", &token), ("do", "create"), ("name", "Work/ü")]).await;
    assert_eq!(again.status, StatusCode::BAD_REQUEST);
    assert!(again.has("A folder with this name exists already."), "{}", again.text());
    for wrong in ["", "a\r\nb", "a//b"] {
        let page = browser.post("/lite/folders", &[("token", &token), ("do", "create"), ("name", wrong)]).await;
        assert_eq!(page.status, StatusCode::BAD_REQUEST, "{wrong:?}");
    }
    let id = world.folder("ann", "Work/ü").to_string();
    let rename = [("token", token.as_str()), ("do", "rename"), ("folder", id.as_str()), ("name", "Play")];
    assert!(browser.post("/lite/folders", &rename).await.has(">Play</a>"));
    world.put("ann", "Play", "Subject: x\r\n\r\ny");
    let delete = [("token", token.as_str()), ("do", "delete"), ("folder", id.as_str())];
    assert!(browser.post("/lite/folders", &delete).await.has("has 1 messages"));
    assert!(browser.post("/lite/folders", &[&delete[..], &[("sure", "1")]].concat()).await.has("was deleted"));
    let inbox = world.folder("ann", "INBOX").to_string();
    let delete = [("token", token.as_str()), ("do", "delete"), ("folder", inbox.as_str()), ("sure", "1")];
    assert_eq!(browser.post("/lite/folders", &delete).await.status, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn long_texts_are_cut_with_a_link_to_the_rest() {
    let world = World::new();
    let text = "word ".repeat(20_000);
    world.put("ann", "INBOX", &format!("Subject: long\r\n\r\n{text}END\r\n"));
    let mut browser = world.logged_in("ann").await;
    let list = browser.get("/lite/").await;
    let message = browser.get(&list.link("long")).await;
    assert!(!message.has("END") && message.body.len() < 40_000, "{} bytes", message.body.len());
    let whole = browser.get(&message.link("Show the rest of the text")).await;
    assert!(whole.has("END"));
    let raw = browser.get(&message.link("Source")).await;
    assert_eq!(raw.field("content-type"), "text/plain; charset=utf-8");
    assert!(raw.body.ends_with(b"END\r\n") && raw.body.starts_with(b"Subject: long"));
}

#[tokio::test]
async fn settings_list_and_end_sessions() {
    let world = World::new();
    let mut first = world.logged_in("ann").await;
    let mut second = world.logged_in("ann").await;
    let mut bob = world.logged_in("bob").await;
    let page = first.get("/lite/settings").await;
    assert!(page.has("of 52.4 MB") && page.has("(this one)"), "{}", page.text());
    assert_eq!(page.text().matches("name=\"session\"").count(), 1);
    let session = page.hidden("session");
    let token = page.hidden("token");
    let bobs = bob.get("/lite/settings").await.hidden("token");
    let stolen = bob.post("/lite/settings", &[("token", &bobs), ("do", "end"), ("session", &session)]).await;
    assert_eq!(stolen.status, StatusCode::NOT_FOUND);
    let ended = first.post("/lite/settings", &[("token", &token), ("do", "end"), ("session", &session)]).await;
    assert!(ended.has("The session was ended."), "{}", ended.text());
    assert!(second.get("/lite/folders").await.has("Log in"));
    assert!(bob.get("/lite/folders").await.has("<h1 dir=\"auto\">Folders</h1>"));
}

#[tokio::test]
async fn conversation_has_the_messages_of_all_folders_in_order() {
    let world = World::new();
    let message = |id: &str, refers: &str, subject: &str| {
        format!("From: bob@acme.test\r\nMessage-ID: <{id}@x>\r\nReferences: {refers}\r\nSubject: {subject}\r\n\r\nx")
    };
    let first = world.put("ann", "INBOX", &message("1", "", "Plan"));
    world.put("ann", "INBOX", &message("9", "", "Other"));
    world.put("ann", "Sent", &message("2", "<1@x>", "Re: Plan"));
    world.put("ann", "Trash", &message("3", "<1@x>", "Re: Plan"));
    let mut browser = world.logged_in("ann").await;
    let address = format!("/lite/folder/{}/{first}", world.folder("ann", "INBOX"));
    let link = browser.get(&address).await.link("Conversation");
    let page = browser.get(&link).await;
    let text = page.text();
    let rows: Vec<&str> = text.split("<tr").skip(1).filter(|row| row.contains("href=\"/lite/folder/")).collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert!(rows[0].contains(">Plan<") && rows[0].contains("aria-current") && rows[1].contains(">Re: Plan<"), "{text}");
    assert!(rows[1].contains("Sent") && !page.has("may be missing"), "{text}");
    assert_eq!(browser.get("/lite/folder/1/999/conversation").await.status, StatusCode::NOT_FOUND);
}
