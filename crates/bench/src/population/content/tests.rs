//! Tests of contents: sizes, forms, languages, uniqueness.

use std::collections::BTreeSet;

use super::*;
use crate::population::language::Script;
use crate::workload::units::Share;

fn request(author: u64, size: ContentSize) -> ContentRequest<'static> {
    ContentRequest { seed: 1, author, reader: None, purpose: Purpose::Message, size, kinds: &[], answered: None }
}

fn content(seed: u64, body_bytes: usize, attachment_bytes: usize) -> Content {
    let size = ContentSize { body_bytes, attachment_bytes };
    Content::generate(&mut SplitMix64::new(seed), &request(seed, size))
}

/// Returns the size of the forms that are sent.
fn sent_bytes(content: &Content) -> usize {
    match content.form {
        BodyForm::Plain => content.body.len(),
        BodyForm::Html => content.html.len(),
        BodyForm::Alternative => content.body.len() + content.html.len(),
    }
}

#[test]
fn contents_follow_from_the_seed() {
    assert_eq!(content(1, 2_000, 300), content(1, 2_000, 300));
    assert_ne!(content(1, 2_000, 300), content(2, 2_000, 300));
    assert_eq!(content(3, 10, 0).attachment, None);
    assert_eq!(content(3, 10, 12_345).attachment.map(|attachment| attachment.bytes.len()), Some(12_345));
}

#[test]
fn bodies_have_their_size_in_all_forms() {
    let mut forms = BTreeSet::new();
    for seed in 0..300 {
        for body_bytes in [1_000, 10_000, 50_000] {
            let content = content(seed, body_bytes, 0);
            let difference = sent_bytes(&content) as i64 - body_bytes as i64;
            assert!((-60..=180).contains(&difference), "{:?} {body_bytes}: {difference}", content.form);
            forms.insert(content.form);
        }
    }
    assert_eq!(forms.len(), 3);
}

/// Checks that bodies have more than one reference only if they are large enough, and never equal one another.
#[test]
fn no_two_bodies_are_equal() {
    for body_bytes in [1, 40, 200] {
        let bodies: BTreeSet<String> = (0..20_000).map(|seed| content(seed, body_bytes, 0).body).collect();
        assert_eq!(bodies.len(), 20_000, "{body_bytes}");
    }
}

#[test]
fn all_scripts_occur_and_marks_of_html_tell_the_direction() {
    let contents: Vec<Content> = (0..400).map(|seed| content(seed, 1_500, 0)).collect();
    let scripts: BTreeSet<Script> = contents.iter().map(|content| content.language.script()).collect();
    let all: BTreeSet<Script> = Language::all().map(Language::script).collect();
    assert_eq!(scripts, all);
    for content in contents.iter().filter(|content| !content.html.is_empty()) {
        assert_eq!(content.html.contains("dir=\"rtl\""), content.language.is_right_to_left());
        assert!(content.html.ends_with("</body></html>\r\n"));
    }
}

#[test]
fn answers_quote_the_beginning_of_what_they_answer() {
    let size = ContentSize { body_bytes: 3_000, attachment_bytes: 0 };
    let first = Content::generate(&mut SplitMix64::new(5), &request(5, size));
    let answered = Content::answered(&mut SplitMix64::new(5), &request(5, size), "2026-01-05".to_owned());
    assert_eq!((answered.subject.as_str(), answered.author.as_str()), (first.subject.as_str(), first.author.as_str()));
    let line = answered.text.lines().next().expect("a line");
    assert!(first.body.contains(line), "{line}\n{}", first.body);
    let answer = Content::generate(
        &mut SplitMix64::new(6),
        &ContentRequest { answered: Some(answered.clone()), ..request(6, size) },
    );
    assert_eq!(answer.subject, format!("Re: {}", first.subject));
    assert!(answer.body.contains(&format!("\r\n> {line}\r\n")), "{}", answer.body);
    assert!(answer.body.contains("2026-01-05"));
    assert_eq!(answer_subject(&answer.subject), answer.subject);
}

#[test]
fn sizes_are_scaled_but_not_to_nothing() {
    let row = |body_bytes, attachment_bytes| SizeRow { body_bytes, attachment_bytes, share: Share::ALL };
    let scaled = |row: SizeRow, scale| {
        let size = ContentSize::scaled(&row, scale);
        (size.body_bytes, size.attachment_bytes)
    };
    assert_eq!(scaled(row(50_000, 10_000_000), 0.1), (5_000, 1_000_000));
    assert_eq!(scaled(row(50_000, 0), 1.0), (50_000, 0));
    assert_eq!(scaled(row(500, 10), 0.000_1), (1, 1));
}

#[test]
fn typed_texts_are_plain() {
    let size = ContentSize { body_bytes: 1_000, attachment_bytes: 0 };
    for seed in 0..40 {
        let request = ContentRequest { purpose: Purpose::TypedText, ..request(1, size) };
        let content = Content::generate(&mut SplitMix64::new(seed), &request);
        assert_eq!((content.form, content.html.as_str()), (BodyForm::Plain, ""));
    }
}
