//! The text of a note as it is collected for the index.
//!
//! The readers of a note's contents ([`crate::content_reader::ContentReader`]) add the text that users search for:
//! items under their names, the body, the names and texts of attachments, numbers and times. At most [`TEXT_BYTES_MAX`]
//! bytes are taken and later text is left out, so the items shown in lists are added first.

use base::{DbNumber, Timestamp};

use crate::extract::FileKind;
use crate::limits::{ATTACHMENT_TEXT_BYTES_MAX, PDFS_MAX, TEXT_BYTES_MAX, VALUES_MAX};
use crate::schema::{self, Scalar};
use crate::substring::{NotePart, SubstringTexts};
use crate::tokenizers::{NAME_BEGIN, NAME_END, TEXT_SEPARATOR, push_clean};

/// The item name under which the names of attachments are indexed.
pub const FILE_ITEM: &str = "$FILE";

/// The text and values of a note for the index.
#[derive(Debug)]
pub struct NoteText {
    pub(crate) main: String,
    pub(crate) body: String,
    pub(crate) named: String,
    pub(crate) values: Vec<String>,
    /// The words of the texts for substring search. `None` until these texts are declared complete.
    pub(crate) substring_words: Option<String>,
    searched: SubstringTexts,
    database: String,
    left_bytes: usize,
    left_pdfs: usize,
}

impl NoteText {
    pub(crate) fn new(database: DbNumber) -> Self {
        let database = schema::prefix(database, None);
        let empty = || database.clone();
        let values = Vec::new();
        let substring_words = None;
        let searched = SubstringTexts::default();
        let main = empty();
        let body = empty();
        let named = empty();
        Self {
            main,
            body,
            named,
            values,
            substring_words,
            searched,
            left_bytes: TEXT_BYTES_MAX,
            left_pdfs: PDFS_MAX,
            database,
        }
    }

    /// Adds a text that is found both by itself and under the name of its item.
    ///
    /// The text of an internal item (`$…`) is not text of the document and is found only under the name.
    pub fn add_item(&mut self, name: &str, text: &str) {
        let text = self.take(text);
        if !is_internal(name) {
            self.main.push(TEXT_SEPARATOR);
            push_clean(text, &mut self.main);
        }
        self.named.push(NAME_BEGIN);
        push_clean(&name.to_ascii_lowercase(), &mut self.named);
        self.named.push(NAME_END);
        push_clean(text, &mut self.named);
    }

    /// Returns `true` if a file of this kind may still be read, and counts it. The number of slow files per note is
    /// limited.
    pub fn try_count_file(&mut self, kind: FileKind) -> bool {
        if kind != FileKind::Pdf {
            return true;
        }
        let has_time = self.left_pdfs > 0;
        self.left_pdfs = self.left_pdfs.saturating_sub(1);
        has_time
    }

    /// Adds a text of the body.
    pub fn add_body(&mut self, text: &str) {
        let text = self.take(text);
        self.body.push(TEXT_SEPARATOR);
        push_clean(text, &mut self.body);
    }

    /// Adds the text of an attachment.
    pub fn add_attachment(&mut self, text: &str) {
        let text = self.take(truncate(text, ATTACHMENT_TEXT_BYTES_MAX));
        self.main.push(TEXT_SEPARATOR);
        push_clean(text, &mut self.main);
    }

    /// Adds a number of an item. It is also found as a word.
    pub fn add_number(&mut self, name: &str, number: f64) {
        self.add_item(name, &number.to_string());
        self.value(name, Scalar::Number(number));
    }

    /// Adds a time of an item.
    pub fn add_time(&mut self, name: &str, time: Timestamp) {
        self.value(name, Scalar::Time(time));
    }

    /// Adds a text for substring search, folded as it is compared there. Queries do not find it.
    ///
    /// Returns `false` if the texts are too long. Further texts need not be added then.
    pub fn add_substring_text(&mut self, part: NotePart, folded: &str) -> bool {
        self.searched.take(part, folded)
    }

    /// Declares that [`Self::add_substring_text`] has received every text of the note for substring search. The note
    /// may then be excluded if it lacks the words.
    pub fn mark_complete(&mut self) {
        self.substring_words =
            std::mem::take(&mut self.searched).into_word_list(&self.database, [&self.main, &self.body]);
    }

    /// Returns `true` if further text would be left out.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.left_bytes == 0
    }

    /// Returns the number of bytes that the note adds to the index.
    pub(crate) fn size_bytes(&self) -> usize {
        let values: usize = self.values.iter().map(String::len).sum();
        let searched = self.substring_words.as_ref().map_or(0, String::len);
        self.main.len() + self.body.len() + self.named.len() + values + searched
    }

    fn value(&mut self, name: &str, value: Scalar) {
        if self.values.len() < VALUES_MAX {
            let mut term = schema::prefix_of(&self.database, name);
            value.push(&mut term);
            self.values.push(term);
        }
    }

    fn take<'t>(&mut self, text: &'t str) -> &'t str {
        let text = truncate(text, self.left_bytes);
        self.left_bytes -= text.len();
        text
    }
}

/// Returns `true` if an item is internal to the program and holds no text written by users.
fn is_internal(name: &str) -> bool {
    name.starts_with('$') && !name.eq_ignore_ascii_case(FILE_ITEM)
}

/// Truncates a text to a number of bytes.
pub(crate) fn truncate(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max.min(text.len()))]
}
