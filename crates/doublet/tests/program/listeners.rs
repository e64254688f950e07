//! Tests of a running server at its boundaries: TLS on every listener, LMTP, limits, logs, and an orderly shutdown.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use serde_json::Value;

use crate::tls_dialogue::TlsDialogue;
use crate::{TestFolder, collect};

#[test]
fn every_listener_supports_tls() {
    let folder = TestFolder::new();
    let server = folder.serve();
    let check = |listener: &str, start: &[(&str, &str)], first: &str, expected: &str| {
        let mut dialogue = TlsDialogue::connect(&server.listeners[listener], start);
        if !first.is_empty() {
            dialogue.say(first);
        }
        let line = dialogue.line();
        assert!(line.starts_with(expected), "{listener}: {line}");
    };
    check("imap_tls", &[], "", "* OK");
    check("pop3_tls", &[], "", "+OK");
    check("submission_tls", &[], "", "220 mail.acme.test");
    check("imap", &[("", "* OK"), ("a STARTTLS\r\n", "a OK")], "b CAPABILITY", "* CAPABILITY");
    check("pop3", &[("", "+OK"), ("STLS\r\n", "+OK")], "CAPA", "+OK");
    let ehlo = [("", "220 "), ("EHLO client.test\r\n", "250 "), ("STARTTLS\r\n", "220 ")];
    check("smtp", &ehlo, "EHLO client.test", "250-mail.acme.test");
    check("submission", &ehlo, "EHLO client.test", "250-mail.acme.test");
    // A client that sends plaintext to a listener with implicit TLS does no harm.
    let mut confused = server.dial("imap_tls");
    confused.say("a LOGIN ann secret");
    let mut rest = Vec::new();
    let _ = confused.reader.read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains("OK"));
    server.stop();
}

#[test]
fn lmtp_socket_accepts_mail() {
    let mut folder = TestFolder::with_people(&["ann@acme.test", "bob@acme.test"]);
    folder.options.extend(["--set".to_owned(), "listen.lmtp=lmtp.sock".to_owned()]);
    let server = folder.serve();
    let stream = UnixStream::connect(&server.listeners["lmtp"]).expect("it listens");
    let mut lmtp = BufReader::new(stream);
    let mut ask = |text: &str, codes: &[&str]| {
        lmtp.get_mut().write_all(text.as_bytes()).expect("the server reads");
        for code in codes {
            let mut line = String::new();
            while !line.starts_with(&format!("{code} ")) {
                line.clear();
                assert_ne!(lmtp.read_line(&mut line).expect("text"), 0, "waiting for {code}");
                assert!(line.starts_with(code), "expected {code}, received {line:?}");
            }
        }
    };
    ask("", &["220"]);
    ask("LHLO front.test\r\n", &["250"]);
    ask("MAIL FROM:<dora@elsewhere.test>\r\n", &["250"]);
    ask("RCPT TO:<ann@acme.test>\r\nRCPT TO:<nobody@acme.test>\r\nRCPT TO:<bob@acme.test>\r\n", &["250", "550", "250"]);
    ask("DATA\r\n", &["354"]);
    ask("Subject: by socket\r\n\r\nHello.\r\n.\r\n", &["250", "250"]);
    ask("QUIT\r\n", &["221"]);
    assert_eq!((collect(&server, "ann").len(), collect(&server, "bob").len()), (1, 1));
    server.stop();
}

#[test]
fn connections_over_the_limit_get_a_reply() {
    let mut folder = TestFolder::new();
    folder.options.extend(["--set".to_owned(), "limits.connections=2".to_owned()]);
    let server = folder.serve();
    let mut first = server.dial("imap");
    first.expect("* OK");
    let mut second = server.dial("smtp");
    second.expect("220 ");
    assert!(server.dial("pop3").line().starts_with("-ERR [SYS/TEMP] Too many connections"));
    assert!(server.dial("smtp").line().starts_with("421 4.7.0 Too many connections"));
    second.ask("QUIT", "221 ");
    assert_eq!(second.line(), "");
    server.stop();
}

