//! Tests of accounts over their lifetime: bulk creation, changes while users are logged in, and mailboxes that are
//! renamed or kept.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::{Dialogue, Server, TestFolder, collect, deliver, text};

fn imap(server: &Server) -> Dialogue {
    let mut imap = server.dial("imap");
    imap.expect("* OK");
    imap.ask("a LOGIN ann@acme.test \"sesame street\"", "a OK");
    imap
}

fn pop3(server: &Server) -> Dialogue {
    let mut pop3 = server.dial("pop3");
    pop3.expect("+OK");
    pop3.ask("USER ann", "+OK");
    pop3.ask("PASS sesame street", "+OK");
    pop3
}

const BYE: &str = "* BYE the account or its groups were changed";

/// Opens one session of ann for each protocol. Returns each with the reply that it gets when the account is disabled.
fn open_sessions(server: &Server) -> [(Dialogue, &'static str); 3] {
    [
        (imap(server), BYE),
        (pop3(server), "-ERR [AUTH] the account or its groups were changed"),
        (server.submission(), "421 4.7.0 Account disabled"),
    ]
}

/// Checks that the server sends the final reply and closes the connection.
fn wait_for_the_end((mut dialogue, good_bye): (Dialogue, &str)) {
    dialogue.expect(good_bye);
    assert_eq!(dialogue.line(), "");
}

#[test]
fn disabled_account_or_new_password_ends_open_sessions() {
    let folder = TestFolder::with_people(&["ann@acme.test", "bob@acme.test"]);
    let server = folder.serve();
    for change in ["--disable", "--password-stdin"] {
        let mut idle = imap(&server);
        idle.say("b SELECT INBOX");
        idle.expect("b OK");
        idle.say("c IDLE");
        idle.expect("+");
        let open = open_sessions(&server);
        let mut stranger = server.dial("imap");
        stranger.expect("* OK");
        folder.check_input(&["user", "set", "ann", change], "sesame street\n", "was changed");
        open.into_iter().chain([(idle, BYE)]).for_each(wait_for_the_end);
        stranger.ask("a NOOP", "a OK");
        folder.check(&["user", "set", "ann", "--enable"], "was changed");
    }
    let mut kept = imap(&server);
    folder.check(&["user", "set", "ann", "--quota", "1GiB"], "was changed");
    folder.check(&["user", "remove", "bob"], "was removed");
    kept.ask("b NOOP", "b OK");
    folder.check(&["user", "remove", "ann"], "was removed");
    wait_for_the_end((kept, BYE));
    server.stop();
}

#[test]
fn change_of_groups_ends_the_mail_sessions_of_the_member() {
    let folder = TestFolder::with_people(&["ann@acme.test", "bob@acme.test"]);
    folder.check(&["group", "add", "staff", "--member", "bob"], "was added");
    let server = folder.serve();
    let [imap_session, pop3_session, mut submission] = open_sessions(&server);
    let mut bob = server.dial("imap");
    bob.expect("* OK");
    bob.ask("a LOGIN bob@acme.test \"sesame street\"", "a OK");
    folder.check(&["group", "set", "staff", "--add-member", "ann"], "was changed");
    [imap_session, pop3_session].into_iter().for_each(wait_for_the_end);
    submission.0.ask("NOOP", "250 ");
    bob.ask("b NOOP", "b OK");
    server.stop();
}

#[test]
fn deny_list_ends_sessions_and_refuses_logins() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    folder.check(&["group", "add", "staff", "--member", "ann"], "was added");
    folder.check(&["group", "add", "gone", "--kind", "deny-list"], "was added");
    let server = folder.serve();
    let open = open_sessions(&server);
    folder.check(&["group", "set", "gone", "--add-member", "staff"], "was changed");
    open.into_iter().for_each(wait_for_the_end);
    let mut dialogue = server.dial("imap");
    dialogue.expect("* OK");
    dialogue.ask("a LOGIN ann@acme.test \"sesame street\"", "a NO [AUTHORIZATIONFAILED]");
    let mut smtp = server.greeted("submission");
    smtp.ask(&format!("AUTH PLAIN {}", STANDARD.encode("\0ann@acme.test\0sesame street")), "535 5.7.13");
    assert_eq!(folder.json(&["user", "show", "ann"])["deny_list"], "gone");
    deliver(&server, "ann@acme.test", "Subject: for later\r\n\r\n");
    folder.check(&["group", "set", "staff", "--remove-member", "ann"], "was changed");
    assert_eq!(collect(&server, "ann").len(), 1);
    server.submission();
    server.stop();
}

