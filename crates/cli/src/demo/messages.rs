//! The demo's mail: messages of many kinds, generated from a clock and a random number generator.
//!
//! Each [`DemoMessage`] is a complete message with its envelope. Together they contain what a mail client has to
//! handle: plain text, HTML, alternatives, small and large attachments, subjects in several scripts, a thread, a
//! forwarded message, an invitation, and mail to a group. No message comes from a real mailbox.

use std::fmt::Write;
use std::time::Duration;

use base::{Random, Timestamp};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Size in bytes of the large attachment.
const LARGE_BYTES: usize = 3 << 20;

/// A message and its envelope.
#[derive(Debug, Clone)]
pub struct DemoMessage {
    /// The sender's address.
    pub from: &'static str,
    /// The recipients' addresses.
    pub to: Vec<&'static str>,
    /// The complete message.
    pub raw: Vec<u8>,
}

/// The people of the demo: address and name.
pub const PEOPLE: [(&str, &str); 3] =
    [("alice@demo.test", "Alice Archer"), ("bob@demo.test", "Bob Baker"), ("carol@demo.test", "Carol Çelik")];

/// The address of the demo's group.
pub const GROUP: &str = "team@demo.test";

const ALICE: &str = PEOPLE[0].0;
const BOB: &str = PEOPLE[1].0;
const CAROL: &str = PEOPLE[2].0;

/// Creates all messages, dated in the hours before `now`.
#[must_use]
pub fn demo_messages(now: Timestamp, random: &dyn Random) -> Vec<DemoMessage> {
    let mut builder = MessageBuilder { now, random, count: 0 };
    let mut messages = vec![
        builder.plain(BOB, &[ALICE], "Lunch on Thursday?", LUNCH),
        builder.plain(ALICE, &[GROUP], "Welcome to the team list", WELCOME),
        builder.html(CAROL, &[ALICE, BOB], "The new colors of the website"),
        builder.alternative(BOB, &[ALICE, CAROL], "Minutes of Monday's meeting"),
        builder.unicode(CAROL, &[ALICE]),
        builder.attachments(BOB, &[ALICE, GROUP], "Figures for the third quarter"),
        builder.large(CAROL, &[ALICE, BOB], "Photographs of the excursion"),
        builder.invitation(ALICE, &[BOB, CAROL], "Planning for the spring release"),
        builder.forwarded(BOB, &[CAROL], "Fwd: Question about the invoice"),
    ];
    messages.extend(builder.thread());
    messages
}

const LUNCH: &str = "Hi Alice,\n\nshall we try the new place at the harbor on Thursday, half past twelve?\n\
                     Carol says that the soup is good.\n\n-- \nBob Baker\n";

const WELCOME: &str = "Hello everybody,\n\nthis group reaches all of us: team@demo.test.\n\nFrom here on, please send what \
                       concerns everybody to it.\n.\nA line with a single dot, and one that begins with From:\nFrom time to time \
                       software trips over those.\n\nAlice\n";

/// Builds messages: holds the current time and the random number generator, and numbers the messages.
struct MessageBuilder<'a> {
    now: Timestamp,
    random: &'a dyn Random,
    count: u32,
}

