//! Tests of EmailSubmission: sending, what happens to the message afterwards, sending later, withdrawing, repetitions.

use std::time::Duration;

use serde_json::{Value, json};

use crate::world::{World, account};

const HOUR: Duration = Duration::from_secs(3_600);

/// Creates a draft of alice for bob, and returns its identifier and that of its mailbox.
fn draft(world: &World) -> (String, String) {
    let drafts = mailbox(world, "alice", "drafts");
    let created = world.call(
        "alice",
        "Email/set",
        json!({
            "accountId": account("alice"),
            "create": { "draft": {
                "mailboxIds": { drafts.clone(): true },
                "keywords": { "$draft": true },
                "from": [{ "email": "alice@demo.test" }],
                "to": [{ "email": "bob@demo.test" }, { "email": "x@far.test" }],
                "subject": "Plan",
                "bodyValues": { "1": { "value": "Hello" } },
                "textBody": [{ "partId": "1", "type": "text/plain" }],
            }},
        }),
    );
    let id = created["created"]["draft"]["id"].as_str().unwrap_or_else(|| panic!("{created}"));
    (id.to_owned(), drafts)
}

fn mailbox(world: &World, login: &str, role: &str) -> String {
    let list = world.call(login, "Mailbox/get", json!({ "accountId": account(login) }));
    let found = list["list"].as_array().into_iter().flatten().find(|mailbox| mailbox["role"] == role);
    found.expect("the mailbox exists")["id"].as_str().expect("an id").to_owned()
}

fn emails_of(world: &World, login: &str) -> usize {
    let found = world.call(login, "Email/query", json!({ "accountId": account(login), "calculateTotal": true }));
    usize::try_from(found["total"].as_u64().expect("a total")).expect("a small one")
}

/// Returns the submission of a draft with the parameters of `mailFrom`.
fn submission_of(email: &str, parameters: &Value) -> Value {
    json!({
        "identityId": "I1",
        "emailId": email,
        "envelope": {
            "mailFrom": { "email": "alice@demo.test", "parameters": parameters },
            "rcptTo": [{ "email": "bob@demo.test" }, { "email": "x@far.test" }],
        },
    })
}

/// Sends a draft with the parameters of `mailFrom`, and returns the reply.
fn send(world: &World, email: &str, parameters: Value) -> Value {
    let submission = submission_of(email, &parameters);
    let create = json!({ "accountId": account("alice"), "create": { "k": submission } });
    world.call("alice", "EmailSubmission/set", create)
}

fn created_id(reply: &Value) -> String {
    reply["created"]["k"]["id"].as_str().unwrap_or_else(|| panic!("{reply}")).to_owned()
}

fn get(world: &World, id: &str) -> Value {
    let reply = world.call("alice", "EmailSubmission/get", json!({ "accountId": account("alice"), "ids": [id] }));
    reply["list"][0].clone()
}

fn cancel(world: &World, id: &str) -> Value {
    let update = json!({ id: { "undoStatus": "canceled" } });
    world.call("alice", "EmailSubmission/set", json!({ "accountId": account("alice"), "update": update }))
}

