//! Substring search: finds notes that cannot contain a text, regardless of the characters around it.
//!
//! IMAP searches for substrings of texts that it folds in its own way, and its result must be exact. The index
//! therefore answers another question: which notes certainly do *not* contain a text. The reader of a note passes the
//! note's texts as they will be compared ([`crate::NoteText::searched`]), and states that these are all. The index
//! stores those of their words that it does not already hold for queries. A searched text is split in the same way: its
//! inner words must be words of the note, its beginning must be the end of a word, and its end must be the beginning of
//! a word. [`FullTextIndex::excluded_notes`] returns the notes whose texts are complete and have no such words. All
//! other notes may contain the text and must be read.
//!
//! The index already holds most words, folded in its own way. An ASCII word that is not too long is the same in both
//! forms once its letters are in lower case, and so is any piece of it. Only such words are left out here, and only
//! those that the note really has in the index.
//!
//! Invariant: [`words_with_positions`] decides by two adjacent characters whether a word ends between them. The words
//! of a text are therefore also words of any text around it, except for the first and the last. Nothing else depends on
//! [`words_with_positions`]: which characters form words only determines how many notes are excluded.

use std::cell::Cell;
use std::collections::HashSet;

use base::{Modseq, NoteId};
use notes::DatabaseSnapshot;
use tantivy::postings::TermInfo;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, InvertedIndexReader, Searcher, SegmentReader, TERMINATED};

use crate::error::Result;
use crate::index::FullTextIndex;
use crate::limits::{
    SUBSTRING_SCAN_DOCUMENTS_MIN, SUBSTRING_STEPS_MAX, SUBSTRING_TEXT_BYTES_MAX, SUBSTRING_WORD_BYTES_MAX,
    SUBSTRING_WORDS_MAX, WORD_BYTES_MAX,
};
use crate::schema::{self, Schema};
use crate::term_automaton::SubstringAutomaton;
use crate::tokenizers::WORD_SEPARATOR;
use crate::words::{Words, is_single_character_word, is_word_character};

/// The part of a note that contains a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotePart {
    /// The header.
    Header,
    /// The part after the header.
    Body,
}

impl NotePart {
    /// Returns the prefix of the words of this part in the index.
    fn mark(self) -> char {
        match self {
            Self::Header => 'h',
            Self::Body => 'b',
        }
    }
}

/// The term of a note whose texts are complete.
const COMPLETE_MARK: char = 'v';

/// A text to search for, folded as it is compared, with its part of the note.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubstringKey {
    /// The part of the note in which the text is searched.
    pub part: NotePart,
    /// The folded text.
    pub folded: String,
}

/// Notes that certainly do not contain a text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExcludedNotes {
    applied: Modseq,
    /// The notes in ascending order.
    notes: Vec<NoteId>,
}

impl ExcludedNotes {
    /// Returns `true` if a note does not contain the text in a snapshot with the modseq `snapshot`, in which the note
    /// was last changed at `changed`.
    #[must_use]
    pub fn excludes(&self, note: NoteId, changed: Modseq, snapshot: Modseq) -> bool {
        changed <= self.applied && self.applied <= snapshot && self.notes.binary_search(&note).is_ok()
    }

    /// Returns the number of notes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.notes.len()
    }

    /// Returns `true` if there are no notes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }
}

/// Returns the words of a text with their positions: runs of letters, digits and marks, or single characters in scripts
/// written without blanks.
fn words_with_positions(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let bytes = text.as_bytes();
        while bytes.get(at).is_some_and(|byte| byte.is_ascii() && !byte.is_ascii_alphanumeric()) {
            at += 1;
        }
        let mut end = at;
        while bytes.get(end).is_some_and(u8::is_ascii_alphanumeric) {
            end += 1;
        }
        let is_whole = match bytes.get(end) {
            Some(byte) => byte.is_ascii(),
            None => end > at,
        };
        let (start, word) = if is_whole { (at, &text[at..end]) } else { run_of_characters(text, at)? };
        at = start + word.len();
        Some((start, word))
    })
}

/// Returns the next word, which may contain any characters.
fn run_of_characters(text: &str, from: usize) -> Option<(usize, &str)> {
    let (first, character) = text[from..].char_indices().find(|(_, character)| is_word_character(*character))?;
    let run = &text[from + first..];
    if is_single_character_word(character) {
        return Some((from + first, &run[..character.len_utf8()]));
    }
    let length = run.find(|next: char| !is_word_character(next) || is_single_character_word(next)).unwrap_or(run.len());
    Some((from + first, &run[..length]))
}

/// The texts of one note.
#[derive(Debug, Default)]
pub(crate) struct SubstringTexts {
    header: String,
    body: String,
    is_too_much: bool,
}

