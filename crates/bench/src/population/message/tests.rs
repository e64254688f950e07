//! Messages are read by a parser that is not ours.

use mail_parser::{MessageParser, MimeHeaders as _};

use super::*;
use crate::population::content::{ContentRequest, ContentSize, Purpose};
use crate::random::SplitMix64;

fn content(seed: u64, body_bytes: usize, attachment_bytes: usize) -> Content {
    let request = ContentRequest {
        seed: 1,
        author: seed,
        reader: Some(seed + 1),
        purpose: Purpose::Message,
        size: ContentSize { body_bytes, attachment_bytes },
        kinds: &[],
        answered: None,
    };
    Content::generate(&mut SplitMix64::new(seed), &request)
}

fn header(content: &Content) -> MessageHeader {
    MessageHeader {
        from: Some(Mailbox { name: content.author.clone(), address: "mail9@bench.test".to_owned() }),
        to: (1..=40).map(|user| Mailbox { name: String::new(), address: format!("mail{user}@bench.test") }).collect(),
        date_us: Some(1_767_600_000_000_000),
        message_id: Some(format!("<{}@bench.test>", content.reference)),
        references: vec!["<a@bench.test>".to_owned(), "<b@bench.test>".to_owned()],
    }
}

#[test]
fn messages_are_read_as_they_were_written() {
    for seed in 0..400 {
        let content = content(seed, 2_000, if seed % 3 == 0 { 3_000 } else { 0 });
        let bytes = content.message_with(&header(&content));
        let message = MessageParser::default().parse(&bytes).expect("a message");
        assert_eq!(message.subject(), Some(content.subject.as_str()));
        let from = message.from().and_then(|from| from.first()).expect("a sender");
        assert_eq!((from.name(), from.address()), (Some(content.author.as_str()), Some("mail9@bench.test")));
        assert_eq!(message.to().map(|to| to.iter().count()), Some(40));
        assert_eq!(message.date().map(|date| date.to_timestamp()), Some(1_767_600_000));
        assert_eq!(message.message_id(), Some(format!("{}@bench.test", content.reference).as_str()));
        assert_eq!(message.in_reply_to().as_text_list().map(<[_]>::len).or(Some(1)), Some(1));
        let text = |text: &str| text.replace("\r\n", "\n").trim_end().to_owned();
        if content.form != BodyForm::Html {
            assert_eq!(message.body_text(0).map(|body| text(&body)), Some(text(&content.body)), "{seed}");
        }
        if content.form != BodyForm::Plain {
            assert_eq!(message.body_html(0).map(|body| text(&body)), Some(text(&content.html)), "{seed}");
        }
        let attached = message.attachments().next();
        assert_eq!(attached.map(|part| part.contents()), content.attachment.as_ref().map(|file| &*file.bytes));
        assert_eq!(
            attached.and_then(|part| part.attachment_name()),
            content.attachment.as_ref().map(|file| &*file.name)
        );
    }
}

#[test]
fn messages_are_ascii_in_lines_of_mail() {
    for seed in 0..200 {
        let content = content(seed, 5_000, 2_000);
        let message = String::from_utf8(content.message_with(&header(&content))).expect("text");
        assert!(message.is_ascii());
        assert!(message.split("\r\n").all(|line| line.len() <= 300 && !line.contains(['\r', '\n'])), "{message}");
        let (head, _) = message.split_once("\r\n\r\n").expect("a header");
        assert!(head.split("\r\n").all(|line| line.len() <= 78), "{head}");
    }
}

#[test]
fn a_message_without_date_and_id_leaves_them_to_the_server() {
    let message = content(4, 300, 0).message("mail9@bench.test", &["mail1@bench.test".to_owned()]);
    let message = String::from_utf8(message).expect("text");
    assert!(!message.contains("\r\nDate:") && !message.contains("\r\nMessage-ID:") && !message.contains("References"));
    assert!(message.contains("\r\nTo: <mail1@bench.test>\r\n"));
}
