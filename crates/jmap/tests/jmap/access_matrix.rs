//! The access matrix: every method as owner, Editor, Author, Reader and stranger of an account.

use std::collections::BTreeSet;

use jmap::Caller;
use jmap::backend::Scope;
use jmap::method::METHODS;
use notes::AclLevel;
use serde_json::{Value, json};

use crate::world::World;

/// What a person may do with an account.
#[derive(Clone, Copy, PartialEq)]
enum Level {
    Nothing,
    Reading,
    Writing,
}

/// The methods, with arguments that are valid for an account, and whether they change something.
fn rows(account: &str, other: &str) -> Vec<(&'static str, Value, bool)> {
    let state = json!({ "accountId": account, "sinceState": "0" });
    let query_state = json!({ "accountId": account, "sinceQueryState": "0" });
    let plain = json!({ "accountId": account });
    let copy = json!({ "accountId": account, "fromAccountId": other, "create": {} });
    vec![
        ("Blob/copy", json!({ "accountId": account, "fromAccountId": other, "blobIds": [] }), true),
        ("Blob/get", json!({ "accountId": account, "ids": [] }), false),
        ("Blob/lookup", json!({ "accountId": account, "ids": [], "typeNames": [] }), false),
        ("Blob/upload", json!({ "accountId": account, "create": {} }), true),
        ("Core/echo", json!({}), false),
        ("Email/changes", state.clone(), false),
        ("Email/copy", copy, true),
        ("Email/get", plain.clone(), false),
        ("Email/import", json!({ "accountId": account, "emails": {} }), true),
        ("Email/parse", json!({ "accountId": account, "blobIds": [] }), false),
        ("Email/query", plain.clone(), false),
        ("Email/queryChanges", query_state.clone(), false),
        ("Email/set", plain.clone(), true),
        ("EmailSubmission/changes", state.clone(), false),
        ("EmailSubmission/get", plain.clone(), false),
        ("EmailSubmission/query", plain.clone(), false),
        ("EmailSubmission/queryChanges", query_state.clone(), false),
        ("EmailSubmission/set", plain.clone(), true),
        ("Identity/changes", state.clone(), false),
        ("Identity/get", plain.clone(), false),
        ("Identity/set", plain.clone(), true),
        ("Mailbox/changes", state.clone(), false),
        ("Mailbox/get", plain.clone(), false),
        ("Mailbox/query", plain.clone(), false),
        ("Mailbox/queryChanges", query_state.clone(), false),
        ("Mailbox/set", plain.clone(), true),
        ("MDN/parse", json!({ "accountId": account, "blobIds": [] }), false),
        ("MDN/send", json!({ "accountId": account, "identityId": "I1", "send": {} }), true),
        ("PushSubscription/get", json!({ "ids": [] }), false),
        ("PushSubscription/set", json!({}), false),
        ("Preferences/changes", state.clone(), false),
        ("Preferences/get", plain.clone(), false),
        ("Preferences/set", plain.clone(), true),
        ("Principal/changes", state.clone(), false),
        ("Principal/get", plain.clone(), false),
        ("Principal/query", plain.clone(), false),
        ("Principal/queryChanges", query_state.clone(), false),
        ("Principal/set", plain.clone(), true),
        ("Quota/changes", state.clone(), false),
        ("Quota/get", plain.clone(), false),
        ("Quota/query", plain.clone(), false),
        ("Quota/queryChanges", query_state.clone(), false),
        ("SearchSnippet/get", json!({ "accountId": account, "emailIds": [] }), false),
        ("ShareNotification/changes", state.clone(), false),
        ("ShareNotification/get", plain.clone(), false),
        ("ShareNotification/query", plain.clone(), false),
        ("ShareNotification/queryChanges", query_state, false),
        ("ShareNotification/set", plain.clone(), true),
        ("Thread/changes", state, false),
        ("Thread/get", plain.clone(), false),
        ("VacationResponse/get", plain.clone(), false),
        ("VacationResponse/set", plain, true),
    ]
}

/// Returns `true` if only the caller's own account has the objects.
fn is_of_own_account(method: &str) -> bool {
    method.starts_with("Principal/") || method.starts_with("ShareNotification/")
}

#[test]
fn every_method_has_a_row() {
    let rows: BTreeSet<&str> = rows("A", "B").iter().map(|(name, ..)| *name).collect();
    let methods: BTreeSet<&str> = METHODS.iter().map(|method| method.name).collect();
    assert_eq!(rows, methods);
}

