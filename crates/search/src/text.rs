//! The text of a note, as it is collected for the index.
//!
//! Whoever reads a note's contents ([`crate::contents::Contents`]) puts here what people would look for: items under their names, the body, the names and
//! texts of attachments, numbers and times. At most [`TEXT_BYTES_MAX`] bytes are taken; what comes later is left out, so what lists show comes first.

use base::{DbNumber, Timestamp};

use crate::extract::Kind;
use crate::limits::{ATTACHMENT_TEXT_BYTES_MAX, PDFS_MAX, TEXT_BYTES_MAX, VALUES_MAX};
use crate::marked::{NAME_BEGIN, NAME_END, NOTE_GAP, push_clean};
use crate::schema::{self, Scalar};
use crate::substring::{Place, Searched};

/// The item under whose name the names of attachments are found.
pub const FILE_ITEM: &str = "$FILE";

/// What the index gets of a note.
#[derive(Debug)]
pub struct NoteText {
    pub(crate) main: String,
    pub(crate) body: String,
    pub(crate) named: String,
    pub(crate) values: Vec<String>,
    /// The words of the texts in which substrings are looked for, once these were said to be all.
    pub(crate) vouched: Option<String>,
    searched: Searched,
    database: String,
    left_bytes: usize,
    left_pdfs: usize,
}

impl NoteText {
    pub(crate) fn new(database: DbNumber) -> Self {
        let database = schema::prefix(database, None);
        let empty = || database.clone();
        let (values, vouched, searched) = (Vec::new(), None, Searched::default());
        let (main, body, named) = (empty(), empty(), empty());
        Self { main, body, named, values, vouched, searched, left_bytes: TEXT_BYTES_MAX, left_pdfs: PDFS_MAX, database }
    }

    /// Takes a text that is found by itself and under the name of its item; what an internal item (`$…`) holds is no text of
    /// the document and found under the name alone.
    pub fn item(&mut self, name: &str, text: &str) {
        let text = self.take(text);
        if !is_internal(name) {
            self.main.push(NOTE_GAP);
            push_clean(text, &mut self.main);
        }
        self.named.push(NAME_BEGIN);
        push_clean(&name.to_ascii_lowercase(), &mut self.named);
        self.named.push(NAME_END);
        push_clean(text, &mut self.named);
    }

    /// Tells whether a file of a kind may still be read: of those that take long, a note has only so many.
    pub fn has_time_for(&mut self, kind: Kind) -> bool {
        if kind != Kind::Pdf {
            return true;
        }
        let has_time = self.left_pdfs > 0;
        self.left_pdfs = self.left_pdfs.saturating_sub(1);
        has_time
    }

    /// Takes a text of the body.
    pub fn body(&mut self, text: &str) {
        let text = self.take(text);
        self.body.push(NOTE_GAP);
        push_clean(text, &mut self.body);
    }

    /// Takes the text of an attachment.
    pub fn attachment(&mut self, text: &str) {
        let text = self.take(cut(text, ATTACHMENT_TEXT_BYTES_MAX));
        self.main.push(NOTE_GAP);
        push_clean(text, &mut self.main);
    }

    /// Takes a number of an item; it is found as a word, too.
    pub fn number(&mut self, name: &str, number: f64) {
        self.item(name, &number.to_string());
        self.value(name, Scalar::Number(number));
    }

    /// Takes a time of an item.
    pub fn time(&mut self, name: &str, time: Timestamp) {
        self.value(name, Scalar::Time(time));
    }

    /// Takes a text in which substrings are looked for, as it is compared then; false when it is too much, so that the others need not come.
    /// It is not found by queries.
    pub fn searched(&mut self, place: Place, folded: &str) -> bool {
        self.searched.take(place, folded)
    }

    /// Says that [`Self::searched`] was given every text of the note in which substrings may be found, so that a note may be ruled out that
    /// has not the words.
    pub fn vouch(&mut self) {
        self.vouched = std::mem::take(&mut self.searched).vouched(&self.database, [&self.main, &self.body]);
    }

    /// Tells whether more text would be left out.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.left_bytes == 0
    }

    /// Gives how many bytes the index gets of it.
    pub(crate) fn size_bytes(&self) -> usize {
        let values: usize = self.values.iter().map(String::len).sum();
        let searched = self.vouched.as_ref().map_or(0, String::len);
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
        let text = cut(text, self.left_bytes);
        self.left_bytes -= text.len();
        text
    }
}

/// Tells whether an item is of the program's own making: nobody writes into it what others would look for.
fn is_internal(name: &str) -> bool {
    name.starts_with('$') && !name.eq_ignore_ascii_case(FILE_ITEM)
}

/// Cuts a text to a number of bytes.
pub(crate) fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max.min(text.len()))]
}
