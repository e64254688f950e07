//! Tests of a running server: end-to-end mail, signals, the administration port, and the state after a kill.

use rustix::process::Signal;
use serde_json::json;
use std::io::Read;

use crate::{TestFolder, collect, deliver};

#[test]
fn mail_is_received_and_read() {
    let folder = TestFolder::with_people(&["ann@acme.test", "bob@acme.test"]);
    folder.check(
        &["group", "add", "team@acme.test", "--member", "ann@acme.test", "--member", "bob@acme.test"],
        "2 members",
    );
    let server = folder.serve();
    deliver(&server, "team@acme.test", "Subject: one\r\n\r\nHello all.");
    deliver(&server, "ann@acme.test", "Subject: two\r\n\r\n..Hello Ann.");
    let ann = collect(&server, "ann@acme.test");
    let bob = collect(&server, "bob");
    assert_eq!((ann.len(), bob.len()), (2, 1));
    assert!(
        ann[1].starts_with("Return-Path: <dora@elsewhere.test>\n") && ann[1].ends_with("\n\n.Hello Ann.\n"),
        "{}",
        ann[1]
    );
    let mut imap = server.dial("imap");
    imap.expect("* OK");
    imap.ask("a LOGIN ann@acme.test \"sesame street\"", "a OK");
    imap.say("b SELECT INBOX");
    assert!((0..9).any(|_| imap.line() == "* 2 EXISTS"));
    imap.expect("b OK");
    let mut smtp = server.dial("smtp");
    smtp.expect("220 mail.acme.test");
    smtp.ask("EHLO client.test", "250 ");
    smtp.ask("MAIL FROM:<dora@elsewhere.test>", "250 ");
    smtp.ask("RCPT TO:<nobody@acme.test>", "550 5.1.1");
    smtp.ask("RCPT TO:<somebody@elsewhere.test>", "550 5.7.1");
    server.stop();
}

#[test]
fn acknowledged_mail_survives_a_kill() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    for round in 0..3 {
        let server = folder.serve();
        assert_eq!(collect(&server, "ann@acme.test").len(), round * 2);
        deliver(&server, "ann@acme.test", "Subject: before the kill\r\n\r\n");
        deliver(&server, "ann@acme.test", "Subject: right before the kill\r\n\r\n");
        server.kill();
    }
    folder.check(&["fixup"], "No damage");
    assert_eq!(folder.json(&["user", "list"])[0]["address"], "ann@acme.test");
}

#[test]
fn queued_mail_can_be_held_released_and_removed() {
    let mut folder = TestFolder::with_people(&["ann@acme.test"]);
    folder.options.extend(["--set".to_owned(), "router.outbound=false".to_owned()]);
    let server = folder.serve();
    let mut smtp = server.submission();
    smtp.ask("MAIL FROM:<bob@acme.test>", "5");
    smtp.ask("MAIL FROM:<ann@acme.test>", "250 ");
    smtp.ask("RCPT TO:<dora@elsewhere.test>", "250 ");
    smtp.ask("DATA", "354 ");
    smtp.ask("From: ann@acme.test\r\nSubject: away\r\nBcc: eve@elsewhere.test\r\n\r\nFar away.\r\n.", "250 ");
    let queue = folder.json(&["queue", "list"]);
    assert_eq!((&queue[0]["recipients"], &queue[0]["state"]), (&json!(["dora@elsewhere.test"]), &json!("waiting")));
    let id = queue[0]["id"].as_str().expect("an id");
    folder.check(&["queue", "hold", id], "1 message: held");
    assert_eq!(folder.json(&["queue", "list", "--state", "held"])[0]["id"], id);
    let shown = folder.json(&["queue", "show", id]);
    let header = shown["header"].to_string();
    assert!(
        header.contains("DKIM-Signature: ") && header.contains("Subject: away") && !header.contains("Bcc"),
        "{header}"
    );
    folder.check(&["queue", "release", "--all"], "1 message: released");
    folder.check(&["queue", "retry", id], "1 message");
    server.stop();
    folder.check(&["queue", "remove", id], "1 message: removed");
    assert_eq!(folder.json(&["queue", "list"]), json!([]));
}

#[test]
fn signals_reload_the_certificate_and_end_the_server() {
    let folder = TestFolder::new();
    let mut server = folder.serve();
    server.signal(Signal::HUP);
    server.wait_for_log("reloaded the certificate");
    std::fs::write(folder.data().join("tls/certificate.pem"), "nonsense").expect("it is ours");
    server.signal(Signal::HUP);
    server.wait_for_log("cannot reload the certificate; the old one stays in use");
    let mut idle = server.dial("imap");
    idle.expect("* OK");
    server.signal(Signal::TERM);
    idle.expect("* BYE");
    server.wait_for_log(" ended");
    assert!(server.child.wait().expect("it ends").success());
    assert!(!folder.data().join("listeners.json").exists() && !folder.data().join("control.sock").exists());
}