impl MessageBuilder<'_> {
    fn plain(&mut self, from: &'static str, to: &[&'static str], subject: &str, text: &str) -> DemoMessage {
        let (mut head, _) = self.head(from, to, subject, "");
        head.push_str("Content-Type: text/plain; charset=us-ascii\r\n\r\n");
        build_message(from, to, head + &crlf(text))
    }

    fn html(&mut self, from: &'static str, to: &[&'static str], subject: &str) -> DemoMessage {
        let (mut head, _) = self.head(from, to, subject, "");
        head.push_str("Content-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n");
        head.push_str(
            "<html><body style=3D\"font-family: sans-serif\">\r\n<h1>Colors</h1>\r\n<p>Dear all,</p>\r\n\
             <p>these are the <b style=3D\"color:#0a6\">green</b> and the <b style=3D\"color:#=\r\n\
             a30\">red</b> that we talked about. Caf=C3=A9 =E2=98=95 at three?</p>\r\n\
             <ul><li>Green: #00AA66</li><li>Red: #AA3300</li></ul>\r\n</body></html>\r\n",
        );
        build_message(from, to, head)
    }

    fn alternative(&mut self, from: &'static str, to: &[&'static str], subject: &str) -> DemoMessage {
        let (mut head, boundary) = self.head(from, to, subject, "multipart/alternative");
        let _ = write!(
            head,
            "--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\
             Minutes\r\n=======\r\n\r\n1. The cellar stays locked — Bob has the key.\r\n2. Carol orders paper.\r\n\
             --{boundary}\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: 8bit\r\n\r\n\
             <h1>Minutes</h1><ol><li>The cellar stays locked — <i>Bob</i> has the key.</li><li>Carol orders paper.</li></ol>\r\n\
             --{boundary}--\r\n"
        );
        build_message(from, to, head)
    }

    fn unicode(&mut self, from: &'static str, to: &[&'static str]) -> DemoMessage {
        let subject = "Grüße, Привет, 你好, שלום and 🎉";
        let (mut head, _) = self.head(from, to, &encoded_word(subject), "");
        head.push_str("Content-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\n");
        head.push_str(&base64_lines(
            "Grüße aus Köln, привет из Москвы, 你好，世界, שלום עולם, and a party: 🎉\r\n\r\nCarol Çelik\r\n"
                .as_bytes(),
        ));
        build_message(from, to, head)
    }

    fn attachments(&mut self, from: &'static str, to: &[&'static str], subject: &str) -> DemoMessage {
        let (mut head, boundary) = self.head(from, to, subject, "multipart/mixed");
        let _ = write!(
            head,
            "--{boundary}\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\nThe table, the chart and my notes are attached.\r\n"
        );
        let mut table = "month;orders;returns\r\n".to_owned();
        for month in 1..=300 {
            let _ = write!(table, "{month};{};{}\r\n", self.random.below(9_000) + 1_000, self.random.below(90));
        }
        attach(&mut head, &boundary, ("text/csv", "figures.csv"), table.as_bytes());
        attach(&mut head, &boundary, ("image/png", "chart.png"), &png());
        attach(
            &mut head,
            &boundary,
            ("text/plain; charset=utf-8", "Notizen für März.txt"),
            "Mehr Käse.\r\n".as_bytes(),
        );
        let _ = write!(head, "--{boundary}--\r\n");
        build_message(from, to, head)
    }

    fn large(&mut self, from: &'static str, to: &[&'static str], subject: &str) -> DemoMessage {
        let (mut head, boundary) = self.head(from, to, subject, "multipart/mixed");
        let _ = write!(
            head,
            "--{boundary}\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\nSorry about the size. All the photographs are in one archive.\r\n"
        );
        let mut content = vec![0; LARGE_BYTES];
        self.random.fill(&mut content);
        attach(&mut head, &boundary, ("application/zip", "excursion.zip"), &content);
        let _ = write!(head, "--{boundary}--\r\n");
        build_message(from, to, head)
    }

    fn invitation(&mut self, from: &'static str, to: &[&'static str], subject: &str) -> DemoMessage {
        let (mut head, boundary) = self.head(from, to, subject, "multipart/alternative");
        let start = self.now.after(Duration::from_secs(7 * 86_400));
        let stamp = |at: Timestamp| at.to_rfc3339().replace(['-', ':'], "");
        let attendees: String = to
            .iter()
            .map(|who| format!("ATTENDEE;ROLE=REQ-PARTICIPANT;PARTSTAT=NEEDS-ACTION;RSVP=TRUE:mailto:{who}\r\n"))
            .collect();
        let _ = write!(
            head,
            "--{boundary}\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\n{subject}\r\nIn a week, one hour, the blue room.\r\n\
             --{boundary}\r\nContent-Type: text/calendar; charset=utf-8; method=REQUEST\r\n\r\n\
             BEGIN:VCALENDAR\r\nPRODID:-//Doublet//Demo//EN\r\nVERSION:2.0\r\nMETHOD:REQUEST\r\nBEGIN:VEVENT\r\n\
             UID:{:016x}@demo.test\r\nDTSTAMP:{}\r\nDTSTART:{}\r\nDTEND:{}\r\nSUMMARY:{subject}\r\nLOCATION:The blue room\r\n\
             ORGANIZER:mailto:{from}\r\n{attendees}SEQUENCE:0\r\nSTATUS:CONFIRMED\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n\
             --{boundary}--\r\n",
            self.random.next_u64(),
            stamp(self.now),
            stamp(start),
            stamp(start.after(Duration::from_secs(3_600))),
        );
        build_message(from, to, head)
    }

    fn forwarded(&mut self, from: &'static str, to: &[&'static str], subject: &str) -> DemoMessage {
        let inner = self.plain(
            "dora@elsewhere.test",
            &[BOB],
            "Question about the invoice",
            "Dear Mr Baker,\n\nLast week's invoice lists two tables; we ordered one.\n\nDora Dietrich\n",
        );
        let (mut head, boundary) = self.head(from, to, subject, "multipart/mixed");
        let _ = write!(
            head,
            "--{boundary}\r\nContent-Type: text/plain; charset=us-ascii\r\n\r\nCan you answer this?\r\n\
             --{boundary}\r\nContent-Type: message/rfc822\r\nContent-Disposition: attachment; filename=\"invoice.eml\"\r\n\r\n{}\r\n--{boundary}--\r\n",
            String::from_utf8_lossy(&inner.raw)
        );
        build_message(from, to, head)
    }

    /// Creates a thread of three messages, in which three people answer each other.
    fn thread(&mut self) -> Vec<DemoMessage> {
        let turns = [
            (
                ALICE,
                [BOB, CAROL],
                "Who waters the plants in August?",
                "I am away from the third to the twentieth. Who can?\n",
            ),
            (BOB, [ALICE, CAROL], "Re: Who waters the plants in August?", "> Who can?\n\nThe first week is mine.\n"),
            (
                CAROL,
                [ALICE, BOB],
                "Re: Who waters the plants in August?",
                ">> Who can?\n> The first week is mine.\n\nThen the rest is mine.\n",
            ),
        ];
        let mut ids: Vec<String> = Vec::new();
        let mut messages = Vec::new();
        for (from, to, subject, text) in turns {
            let (mut head, _) = self.head(from, &to, subject, "");
            if let Some(last) = ids.last() {
                let _ = write!(head, "In-Reply-To: {last}\r\nReferences: {}\r\n", ids.join("\r\n "));
            }
            let id = head.lines().find_map(|line| line.strip_prefix("Message-ID: ")).unwrap_or_default();
            ids.push(id.to_owned());
            head.push_str("Content-Type: text/plain; charset=us-ascii\r\n\r\n");
            messages.push(build_message(from, &to, head + &crlf(text)));
        }
        messages
    }

    /// Starts a message and returns its header and a MIME boundary. If `multipart` is not empty, the header declares
    /// the boundary and is complete.
    fn head(&mut self, from: &str, to: &[&str], subject: &str, multipart: &str) -> (String, String) {
        self.count += 1;
        let written = self.now.before(Duration::from_secs(u64::from(30_u32.saturating_sub(self.count)) * 4_000));
        let mut head = format!(
            "From: {}\r\nTo: {}\r\nSubject: {subject}\r\nDate: {}\r\nMessage-ID: <{:016x}.{}@demo.test>\r\nMIME-Version: 1.0\r\n",
            mailbox(from),
            to.iter().map(|who| mailbox(who)).collect::<Vec<_>>().join(",\r\n "),
            written.to_rfc5322(),
            self.random.next_u64(),
            self.count,
        );
        let boundary = format!("=_demo_{:08x}_{}", self.random.next_u64() as u32, self.count);
        if !multipart.is_empty() {
            let _ = write!(head, "Content-Type: {multipart};\r\n boundary=\"{boundary}\"\r\n\r\n");
        }
        (head, boundary)
    }
}

