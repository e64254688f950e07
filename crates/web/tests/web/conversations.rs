//! Lists of conversations, and orders of large folders.

use axum::http::StatusCode;

use super::world::{Page, World};

fn message(id: &str, refers: &str, subject: &str) -> String {
    format!("From: bob@acme.test\r\nMessage-ID: <{id}@x>\r\nReferences: {refers}\r\nSubject: {subject}\r\n\r\nx")
}

/// Puts two conversations into the inbox, of two messages and of one, and an answer into the folder with sent messages.
/// Returns the UIDs in the inbox.
fn put_conversations(world: &World) -> [u32; 3] {
    let plan = world.put("ann", "INBOX", &message("1", "", "Plan"));
    world.wait(60);
    let other = world.put("ann", "INBOX", &message("9", "", "Other"));
    world.wait(60);
    let answer = world.put("ann", "INBOX", &message("2", "<1@x>", "Re: Plan"));
    world.put("ann", "Sent", &message("3", "<2@x>", "Re: Plan"));
    [plan, other, answer].map(|uid| uid.0)
}

/// Returns the rows of a list.
fn rows(page: &Page) -> Vec<String> {
    let text = page.text();
    let body = text.split_once("<tbody>").and_then(|(_, rest)| rest.split_once("</tbody>")).expect("a table").0;
    body.split("<tr").skip(1).map(str::to_owned).collect()
}

#[tokio::test]
async fn a_list_has_one_row_for_each_conversation() {
    let world = World::new();
    let [plan, other, answer] = put_conversations(&world);
    let mut browser = world.logged_in("ann").await;
    let path = format!("/lite/folder/{}", world.folder("ann", "INBOX"));
    let messages = browser.get(&path).await;
    assert_eq!(rows(&messages).len(), 3);
    let list = browser.get(&format!("{path}{}", messages.link("Show conversations"))).await;
    assert!(list.has("Inbox, 1–2 of 2 conversations") && list.has("3 unread"), "{}", list.text());
    let found = rows(&list);
    assert_eq!(found.len(), 2, "{}", list.text());
    assert!(found[0].contains(&format!("value=\"{answer}\"")) && found[0].contains(">Re: Plan<"), "{}", found[0]);
    assert!(found[0].contains(">2 messages<"), "the answer in another folder does not count: {}", found[0]);
    assert!(found[1].contains(&format!("value=\"{other}\"")) && !found[1].contains("messages<"), "{}", found[1]);
    let conversation = browser.get(&list.link("2 messages")).await;
    assert_eq!(rows(&conversation).len(), 3, "its page has all folders");

    // An older unread message makes a conversation unread.
    browser.get(&format!("{path}/{answer}")).await;
    let list = browser.get(&format!("{path}?threads=1")).await;
    assert!(rows(&list)[0].contains("class=\"new\"") && rows(&list)[0].contains("New"), "{}", list.text());
    browser.get(&format!("{path}/{plan}")).await;
    let list = browser.get(&format!("{path}?threads=1")).await;
    assert!(!rows(&list)[0].contains("class=\"new\"") && rows(&list)[1].contains("class=\"new\""), "{}", list.text());
    assert_eq!(rows(&browser.get(&format!("{path}{}", list.link("Show messages one by one"))).await).len(), 3);
}

#[tokio::test]
async fn conversations_follow_the_messages_of_the_folder() {
    let world = World::new();
    let [_, other, _] = put_conversations(&world);
    let mut browser = world.logged_in("ann").await;
    let inbox = world.folder("ann", "INBOX");
    let path = format!("/lite/folder/{inbox}?threads=1");
    assert_eq!(rows(&browser.get(&path).await).len(), 2);
    world.wait(60);
    let late = world.put("ann", "INBOX", &message("8", "<9@x>", "Re: Other")).0;
    let list = browser.get(&path).await;
    assert!(rows(&list)[0].contains(&format!("value=\"{late}\"")) && rows(&list)[0].contains(">2 messages<"));
    let oldest_first = browser.get(&format!("{path}&order=up")).await;
    assert!(rows(&oldest_first)[1].contains(&format!("value=\"{late}\"")), "{}", oldest_first.text());
    let token = list.hidden("token");
    let form = [("token", token.as_str()), ("uid", &late.to_string()), ("do", "delete")];
    browser.post(&format!("/lite/folder/{inbox}"), &form).await;
    let list = browser.get(&path).await;
    assert!(rows(&list)[1].contains(&format!("value=\"{other}\"")) && !rows(&list)[1].contains("messages<"));
}