#[test]
fn scram_can_be_switched_off() {
    let mut folder = TestFolder::with_people(&["ann@acme.test"]);
    let offers_scram = |folder: &TestFolder| {
        let server = folder.serve();
        let mut imap = server.dial("imap");
        let mut pop3 = server.dial("pop3");
        let mut smtp = server.dial("submission");
        imap.expect("* OK");
        pop3.expect("+OK");
        smtp.expect("220 ");
        pop3.ask("AUTH", "+OK");
        let replies = [imap.ask("a CAPABILITY", "* CAPABILITY"), pop3.line(), smtp.ask("EHLO c.test", "250-AUTH")];
        server.stop();
        replies.map(|reply| reply.contains("SCRAM-SHA-256"))
    };
    assert_eq!(offers_scram(&folder), [true; 3]);
    folder.options.extend(["--set".to_owned(), "directory.scram=false".to_owned()]);
    assert_eq!(offers_scram(&folder), [false; 3]);
}

#[test]
fn submission_requires_an_own_sender_address() {
    let folder = TestFolder::with_people(&["ann@acme.test", "bob@acme.test"]);
    let server = folder.serve();
    let mut smtp = server.submission();
    smtp.ask("MAIL FROM:<bob@acme.test>", "553 5.7.1");
    for (from, reply) in [
        ("Bob <bob@acme.test>", "550 5.7.1 bob@acme.test is not one of your addresses"),
        ("Ann <ann@acme.test>", "250 "),
    ] {
        smtp.ask("MAIL FROM:<ann@acme.test>", "250 ");
        smtp.ask("RCPT TO:<bob@acme.test>", "250 ");
        smtp.ask("DATA", "354 ");
        smtp.ask(&format!("From: {from}\r\nSubject: x\r\n\r\nHello.\r\n."), reply);
    }
    server.stop();
}

#[test]
fn batch_file_adds_many_users() {
    let folder = TestFolder::with_people(&[]);
    let lines: String = (0..700).map(|number| format!("u{number}@acme.test,User {number},sesame street\n")).collect();
    std::fs::write(folder.path("people.csv"), &lines).expect("the folder is writable");
    folder.check(&["user", "add", "--batch", "people.csv"], "700 people were added");
    assert_eq!(folder.json(&["status"])["people"], 700);
    let server = folder.serve();
    let more = "{\"address\":\"ann@acme.test\",\"password\":\"sesame street\"}\nu7@acme.test\nx@far.test\n";
    let output = folder.run(&["user", "add", "--batch", "-", "--json"], more);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(report["added"], 1);
    let refused: Vec<_> =
        report["refused"].as_array().expect("a list").iter().map(|row| row["line"].as_u64()).collect();
    assert_eq!(refused, [Some(2), Some(3)]);
    deliver(&server, "ann@acme.test", "Subject: welcome\r\n\r\n");
    assert_eq!((collect(&server, "ann").len(), collect(&server, "u699@acme.test").len()), (1, 0));
    server.stop();
    folder.check_fails(&["user", "add", "--batch", "nowhere.csv"], "nowhere.csv");
    std::fs::write(folder.path("latin1.csv"), b"zoe@acme.test,Zo\xeb,sesame street\n").expect("the folder is writable");
    let output = folder.run(&["user", "add", "--batch", "latin1.csv"], "");
    assert!(text(&output.stdout).contains("not UTF-8") && !output.status.success());
    folder.check_fails(&["user", "add"], "NAME@DOMAIN");
}