#[test]
fn methods_refuse_people_without_the_right() {
    let world = World::new();
    let people = [
        ("alice", Level::Writing),
        ("dave", Level::Writing),
        ("erin", Level::Writing),
        ("frank", Level::Reading),
        ("bob", Level::Nothing),
        ("nobody", Level::Nothing),
    ];
    for (login, level) in people {
        // The other account of a copy is one that nobody but its owner may read.
        for (method, arguments, is_change) in rows("Aalice", "Aalice2") {
            let responses = world.calls(login, &json!([[method, arguments, "c"]]));
            let kind = responses[0][1]["type"].as_str().unwrap_or("none");
            let is_copy = method.ends_with("/copy");
            let expected: &[&str] = match level {
                _ if method == "Core/echo" || method.starts_with("PushSubscription/") => &["none"],
                _ if is_copy => &["fromAccountNotFound"],
                // RFC 9007 §2 has this error for accounts that do not exist.
                Level::Nothing if method.starts_with("MDN/") => &["invalidArguments"],
                Level::Nothing => &["accountNotFound"],
                _ if is_of_own_account(method) && login != "alice" => &["accountNotSupportedByMethod"],
                Level::Reading if is_change => &["accountReadOnly"],
                // An Author adds messages to the mail file of somebody else. Sending and the reply are for Editors.
                _ if login == "erin" && ["EmailSubmission/set", "VacationResponse/set"].contains(&method) => {
                    &["forbidden"]
                }
                _ => &["none", "cannotCalculateChanges"],
            };
            assert!(expected.contains(&kind), "{login} {method}: {responses}");
        }
    }
}

#[test]
fn objects_of_other_accounts_do_not_exist() {
    let world = World::new();
    world.deliver("alice", "INBOX", b"Subject: secret\r\n\r\nbody\r\n");
    let list = world.call("alice", "Email/get", json!({ "accountId": "Aalice", "properties": ["blobId", "threadId"] }));
    let email = &list["list"][0];
    let get = |method: &str, id: &Value| world.call("bob", method, json!({ "accountId": "Abob", "ids": [id] }));
    assert_eq!(get("Email/get", &email["id"])["list"], json!([]));
    assert_eq!(get("Thread/get", &email["threadId"])["list"], json!([]));
    assert_eq!(get("Blob/get", &email["blobId"])["list"], json!([]));
    let blob = email["blobId"].as_str().expect("an id");
    for (login, account) in [("bob", "Aalice"), ("bob", "Abob"), ("nobody", "Aalice")] {
        let opened = jmap::blob::open_blob(&world.services, &crate::world::caller(login), account, blob);
        let kind = opened.expect_err("nobody else may read it").kind;
        assert!(["accountNotFound", "blobNotFound"].contains(&kind), "{kind}");
    }
    let opened = jmap::blob::open_blob(&world.services, &crate::world::caller("frank"), "Aalice", blob);
    assert_eq!(opened.expect("a Reader may").0.media_type, "message/rfc822");
}

#[test]
fn a_message_that_readers_items_hide_later_does_not_exist() {
    let world = World::new();
    for number in 0..2 {
        world.deliver("alice", "INBOX", format!("Subject: {number}\r\n\r\nbody\r\n").as_bytes());
    }
    let query = |login: &str| world.call(login, "Email/query", json!({ "accountId": "Aalice" }));
    let before = query("frank");
    let id = before["ids"][0].as_str().expect("an id");
    world.hide("alice", id);
    assert_eq!(query("frank")["ids"], json!([before["ids"][1]]));
    assert_eq!(query("alice")["ids"], before["ids"]);
    let changes = json!({ "accountId": "Aalice", "sinceState": before["queryState"] });
    let changes = |login: &str| world.call(login, "Email/changes", changes.clone());
    assert_eq!(changes("frank")["destroyed"], json!([id]));
    assert_eq!(changes("alice")["destroyed"], json!([]));
    let get = world.call("frank", "Email/get", json!({ "accountId": "Aalice", "ids": [id] }));
    assert_eq!(get["notFound"], json!([id]));
    let mailboxes = world.call("frank", "Mailbox/get", json!({ "accountId": "Aalice", "properties": ["totalEmails"] }));
    let total: u64 =
        mailboxes["list"].as_array().expect("a list").iter().filter_map(|m| m["totalEmails"].as_u64()).sum();
    assert_eq!(total, 1);
}

