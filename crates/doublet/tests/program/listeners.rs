//! Tests of a running server at its boundaries: TLS on every listener, LMTP, limits, logs, and an orderly shutdown.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use rustix::process::Signal;
use serde_json::Value;
use wire::{ClientTls, Stream};

use crate::{TestFolder, collect};

/// Connects with TLS, from the first byte or after the plaintext dialogue `start`. Sends `first` and returns the first
/// line received.
fn encrypted(address: &str, start: &[(&str, &str)], first: &str) -> String {
    use tokio::io::AsyncWriteExt;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let mut stream = Stream::tcp(tokio::net::TcpStream::connect(address).await.expect("it listens"));
        for (said, awaited) in start {
            let mut heard = Vec::new();
            stream.write_all(said.as_bytes()).await.expect("the server reads");
            while !String::from_utf8_lossy(&heard).contains(awaited) {
                assert_ne!(stream.receive(&mut heard).await.expect("the server answers"), 0, "{awaited}");
            }
        }
        let trust = ClientTls::opportunistic().expect("valid settings");
        let mut stream = stream.connect_tls(&trust, "mail.acme.test").await.expect("a handshake");
        stream.write_all(first.as_bytes()).await.expect("the server reads");
        let mut heard = Vec::new();
        while !heard.contains(&b'\n') {
            assert_ne!(stream.receive(&mut heard).await.expect("the server answers"), 0);
        }
        String::from_utf8_lossy(&heard).into_owned()
    })
}

#[test]
fn every_door_can_be_encrypted() {
    let place = TestFolder::new();
    let server = place.serve();
    let check = |listener: &str, start: &[(&str, &str)], first: &str, expected: &str| {
        let heard = encrypted(&server.listeners[listener], start, first);
        assert!(heard.starts_with(expected), "{listener}: {heard}");
    };
    check("imap_tls", &[], "", "* OK");
    check("pop3_tls", &[], "", "+OK");
    check("submission_tls", &[], "", "220 mail.acme.test");
    check("imap", &[("", "* OK"), ("a STARTTLS\r\n", "a OK")], "b CAPABILITY\r\n", "* CAPABILITY");
    check("pop3", &[("", "+OK"), ("STLS\r\n", "+OK")], "CAPA\r\n", "+OK");
    let ehlo = [("", "220 "), ("EHLO client.test\r\n", "250 "), ("STARTTLS\r\n", "220 ")];
    check("smtp", &ehlo, "EHLO client.test\r\n", "250-mail.acme.test");
    check("submission", &ehlo, "EHLO client.test\r\n", "250-mail.acme.test");
    // A client that sends plaintext to a listener with implicit TLS does no harm.
    let mut confused = server.dial("imap_tls");
    confused.say("a LOGIN ann secret");
    let mut rest = Vec::new();
    let _ = confused.reader.read_to_end(&mut rest);
    assert!(!String::from_utf8_lossy(&rest).contains("OK"));
    server.stop();
}

#[test]
fn another_mail_server_delivers_through_the_socket() {
    let mut place = TestFolder::with_people(&["ann@acme.test", "bob@acme.test"]);
    place.options.extend(["--set".to_owned(), "listen.lmtp=lmtp.sock".to_owned()]);
    let server = place.serve();
    let stream = UnixStream::connect(&server.listeners["lmtp"]).expect("it listens");
    let mut lmtp = BufReader::new(stream);
    let mut ask = |text: &str, codes: &[&str]| {
        lmtp.get_mut().write_all(text.as_bytes()).expect("the server reads");
        for code in codes {
            let mut line = String::new();
            while !line.starts_with(&format!("{code} ")) {
                line.clear();
                assert_ne!(lmtp.read_line(&mut line).expect("text"), 0, "waiting for {code}");
                assert!(line.starts_with(code), "expected {code}, heard {line:?}");
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
fn connections_beyond_the_limit_hear_why() {
    let mut place = TestFolder::new();
    place.options.extend(["--set".to_owned(), "limits.connections=2".to_owned()]);
    let server = place.serve();
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
fn logs_are_json_when_that_is_wanted() {
    let mut place = TestFolder::new();
    place.options.extend(["--set".to_owned(), "log.format=json".to_owned()]);
    let mut child = place.command(&["serve"]).stderr(std::process::Stdio::piped()).spawn().expect("the program starts");
    let log = BufReader::new(child.stderr.take().expect("it is piped"));
    let mut server = crate::Server { child, log, listeners: std::collections::BTreeMap::new() };
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
fn a_message_under_way_is_taken_before_the_server_ends() {
    let place = TestFolder::with_people(&["ann@acme.test"]);
    let mut server = place.serve();
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
    let server = place.serve();
    assert_eq!(collect(&server, "ann").len(), 1);
    server.stop();
}

#[test]
fn a_second_signal_does_not_wait() {
    let place = TestFolder::with_people(&["ann@acme.test"]);
    let mut server = place.serve();
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
fn attachments_are_encrypted_when_that_is_wanted_and_lost_without_the_key() {
    let mut place = TestFolder::with_people(&[]);
    std::fs::remove_dir_all(place.data()).expect("it is ours");
    place.options.extend(["--set".to_owned(), "blobs.encryption=true".to_owned()]);
    place.check(&["domain", "add", "acme.test"], "was added");
    place.check_input(&["user", "add", "ann@acme.test", "--password-stdin"], "sesame street\n", "was added");
    let letter = format!("Subject: large\r\nContent-Type: text/csv\r\n\r\n{}", "a secret, often\r\n".repeat(2_000));
    std::fs::write(place.path("large.eml"), &letter).expect("the folder is writable");
    place.check(&["import", "eml", "large.eml", "--user", "ann"], "");
    assert_eq!(place.json(&["blobs"])["count"], 1);
    place.check(&["export", "eml", "out", "--user", "ann", "--folder", "INBOX"], "");
    assert_eq!(std::fs::read_to_string(place.path("out/INBOX/00000001.eml")).expect("it was written"), letter);
    let key = place.data().join("keys/blobs.key");
    std::fs::rename(&key, place.path("away")).expect("it was made");
    for _ in 0..2 {
        place.check_fails(&["blobs"], "restore it from a copy: without it they cannot be read");
    }
    std::fs::write(&key, "7".repeat(64)).expect("another key");
    place.check_fails(&["blobs"], "cannot be decrypted");
    std::fs::rename(place.path("away"), &key).expect("brought back");
    assert_eq!(place.json(&["blobs"])["count"], 1);
    *place.options.last_mut().expect("it was added") = "blobs.encryption=false".to_owned();
    place.check_fails(&["blobs"], "none is configured");
}
