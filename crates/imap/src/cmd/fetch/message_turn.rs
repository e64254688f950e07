//! The response about one message, which FETCH can interrupt between two attributes and within a large one.
//!
//! A section above [`limits::PIECE_BYTES`] is sent in pieces. A part that is sent without its transfer encoding is
//! first decoded to measure it, because its length comes before its octets, and then decoded again piece by piece, so
//! that no more than a piece is in memory. Its measures are kept for further attributes of the same message.

use mail::mailbox::MailSnapshot;
use mail::mime::MimeSource;
use notes::FolderEntry;

use crate::cmd::content::OpenedMessage;
use crate::codec::ResponseWriter;
use crate::codec::command::{FetchAttribute, PartPath, Partial};
use crate::error::{Error, Result};
use crate::limits;
use crate::message::{self, AttributeOutcome, BinaryReader, Octets};
use crate::session::fetch_response::{write_head, write_of_entry};
use crate::session::{SelectedMailbox, Session, SliceTimer, is_full};

/// A message and its requested attributes.
pub struct MessageRequest<'r> {
    /// The attributes.
    pub attributes: &'r [FetchAttribute],
    /// The sequence number.
    pub number: u32,
    /// The selected mailbox.
    pub selected: &'r SelectedMailbox,
    /// The snapshot of the slice.
    pub snapshot: &'r MailSnapshot<'r>,
    /// The entry of the message in the folder.
    pub entry: &'r FolderEntry,
    /// The message.
    pub message: &'r OpenedMessage<'r>,
}

/// The bytes that a slice may still decode without sending them, and its time.
pub struct FetchBudget {
    bytes: u64,
    timer: SliceTimer,
}

impl FetchBudget {
    /// Creates the budget of a slice that begins now.
    #[must_use]
    pub fn for_slice(session: &Session) -> Self {
        Self { bytes: limits::FETCH_SLICE_BYTES, timer: SliceTimer::start(&session.context) }
    }