#[test]
fn a_blob_that_somebody_else_has_uploaded_does_not_exist() {
    let world = World::new();
    let services = &world.services;
    let caller = crate::world::caller;
    let uploaded = jmap::blob::upload(services, &caller("dave"), "Aalice", "text".into(), "text/plain");
    let uploaded = uploaded.expect("an Editor may").expect("it is small");
    let id = uploaded["blobId"].as_str().expect("an id");
    assert!(jmap::blob::open_blob(services, &caller("dave"), "Aalice", id).is_ok());
    let opened = jmap::blob::open_blob(services, &caller("alice"), "Aalice", id);
    assert_eq!(opened.expect_err("it is dave's").kind, "blobNotFound");
    let refused = jmap::blob::upload(services, &caller("frank"), "Aalice", "text".into(), "text/plain");
    assert_eq!(refused.expect_err("a Reader may not").kind, "accountReadOnly");
}

#[test]
fn the_session_shows_accounts_and_rights() {
    let world = World::new();
    let session = |login: &str| crate::world::session(&world, &crate::world::caller(login));
    let accounts = |login: &str| session(login)["accounts"].as_object().map(|accounts| accounts.len());
    assert_eq!([accounts("alice"), accounts("frank"), accounts("nobody")], [Some(1), Some(1), Some(0)]);
    let frank = session("frank");
    assert_eq!(frank["accounts"]["Aalice"]["isReadOnly"], json!(true));
    assert_eq!(frank["primaryAccounts"], json!({}));
    assert_eq!(session("alice")["primaryAccounts"]["urn:ietf:params:jmap:mail"], json!("Aalice"));
    let state = jmap::session_state(&world.services, &crate::world::caller("alice")).expect("a state");
    assert_eq!(session("alice")["state"], json!(state));
}

#[test]
fn a_login_with_reading_scope_changes_nothing_in_any_account() {
    let world = World::new();
    for login in ["alice", "dave", "erin", "frank"] {
        let caller = Caller { scope: Scope::Reading, ..crate::world::caller(login) };
        let session = crate::world::session(&world, &caller);
        let account = &session["accounts"]["Aalice"];
        assert_eq!(account["isReadOnly"], json!(true), "{login}");
        assert_eq!(account["accountCapabilities"]["urn:ietf:params:jmap:mail"]["mayCreateTopLevelMailbox"], false);
        for (method, arguments, is_change) in rows("Aalice", "Aalice2") {
            let responses = world.calls_as(&caller, &json!([[method, arguments, "c"]]));
            let kind = responses[0][1]["type"].as_str().unwrap_or("none");
            let expected: &[&str] = match is_change {
                _ if method == "Core/echo" || method.starts_with("PushSubscription/") => &["none"],
                // The account that is read is opened first.
                true if method.ends_with("/copy") => &["fromAccountNotFound"],
                _ if is_of_own_account(method) && login != "alice" => &["accountNotSupportedByMethod"],
                true => &["accountReadOnly"],
                false => &["none", "cannotCalculateChanges"],
            };
            assert!(expected.contains(&kind), "{login} {method}: {responses}");
            let is_of_account = !method.starts_with("PushSubscription/");
            assert!(is_change || !is_of_account || !method.ends_with("/set"), "{method} changes something");
        }
        for method in ["Email/copy", "Blob/copy"] {
            let copy = json!({ "accountId": "Aalice", "fromAccountId": "Abob", "create": {}, "blobIds": null });
            world.grant("bob", login, AclLevel::Reader);
            let mut copy = copy.as_object().cloned().unwrap_or_default();
            copy.remove(if method == "Email/copy" { "blobIds" } else { "create" });
            if method == "Blob/copy" {
                copy.insert("blobIds".to_owned(), json!([]));
            }
            let responses = world.calls_as(&caller, &json!([[method, copy, "c"]]));
            assert_eq!(responses[0][1]["type"], "accountReadOnly", "{login} {method}: {responses}");
        }
        let list = world.calls_as(&caller, &json!([["Mailbox/get", { "accountId": "Aalice" }, "c"]]));
        for mailbox in list[0][1]["list"].as_array().expect("a list") {
            let rights = mailbox["myRights"].as_object().expect("an object");
            let given = rights.iter().filter(|(_, is_given)| **is_given == true).map(|(name, _)| name.as_str());
            let given: Vec<&str> = given.collect();
            assert_eq!(given, ["mayReadItems"], "{login}");
        }
        let uploaded = jmap::blob::upload(&world.services, &caller, "Aalice", "text".into(), "text/plain");
        assert_eq!(uploaded.expect_err("it is a change").kind, "accountReadOnly");
    }
}