#[test]
fn a_message_is_sent_and_moved_with_one_request() {
    let world = World::new();
    let (email, drafts) = draft(&world);
    let sent = mailbox(&world, "alice", "sent");
    let responses = world.calls(
        "alice",
        &json!([["EmailSubmission/set", {
        "accountId": account("alice"),
        "create": { "k": { "identityId": "I1", "emailId": email.clone() } },
        "onSuccessUpdateEmail": { "#k": {
            format!("mailboxIds/{drafts}"): null,
            format!("mailboxIds/{sent}"): true,
            "keywords/$draft": null,
        }},
    }, "c"]]),
    );
    assert_eq!(
        (&responses[0][0], &responses[1][0]),
        (&json!("EmailSubmission/set"), &json!("Email/set")),
        "{responses}"
    );
    assert_eq!(responses[1][2], "c", "the implicit response has the identifier of the call");
    assert!(responses[1][1]["updated"].get(&email).is_some(), "{responses}");
    let id = created_id(&responses[0][1]);
    let submission = get(&world, &id);
    assert_eq!(submission["undoStatus"], "final");
    assert_eq!(submission["envelope"]["rcptTo"][1]["email"], "x@far.test", "the recipients are those of the message");
    assert_eq!(submission["deliveryStatus"]["x@far.test"]["delivered"], "queued");
    assert_eq!(submission["deliveryStatus"]["bob@demo.test"]["delivered"], "unknown");
    assert_eq!(emails_of(&world, "bob"), 1);
    let moved = world.call(
        "alice",
        "Email/get",
        json!({ "accountId": account("alice"), "ids": [email], "properties": ["mailboxIds", "keywords"] }),
    );
    assert_eq!(moved["list"][0]["mailboxIds"], json!({ sent: true }));
    assert_eq!(moved["list"][0]["keywords"], json!({}));
}

#[test]
fn a_repeated_request_sends_nothing_twice() {
    let world = World::new();
    let (email, _) = draft(&world);
    let first = send(&world, &email, Value::Null);
    let again = send(&world, &email, Value::Null);
    assert_eq!(created_id(&first), created_id(&again));
    assert_eq!((emails_of(&world, "bob"), world.router.list().len()), (1, 1));
    // An object that is not valid is no repetition of one that was.
    let mut invalid = submission_of(&email, &Value::Null);
    invalid["foo"] = json!(1);
    invalid["sendAt"] = json!("yesterday");
    let create = json!({ "accountId": account("alice"), "create": { "k": invalid } });
    let refused = world.call("alice", "EmailSubmission/set", create);
    assert_eq!(refused["notCreated"]["k"]["properties"], json!(["foo", "sendAt"]), "{refused}");
    world.clock.advance(HOUR);
    let later = send(&world, &email, Value::Null);
    assert_ne!(created_id(&first), created_id(&later), "a message can be sent again");
    assert_eq!(emails_of(&world, "bob"), 2);
}

/// Creates a message and sends it in one request, and returns the identifiers of both.
fn create_and_send(world: &World, message_id: Option<&str>) -> (String, String) {
    let drafts = mailbox(world, "alice", "drafts");
    let sent = mailbox(world, "alice", "sent");
    let mut message = json!({
        "mailboxIds": { drafts.clone(): true },
        "from": [{ "email": "alice@demo.test" }],
        "to": [{ "email": "bob@demo.test" }],
        "subject": "Plan",
    });
    if let Some(id) = message_id {
        message["messageId"] = json!([id]);
    }
    let moved = json!({ format!("mailboxIds/{drafts}"): null, format!("mailboxIds/{sent}"): true });
    let responses = world.calls(
        "alice",
        &json!([
            ["Email/set", { "accountId": account("alice"), "create": { "draft": message } }, "a"],
            ["EmailSubmission/set", {
                "accountId": account("alice"),
                "create": { "k": { "identityId": "I1", "emailId": "#draft" } },
                "onSuccessUpdateEmail": { "#k": moved },
            }, "b"],
        ]),
    );
    let email = responses[0][1]["created"]["draft"]["id"].as_str().unwrap_or_else(|| panic!("{responses}")).to_owned();
    assert!(responses[2][1]["updated"].get(&email).is_some(), "the message is moved: {responses}");
    (created_id(&responses[1][1]), email)
}