#[test]
fn health_and_statistics_are_served_on_the_administration_port() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let server = folder.serve();
    deliver(&server, "ann@acme.test", "Subject: counted\r\n\r\n");
    assert!(server.get("/health/live").starts_with("HTTP/1.1 200"));
    assert!(server.get("/health/ready").ends_with("ready\n"));
    let metrics = server.metrics();
    assert!(metrics.contains("doublet_connections_accepted_total{listener=\"smtp\"} 1\n"), "{metrics}");
    for pool in ["worker", "login"] {
        assert!(metrics.contains(&format!("doublet_pool_panicked_total{{pool=\"{pool}\"}} 0\n")), "{metrics}");
    }
    server.stop();
}

#[test]
fn removed_socket_makes_the_server_unready() {
    let mut folder = TestFolder::new();
    folder.options.extend(["--set".to_owned(), "listen.lmtp=lmtp.sock".to_owned()]);
    let server = folder.serve();
    assert!(server.get("/health/ready").ends_with("ready\n"));
    std::fs::remove_file(folder.data().join("lmtp.sock")).expect("the server made it");
    let answer = server.get("/health/ready");
    assert!(answer.starts_with("HTTP/1.1 503") && answer.contains("not ready: the listener lmtp at "), "{answer}");
    server.stop();
}

#[test]
fn demo_prints_working_logins_and_commands() {
    let folder = TestFolder::new();
    let mut child = folder
        .command(&["demo"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    let log = std::io::BufReader::new(child.stderr.take().expect("it is piped"));
    let mut server =
        crate::Server { child, log, before_ready: String::new(), listeners: std::collections::BTreeMap::new() };
    server.wait_for_log(" ready ");
    server.listeners = crate::listeners(&folder.data());
    let passwords = std::fs::read_to_string(folder.data().join("demo-passwords.txt")).expect("they are kept");
    let (login, password) = passwords.lines().next().and_then(|line| line.split_once(' ')).expect("a login");
    assert_eq!(login, "alice@demo.test");
    let mut pop3 = server.dial("pop3");
    pop3.expect("+OK");
    pop3.ask(&format!("USER {login}"), "+OK");
    pop3.ask(&format!("PASS {password}"), "+OK 9 messages");
    assert_eq!(folder.json(&["group", "show", "team@demo.test"])["members"].as_array().map(Vec::len), Some(3));
    let look = ["view", "entries", "teamroom.nsf", "By Category", "--user", login];
    folder.check_input(&[&look[..], &["--password-file", "-"]].concat(), &format!("{password}\n"), " entries.");
    server.signal(Signal::INT);
    server.wait_for_log(" ended");
    let mut output = String::new();
    server.child.stdout.take().expect("it is piped").read_to_string(&mut output).expect("text");
    assert!(output.contains(password), "{output}");
    let command = format!("`doublet view entries teamroom.nsf 'By Category' --user {login} --data ");
    assert!(output.contains(&command), "{output}");
}

#[test]
fn mail_is_relayed_and_failures_are_reported() {
    let mut other = TestFolder::with_people_of("other.test", &["dora@other.test"]);
    // The two servers need different names; otherwise the transfer would be treated as a loop.
    other.options.extend(["--set".to_owned(), "server.name=mail.other.test".to_owned()]);
    let there = other.serve();
    let mut folder = TestFolder::with_people(&["ann@acme.test"]);
    let smart_host = format!("router.smart_host={}", there.listeners["smtp"]);
    folder.options.extend(["--set".to_owned(), smart_host, "--set".to_owned(), "log.filter=mail=debug".to_owned()]);
    let mut here = folder.serve();
    let mut smtp = here.submission();
    smtp.ask("MAIL FROM:<ann@acme.test>", "250 ");
    smtp.ask("RCPT TO:<dora@other.test>", "250 ");
    smtp.ask("RCPT TO:<nobody@other.test>", "250 ");
    smtp.ask("DATA", "354 ");
    smtp.ask("From: ann@acme.test\r\nSubject: over there\r\n\r\nHello Dora.\r\n.", "250 ");
    let settled = here.wait_for_log("settled");
    let arrived = collect(&there, "dora@other.test");
    assert!(
        arrived.len() == 1 && arrived[0].contains("DKIM-Signature: "),
        "{arrived:?} {settled} {:?}",
        folder.json(&["queue", "list"])
    );
    let reports = collect(&here, "ann@acme.test");
    assert!(
        reports.len() == 1 && reports[0].contains("nobody@other.test") && reports[0].contains("550"),
        "{reports:?}"
    );
    assert_eq!(folder.json(&["queue", "list"]), json!([]));
    here.stop();
    there.stop();
}
