//! The content of a message or document: subject, body and attachment, from numbers.
//!
//! A body is a letter: greeting, paragraphs, closing, the name of the author, and a reference; an answer also quotes.
//! The reference has the first number of the stream, so no two streams with different states give equal bodies. A body
//! that is too small for a letter has words and the reference; none is smaller than a reference.
//!
//! The parts that do not depend on the size are drawn first. So the same stream with another size gives a body that
//! begins alike.

mod body;

use serde::{Deserialize, Serialize};

use super::attachment::{Attachment, AttachmentPool};
use super::language::Language;
use super::people::Person;
use super::text::TextWriter;
use crate::random::SplitMix64;
use crate::workload::profile::{Kind, SizeRow};
use body::BodyWriter;

/// The characters of references: five bits each, without those that look alike.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// The length of a reference.
const REFERENCE_LENGTH: usize = 13;
/// The largest part of a body that a quotation takes: one of so many.
const QUOTATION_PART: usize = 3;
/// The largest text that is quoted.
pub const QUOTATION_BYTES_MAX: usize = 600;
/// The prefix of the subject of an answer.
const ANSWER_PREFIX: &str = "Re: ";
/// In percent of the messages whose author does not write English by nature: those in English.
const ENGLISH_PERCENT: usize = 25;

/// The size of a message or document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentSize {
    /// The size of the body, of all its forms together.
    pub body_bytes: usize,
    /// The size of the attachment, or 0 for none.
    pub attachment_bytes: usize,
}

impl ContentSize {
    /// Returns a size of a profile, multiplied by a factor from 0 to 1. What is not empty has at least a byte.
    pub fn scaled(row: &SizeRow, scale: f64) -> Self {
        let scaled = |bytes: u64| {
            let bytes = (bytes as f64 * scale).round().max(if bytes > 0 { 1.0 } else { 0.0 });
            bytes as usize
        };
        Self { body_bytes: scaled(row.body_bytes), attachment_bytes: scaled(row.attachment_bytes) }
    }
}

/// In which forms a content has its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BodyForm {
    /// As plain text.
    Plain,
    /// As HTML.
    Html,
    /// Both, for the reader to choose.
    Alternative,
}

/// What a content is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// A message, whose body has one or both forms.
    Message,
    /// A document, whose body has one form.
    Document,
    /// A message that is typed as plain text.
    TypedText,
}

impl Purpose {
    /// Draws a form. The shares are assumed.
    fn draw_form(self, numbers: &mut SplitMix64) -> BodyForm {
        match (numbers.below(100), self) {
            (0..=29, _) | (_, Self::TypedText) => BodyForm::Plain,
            (30..=54, _) | (_, Self::Document) => BodyForm::Html,
            (_, Self::Message) => BodyForm::Alternative,
        }
    }
}

/// What is generated.
#[derive(Debug, Clone)]
pub struct ContentRequest<'a> {
    /// The seed of the run, for persons and the pool of attachments.
    pub seed: u64,
    /// The number of the person who writes.
    pub author: u64,
    /// The number of the person to whom it is written, if it is known. Otherwise the greeting has a drawn name.
    pub reader: Option<u64>,
    /// What it is for.
    pub purpose: Purpose,
    /// The size.
    pub size: ContentSize,
    /// The kinds of attachments, as [`AttachmentPool`] has them.
    pub kinds: &'a [Kind],
    /// What it answers.
    pub answered: Option<Answered>,
}

/// A message that is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answered {
    /// Its subject.
    pub subject: String,
    /// What of it is quoted, in lines that end in CRLF. May be empty.
    pub text: String,
    /// The name of its author.
    pub author: String,
    /// Its date, as the quotation says it.
    pub date: String,
}

/// Maximum length of a subject of a server that an answer repeats.
const SUBJECT_BYTES_MAX: usize = 400;

impl Answered {
    /// Creates a message of which nothing is quoted.
    pub fn without_text(subject: &str) -> Self {
        Self { subject: subject.to_owned(), text: String::new(), author: String::new(), date: String::new() }
    }

    /// Creates a message of which nothing is quoted. Returns `None` if the subject that came from the server is no
    /// short line.
    pub fn with_line(subject: &str) -> Option<Self> {
        let is_line = subject.len() < SUBJECT_BYTES_MAX && !subject.chars().any(char::is_control);
        is_line.then(|| Self::without_text(subject))
    }
}