fn build_message(from: &'static str, to: &[&'static str], text: String) -> DemoMessage {
    DemoMessage { from, to: to.to_vec(), raw: text.into_bytes() }
}

fn attach(text: &mut String, boundary: &str, (kind, name): (&str, &str), content: &[u8]) {
    let file = if name.is_ascii() {
        format!("filename=\"{name}\"")
    } else {
        let escaped: String = name.bytes().map(percent).collect();
        format!("filename*=utf-8''{escaped}")
    };
    let _ = write!(
        text,
        "--{boundary}\r\nContent-Type: {kind}\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: attachment;\r\n {file}\r\n\r\n{}",
        base64_lines(content)
    );
}

fn percent(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || byte == b'.' { char::from(byte).to_string() } else { format!("%{byte:02X}") }
}

fn mailbox(address: &str) -> String {
    let name = PEOPLE.iter().find(|(known, _)| *known == address).map(|(_, name)| *name);
    match name {
        Some(name) if name.is_ascii() => format!("{name} <{address}>"),
        Some(name) => format!("{} <{address}>", encoded_word(name)),
        None => address.to_owned(),
    }
}

/// Encodes a text for a header (RFC 2047). Each encoded word contains whole characters only.
fn encoded_word(text: &str) -> String {
    let mut pieces = vec![String::new()];
    for c in text.chars() {
        let last = pieces.len() - 1;
        if pieces[last].len() + c.len_utf8() > 42 {
            pieces.push(c.to_string());
        } else {
            pieces[last].push(c);
        }
    }
    pieces.iter().map(|piece| format!("=?utf-8?B?{}?=", STANDARD.encode(piece))).collect::<Vec<_>>().join("\r\n ")
}