impl SubstringTexts {
    /// Adds a text. Returns `false` if the texts together are too long to be kept.
    pub(crate) fn take(&mut self, part: NotePart, folded: &str) -> bool {
        let bytes = self.header.len() + self.body.len() + folded.len();
        if self.is_too_much || bytes > SUBSTRING_TEXT_BYTES_MAX {
            *self = Self { is_too_much: true, ..Self::default() };
            return false;
        }
        let texts = match part {
            NotePart::Header => &mut self.header,
            NotePart::Body => &mut self.body,
        };
        texts.push_str(folded);
        texts.push(WORD_SEPARATOR);
        true
    }

    /// Returns the list of words for the index, given that the texts are complete.
    ///
    /// Returns `None` if the texts are too long or contain a word that is too long. `text` is the text of the note that
    /// the index holds for queries.
    pub(crate) fn into_word_list(mut self, database: &str, text: [&str; 2]) -> Option<String> {
        if self.is_too_much {
            return None;
        }
        let mut list = String::with_capacity(1_024);
        list.push_str(database);
        list.push(COMPLETE_MARK);
        for ((part, texts), text) in
            [(NotePart::Header, &mut self.header), (NotePart::Body, &mut self.body)].into_iter().zip(text)
        {
            texts.make_ascii_lowercase();
            let mut joined = String::with_capacity(text.len());
            let known = query_words(text.strip_prefix(database).unwrap_or(text), &mut joined);
            let mut words: HashSet<&str> = HashSet::with_capacity(known.len());
            for (_, word) in words_with_positions(texts) {
                if word.len() > SUBSTRING_WORD_BYTES_MAX {
                    return None;
                }
                if (is_same_in_queries(word) && known.contains(word)) || !words.insert(word) {
                    continue;
                }
                list.push(WORD_SEPARATOR);
                list.push(part.mark());
                list.push_str(word);
            }
        }
        Some(list)
    }
}

/// Returns the words that the index holds of a text for queries. They borrow from `joined`.
fn query_words<'j>(text: &str, joined: &'j mut String) -> HashSet<&'j str> {
    let mut ends = Vec::with_capacity(text.len() / 8);
    let mut words = Words::new(text);
    while words.next_into(joined).is_some() {
        ends.push(joined.len());
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, end)| &joined[start..*end]).collect()
}

/// Returns `true` if a word and its pieces are the same among the words for queries, which are folded differently and
/// cut.
fn is_same_in_queries(word: &str) -> bool {
    word.is_ascii() && word.len() <= WORD_BYTES_MAX
}

/// A condition that a word of the note must satisfy if the note contains the text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Piece<'t> {
    /// The word equals this text.
    Whole(&'t str),
    /// The word begins with this text.
    Beginning(&'t str),
    /// The word ends with this text.
    End(&'t str),
    /// The word contains this text.
    Within(&'t str),
}

impl<'t> Piece<'t> {
    fn text(self) -> &'t str {
        match self {
            Self::Whole(text) | Self::Beginning(text) | Self::End(text) | Self::Within(text) => text,
        }
    }
}

/// Splits a searched text into pieces. Pieces with the fastest lookups come first.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces: Vec<Piece<'_>> = words_with_positions(text)
        .map(|(start, word)| {
            let is_alone = word.chars().next().is_some_and(is_single_character_word);
            match (start == 0, start + word.len() == text.len()) {
                _ if is_alone => Piece::Whole(word),
                (false, false) => Piece::Whole(word),
                (false, true) => Piece::Beginning(word),
                (true, false) => Piece::End(word),
                (true, true) => Piece::Within(word),
            }
        })
        .collect();
    pieces.sort_unstable();
    pieces.dedup();
    pieces
}

impl FullTextIndex {
    /// Returns for each text the notes of a database that do not contain it in any of its parts, as far as the index
    /// knows.
    ///
    /// The result has no notes for a text without parts, and is empty if the database is not indexed.
    ///
    /// # Errors
    ///
    /// Fails if the index fails.
    pub fn excluded_notes(
        &self,
        reading: &DatabaseSnapshot<'_>,
        texts: &[Vec<SubstringKey>],
    ) -> Result<Vec<ExcludedNotes>> {
        let published = self.published();
        let database = reading.database().number();
        let Some(applied) = published.applied(database) else { return Ok(Vec::new()) };
        let mut lookup =
            WordLookup { schema: self.schema(), prefix: schema::prefix(database, None), steps: SUBSTRING_STEPS_MAX };
        let exclude = |parts: &Vec<SubstringKey>| {
            if parts.is_empty() {
                return Ok(ExcludedNotes::default());
            }
            let mut notes = lookup.excluded_notes(&published.searcher, parts)?;
            notes.sort_unstable();
            Ok(ExcludedNotes { applied, notes })
        };
        texts.iter().map(exclude).collect()
    }
}

/// A lookup in the words of one database.
struct WordLookup<'l> {
    schema: &'l Schema,
    /// The prefix of the database's terms.
    prefix: String,
    /// Number of characters of words that may still be examined.
    steps: usize,
}