#[test]
fn a_repeated_request_that_creates_the_message_is_recognised_by_a_message_id_of_the_client() {
    let world = World::new();
    let (first, _) = create_and_send(&world, Some("1@client.test"));
    let (again, copy) = create_and_send(&world, Some("1@client.test"));
    assert_eq!(again, first);
    assert_ne!(get(&world, &first)["emailId"], json!(copy), "the submission is that of the first message");
    assert_eq!(emails_of(&world, "bob"), 1);
    let (other, _) = create_and_send(&world, Some("2@client.test"));
    assert_ne!(other, first);
    assert_eq!(emails_of(&world, "bob"), 2);
    world.clock.advance(jmap::limits::REPEATED_REQUEST_TIME_MAX);
    let (later, _) = create_and_send(&world, Some("2@client.test"));
    assert_ne!(later, other);
    assert_eq!(emails_of(&world, "bob"), 3);
}

#[test]
fn the_same_text_can_be_sent_twice() {
    let world = World::new();
    let (first, _) = create_and_send(&world, None);
    let (second, _) = create_and_send(&world, None);
    assert_ne!(first, second, "the server has given each message another Message-ID");
    assert_eq!(emails_of(&world, "bob"), 2);
}

#[test]
fn a_request_that_is_repeated_at_the_same_time_sends_nothing_twice() {
    let world = World::new();
    for number in 1..=20 {
        let (email, _) = draft(&world);
        let ids: Vec<String> = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(|| created_id(&send(&world, &email, Value::Null))));
            threads.map(|thread| thread.join().expect("the request succeeds")).into()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
        assert_eq!((emails_of(&world, "bob"), world.router.list().len()), (number, number));
    }
}

#[test]
fn a_held_message_can_be_withdrawn_until_it_is_sent() {
    let world = World::new();
    let (email, _) = draft(&world);
    let before = world.call("alice", "EmailSubmission/get", json!({ "accountId": account("alice"), "ids": [] }));
    let id = created_id(&send(&world, &email, json!({ "HOLDFOR": "3600" })));
    let submission = get(&world, &id);
    assert_eq!(submission["undoStatus"], "pending");
    assert_eq!(submission["envelope"]["mailFrom"]["parameters"], json!({ "HOLDFOR": "3600" }));
    assert_eq!(emails_of(&world, "bob"), 0);
    let update = |patch: Value| {
        let arguments = json!({ "accountId": account("alice"), "update": { &id: patch } });
        world.call("alice", "EmailSubmission/set", arguments)
    };
    assert_eq!(update(submission)["updated"], json!({ &id: null }), "the whole object changes nothing");
    let refused = update(json!({ "emailId": "M1", "identityId": "Inone", "undoStatus": "final" }));
    let named = json!(["identityId", "emailId", "undoStatus"]);
    assert_eq!(refused["notUpdated"][&id]["properties"], named, "{refused}");
    let canceled = cancel(&world, &id);
    assert_eq!(canceled["updated"], json!({ &id: { "deliveryStatus": null } }), "{canceled}");
    assert_eq!(get(&world, &id)["undoStatus"], "canceled");
    world.clock.advance(2 * HOUR);
    assert!(world.router.take_due_jobs(10).is_empty());
    let changes = json!({ "accountId": account("alice"), "sinceState": before["state"] });
    assert_eq!(world.call("alice", "EmailSubmission/changes", changes)["created"], json!([id]));
    // The next one is sent.
    let second = created_id(&send(&world, &email, json!({ "holdfor": "3600" })));
    let state = world.call("alice", "EmailSubmission/get", json!({ "accountId": account("alice") }))["state"].clone();
    world.clock.advance(2 * HOUR);
    for job in world.router.take_local_jobs(10) {
        world.router.deliver_local(&job).expect("it is delivered");
    }
    assert_eq!(emails_of(&world, "bob"), 1);
    assert_eq!(cancel(&world, &second)["notUpdated"][&second]["type"], "cannotUnsend");
    assert_eq!(get(&world, &second)["undoStatus"], "final");
    let destroyed =
        world.call("alice", "EmailSubmission/set", json!({ "accountId": account("alice"), "destroy": [second] }));
    assert_eq!(destroyed["destroyed"], json!([second]));
    assert_eq!(get(&world, &second), Value::Null);
    let changes = json!({ "accountId": account("alice"), "sinceState": state });
    assert_eq!(world.call("alice", "EmailSubmission/changes", changes)["destroyed"], json!([second]));
}

