//! Tests with the endings that smuggle messages past servers with different interpretations of line ends.
//!
//! Each ending is placed between a message and commands that must not be executed. Under all rules, at most one message
//! is accepted and no smuggled command gets a reply.
//!
//! The lists are complete copies of the published tools: those of SEC Consult, who discovered the attack
//! (SMTP-Smuggling-Tools by T. Longin, 2023: the scanners for receiving, for sending and for analysis), and smtpsmug by
//! H. Böck (2023). A further list has endings that are missing there but have deceived servers.

use smtp::listener_rules::ListenerRules;
use wire::Peer;

use crate::dialogues::SessionDriver;

/// `inbound_eod_sequences` of SMTP-Smuggling-Tools' smtp_smuggling_scanner.py.
const SEC_CONSULT_INBOUND: &[&str] = &["\n.\n", "\n.\r", "\r.\n", "\r.\r", "\n.\r\n", "\r.\r\n", "\r\n\0.\r\n"];

/// `outbound_eod_sequences` of SMTP-Smuggling-Tools' smtp_smuggling_scanner.py.
const SEC_CONSULT_OUTBOUND: &[&str] =
    &["\n.\n", "\n.\r", "\r.\n", "\r.\r", "\n.\r\n", "\r.\r\n", "\r\n.\r\r\n", "\r\r\n.\r\r\n", "\r\n\0.\r\n"];

/// `eod_sequences` of SMTP-Smuggling-Tools' smtp_analysis_scanner.py.
const SEC_CONSULT_ANALYSIS: &[&str] =
    &["\n.\n", "\n.\r", "\r.\n", "\r.\r", "\n.\r\n", "\r\n.\n", "\r.\r\n", "\r\n.\r", "\r\n\0.\r\n", "\r\n.\0\r\n"];

/// `tests` of smtpsmug. Its `nullafter` is spelled like `nullbefore` there; the intended sequence is in the list above.
const SMTPSMUG: &[&str] =
    &["\n.\n", "\r.\r", "\r.\n", "\n.\r", "\n.\r\n", "\r\n.\n", "\r.\r\n", "\r\n.\r", "\r\n\0.\r\n"];

/// Endings that are missing in the published lists.
const ADDITIONAL: &[&str] =
    &["\n\n.\r\n", "\r\n .\r\n", "\n\r.\r\n", "\r\n\0.\0\r\n", "\r\0\n.\r\n", "\x0b.\r\n", "\u{85}.\r\n"];

fn endings() -> impl Iterator<Item = &'static str> {
    [SEC_CONSULT_INBOUND, SEC_CONSULT_OUTBOUND, SEC_CONSULT_ANALYSIS, SMTPSMUG, ADDITIONAL]
        .into_iter()
        .flatten()
        .copied()
}

/// Sends a message with the ending and commands after it. Returns the replies and the accepted messages.
fn play(rules: ListenerRules, peer: Peer, ending: &str) -> (Vec<String>, Vec<Vec<u8>>) {
    let mut driver = SessionDriver::new(rules, peer);
    driver.send(b"HELO c.example\r\n");
    driver.send(b"MAIL FROM:<a@c.example>\r\nRCPT TO:<alice@b.example>\r\nDATA\r\n");
    driver.out.clear();
    let smuggled = "mail FROM:<evil@c.example>\r\nrcpt TO:<bob@b.example>\r\ndata\r\nFrom: evil@c.example\r\n\r\nevil";
    driver.send(format!("From: a@c.example\r\n\r\ntext{ending}{smuggled}\r\n.\r\n").as_bytes());
    let replies = String::from_utf8_lossy(&driver.out).lines().map(str::to_owned).collect();
    let accepted = driver.backend.take().into_iter().map(|accepted| accepted.message).collect();
    (replies, accepted)
}

fn is_bare(ending: &str) -> bool {
    let crlf_gone = ending.replace("\r\n", "");
    crlf_gone.contains(['\r', '\n'])
}

#[test]
fn reception_refuses_bare_line_ends() {
    for ending in endings() {
        let peer = Peer::network("192.0.2.7:4000".parse().expect("valid"));
        let (replies, accepted) = play(ListenerRules::reception("mx.example", "b.example"), peer, ending);
        assert_eq!(replies.len(), 1, "{ending:?}: {replies:?}");
        if is_bare(ending) {
            assert!(replies[0].starts_with("550 5.6.0 Bare CR or LF"), "{ending:?}: {replies:?}");
            assert!(accepted.is_empty(), "{ending:?}");
        } else {
            assert!(replies[0].starts_with("250 2.0.0"), "{ending:?}: {replies:?}");
            assert_eq!(accepted.len(), 1, "{ending:?}");
            assert!(accepted[0].ends_with(b"evil\r\n"), "{ending:?}");
        }
    }
}

#[test]
fn normalization_yields_one_unambiguous_message() {
    for ending in endings() {
        let mut rules = ListenerRules::reception("mx.example", "b.example");
        rules.line_endings = smtp::codec::line::BareLineEndPolicy::Normalize;
        let (replies, accepted) = play(rules, Peer::local(), ending);
        assert_eq!((replies.len(), accepted.len()), (1, 1), "{ending:?}: {replies:?}");
        let sent_on = smtp::client::message_data::dot_stuff(&accepted[0]);
        assert!(!base::line_ends::has_bare_line_end(0, &sent_on) && !sent_on.contains(&0), "{ending:?}");
        let ends: Vec<usize> = memchr::memmem::find_iter(&sent_on, b"\r\n.\r\n").collect();
        assert_eq!(ends, [sent_on.len() - 5], "{ending:?}");
    }
}

#[test]
fn bdat_chunks_with_bare_line_ends_are_refused() {
    for (text, is_accepted) in
        [("a\r\nb\r\n", true), ("a\nb\r\n", false), ("a\rb\r\n", false), ("a\r\n.\r\nb", true), ("a\r", false)]
    {
        let peer = Peer::network("192.0.2.7:4000".parse().expect("valid"));
        let mut driver = SessionDriver::new(ListenerRules::reception("mx.example", "b.example"), peer);
        driver.send(b"HELO c.example\r\n");
        driver.send(b"MAIL FROM:<a@c.example>\r\nRCPT TO:<alice@b.example>\r\n");
        let (head, tail) = text.split_at(2);
        driver.send(format!("BDAT {}\r\n{head}BDAT {} LAST\r\n{tail}", head.len(), tail.len()).as_bytes());
        assert_eq!(driver.backend.take().len(), usize::from(is_accepted), "{text:?}");
    }
}
