//! Sections of texts in which search terms are highlighted (SearchSnippet, RFC 8621 §5).
//!
//! Case, accents and the width of white space make no difference, as in a search. The text is escaped for HTML, and the
//! only tags in it are `<mark>` and `</mark>`. Terms that overlap are highlighted together. A section begins a little
//! before the first term and is never longer than the caller allows, tags and escaped characters included.

use std::ops::Range;

use memchr::memmem;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use mail::mime::{MimeSource, text};

use crate::email::limits::{SNIPPET_MATCHES_MAX, SNIPPET_SOURCE_BYTES_MAX, SNIPPET_TERMS_MAX};
use crate::email::part_reader::PartReader;

const OPEN: &str = "<mark>";
const CLOSE: &str = "</mark>";
const ELLIPSIS: &str = "\u{2026}";

/// Returns a section of a text with the terms highlighted, of at most `octets_max` bytes. Returns `None` if no term is
/// found.
#[must_use]
pub fn snippet(text: &str, terms: &[String], octets_max: usize) -> Option<String> {
    let text = &text[..text.floor_char_boundary(SNIPPET_SOURCE_BYTES_MAX)];
    let text = on_one_line(text);
    let matches = FoldedText::new(&text).find(terms);
    let first = matches.first()?;
    let whole = highlight(&text, 0..text.len(), &matches, octets_max);
    if whole.is_complete {
        return Some(whole.html);
    }
    // About a quarter of the section comes before the first term, unless escaped characters take up all of it.
    let starts = [section_start(&text, first.start, octets_max / 4), first.start];
    let sections = starts.map(|start| highlight(&text, start..text.len(), &matches, octets_max).html);
    sections.into_iter().find(|html| html.contains(OPEN) && html.len() <= octets_max)
}

/// Returns the displayed text of a message's body, for a snippet: the plain and HTML texts in the order of the message,
/// up to a limit. If a message shows the same in both, the plain text comes first.
///
/// # Errors
///
/// Returns the errors of the source.
pub fn searchable_body_text<S: MimeSource + ?Sized>(source: &S) -> Result<String, S::Error> {
    let reader = PartReader(source);
    let tree = reader.tree();
    let mut body = String::new();
    for index in tree.leaves() {
        let media_type = tree.media_type(index);
        let part = match &media_type[..] {
            "text/html" => text::of_html(&reader.text(index)?.text),
            plain if plain.starts_with("text/") => reader.text(index)?.text,
            _ => continue,
        };
        body.push_str(&part);
        body.push('\n');
        if body.len() > SNIPPET_SOURCE_BYTES_MAX {
            body.truncate(body.floor_char_boundary(SNIPPET_SOURCE_BYTES_MAX));
            break;
        }
    }
    Ok(body)
}

/// Returns a text in which single spaces separate words, without control characters.
fn on_one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for word in text.split(|character: char| character.is_whitespace() || character.is_control()) {
        if !line.is_empty() && !word.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

/// Appends the form of a character that is compared: in upper case, without accents.
fn push_folded(character: char, folded: &mut String) {
    let decomposed = character.to_uppercase().nfkd().flat_map(char::to_uppercase);
    folded.extend(decomposed.filter(|character| !is_combining_mark(*character)));
}

fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    text.chars().for_each(|character| push_folded(character, &mut folded));
    folded
}

/// A text in the form that is compared, with the places of its characters.
struct FoldedText {
    folded: String,
    /// The start of each character in `folded` and in the text, and the end of both.
    places: Vec<(usize, usize)>,
}

impl FoldedText {
    fn new(text: &str) -> Self {
        let mut folded = String::with_capacity(text.len());
        let mut places = Vec::with_capacity(text.len());
        for (start, character) in text.char_indices() {
            let folded_start = folded.len();
            push_folded(character, &mut folded);
            // A combining mark belongs to the character before it.
            if folded.len() > folded_start {
                places.push((folded_start, start));
            }
        }
        places.push((folded.len(), text.len()));
        Self { folded, places }
    }

    /// Returns the ranges of the text in which terms occur, in ascending order and without overlaps.
    fn find(&self, terms: &[String]) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        for term in terms.iter().take(SNIPPET_TERMS_MAX) {
            let term = fold(&on_one_line(term));
            if term.is_empty() {
                continue;
            }
            let found = memmem::find_iter(self.folded.as_bytes(), term.as_bytes());
            ranges.extend(found.take(SNIPPET_MATCHES_MAX).map(|start| self.range(start..start + term.len())));
        }
        ranges.sort_unstable_by_key(|range| (range.start, range.end));
        let mut merged: Vec<Range<usize>> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start < last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        merged
    }

    /// Returns the range of the text that a range of the folded form stands for, extended to whole characters.
    fn range(&self, folded: Range<usize>) -> Range<usize> {
        let first = self.places.partition_point(|(start, _)| *start <= folded.start).saturating_sub(1);
        let end = self.places.partition_point(|(start, _)| *start < folded.end);
        let place = |index: usize| self.places.get(index).map_or(0, |(_, place)| *place);
        place(first)..place(end)
    }
}

/// Returns the start of a section: the start of a word that is at most `bytes` before a term.
fn section_start(text: &str, term_start: usize, bytes: usize) -> usize {
    let earliest = text.ceil_char_boundary(term_start.saturating_sub(bytes));
    if earliest == 0 {
        return 0;
    }
    text[earliest..term_start].find(' ').map_or(term_start, |offset| earliest + offset + 1)
}

/// A highlighted section.
struct Section {
    html: String,
    /// `true` if the section extends to the end of the text.
    is_complete: bool,
}

/// Renders a section of a text in HTML with its terms highlighted, as far as `octets_max` bytes suffice.
fn highlight(text: &str, section: Range<usize>, matches: &[Range<usize>], octets_max: usize) -> Section {
    let mut html = String::new();
    let mut matches = matches.iter().filter(|found| found.start >= section.start).peekable();
    let mut open_until = None;
    if section.start > 0 {
        html.push_str(ELLIPSIS);
    }
    for (offset, character) in text[section.start..].char_indices() {
        let position = section.start + offset;
        if open_until == Some(position) {
            html.push_str(CLOSE);
            open_until = None;
        }
        let opens = matches.next_if(|found| found.start == position);
        let escaped = escape(character);
        let escaped_length = escaped.map_or(character.len_utf8(), str::len);
        let tags = match (opens, open_until) {
            (Some(_), _) => OPEN.len() + CLOSE.len(),
            (None, Some(_)) => CLOSE.len(),
            (None, None) => 0,
        };
        let is_last = position + character.len_utf8() == text.len();
        let ellipsis = if is_last { 0 } else { ELLIPSIS.len() };
        if html.len() + tags + escaped_length + ellipsis > octets_max {
            if open_until.is_some() {
                html.push_str(CLOSE);
            }
            if html.len() + ELLIPSIS.len() <= octets_max {
                html.push_str(ELLIPSIS);
            }
            return Section { html, is_complete: false };
        }
        if let Some(found) = opens {
            html.push_str(OPEN);
            open_until = Some(found.end);
        }
        match escaped {
            Some(escaped) => html.push_str(escaped),
            None => html.push(character),
        }
    }
    if open_until.is_some() {
        html.push_str(CLOSE);
    }
    Section { html, is_complete: section.start == 0 }
}

fn escape(character: char) -> Option<&'static str> {
    match character {
        '&' => Some("&amp;"),
        '<' => Some("&lt;"),
        '>' => Some("&gt;"),
        '"' => Some("&quot;"),
        '\'' => Some("&#39;"),
        _ => None,
    }
}