#[test]
fn submissions_are_listed_by_filter_and_order() {
    let world = World::new();
    let (email, _) = draft(&world);
    let held = created_id(&send(&world, &email, json!({ "HOLDFOR": "3600" })));
    let sent = created_id(&send(&world, &email, Value::Null));
    let query = |filter: Value, is_ascending: bool| {
        let sort = json!([{ "property": "sentAt", "isAscending": is_ascending }]);
        let arguments = json!({ "accountId": account("alice"), "filter": filter, "sort": sort });
        world.call("alice", "EmailSubmission/query", arguments)["ids"].clone()
    };
    assert_eq!(query(json!(null), true), json!([sent, held]));
    assert_eq!(query(json!(null), false), json!([held, sent]));
    assert_eq!(query(json!({ "undoStatus": "pending" }), true), json!([held]));
    let none = json!({ "operator": "NOT", "conditions": [{ "emailIds": [email] }] });
    assert_eq!(query(none, true), json!([]));
}

#[test]
fn what_cannot_be_sent_is_refused_with_its_reason() {
    let world = World::new();
    let (email, _) = draft(&world);
    let check = |change: &dyn Fn(&mut Value), kind: &str| {
        let mut submission = json!({ "identityId": "I1", "emailId": email.clone(), "envelope": {
            "mailFrom": { "email": "alice@demo.test" }, "rcptTo": [{ "email": "bob@demo.test" }],
        }});
        change(&mut submission);
        let create = json!({ "accountId": account("alice"), "create": { "k": submission } });
        let reply = world.call("alice", "EmailSubmission/set", create);
        assert_eq!(reply["notCreated"]["k"]["type"], kind, "{reply}");
    };
    check(&|one| one["identityId"] = json!("I2"), "invalidProperties");
    check(&|one| one["emailId"] = json!("M1"), "invalidProperties");
    check(&|one| one["sendAt"] = json!("2030-01-01T00:00:00Z"), "invalidProperties");
    check(&|one| one["envelope"]["rcptTo"] = json!([]), "noRecipients");
    check(&|one| one["envelope"]["rcptTo"] = json!([{ "email": "gone@demo.test" }]), "invalidRecipients");
    check(&|one| one["envelope"]["mailFrom"]["email"] = json!("bob@demo.test"), "forbiddenMailFrom");
    check(&|one| one["envelope"]["mailFrom"]["email"] = json!("a\r\nb@demo.test"), "invalidProperties");
    check(&|one| one["envelope"]["mailFrom"]["parameters"] = json!({ "HOLDFOR": "99999999" }), "invalidProperties");
    check(&|one| one["envelope"]["mailFrom"]["parameters"] = json!({ "RET": "HDRS" }), "invalidProperties");
    assert_eq!((emails_of(&world, "bob"), world.router.list().len()), (0, 0), "nothing was sent");
    let reader = json!({ "accountId": account("alice"), "create": { "k": { "identityId": "I1", "emailId": email } } });
    let refused = world.calls("frank", &json!([["EmailSubmission/set", reader, "c"]]));
    assert_eq!(refused[0][1]["type"], "accountReadOnly");
}

