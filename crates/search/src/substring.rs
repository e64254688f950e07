//! Substrings: which notes cannot hold a text, whatever stands before and after it.
//!
//! IMAP looks for substrings of texts that it folds in its own way, and its answer must be exact. So the index answers another question: of which notes is it
//! sure that they do *not* hold a text. Whoever reads a note hands over its texts as they will be compared ([`crate::NoteText::searched`]), and vouches that these were
//! all; the index keeps those of their words that it has not already for queries. A text that is looked for is cut in the same way: words within it must be words of the note, what it
//! begins with must be the end of one, what it ends with the beginning of one. [`Search::lacking`] gives the notes that are vouched for and have
//! no such words. All others may hold the text, and are read.
//!
//! The index has most words already, folded in its own way. A word of ASCII that is not too long is the same in both once its letters are small, and so
//! is any piece of it; only such words are left out here, and only those that the note really has there.
//!
//! Invariant: [`runs`] decides by two neighbouring characters whether a word ends between them, so the words of a text are those of any text around it, but for
//! the first and the last. Nothing else is asked of it: which characters make words only decides how much is ruled out.

use std::cell::Cell;
use std::collections::HashSet;

use base::{Modseq, NoteId};
use notes::Reading;
use tantivy::postings::TermInfo;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, InvertedIndexReader, Searcher, SegmentReader, TERMINATED};

use crate::error::Result;
use crate::index::Search;
use crate::limits::{
    SEARCHED_BYTES_MAX, SEARCHED_WORD_BYTES_MAX, SUBSTRING_DOCUMENTS_FEW, SUBSTRING_STEPS_MAX, SUBSTRING_WORDS_MAX,
    WORD_BYTES_MAX,
};
use crate::marked::BETWEEN_WORDS;
use crate::piece::WordsWith;
use crate::schema::{self, Schema};
use crate::words::{Words, belongs, stands_alone};

/// Where in a note a text stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// In its header.
    Header,
    /// In what follows the header.
    Body,
}

impl Place {
    /// What the words of this place begin with in the index.
    fn mark(self) -> char {
        match self {
            Self::Header => 'h',
            Self::Body => 'b',
        }
    }
}

/// What stands in the index for a note that is vouched for.
const VOUCHED: char = 'v';

/// A text that is looked for, as it is compared, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sought {
    /// Where it may stand.
    pub place: Place,
    /// The text.
    pub folded: String,
}

/// Notes of which it is known that they do not hold a text.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Lacking {
    applied: Modseq,
    /// Rising.
    notes: Vec<NoteId>,
}

impl Lacking {
    /// Tells whether a note does not hold the text, in a snapshot of this modseq in which the note was last changed at `changed`.
    #[must_use]
    pub fn has(&self, note: NoteId, changed: Modseq, snapshot: Modseq) -> bool {
        changed <= self.applied && self.applied <= snapshot && self.notes.binary_search(&note).is_ok()
    }

    /// Counts the notes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.notes.len()
    }

    /// Tells whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.notes.is_empty()
    }
}

/// Walks over the words of a text and where they stand: runs of letters, digits and marks; in scripts that are written without blanks each character.
fn runs(text: &str) -> impl Iterator<Item = (usize, &str)> {
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

/// Finds the next word, whatever characters it has.
fn run_of_characters(text: &str, from: usize) -> Option<(usize, &str)> {
    let (first, character) = text[from..].char_indices().find(|(_, character)| belongs(*character))?;
    let run = &text[from + first..];
    if stands_alone(character) {
        return Some((from + first, &run[..character.len_utf8()]));
    }
    let length = run.find(|next: char| !belongs(next) || stands_alone(next)).unwrap_or(run.len());
    Some((from + first, &run[..length]))
}

/// The texts of one note.
#[derive(Debug, Default)]
pub(crate) struct Searched {
    header: String,
    body: String,
    is_too_much: bool,
}

impl Searched {
    /// Takes a text; false when it and the others are too much to be kept.
    pub(crate) fn take(&mut self, place: Place, folded: &str) -> bool {
        let bytes = self.header.len() + self.body.len() + folded.len();
        if self.is_too_much || bytes > SEARCHED_BYTES_MAX {
            *self = Self { is_too_much: true, ..Self::default() };
            return false;
        }
        let texts = match place {
            Place::Header => &mut self.header,
            Place::Body => &mut self.body,
        };
        texts.push_str(folded);
        texts.push(BETWEEN_WORDS);
        true
    }

    /// Gives what the index gets when the texts were all there are; nothing when they were too much. `text` is what the index has of the note besides.
    pub(crate) fn vouched(mut self, database: &str, text: [&str; 2]) -> Option<String> {
        if self.is_too_much {
            return None;
        }
        let mut list = String::with_capacity(1_024);
        list.push_str(database);
        list.push(VOUCHED);
        for ((place, texts), text) in
            [(Place::Header, &mut self.header), (Place::Body, &mut self.body)].into_iter().zip(text)
        {
            texts.make_ascii_lowercase();
            let mut joined = String::with_capacity(text.len());
            let known = known(text.strip_prefix(database).unwrap_or(text), &mut joined);
            let mut words: HashSet<&str> = HashSet::with_capacity(known.len());
            for (_, word) in runs(texts) {
                if word.len() > SEARCHED_WORD_BYTES_MAX {
                    return None;
                }
                if (may_be_known(word) && known.contains(word)) || !words.insert(word) {
                    continue;
                }
                list.push(BETWEEN_WORDS);
                list.push(place.mark());
                list.push_str(word);
            }
        }
        Some(list)
    }
}

/// Gives the words that the index has of a text for queries; they are joined in `joined`.
fn known<'j>(text: &str, joined: &'j mut String) -> HashSet<&'j str> {
    let mut ends = Vec::with_capacity(text.len() / 8);
    let mut words = Words::new(text);
    while words.next_into(joined).is_some() {
        ends.push(joined.len());
    }
    let starts = std::iter::once(0).chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, end)| &joined[start..*end]).collect()
}