#[test]
fn renamed_mailbox_keeps_its_owner_and_is_protected() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let server = folder.serve();
    deliver(&server, "ann@acme.test", "Subject: one\r\n\r\n");
    folder.check(&["db", "rename", "mail/ann.nsf", "mail/moved.nsf"], "still the mailbox of user ann@acme.test");
    deliver(&server, "ann@acme.test", "Subject: two\r\n\r\n");
    assert_eq!(collect(&server, "ann").len(), 2);
    folder.check_fails(&["db", "delete", "mail/moved.nsf"], "user remove ann@acme.test --delete-mail");
    for path in ["names.nsf", "mail.box"] {
        folder.check_fails(&["db", "delete", path, "--force"], "stop it first");
        folder.check_fails(&["db", "rename", path, "other.nsf"], "finds it by this path");
    }
    folder.check(&["db", "delete", "mail/moved.nsf", "--force"], "was deleted");
    assert_eq!(collect(&server, "ann").len(), 0);
    server.stop();
    folder.check_fails(&["db", "delete", "names.nsf"], "--force");
}

#[test]
fn failed_command_changes_nothing() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    folder.check_fails(&["domain", "add", "third.test", "--catch-all", "nobody@acme.test"], "does not exist");
    folder.check_fails(&["domain", "show", "third.test"], "there is no domain third.test");
    folder.check(&["domain", "add", "third.test", "--catch-all", "ann@acme.test"], "was added");
    assert!(folder.check(&["domain", "show", "third.test"], "").contains("_domainkey.third.test"));
    folder.check_fails(&["domain", "add", "third.test"], "domain show third.test");
    folder.check_fails(
        &["domain", "add", "x.test", "--alias-of", "acme.test", "--catch-all", "ann@acme.test"],
        "cannot be used with",
    );
    for command in [["user", "set", "ann"], ["group", "set", "team@acme.test"], ["domain", "set", "acme.test"]] {
        folder.check_fails(&command, "nothing to change");
    }
    folder.check_fails(&["user", "remove", "ann"], "domain set third.test --catch-all none");
    folder.check_fails(&["user", "add", "x@far.test"], "doublet domain add far.test");
}

#[test]
fn access_is_listed_and_changed() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    folder.check(&["db", "create", "plans.nsf"], "db acl plans.nsf set");
    folder.check(&["db", "acl", "plans.nsf", "set", "-Default-", "--level", "reader"], "Reader");
    folder.check(
        &["db", "acl", "plans.nsf", "set", "ann@acme.test", "--level", "editor", "--flag", "no-delete"],
        "Editor",
    );
    let listed = folder.json(&["db", "acl", "plans.nsf", "list"]);
    let ann =
        listed.as_array().expect("a list").iter().find(|row| row["name"] == "ann/acme.test").expect("the entry exists");
    assert_eq!(
        (&ann["level"], &ann["kind"], &ann["flags"][0]),
        (&"editor".into(), &"person".into(), &"no-delete".into())
    );
    folder.check(&["db", "acl", "plans.nsf", "remove", "ann"], "The entry ann/acme.test was removed");
    folder.check(&["db", "acl", "--help"], "depositor  may create documents");
    folder.check(
        &["db", "set", "plans.nsf", "--title", "Plans", "--purge-interval", "30d", "--unread-marks", "off"],
        "changed",
    );
    let shown = folder.json(&["db", "show", "plans.nsf"]);
    assert_eq!((&shown["title"], &shown["purge_interval_days"]), (&"Plans".into(), &30.into()));
}

#[test]
fn config_check_opens_the_named_files() {
    let mut folder = TestFolder::new();
    folder.check(&["config", "check"], "is valid");
    for assignment in ["tls.certificate=/nowhere/c.pem", "tls.key=/nowhere/k.pem"] {
        folder.options.extend(["--set".to_owned(), assignment.to_owned()]);
    }
    folder.check_fails(&["config", "check"], "/nowhere/c.pem");
    folder.check_fails(
        &[
            "config",
            "check",
            "--set",
            "router.smart_host_password_file=/nowhere/p",
            "--set",
            "router.smart_host_user=a",
            "--set",
            "router.smart_host=localhost",
        ],
        "/nowhere/p",
    );
}
