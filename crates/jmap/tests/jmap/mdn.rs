//! Tests of MDN/send: the envelope, the errors, and that nobody is notified twice or without a call.

use std::collections::BTreeSet;

use base::{NoteId, UidSet};
use jmap::Caller;
use jmap::backend::Scope;
use mail::router::Notify;
use mail::submission::{NotifiedMessage, Refusal, SubmissionRequest};
use notes::AclLevel;
use serde_json::{Value, json};

use crate::world::{World, account, caller};

const REQUEST: &str = "Return-Path: <x@far.test>\r\nFrom: x@far.test\r\nMessage-ID: <1@far.test>\r\n\
    Disposition-Notification-To: x@far.test\r\nSubject: Plan\r\n\r\nText\r\n";

/// Delivers a message to alice, and returns the identifier of the Email.
fn deliver(world: &World, raw: &str) -> String {
    let ids = || -> BTreeSet<String> {
        let list = world.call("alice", "Email/query", json!({ "accountId": account("alice") }));
        list["ids"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let before = ids();
    world.deliver("alice", "INBOX", raw.as_bytes());
    ids().difference(&before).next().expect("the message is new").clone()
}

/// Returns the MDN about an Email.
fn mdn(email: &str) -> Value {
    let disposition = json!({
        "actionMode": "manual-action", "sendingMode": "mdn-sent-manually", "type": "displayed",
    });
    json!({ "forEmailId": email, "disposition": disposition })
}

/// Returns the arguments of a call that sends one MDN.
fn arguments(mdn: &Value) -> Value {
    json!({
        "accountId": account("alice"),
        "identityId": "I1",
        "send": { "k": mdn },
        "onSuccessUpdateEmail": { "#k": { "keywords/$mdnsent": true } },
    })
}

/// Sends one MDN, and returns the type of the error, or `sent`.
fn send_as(world: &World, caller: &Caller, mdn: &Value) -> String {
    let responses = world.calls_as(caller, &json!([["MDN/send", arguments(mdn), "c"]]));
    let reply = &responses[0][1];
    let kind = reply["notSent"]["k"]["type"].as_str().or_else(|| reply["type"].as_str());
    let sent = reply["sent"]["k"].is_object().then_some("sent");
    kind.or(sent).unwrap_or_else(|| panic!("{responses}")).to_owned()
}

fn send(world: &World, mdn: &Value) -> String {
    send_as(world, &caller("alice"), mdn)
}

fn is_marked(world: &World, email: &str) -> bool {
    let arguments = json!({ "accountId": account("alice"), "ids": [email], "properties": ["keywords"] });
    world.call("alice", "Email/get", arguments)["list"][0]["keywords"]["$mdnsent"] == true
}

#[test]
fn a_notification_has_no_return_path_and_is_not_reported() {
    let world = World::new();
    let email = deliver(&world, REQUEST);
    assert!(world.router.list().is_empty(), "nothing is sent without a call");
    world.call("alice", "Email/get", json!({ "accountId": account("alice"), "ids": [email] }));
    let seen = json!({ "accountId": account("alice"), "update": { &email: { "keywords/$seen": true } } });
    world.call("alice", "Email/set", seen);
    assert!(world.router.list().is_empty(), "reading sends nothing");
    assert_eq!(send(&world, &mdn(&email)), "sent");
    let queue = world.router.list();
    let [(_, entry)] = queue.as_slice() else { panic!("{queue:?}") };
    assert_eq!(entry.envelope.reverse_path, "");
    let recipients: Vec<_> = entry.recipients.iter().map(|of| (&*of.recipient.address, of.recipient.notify)).collect();
    assert_eq!(recipients, [("x@far.test", Some(Notify::NEVER))]);
    assert!(is_marked(&world, &email));
}

#[test]
fn nobody_is_notified_twice() {
    let world = World::new();
    let email = deliver(&world, REQUEST);
    assert_eq!(send(&world, &mdn(&email)), "sent");
    assert_eq!(send(&world, &mdn(&email)), "mdnAlreadySent");
    // Another call that has read the message before it was marked reaches the router.
    let unid = email.trim_start_matches('M').parse().expect("an identifier");
    let file = world.open_as_server("alice");
    let snapshot = file.snapshot().expect("a snapshot");
    let note: NoteId = snapshot.reading().find(unid).expect("the store works").expect("the message exists");
    let request = SubmissionRequest {
        login: "alice".to_owned(),
        peer: None,
        sender: "alice@demo.test".to_owned(),
        recipients: vec!["x@far.test".to_owned()],
        message: b"From: alice@demo.test\r\n\r\n".to_vec(),
        request_id: String::new(),
    };
    let about = NotifiedMessage { mail_file: file.database().path(), note };
    let refused = world.services.outbox.submit_notification(request, about).expect_err("it is marked");
    assert_eq!(refused.refusal, Refusal::AlreadyNotified);
    assert_eq!(world.router.list().len(), 1);
    // A person who has sent a notification in another program is not asked again.
    let other = deliver(&world, &REQUEST.replace("1@far.test", "2@far.test"));
    let marked = json!({ "accountId": account("alice"), "update": { &other: { "keywords/$mdnsent": true } } });
    world.call("alice", "Email/set", marked);
    assert_eq!(send(&world, &mdn(&other)), "mdnAlreadySent");
}

#[test]
fn a_message_that_is_deleted_meanwhile_is_not_found() {
    let world = World::new();
    let email = deliver(&world, REQUEST);
    let file = world.open_as_server("alice");
    let delete = move || {
        let inbox = file.snapshot().and_then(|snapshot| snapshot.folder("INBOX")).expect("the store works");
        let inbox = inbox.expect("there is an inbox").id;
        file.delete(inbox, &UidSet::from(1..=u32::MAX)).expect("the store works");
    };
    *world.before_sending.lock().expect("no test panics with it") = Some(Box::new(delete));
    assert_eq!(send(&world, &mdn(&email)), "notFound");
    assert!(world.router.list().is_empty());
}

#[test]
fn messages_without_a_valid_request_are_not_found() {
    let world = World::new();
    assert_eq!(send(&world, &mdn("M1")), "notFound");
    assert_eq!(send(&world, &mdn("#none")), "notFound");
    let field = "Disposition-Notification-To: x@far.test\r\n";
    let others = [
        REQUEST.replace(field, ""),
        REQUEST.replace(field, "Disposition-Notification-To: nobody\r\n"),
        REQUEST.replace(field, &field.repeat(2)),
        REQUEST.replace(field, &format!("{field}Content-Type: multipart/report; boundary=b\r\n")),
        REQUEST.replace("x@far.test\r\nSubject", "gone@demo.test\r\nSubject"),
    ];
    for raw in others {
        let email = deliver(&world, &raw);
        assert_eq!(send(&world, &mdn(&email)), "notFound", "{raw}");
        assert!(!is_marked(&world, &email), "{raw}");
    }
    assert!(world.router.list().is_empty());
}

#[test]
fn invalid_properties_are_refused() {
    let world = World::new();
    let email = deliver(&world, REQUEST);
    let check = |name: &str, value: Value, kind: &str| {
        let mut mdn = mdn(&email);
        mdn[name] = value;
        assert_eq!(send(&world, &mdn), kind, "{mdn}");
    };
    check("forEmailId", Value::Null, "invalidProperties");
    check("forEmailId", json!(7), "invalidProperties");
    check("subject", json!("a\r\nBcc: eve@far.test"), "invalidProperties");
    check("reportingUA", json!("a\nb"), "invalidProperties");
    check("textBody", json!("x".repeat(100_000)), "tooLarge");
    check("textBody", json!(true), "invalidProperties");
    check("includeOriginalMessage", json!("yes"), "invalidProperties");
    check("unknown", json!(1), "invalidProperties");
    for name in ["mdnGateway", "originalRecipient", "originalMessageId", "error"] {
        check(name, json!("x"), "invalidProperties");
    }
    let fields = [json!([]), json!({ "Disposition": "x" }), json!({ "X:Y": "x" }), json!({ "": "x" })];
    for value in fields.into_iter().chain([json!({ "X-A": 1 }), json!({ "X-A": "x\r\ny" }), json!({ "ä": "x" })]) {
        check("extensionFields", value, "invalidProperties");
    }
    let disposition = |member: &str, value: &str| {
        let mut mdn = mdn(&email);
        mdn["disposition"][member] = json!(value);
        mdn["disposition"].clone()
    };
    check("disposition", Value::Null, "invalidProperties");
    check("disposition", json!({}), "invalidProperties");
    check("disposition", disposition("type", "denied"), "invalidProperties");
    check("disposition", disposition("actionMode", "Manual-Action"), "invalidProperties");
    check("disposition", disposition("sendingMode", "sent"), "invalidProperties");
    check("disposition", disposition("other", "x"), "invalidProperties");
    check("finalRecipient", json!("rfc822; bob@demo.test"), "forbiddenFrom");
    assert!(world.router.list().is_empty() && !is_marked(&world, &email));
    check("finalRecipient", json!("RFC822; alice@DEMO.test"), "sent");
}

#[test]
fn arguments_that_name_nothing_are_refused() {
    let world = World::new();
    let email = deliver(&world, REQUEST);
    let check = |name: &str, value: Value, expected: &str| {
        let mut arguments = arguments(&mdn(&email));
        arguments[name] = value;
        let responses = world.calls("alice", &json!([["MDN/send", arguments, "c"]]));
        assert_eq!(responses[0][1]["type"], expected, "{responses}");
    };
    check("accountId", json!("Anone"), "invalidArguments");
    check("accountId", json!("Abob"), "invalidArguments");
    check("identityId", json!("I2"), "invalidArguments");
    check("identityId", Value::Null, "invalidArguments");
    check("send", Value::Null, "invalidArguments");
    check("unknown", json!(1), "invalidArguments");
    let many: serde_json::Map<String, Value> = (0..51).map(|number| (format!("k{number}"), mdn(&email))).collect();
    check("send", Value::Object(many), "requestTooLarge");
    assert!(world.router.list().is_empty());
}

#[test]
fn a_client_that_asks_nobody_answers_only_the_sender() {
    let world = World::new();
    let automatic = |email: &str| {
        let mut mdn = mdn(email);
        mdn["disposition"]["sendingMode"] = json!("mdn-sent-automatically");
        mdn
    };
    let field = "Disposition-Notification-To: x@far.test";
    let elsewhere = [
        REQUEST.replace(field, "Disposition-Notification-To: eve@evil.test"),
        REQUEST.replace(field, &format!("{field}, eve@evil.test")),
        REQUEST.replace("Return-Path: <x@far.test>\r\n", ""),
        REQUEST.replace("Return-Path: <x@far.test>", "Return-Path: <>"),
    ];
    for raw in elsewhere {
        let email = deliver(&world, &raw);
        assert_eq!(send(&world, &automatic(&email)), "forbidden", "{raw}");
        assert_eq!(send(&world, &mdn(&email)), "sent", "the person may: {raw}");
    }
    let email = deliver(&world, REQUEST);
    assert_eq!(send(&world, &automatic(&email)), "sent");
}

#[test]
fn only_editors_send_and_only_with_their_own_addresses() {
    let world = World::new();
    let email = deliver(&world, REQUEST);
    assert_eq!(send_as(&world, &caller("frank"), &mdn(&email)), "accountReadOnly");
    assert_eq!(send_as(&world, &caller("bob"), &mdn(&email)), "invalidArguments");
    assert_eq!(send_as(&world, &caller("erin"), &mdn(&email)), "forbidden");
    let reading = Caller { scope: Scope::Reading, ..caller("alice") };
    assert_eq!(send_as(&world, &reading, &mdn(&email)), "accountReadOnly");
    assert!(world.router.list().is_empty());
    let mut as_owner = mdn(&email);
    as_owner["finalRecipient"] = json!("rfc822; alice@demo.test");
    assert_eq!(send_as(&world, &caller("dave"), &as_owner), "forbiddenFrom");
    assert_eq!(send_as(&world, &caller("dave"), &mdn(&email)), "sent");
    assert_eq!(world.router.list().len(), 1);
    // Rights count at the time of the call.
    let other = deliver(&world, &REQUEST.replace("1@far.test", "3@far.test"));
    world.grant("alice", "dave", AclLevel::Reader);
    assert_eq!(send_as(&world, &caller("dave"), &mdn(&other)), "accountReadOnly");
}

/// Returns a notification about a message with a Message-ID.
fn notification(message_id: &str) -> String {
    format!(
        "Subject: Read\r\nContent-Type: multipart/report; report-type=disposition-notification; boundary=b\r\n\r\n\
         --b\r\nContent-Type: text/plain\r\n\r\nRead.\r\n\
         --b\r\nContent-Type: message/disposition-notification\r\n\r\n\
         Final-Recipient: rfc822;x@far.test\r\nOriginal-Message-ID: <{message_id}>\r\n\
         Disposition: manual-action/MDN-sent-manually; displayed\r\n\r\n--b--\r\n"
    )
}

#[test]
fn the_message_of_a_notification_is_found_among_all_that_were_sent() {
    let world = World::new();
    let sent = |id: usize| format!("Message-ID: <{id}@demo.test>\r\nSubject: {id}\r\n\r\nText\r\n");
    (0..600).for_each(|id| world.deliver("alice", "Sent", sent(id).as_bytes()));
    world.deliver("alice", "Sent", sent(7).as_bytes());
    world.deliver("alice", "INBOX", sent(0).as_bytes());
    world.deliver("alice", "INBOX", sent(1_000).as_bytes());
    let found = |message_id: &str| {
        let raw = notification(message_id);
        let uploaded = world.upload(&caller("alice"), "Aalice", raw.as_bytes(), "message/rfc822").expect("she may");
        let blob = uploaded["blobId"].as_str().expect("an id");
        let reply = world.call("alice", "MDN/parse", json!({ "accountId": account("alice"), "blobIds": [blob] }));
        let email = reply["parsed"][blob]["forEmailId"].clone();
        let Value::String(email) = email else { return None };
        let arguments = json!({ "accountId": account("alice"), "ids": [email], "properties": ["subject"] });
        world.call("alice", "Email/get", arguments)["list"][0]["subject"].as_str().map(str::to_owned)
    };
    for id in ["0", "6", "599"] {
        assert_eq!(found(&format!("{id}@demo.test")).as_deref(), Some(id));
    }
    assert_eq!(found("7@demo.test"), None, "two messages have the id");
    assert_eq!(found("1000@demo.test"), None, "it was received");
    assert_eq!(found("none@demo.test"), None);
}