#[tokio::test]
async fn an_action_on_a_conversation_concerns_its_messages_in_the_folder_that_the_page_knew() {
    let world = World::new();
    let [plan, _, answer] = put_conversations(&world);
    let mut browser = world.logged_in("ann").await;
    let path = format!("/lite/folder/{}", world.folder("ann", "INBOX"));
    let list = browser.get(&format!("{path}?threads=1")).await;
    let late = world.put("ann", "INBOX", &message("5", "<1@x>", "Re: Plan")).0;
    let token = list.hidden("token");
    let until = list.hidden("until");
    let answer = answer.to_string();
    let form = [("token", token.as_str()), ("until", &until), ("threads", "1"), ("uid", &answer)];
    let read = browser.post(&path, &[&form[..], &[("do", "flag")]].concat()).await;
    assert!(read.has("2 messages are flagged.") && read.has("conversations"), "{}", read.text());
    let deleted = browser.post(&path, &[&form[..], &[("do", "delete")]].concat()).await;
    assert!(deleted.has("2 messages were moved to Trash."), "{}", deleted.text());
    let again = browser.post(&path, &[&form[..], &[("do", "delete")]].concat()).await;
    assert_eq!(again.hidden("uids"), deleted.hidden("uids"), "a second click offers the same undo");
    let left: Vec<u32> = world.messages("ann", "INBOX").iter().map(|(uid, _)| *uid).collect();
    assert!(!left.contains(&plan) && left.contains(&late) && left.len() == 2, "{left:?}");
    assert_eq!(world.messages("ann", "Sent").len(), 1, "other folders stay as they are");
    let all = [("token", token.as_str()), ("until", &until), ("threads", "1"), ("all", "1"), ("do", "read")];
    assert!(browser.post(&path, &all).await.has("1 message is marked as read."));
}

#[tokio::test]
async fn pages_of_conversations_have_their_position_and_keep_their_view() {
    let world = World::new();
    for number in 0..120 {
        world.put("ann", "INBOX", &message(&number.to_string(), "", &format!("Number {number}")));
        world.put(
            "ann",
            "INBOX",
            &message(&format!("a{number}"), &format!("<{number}@x>"), &format!("Number {number}")),
        );
        world.wait(1);
    }
    let mut browser = world.logged_in("ann").await;
    let path = format!("/lite/folder/{}", world.folder("ann", "INBOX"));
    let first = browser.get(&format!("{path}?threads=1")).await;
    assert!(first.has("Inbox, 1–50 of 120 conversations") && rows(&first)[0].contains(">Number 119<"));
    assert!(first.has("All 240 messages of this folder"), "{}", first.text());
    assert!(first.body.len() < 40_000, "{} bytes", first.body.len());
    let second = browser.get(&first.link("Next")).await;
    assert!(second.has("51–100 of 120 conversations") && rows(&second)[0].contains(">Number 69<"));
    let last = browser.get(&format!("{path}?threads=1&page=99")).await;
    assert_eq!((last.status, rows(&last).len()), (StatusCode::OK, 20));
    let by_subject = browser.get(&format!("{path}{}", second.link("Subject"))).await;
    let text = by_subject.text();
    assert!(by_subject.has("1–50 of 120 conversations"), "{text}");
    assert!(text.find(">Number 0<") < text.find(">Number 1<") && text.contains(">Number 100<"), "{text}");
    for wrong in ["threads=2", "threads=", "threads=%00"] {
        let page = browser.get(&format!("{path}?{wrong}")).await;
        assert!(page.has("1–50 of 240") && !page.has("240 conversations"), "{wrong}");
    }
}

#[tokio::test]
async fn orders_are_offered_for_large_folders() {
    let world = World::new();
    for number in 0..2_100 {
        let text = format!("From: p{:04}@b.test\r\nSubject: Re: Number {number:04}\r\n\r\nx", 5_000 - number);
        world.put("ann", "INBOX", &text);
    }
    let mut browser = world.logged_in("ann").await;
    let path = format!("/lite/folder/{}", world.folder("ann", "INBOX"));
    let list = browser.get(&path).await;
    let by_sender = browser.get(&format!("{path}{}", list.link("From"))).await;
    assert!(rows(&by_sender)[0].contains("Number 2099") && rows(&by_sender)[49].contains("Number 2050"));
    let by_subject = browser.get(&format!("{path}{}", list.link("Subject"))).await;
    assert!(rows(&by_subject)[0].contains("Number 0000"), "{}", rows(&by_subject)[0]);
    let downwards = browser.get(&format!("{path}{}", by_subject.link("Subject"))).await;
    assert!(rows(&downwards)[0].contains("Number 2099"), "{}", rows(&downwards)[0]);
    let last = browser.get(&by_subject.link("Last")).await;
    assert!(last.has("2,051–2,100 of 2,100") && rows(&last)[49].contains("Number 2099"));
}