fn base64_lines(content: &[u8]) -> String {
    let encoded = STANDARD.encode(content);
    let mut text = String::with_capacity(encoded.len() + encoded.len() / 38 + 2);
    let mut rest = encoded.as_str();
    while let Some((line, after)) = rest.split_at_checked(76) {
        text.push_str(line);
        text.push_str("\r\n");
        rest = after;
    }
    if !rest.is_empty() {
        text.push_str(rest);
        text.push_str("\r\n");
    }
    text
}

fn crlf(text: &str) -> String {
    text.replace('\n', "\r\n")
}

/// Returns a PNG image of one green pixel.
fn png() -> Vec<u8> {
    const DOT: &str =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";
    STANDARD.decode(DOT).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use base::sim::SeededRandom;

    use super::*;

    #[test]
    fn messages_are_well_formed() {
        let messages = demo_messages(Timestamp::from_seconds(1_767_225_600), &SeededRandom::new(1));
        assert_eq!(messages.len(), 12);
        for message in &messages {
            let text = String::from_utf8(message.raw.clone()).expect("the demo writes UTF-8");
            let (head, body) = text.split_once("\r\n\r\n").expect("there is a header");
            assert!(!text.replace("\r\n", "").contains(['\r', '\n']), "{head}");
            for field in ["From: ", "To: ", "Subject: ", "Date: ", "Message-ID: <"] {
                assert_eq!(
                    head.matches(&format!("\r\n{field}")).count() + usize::from(head.starts_with(field)),
                    1,
                    "{head}"
                );
            }
            assert!(head.is_ascii() && !body.is_empty() && text.lines().all(|line| line.len() < 998), "{head}");
            assert!(!message.to.is_empty());
            if let Some(boundary) = head.split("boundary=\"").nth(1).and_then(|rest| rest.split('"').next()) {
                assert!(body.ends_with(&format!("--{boundary}--\r\n")), "{head}");
            }
        }
        assert!(messages.iter().any(|message| message.raw.len() > LARGE_BYTES));
    }

    #[test]
    fn replies_refer_to_the_first_message() {
        let messages = demo_messages(Timestamp::from_seconds(1_767_225_600), &SeededRandom::new(1));
        let text = |message: &DemoMessage| String::from_utf8_lossy(&message.raw).into_owned();
        let first = text(&messages[9]).lines().find_map(|l| l.strip_prefix("Message-ID: ").map(str::to_owned));
        let first = first.expect("it has an identifier");
        assert!(text(&messages[10]).contains(&format!("In-Reply-To: {first}\r\n")));
        assert!(text(&messages[11]).contains(&format!("References: {first}\r\n <")));
    }
}
