//! The body of a letter, as plain text, as HTML, or as both.

use super::{Answered, BodyForm, ContentRequest, QUOTATION_BYTES_MAX, QUOTATION_PART};
use crate::population::language::Language;
use crate::population::text::TextWriter;
use crate::random::SplitMix64;

const HTML_START: &str = "<!DOCTYPE html>\r\n<html><head><meta charset=\"utf-8\"></head>\r\n<body";
const HTML_END: &str = "</body></html>\r\n";
const PARAGRAPH_START: &str = "<p>";
const PARAGRAPH_END: &str = "</p>\r\n";
/// The smallest paragraph.
const PARAGRAPH_BYTES_MIN: usize = 20;
/// A body with less room for text has no greeting and no closing.
const TEXT_BYTES_MIN: usize = 40;

/// Writes the forms of a body.
pub(super) struct BodyWriter {
    form: BodyForm,
    language: Language,
    /// The plain text, which is also written for HTML alone.
    pub(super) plain: String,
    /// The HTML; empty for plain text alone.
    pub(super) html: String,
}

impl BodyWriter {
    pub(super) fn new(form: BodyForm, language: Language) -> Self {
        Self { form, language, plain: String::new(), html: String::new() }
    }

    /// Writes a letter of the size of the request: the lines of the end are closing, name and reference.
    pub(super) fn write(
        &mut self,
        numbers: &mut SplitMix64,
        request: &ContentRequest<'_>,
        greeting: &str,
        end: &[String; 3],
    ) {
        let size = request.size.body_bytes;
        let reference = &end[2];
        let quoted = request.answered.as_ref().filter(|answered| !answered.text.is_empty());
        let quotation = quoted.map(|answered| self.quotation(answered, size));
        let letter_end = end.join("\r\n");
        let fixed = self.cost(&[greeting, &letter_end]) + quotation.as_ref().map_or(0, |text| self.cost(&[text]));
        let is_letter = fixed + TEXT_BYTES_MIN <= size;
        self.begin();
        if is_letter {
            self.paragraph(greeting);
            self.text(numbers, size - self.cost(&[&letter_end]).min(size), quotation.as_deref());
            self.paragraph(&letter_end);
        } else {
            self.text(numbers, size.saturating_sub(self.cost(&[reference])), None);
            self.paragraph(reference);
        }
        if self.form != BodyForm::Plain {
            self.html.push_str(HTML_END);
        }
    }

    fn begin(&mut self) {
        if self.form == BodyForm::Plain {
            return;
        }
        self.html.push_str(HTML_START);
        self.html.push_str(&format!(" lang=\"{}\"", self.language.code()));
        self.html.push_str(if self.language.is_right_to_left() { " dir=\"rtl\">\r\n" } else { ">\r\n" });
    }

    /// Writes paragraphs until the body has `end` bytes. A quotation follows the first one.
    fn text(&mut self, numbers: &mut SplitMix64, end: usize, quotation: Option<&str>) {
        let mut writer = TextWriter::new(numbers, self.language);
        let mut paragraph = String::new();
        let mut quotation = quotation;
        let quoted = quotation.map_or(0, |text| self.cost(&[text]));
        loop {
            let waiting = if quotation.is_some() { quoted } else { 0 };
            let room = end.saturating_sub(self.length() + waiting + self.cost(&[""])) / self.forms();
            if room < PARAGRAPH_BYTES_MIN {
                break;
            }
            paragraph.clear();
            writer.paragraph(&mut paragraph, room);
            self.paragraph(paragraph.trim_end());
            if let Some(text) = quotation.take() {
                self.quote(text);
            }
        }
        if let Some(text) = quotation {
            self.quote(text);
        }
    }

    /// Adds a paragraph of one or more lines.
    fn paragraph(&mut self, text: &str) {
        self.plain.push_str(text);
        self.plain.push_str("\r\n\r\n");
        if self.form != BodyForm::Plain {
            self.html.extend([PARAGRAPH_START, &text.replace('<', "&lt;"), PARAGRAPH_END]);
        }
    }

    /// Adds a quotation, whose first line says who wrote it.
    fn quote(&mut self, text: &str) {
        let (wrote, quoted) = text.split_once("\r\n").unwrap_or((text, ""));
        self.plain.push_str(wrote);
        self.plain.push_str("\r\n");
        for line in quoted.split("\r\n") {
            self.plain.extend(["> ", line, "\r\n"]);
        }
        self.plain.push_str("\r\n");
        if self.form != BodyForm::Plain {
            let quoted = quoted.replace('<', "&lt;");
            self.html.extend([PARAGRAPH_START, wrote, PARAGRAPH_END]);
            self.html.extend(["<blockquote>", &quoted, "</blockquote>\r\n"]);
        }
    }

    /// Returns the line before a quotation and the quoted text.
    fn quotation(&self, answered: &Answered, size: usize) -> String {
        let wrote = self.language.vocabulary().wrote.replace("{date}", &answered.date);
        let wrote = wrote.replace("{name}", &answered.author.replace('<', ""));
        let most = QUOTATION_BYTES_MAX.min(size / QUOTATION_PART / self.forms());
        let text = &answered.text[..answered.text.floor_char_boundary(most)];
        format!("{wrote}\r\n{}", text.trim_end())
    }

    /// Returns the size of the forms that are sent.
    fn length(&self) -> usize {
        match self.form {
            BodyForm::Plain => self.plain.len(),
            BodyForm::Html => self.html.len() + HTML_END.len(),
            BodyForm::Alternative => self.plain.len() + self.html.len() + HTML_END.len(),
        }
    }

    /// Returns how many forms are sent.
    fn forms(&self) -> usize {
        if self.form == BodyForm::Alternative { 2 } else { 1 }
    }

    /// Returns by how much paragraphs make the body longer, about.
    fn cost(&self, paragraphs: &[&str]) -> usize {
        let of_plain = 4;
        let of_html = PARAGRAPH_START.len() + PARAGRAPH_END.len();
        let marks = match self.form {
            BodyForm::Plain => of_plain,
            BodyForm::Html => of_html,
            BodyForm::Alternative => of_plain + of_html,
        };
        paragraphs.iter().map(|text| text.len() * self.forms() + marks).sum()
    }
}