    /// Returns `true` if the slice should end.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.bytes == 0 || self.timer.is_over()
    }

    fn charge(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Progress of writing a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteProgress {
    /// All was written.
    All,
    /// The slice should end before all is written.
    Part,
}

/// The place in the response about a message.
#[derive(Debug, Default)]
pub struct MessageTurn {
    /// The index of the next attribute.
    next: usize,
    /// `true` if the response has begun, which it does with its first item.
    has_items: bool,
    /// The next attribute, if it has begun.
    unfinished: Option<UnfinishedAttribute>,
    /// The parts that have been measured.
    measured: Vec<(PartRange, PartMeasure)>,
    /// `true` if an error ended a literal of which a part had been sent.
    is_cut_off: bool,
    /// `true` if a part had an unknown transfer encoding.
    pub unknown_encoding: bool,
}

/// An attribute of which a part has been processed.
#[derive(Debug)]
enum UnfinishedAttribute {
    /// A section that is sent in pieces. The octets before `written` have been sent.
    Octets { octets: Octets, written: u64 },
    /// A part that is measured.
    Measuring { reader: BinaryReader, measure: PartMeasure },
    /// A part that is sent in pieces without its transfer encoding. `left` octets remain.
    Binary { reader: BinaryReader, left: u64 },
}

/// A part, or a range of it.
type PartRange = (PartPath, Option<Partial>);

/// The properties of a part without its transfer encoding that precede its octets.
#[derive(Debug, Clone, Copy, Default)]
struct PartMeasure {
    length: u64,
    contains_nul: bool,
}

impl MessageTurn {
    /// Returns `true` if the response cannot be ended here, because a literal is unfinished.
    pub fn is_within_literal(&self) -> bool {
        let unfinished = self.unfinished.as_ref();
        let is_literal =
            |unfinished: &UnfinishedAttribute| !matches!(unfinished, UnfinishedAttribute::Measuring { .. });
        self.is_cut_off || unfinished.is_some_and(is_literal)
    }

    /// Writes attributes until all are written or the slice should end.
    ///
    /// If that fails, the output is as before, and the response can only be ended ([`MessageTurn::end_early`]).
    pub fn write(
        &mut self,
        request: &MessageRequest<'_>,
        budget: &mut FetchBudget,
        out: &mut ResponseWriter,
    ) -> Result<WriteProgress> {
        let start = out.len();
        let had_items = self.has_items;
        let was_within_literal = self.is_within_literal();
        let written = self.write_attributes(request, budget, out);
        if written.is_err() {
            out.truncate(start);
            self.has_items = had_items;
            self.is_cut_off = was_within_literal;
        }
        written
    }

    fn write_attributes(
        &mut self,
        request: &MessageRequest<'_>,
        budget: &mut FetchBudget,
        out: &mut ResponseWriter,
    ) -> Result<WriteProgress> {
        while let Some(attribute) = request.attributes.get(self.next) {
            let progress = match self.unfinished.take() {
                Some(unfinished) => self.continue_attribute(unfinished, request, budget, out)?,
                None => self.begin_attribute(attribute, request, budget, out)?,
            };
            if progress == WriteProgress::Part {
                return Ok(WriteProgress::Part);
            }
            self.next += 1;
            if self.next < request.attributes.len() && (is_full(out) || budget.is_used_up()) {
                return Ok(WriteProgress::Part);
            }
        }
        Ok(WriteProgress::All)
    }

    /// Writes an attribute of the entry that was not requested.
    pub fn write_additional(
        &mut self,
        attribute: &FetchAttribute,
        request: &MessageRequest<'_>,
        out: &mut ResponseWriter,
    ) {
        self.begin_item(request.number, out);
        write_of_entry(attribute, (request.selected, request.snapshot, request.entry), out);
    }

    /// Ends the response. The grammar has no FETCH response without items, so without them nothing is written.
    pub fn end(&mut self, out: &mut ResponseWriter) {
        if self.has_items {
            out.byte(b')').crlf();
        }
        *self = Self { unknown_encoding: self.unknown_encoding, ..Self::default() };
    }

    /// Ends the response before all attributes are written. Returns `false` if a literal is unfinished, of which a part
    /// may have been sent. Then nothing is written.
    pub fn end_early(&mut self, out: &mut ResponseWriter) -> bool {
        if self.is_within_literal() {
            return false;
        }
        self.end(out);
        true
    }

    /// Writes the text before an item.
    fn begin_item(&mut self, number: u32, out: &mut ResponseWriter) {
        if std::mem::replace(&mut self.has_items, true) {
            out.space();
        } else {
            write_head(number, out);
        }
    }

    fn begin_attribute(
        &mut self,
        attribute: &FetchAttribute,
        request: &MessageRequest<'_>,
        budget: &mut FetchBudget,
        out: &mut ResponseWriter,
    ) -> Result<WriteProgress> {
        if attribute.needs_entry_only() {
            self.write_additional(attribute, request, out);
            return Ok(WriteProgress::All);
        }
        if let Some((part, reader)) = large_part(attribute, request.message) {
            let known = self.measured.iter().find(|(measured, _)| *measured == part).map(|(_, measure)| *measure);
            let length = reader.known_length().filter(|_| matches!(attribute, FetchAttribute::BinarySize(_)));
            let measure = known.or(length.map(|length| PartMeasure { length, contains_nul: false }));
            return match measure {
                Some(measure) => self.begin_binary((reader, measure), request, budget, out),
                None => {
                    let unfinished = UnfinishedAttribute::Measuring { reader, measure: PartMeasure::default() };
                    self.continue_attribute(unfinished, request, budget, out)
                }
            };
        }
        let start = out.len();
        let had_items = self.has_items;
        self.begin_item(request.number, out);
        if let Some(octets) = message::octets(attribute, request.message)? {
            message::write_octets_name(attribute, out);
            if octets.length() <= limits::PIECE_BYTES {
                octets.write(request.message, out.space())?;
                return Ok(WriteProgress::All);
            }
            out.text(" {").number(octets.length()).byte(b'}').crlf();
            let unfinished = UnfinishedAttribute::Octets { octets, written: 0 };
            return self.continue_attribute(unfinished, request, budget, out);
        }
        if message::write_attribute(attribute, request.message, out)? != AttributeOutcome::Written {
            self.unknown_encoding = true;
            self.has_items = had_items;
            out.truncate(start);
        }
        Ok(WriteProgress::All)
    }

    fn continue_attribute(
        &mut self,
        unfinished: UnfinishedAttribute,
        request: &MessageRequest<'_>,
        budget: &mut FetchBudget,
        out: &mut ResponseWriter,
    ) -> Result<WriteProgress> {
        match unfinished {
            UnfinishedAttribute::Octets { octets, written } => {
                let end = octets.length().min(written.saturating_add(limits::PIECE_BYTES));
                let piece = octets.read(request.message, written..end)?;
                if piece.len() as u64 != end - written {
                    return Err(Error::ContentsGone);
                }
                out.literal_octets(&piece);
                if end < octets.length() {
                    self.unfinished = Some(UnfinishedAttribute::Octets { octets, written: end });
                    return Ok(WriteProgress::Part);
                }
                Ok(WriteProgress::All)
            }
            UnfinishedAttribute::Measuring { mut reader, mut measure } => {
                while !reader.is_done() {
                    if budget.is_used_up() {
                        self.unfinished = Some(UnfinishedAttribute::Measuring { reader, measure });
                        return Ok(WriteProgress::Part);
                    }
                    let octets = read_piece(&mut reader, request.message, budget)?;
                    measure.length += octets.len() as u64;
                    measure.contains_nul |= memchr::memchr(0, &octets).is_some();
                }
                let attribute = request.attributes.get(self.next);
                let part = attribute.and_then(|attribute| large_part(attribute, request.message));
                let (part, reader) = part.ok_or(Error::ContentsGone)?;
                self.measured.push((part, measure));
                self.begin_binary((reader, measure), request, budget, out)
            }
            UnfinishedAttribute::Binary { reader, left } => self.write_binary((reader, left), request, budget, out),
        }
    }

    /// Writes the size of a part that has been measured, or begins to write its octets.
    fn begin_binary(
        &mut self,
        (reader, measure): (BinaryReader, PartMeasure),
        request: &MessageRequest<'_>,
        budget: &mut FetchBudget,
        out: &mut ResponseWriter,
    ) -> Result<WriteProgress> {
        let Some(attribute) = request.attributes.get(self.next) else { return Ok(WriteProgress::All) };
        self.begin_item(request.number, out);
        message::write_octets_name(attribute, out);
        out.space();
        if let FetchAttribute::BinarySize(_) = attribute {
            out.number(measure.length);
            return Ok(WriteProgress::All);
        }
        // Only a literal8 can contain NUL (RFC 3516).
        out.text(if measure.contains_nul { "~{" } else { "{" }).number(measure.length).byte(b'}').crlf();
        self.write_binary((reader, measure.length), request, budget, out)
    }

    /// Writes the next octets of a part without its transfer encoding.
    fn write_binary(
        &mut self,
        (mut reader, mut left): (BinaryReader, u64),
        request: &MessageRequest<'_>,
        budget: &mut FetchBudget,
        out: &mut ResponseWriter,
    ) -> Result<WriteProgress> {
        while left > 0 {
            let octets = read_piece(&mut reader, request.message, budget)?;
            if (octets.len() as u64) > left || (octets.is_empty() && reader.is_done()) {
                // The message is not the one that was measured.
                return Err(Error::ContentsGone);
            }
            out.raw(&octets);
            left -= octets.len() as u64;
            if left > 0 && (is_full(out) || budget.is_used_up()) {
                self.unfinished = Some(UnfinishedAttribute::Binary { reader, left });
                return Ok(WriteProgress::Part);
            }
        }
        Ok(WriteProgress::All)
    }
}

/// Reads the next piece of a part and charges the budget for it.
fn read_piece(reader: &mut BinaryReader, message: &OpenedMessage<'_>, budget: &mut FetchBudget) -> Result<Vec<u8>> {
    let before = reader.unread_bytes();
    let octets = reader.read(message)?;
    budget.charge(before - reader.unread_bytes());
    Ok(octets)
}

/// Returns the part that a BINARY or BINARY.SIZE attribute names, with its reader, if it is too large to be decoded at
/// once.
fn large_part(attribute: &FetchAttribute, message: &OpenedMessage<'_>) -> Option<(PartRange, BinaryReader)> {
    let (part, partial) = match attribute {
        FetchAttribute::Binary { part, partial, .. } => (part, *partial),
        FetchAttribute::BinarySize(part) => (part, None),
        _ => return None,
    };
    let reader = BinaryReader::new(message.structure(), part, partial)?;
    (reader.unread_bytes() > limits::PIECE_BYTES).then(|| ((part.clone(), partial), reader))
}