/// What a message or document says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Content {
    /// The subject.
    pub subject: String,
    /// The name of the author.
    pub author: String,
    /// The language.
    pub language: Language,
    /// The number that no other content has.
    pub reference: String,
    /// In which forms the body is sent.
    pub form: BodyForm,
    /// The body as plain text, in lines that end in CRLF.
    pub body: String,
    /// The body as HTML, in lines that end in CRLF; empty for [`BodyForm::Plain`].
    pub html: String,
    /// The file that is attached, if there is one.
    pub attachment: Option<Attachment>,
}

/// A content without its body.
struct Head {
    language: Language,
    reference: String,
    form: BodyForm,
    subject: String,
    greeting: String,
    closing: &'static str,
    attachment: Option<Attachment>,
}

impl Content {
    /// Generates a content.
    pub fn generate(numbers: &mut SplitMix64, request: &ContentRequest<'_>) -> Self {
        let author = Person::new(request.seed, request.author);
        let head = Head::draw(numbers, request, &author);
        let mut writer = BodyWriter::new(head.form, head.language);
        let end = [head.closing.to_owned(), author.name.clone(), format!("Ref. {}", head.reference)];
        writer.write(numbers, request, &head.greeting, &end);
        Self {
            subject: head.subject,
            author: author.name,
            language: head.language,
            reference: head.reference,
            form: head.form,
            body: writer.plain,
            html: writer.html,
            attachment: head.attachment,
        }
    }

    /// Returns what an answer to a content needs, and what it quotes: the beginning of the text. The stream and the
    /// request are those of the answered content, whose attachment is not generated.
    pub fn answered(numbers: &mut SplitMix64, request: &ContentRequest<'_>, date: String) -> Answered {
        let author = Person::new(request.seed, request.author);
        let head = Head::draw(
            numbers,
            &ContentRequest { size: request.size.without_attachment(), ..request.clone() },
            &author,
        );
        let room = QUOTATION_BYTES_MAX.min(request.size.body_bytes / QUOTATION_PART);
        let mut text = String::new();
        if room > 0 {
            TextWriter::new(numbers, head.language).paragraph(&mut text, room);
        }
        Answered { subject: head.subject, text, author: author.name, date }
    }
}

impl ContentSize {
    fn without_attachment(self) -> Self {
        Self { attachment_bytes: 0, ..self }
    }
}

impl Head {
    fn draw(numbers: &mut SplitMix64, request: &ContentRequest<'_>, author: &Person) -> Self {
        let reference = reference(numbers.number());
        let language = if numbers.below(100) < ENGLISH_PERCENT { Language::English } else { author.language };
        let form = request.purpose.draw_form(numbers);
        let vocabulary = language.vocabulary();
        let drawn_subject = TextWriter::new(numbers, language).subject();
        let drawn_reader = TextWriter::new(numbers, language).name();
        let reader = request.reader.map_or(drawn_reader, |reader| Person::new(request.seed, reader).name);
        let greeting = numbers.pick(&vocabulary.greetings).replace("{}", &reader);
        let closing = *numbers.pick(&vocabulary.closings);
        let own = numbers.number();
        let subject = match &request.answered {
            Some(answered) => answer_subject(&answered.subject),
            None => drawn_subject,
        };
        let attachment = (request.size.attachment_bytes > 0).then(|| {
            let pool = AttachmentPool { seed: request.seed, kinds: request.kinds };
            pool.draw(&mut SplitMix64::new(own), request.size.attachment_bytes)
        });
        Self { language, reference, form, subject, greeting, closing, attachment }
    }
}

/// Returns the subject of an answer.
pub fn answer_subject(subject: &str) -> String {
    if subject.starts_with(ANSWER_PREFIX) { subject.to_owned() } else { format!("{ANSWER_PREFIX}{subject}") }
}

/// Returns the reference of the content that a stream gives.
pub fn reference_of(numbers: &SplitMix64) -> String {
    reference(numbers.clone().number())
}

/// Returns the text of a reference. Different numbers have different texts.
fn reference(number: u64) -> String {
    let digits = (0..REFERENCE_LENGTH as u32).rev();
    digits.map(|digit| char::from(ALPHABET[(number >> (5 * digit) & 31) as usize])).collect()
}

#[cfg(test)]
mod tests;