impl WordLookup<'_> {
    fn excluded_notes(&mut self, searcher: &Searcher, sought: &[SubstringKey]) -> Result<Vec<NoteId>> {
        let mut excluded = Vec::new();
        for segment in searcher.segment_readers() {
            let index = segment.inverted_index(self.schema.searched)?;
            let Some(info) = index.terms().get(format!("{}{COMPLETE_MARK}", self.prefix))? else { continue };
            let mut complete = Docs::default();
            complete.add(&index, &[info])?;
            let mut left = complete.clone();
            for text in sought {
                left.subtract(&self.candidates(segment, &complete, text)?);
            }
            collect(segment, &left, &mut excluded)?;
        }
        Ok(excluded)
    }

    /// Returns the documents that may contain a text.
    fn candidates(&mut self, segment: &SegmentReader, complete: &Docs, sought: &SubstringKey) -> Result<Docs> {
        let known = match sought.part {
            NotePart::Header => self.schema.main,
            NotePart::Body => self.schema.body,
        };
        let own = segment.inverted_index(self.schema.searched)?;
        let known = segment.inverted_index(known)?;
        let own_prefix = format!("{}{}", self.prefix, sought.part.mark());
        let known_prefix = self.prefix.clone();
        let mut found = complete.clone();
        let mut is_narrowed = false;
        let text = sought.folded.to_ascii_lowercase();
        for piece in pieces(&text) {
            let scans = matches!(piece, Piece::End(_) | Piece::Within(_));
            if scans && is_narrowed && found.count() <= SUBSTRING_SCAN_DOCUMENTS_MIN {
                break;
            }
            let mut docs = Docs::default();
            let mut is_complete = self.add(&own, &own_prefix, piece, &mut docs)?;
            if is_same_in_queries(piece.text()) && is_complete {
                is_complete = self.add(&known, &known_prefix, piece, &mut docs)?;
            }
            if is_complete {
                found.intersect(&docs);
                is_narrowed = true;
            }
        }
        Ok(found)
    }

    /// Adds the documents that have a word for a piece. Returns `false` if too many words match for the piece to be of
    /// use.
    fn add(&mut self, index: &InvertedIndexReader, prefix: &str, piece: Piece<'_>, docs: &mut Docs) -> Result<bool> {
        let (start, piece, ends) = match piece {
            Piece::Whole(word) => {
                let info = index.terms().get(format!("{prefix}{word}"))?;
                return docs.add(index, info.as_slice()).map(|()| true);
            }
            Piece::Beginning(start) => (start, "", false),
            Piece::Within(part) => ("", part, false),
            Piece::End(end) => ("", end, true),
        };
        if start.len().max(piece.len()) > SUBSTRING_WORD_BYTES_MAX {
            return Ok(true);
        }
        let start = format!("{prefix}{start}");
        let steps = Cell::new(self.steps);
        let mut found = Vec::new();
        let words = SubstringAutomaton::new(start.as_bytes(), piece.as_bytes(), ends, &steps);
        let mut terms = index.terms().search(words).into_stream()?;
        while terms.advance() && found.len() <= SUBSTRING_WORDS_MAX {
            found.push(terms.value().clone());
        }
        self.steps = steps.get();
        if self.steps == 0 || found.len() > SUBSTRING_WORDS_MAX {
            return Ok(false);
        }
        docs.add(index, &found).map(|()| true)
    }
}

/// Appends the notes of the documents that are not deleted.
fn collect(segment: &SegmentReader, docs: &Docs, out: &mut Vec<NoteId>) -> Result<()> {
    let notes = segment.fast_fields().column_first_or_default::<u64>(schema::NOTE)?;
    let note = |doc| NoteId(u32::try_from(notes.get_val(doc) >> 1).unwrap_or_default());
    out.extend(docs.all().filter(|doc| !segment.is_deleted(*doc)).map(note));
    Ok(())
}

/// A set of documents of a segment.
#[derive(Clone, Debug, Default)]
struct Docs {
    bits: Vec<u64>,
}

impl Docs {
    /// Adds the documents that contain one of the words.
    fn add(&mut self, index: &InvertedIndexReader, words: &[TermInfo]) -> Result<()> {
        for word in words {
            let mut postings = index.read_postings_from_terminfo(word, IndexRecordOption::Basic)?;
            while postings.doc() != TERMINATED {
                let place = postings.doc() as usize / 64;
                if place >= self.bits.len() {
                    self.bits.resize(place + 1, 0);
                }
                self.bits[place] |= 1_u64 << (postings.doc() % 64);
                postings.advance();
            }
        }
        Ok(())
    }

    fn intersect(&mut self, others: &Self) {
        self.bits.truncate(others.bits.len());
        self.bits.iter_mut().zip(&others.bits).for_each(|(own, other)| *own &= other);
    }

    fn subtract(&mut self, others: &Self) {
        self.bits.iter_mut().zip(&others.bits).for_each(|(own, other)| *own &= !other);
    }

    fn count(&self) -> usize {
        self.bits.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    fn all(&self) -> impl Iterator<Item = DocId> {
        self.bits
            .iter()
            .zip(0_u32..)
            .flat_map(|(bits, place)| (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| place * 64 + bit))
    }
}