/// Tells whether a word, or a piece of it, is the same in the words that the index has for queries, which are folded in another way and cut.
fn may_be_known(word: &str) -> bool {
    word.is_ascii() && word.len() <= WORD_BYTES_MAX
}

/// What a note must have a word for, if it holds the text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Piece<'t> {
    /// This word.
    Whole(&'t str),
    /// One that begins so.
    Beginning(&'t str),
    /// One that ends so.
    End(&'t str),
    /// One that has this in it.
    Within(&'t str),
}

impl<'t> Piece<'t> {
    fn text(self) -> &'t str {
        match self {
            Self::Whole(text) | Self::Beginning(text) | Self::End(text) | Self::Within(text) => text,
        }
    }
}

/// Cuts a text that is looked for, the pieces first that are looked up fastest.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces: Vec<Piece<'_>> = runs(text)
        .map(|(start, word)| {
            let is_alone = word.chars().next().is_some_and(stands_alone);
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

impl Search {
    /// Finds, for each of some texts, the notes of a database that do not hold it in any of its places, as far as the index knows: nothing of
    /// a text without places, nothing at all of a database that is not indexed.
    ///
    /// # Errors
    ///
    /// Those of the index.
    pub fn lacking(&self, reading: &Reading<'_>, texts: &[Vec<Sought>]) -> Result<Vec<Lacking>> {
        let (published, database) = (self.published(), reading.database().number());
        let Some(applied) = published.applied(database) else { return Ok(Vec::new()) };
        let mut look =
            Look { schema: self.schema(), prefix: schema::prefix(database, None), steps: SUBSTRING_STEPS_MAX };
        let lacking = |places: &Vec<Sought>| {
            if places.is_empty() {
                return Ok(Lacking::default());
            }
            let mut notes = look.lacking(&published.searcher, places)?;
            notes.sort_unstable();
            Ok(Lacking { applied, notes })
        };
        texts.iter().map(lacking).collect()
    }
}

/// A look into one database's words.
struct Look<'l> {
    schema: &'l Schema,
    /// What the terms of the database begin with.
    prefix: String,
    /// How many characters of words may still be looked at.
    steps: usize,
}

impl Look<'_> {
    fn lacking(&mut self, searcher: &Searcher, sought: &[Sought]) -> Result<Vec<NoteId>> {
        let mut lacking = Vec::new();
        for segment in searcher.segment_readers() {
            let index = segment.inverted_index(self.schema.searched)?;
            let Some(info) = index.terms().get(format!("{}{VOUCHED}", self.prefix))? else { continue };
            let mut vouched = Docs::default();
            vouched.add(&index, &[info])?;
            let mut left = vouched.clone();
            for text in sought {
                left.remove(&self.may_hold(segment, &vouched, text)?);
            }
            collect(segment, &left, &mut lacking)?;
        }
        Ok(lacking)
    }

    /// Finds which of the documents may hold a text.
    fn may_hold(&mut self, segment: &SegmentReader, vouched: &Docs, sought: &Sought) -> Result<Docs> {
        let known = match sought.place {
            Place::Header => self.schema.main,
            Place::Body => self.schema.body,
        };
        let (own, known) = (segment.inverted_index(self.schema.searched)?, segment.inverted_index(known)?);
        let own_prefix = format!("{}{}", self.prefix, sought.place.mark());
        let known_prefix = self.prefix.clone();
        let (mut found, mut is_narrowed) = (vouched.clone(), false);
        let text = sought.folded.to_ascii_lowercase();
        for piece in pieces(&text) {
            let scans = matches!(piece, Piece::End(_) | Piece::Within(_));
            if scans && is_narrowed && found.count() <= SUBSTRING_DOCUMENTS_FEW {
                break;
            }
            let mut docs = Docs::default();
            let mut is_complete = self.add(&own, &own_prefix, piece, &mut docs)?;
            if may_be_known(piece.text()) && is_complete {
                is_complete = self.add(&known, &known_prefix, piece, &mut docs)?;
            }
            if is_complete {
                found.keep(&docs);
                is_narrowed = true;
            }
        }
        Ok(found)
    }

    /// Adds the documents that have a word for a piece; false when there are too many words to be of use.
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
        if start.len().max(piece.len()) > SEARCHED_WORD_BYTES_MAX {
            return Ok(true);
        }
        let (start, steps) = (format!("{prefix}{start}"), Cell::new(self.steps));
        let mut found = Vec::new();
        let words = WordsWith::new(start.as_bytes(), piece.as_bytes(), ends, &steps);
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

/// Adds the notes of documents that are not deleted.
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
    /// Adds the documents of words.
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

    fn keep(&mut self, others: &Self) {
        self.bits.truncate(others.bits.len());
        self.bits.iter_mut().zip(&others.bits).for_each(|(own, other)| *own &= other);
    }

    fn remove(&mut self, others: &Self) {
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