#[test]
fn all_recipients_that_are_not_valid_are_named() {
    let world = World::new();
    let (email, _) = draft(&world);
    let invalid = |recipients: &[&str]| {
        let mut submission = submission_of(&email, &Value::Null);
        submission["envelope"]["rcptTo"] = recipients.iter().map(|address| json!({ "email": address })).collect();
        let create = json!({ "accountId": account("alice"), "create": { "k": submission } });
        let reply = world.call("alice", "EmailSubmission/set", create);
        let error = reply["notCreated"]["k"].clone();
        assert_eq!(error["type"], "invalidRecipients", "{reply}");
        assert!(error["description"].is_string(), "{reply}");
        error["invalidRecipients"].clone()
    };
    let unknown = invalid(&["gone@demo.test", "bob@demo.test", "gone2@demo.test"]);
    assert_eq!(unknown, json!(["gone@demo.test", "gone2@demo.test"]));
    let malformed = invalid(&["bob@demo.test", "gone@demo.test", "a b@demo.test", "c\r\nd@demo.test"]);
    assert_eq!(malformed, json!(["a b@demo.test", "c\r\nd@demo.test", "gone@demo.test"]));
    assert_eq!((emails_of(&world, "bob"), world.router.list().len()), (0, 0), "nothing was sent");
}

#[test]
fn changes_of_lists_are_exact_unless_they_depend_on_time() {
    let world = World::new();
    let (email, _) = draft(&world);
    let first = created_id(&send(&world, &email, json!({ "HOLDFOR": "3600" })));
    let query = |method: &str, arguments: Value| {
        let mut arguments = arguments;
        arguments["accountId"] = json!(account("alice"));
        world.calls("alice", &json!([[method, arguments, "c"]]))[0][1].clone()
    };
    let sort = json!([{ "property": "sentAt", "isAscending": false }]);
    let before = query("EmailSubmission/query", json!({ "sort": sort }));
    assert_eq!(before["ids"], json!([first]));
    assert_eq!(before["canCalculateChanges"], json!(true));
    let state = before["queryState"].clone();
    world.clock.advance(HOUR * 2);
    let (other, _) = draft(&world);
    let second = created_id(&send(&world, &other, json!({ "HOLDFOR": "3600" })));
    let arguments = json!({ "sort": sort, "sinceQueryState": state, "calculateTotal": true });
    let changes = query("EmailSubmission/queryChanges", arguments.clone());
    assert_eq!(changes["removed"], json!([]));
    assert_eq!(changes["added"], json!([{ "id": second, "index": 0 }]));
    assert_eq!(changes["total"], json!(2));
    let mut limited = arguments.clone();
    limited["maxChanges"] = json!(1);
    assert_eq!(query("EmailSubmission/queryChanges", limited)["added"], changes["added"]);
    let destroy = json!({ "destroy": [first] });
    assert_eq!(query("EmailSubmission/set", destroy)["destroyed"], json!([first]));
    let changes = query("EmailSubmission/queryChanges", arguments.clone());
    assert_eq!(changes["removed"], json!([first]));
    assert_eq!(changes["added"], json!([{ "id": second, "index": 0 }]));
    let mut limited = arguments;
    limited["maxChanges"] = json!(1);
    assert_eq!(query("EmailSubmission/queryChanges", limited)["type"], "tooManyChanges");
    let next = changes["newQueryState"].clone();
    let canceled = cancel(&world, &second);
    assert!(canceled["updated"].get(&second).is_some(), "{canceled}");
    let none = query("EmailSubmission/queryChanges", json!({ "sort": sort, "sinceQueryState": next }));
    assert_eq!([&none["removed"], &none["added"]], [&json!([]), &json!([])]);
    // Messages become final with time, without a change.
    let pending = json!({ "undoStatus": "pending" });
    let list = query("EmailSubmission/query", json!({ "filter": pending }));
    assert_eq!(list["canCalculateChanges"], json!(false));
    let filter = json!({ "operator": "NOT", "conditions": [pending] });
    let changes = query("EmailSubmission/queryChanges", json!({ "filter": filter, "sinceQueryState": state }));
    assert_eq!(changes["type"], "cannotCalculateChanges");
    let filter = json!({ "operator": "XOR", "conditions": [] });
    assert_eq!(query("EmailSubmission/query", json!({ "filter": filter }))["type"], "invalidArguments");
}