#[test]
fn json_log_format_writes_json() {
    let mut folder = TestFolder::new();
    folder.options.extend(["--set".to_owned(), "log.format=json".to_owned()]);
    let mut child =
        folder.command(&["serve"]).stderr(std::process::Stdio::piped()).spawn().expect("the program starts");
    let log = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut server =
        crate::Server { child, log, before_ready: String::new(), listeners: std::collections::BTreeMap::new() };
    let line = server.wait_for_log("\"ready\"");
    let event: Value = serde_json::from_str(&line).expect("it is JSON");
    assert_eq!(
        (&event["level"], &event["message"], &event["server"]),
        (&"INFO".into(), &"ready".into(), &"mail.acme.test".into())
    );
    server.signal(Signal::TERM);
    assert!(server.child.wait().expect("it ends").success());
}

#[test]
fn shutdown_waits_for_a_message_in_transfer() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let mut server = folder.serve();
    let mut smtp = server.reception();
    smtp.ask("MAIL FROM:<dora@elsewhere.test>", "250 ");
    smtp.ask("RCPT TO:<ann@acme.test>", "250 ");
    smtp.ask("DATA", "354 ");
    smtp.say("Subject: in time");
    server.signal(Signal::TERM);
    server.wait_for_log("ending");
    smtp.ask("\r\nHello.\r\n.", "250 ");
    smtp.expect("421 ");
    server.wait_for_log(" ended");
    assert!(server.child.wait().expect("it ends").success());
    let server = folder.serve();
    assert_eq!(collect(&server, "ann").len(), 1);
    server.stop();
}

#[test]
fn second_signal_closes_connections_immediately() {
    let folder = TestFolder::with_people(&["ann@acme.test"]);
    let mut server = folder.serve();
    let mut smtp = server.reception();
    smtp.ask("MAIL FROM:<dora@elsewhere.test>", "250 ");
    server.signal(Signal::TERM);
    server.wait_for_log("ending");
    server.signal(Signal::TERM);
    server.wait_for_log("closing at once");
    server.wait_for_log(" ended");
    assert!(server.child.wait().expect("it ends").success());
}

#[test]
fn encrypted_attachments_cannot_be_read_without_the_key() {
    let mut folder = TestFolder::with_people(&[]);
    std::fs::remove_dir_all(folder.data()).expect("it is ours");
    folder.options.extend(["--set".to_owned(), "blobs.encryption=true".to_owned()]);
    folder.check(&["domain", "add", "acme.test"], "was added");
    folder.check_input(&["user", "add", "ann@acme.test", "--password-stdin"], "sesame street\n", "was added");
    let letter = format!("Subject: large\r\nContent-Type: text/csv\r\n\r\n{}", "a secret, often\r\n".repeat(2_000));
    std::fs::write(folder.path("large.eml"), &letter).expect("the folder is writable");
    folder.check(&["import", "eml", "large.eml", "--user", "ann"], "");
    assert_eq!(folder.json(&["blobs"])["count"], 1);
    folder.check(&["export", "eml", "out", "--user", "ann", "--folder", "INBOX"], "");
    assert_eq!(std::fs::read_to_string(folder.path("out/INBOX/00000001.eml")).expect("it was written"), letter);
    let key = folder.data().join("keys/blobs.key");
    std::fs::rename(&key, folder.path("away")).expect("it was made");
    for _ in 0..2 {
        folder.check_fails(&["blobs"], "restore it from a copy: without it they cannot be read");
    }
    std::fs::write(&key, "7".repeat(64)).expect("another key");
    folder.check_fails(&["blobs"], "cannot be decrypted");
    std::fs::rename(folder.path("away"), &key).expect("brought back");
    assert_eq!(folder.json(&["blobs"])["count"], 1);
    *folder.options.last_mut().expect("it was added") = "blobs.encryption=false".to_owned();
    folder.check_fails(&["blobs"], "none is configured");
}
