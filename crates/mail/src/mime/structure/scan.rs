//! The scanner, which finds the ends of headers and the boundaries in one pass.
//!
//! The scanner keeps a stack of the open multiparts and encapsulated messages. It jumps from one line that begins with
//! `--` to the next and compares it with the boundaries on the stack, the innermost first. A match ends every part that
//! was opened inside that multipart. So a missing closing boundary affects only the text after it.
//!
//! A line is a boundary if it consists of exactly `--`, the boundary, optionally `--`, and white space. So a boundary
//! may be a prefix of another one. Only for the innermost open multipart may other text follow after white space or
//! after the closing `--`, because some programs append to that line.
//!
//! A header ends with its blank line. Without a blank line it ends before a boundary, or before two consecutive lines
//! of which neither is a field. A single stray line among fields is part of the header; mail from mbox files and
//! careless filters has such lines. A boundary that contains a colon has the form of a field, so it is recognized
//! first; a stray line directly before it is not part of the header, like one before any other boundary.
//!
//! Every byte is examined a fixed number of times, and a line that begins with `--` is compared with at most
//! `MIME_DEPTH_MAX` boundaries. If several such lines follow one another that are no boundary, further ones are looked
//! up in a table instead. [`ScanEffort`] counts these steps for the tests.

use std::collections::HashSet;

use base::limits::{MIME_DEPTH_MAX, MIME_PARTS_MAX};
use base::line_ends::{line_end, without_line_end};
use memchr::memmem;

use super::content::{Content, ContentField, ContentFieldValues, PartContext, boundary_of};
use super::{Part, PartKind, Structure};
use crate::limits::{BOUNDARY_PADDING_BYTES_MAX, COMPARED_LINES_MAX};
use crate::mime::header::{is_blank_line, split_name};

/// Parses a message. Any bytes have a structure.
#[must_use]
pub fn parse(raw: &[u8]) -> Structure {
    parse_counting(raw).0
}

/// Parses a message and returns the effort as well. For tests and fuzzers.
#[must_use]
pub fn parse_counting(raw: &[u8]) -> (Structure, ScanEffort) {
    let mut scanner = Scanner::new(raw);
    scanner.run();
    (Structure { parts: scanner.parts }, scanner.effort)
}

/// Returns the end of a message's header, with its blank line. It is the end that [`parse`] finds.
#[must_use]
pub fn header_end(raw: &[u8]) -> usize {
    Scanner::new(raw).scan_header(0, raw.len()).end
}

/// Returns the end of a message's header like [`header_end`], or `None` if the header is longer than `bytes_max`.
///
/// The effort depends on `bytes_max` and not on the length of the header.
#[must_use]
pub fn header_end_within(raw: &[u8], bytes_max: usize) -> Option<usize> {
    // A header that has not ended at `bytes_max` is longer, so the scan may end with the next line.
    let limit = raw.len().min(bytes_max.saturating_add(1));
    let end = Scanner::new(raw).scan_header(0, limit).end;
    (end <= bytes_max).then_some(end)
}

/// The effort of parsing a message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScanEffort {
    /// Number of header lines that were examined.
    pub header_lines: u64,
    /// Number of comparisons of a line with a boundary.
    pub comparisons: u64,
}

struct Scanner<'a> {
    raw: &'a [u8],
    parts: Vec<Part>,
    /// The containers that enclose the current position, outermost first.
    open: Vec<OpenContainer>,
    /// The leaf at the current position.
    leaf: Option<usize>,
    lines: LineCounter<'a>,
    /// The boundaries of the open multiparts.
    boundaries: BoundaryTable,
    effort: ScanEffort,
}

/// A multipart or a message that has not ended yet.
struct OpenContainer {
    part: usize,
    /// The boundary of a multipart, until its closing boundary is found.
    boundary: Option<Vec<u8>>,
    place: PartContext,
}

/// A table of the boundaries of the open multiparts, for messages with many lines that begin with `--`.
#[derive(Default)]
struct BoundaryTable {
    /// Number of lines that were compared since the open multiparts changed.
    compared: u32,
    known: Option<KnownBoundaries>,
}

struct KnownBoundaries {
    boundaries: HashSet<Vec<u8>>,
    innermost: Option<Vec<u8>>,
    /// The length of the longest boundary.
    length_max: usize,
    /// `true` if a boundary ends with white space, which cannot be told from the white space after it, or is not a
    /// single line.
    is_ambiguous: bool,
}

/// The boundaries that a line can be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Candidates {
    None,
    Innermost,
    Any,
}

impl BoundaryTable {
    /// Returns the boundaries that a line, without its first two bytes, can be. The first lines are always left to a
    /// comparison, which costs less than the table if there are few.
    fn candidates(&mut self, line: &[u8], open: &[OpenContainer]) -> Candidates {
        if self.compared < COMPARED_LINES_MAX {
            self.compared += 1;
            return Candidates::Any;
        }
        let known = self.known.get_or_insert_with(|| KnownBoundaries::new(open));
        if known.is_ambiguous { Candidates::Any } else { known.candidates(line) }
    }
}

impl KnownBoundaries {
    fn new(open: &[OpenContainer]) -> Self {
        let boundaries: HashSet<Vec<u8>> = open.iter().filter_map(|open| open.boundary.clone()).collect();
        let is_ambiguous = boundaries.iter().any(|boundary| {
            boundary.last().is_none_or(|last| is_padding(*last)) || memchr::memchr(b'\n', boundary).is_some()
        });
        Self {
            innermost: open.iter().rev().find_map(|open| open.boundary.clone()),
            length_max: boundaries.iter().map(Vec::len).max().unwrap_or(0),
            is_ambiguous,
            boundaries,
        }
    }

    /// Returns any boundary if the line is one, with or without the closing `--`, apart from white space at its end.
    /// Only after the innermost boundary may other text follow.
    fn candidates(&self, line: &[u8]) -> Candidates {
        let examined = &line[..line.len().min(self.length_max + 2)];
        let text = match memchr::memchr(b'\n', examined) {
            Some(end) => &examined[..end],
            None => examined,
        };
        let length = text.iter().rposition(|byte| !is_padding(*byte)).map_or(0, |last| last + 1);
        let text = &text[..length];
        let is_known = |boundary: &[u8]| self.boundaries.contains(boundary);
        if is_known(text) || text.strip_suffix(b"--").is_some_and(is_known) {
            return Candidates::Any;
        }
        let begins_with_innermost = self.innermost.as_ref().is_some_and(|innermost| line.starts_with(innermost));
        if begins_with_innermost { Candidates::Innermost } else { Candidates::None }
    }
}

/// Returns `true` for white space that may follow a boundary on its line.
fn is_padding(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

/// A line that is a boundary.
#[derive(Debug, Clone, Copy)]
struct Delimiter {
    /// The index in the stack of the multipart that the boundary belongs to.
    level: usize,
    closing: bool,
    /// The start of the line.
    start: usize,
    /// The start of the next line.
    next: usize,
}

/// A scanned header.
struct Header<'a> {
    end: usize,
    fields: ContentFieldValues<'a>,
}

impl<'a> Scanner<'a> {
    fn new(raw: &'a [u8]) -> Self {
        let lines = LineCounter { raw, position: 0, lines: 0 };
        Self {
            raw,
            parts: Vec::new(),
            open: Vec::new(),
            leaf: None,
            lines,
            boundaries: BoundaryTable::default(),
            effort: ScanEffort::default(),
        }
    }

    fn run(&mut self) {
        let mut from = self.open_part(0, PartContext::Other);
        while let Some(delimiter) = self.next_delimiter(from) {
            if !delimiter.closing && self.parts.len() >= MIME_PARTS_MAX {
                break;
            }
            self.close_within(delimiter.level + 1, content_end(self.raw, delimiter.start));
            let container = &mut self.open[delimiter.level];
            let place = container.place;
            if delimiter.closing {
                container.boundary = None;
                self.boundaries = BoundaryTable::default();
                from = delimiter.next;
            } else {
                from = self.open_part(delimiter.next, place);
            }
        }
        self.close_within(0, self.raw.len());
        for index in 0..self.parts.len() {
            if self.parts[index].end == index + 1 {
                self.parts[index].kind = PartKind::Leaf;
            }
        }
    }

    /// Opens a part and, if it is a message, the part within it, and so on. Returns the start of the body.
    fn open_part(&mut self, start: usize, place: PartContext) -> usize {
        let mut start = start;
        let mut place = place;
        loop {
            let header = self.scan_header(start, self.raw.len());
            let content = Content::parse(&header.fields, place);
            let depth = self.open.len();
            let nestable = depth + 1 < MIME_DEPTH_MAX && self.parts.len() + 1 < MIME_PARTS_MAX;
            let boundary = if content.is_multipart() { boundary_of(&content.parameters) } else { None };
            let is_message = content.is_message() && content.encoding.is_identity();
            let kind = match (&boundary, is_message) {
                (Some(_), _) if nestable => PartKind::Multipart,
                (_, true) if nestable => PartKind::Message,
                _ => PartKind::Leaf,
            };
            let in_digest = content.subtype.eq_ignore_ascii_case(b"digest");
            let part = self.push_part(kind, start..header.end, content);
            match kind {
                PartKind::Leaf => self.leaf = Some(part),
                PartKind::Multipart => {
                    let place = if in_digest { PartContext::Digest } else { PartContext::Other };
                    self.open.push(OpenContainer { part, boundary, place });
                    self.boundaries = BoundaryTable::default();
                }
                PartKind::Message => {
                    self.open.push(OpenContainer { part, boundary: None, place: PartContext::Other });
                    start = header.end;
                    place = PartContext::Other;
                    continue;
                }
            }
            return header.end;
        }
    }

    fn push_part(&mut self, kind: PartKind, header: std::ops::Range<usize>, content: Content) -> usize {
        let index = self.parts.len();
        let body_start = header.end as u64;
        self.parts.push(Part {
            parent: self.open.last().map(|open| open.part),
            depth: self.open.len(),
            end: index + 1,
            kind,
            header: header.start as u64..body_start,
            body: body_start..body_start,
            // The number of lines before the body, until the part ends.
            lines: self.lines.before(header.end),
            content,
        });
        index
    }

    /// Ends the leaf and all containers from a level of the stack on.
    fn close_within(&mut self, level: usize, end: usize) {
        let end = end.max(self.lines.position);
        let lines = self.lines.before(end);
        let parts_end = self.parts.len();
        if level < self.open.len() {
            self.boundaries = BoundaryTable::default();
        }
        let containers = self.open.drain(level.min(self.open.len())..).map(|open| open.part);
        for index in self.leaf.take().into_iter().chain(containers) {
            let part = &mut self.parts[index];
            part.body.end = end as u64;
            part.lines = lines - part.lines;
            part.end = parts_end;
        }
    }

    /// Returns the next line that is a boundary of an open multipart. `from` must be the start of a line.
    fn next_delimiter(&mut self, from: usize) -> Option<Delimiter> {
        if self.open.iter().all(|open| open.boundary.is_none()) {
            return None;
        }
        let raw = self.raw;
        let candidates = memmem::find_iter(&raw[from..], b"\n--").map(|position| from + position + 1);
        let first = raw[from..].starts_with(b"--").then_some(from);
        first.into_iter().chain(candidates).find_map(|start| self.match_delimiter(start))
    }

    /// Compares a line that begins with `--` with the boundaries of the open multiparts.
    fn match_delimiter(&mut self, start: usize) -> Option<Delimiter> {
        let line = &self.raw[start + 2..];
        let candidates = self.boundaries.candidates(line, &self.open);
        if candidates == Candidates::None {
            self.effort.comparisons += 1;
            return None;
        }
        let mut tolerated = None;
        let mut innermost = true;
        for (level, open) in self.open.iter().enumerate().rev() {
            let Some(boundary) = &open.boundary else { continue };
            if candidates == Candidates::Innermost && !innermost {
                break;
            }
            self.effort.comparisons += 1;
            if let Some(rest) = line.strip_prefix(&boundary[..]) {
                let after = start + 2 + boundary.len();
                match BoundaryLineEnd::parse(rest) {
                    BoundaryLineEnd::Exact { closing, length } => {
                        return Some(Delimiter { level, closing, start, next: after + length });
                    }
                    BoundaryLineEnd::Tolerable { closing } if innermost => tolerated = Some((level, closing, after)),
                    _ => {}
                }
            }
            innermost = false;
        }
        let (level, closing, after) = tolerated?;
        Some(Delimiter { level, closing, start, next: line_end(self.raw, after) })
    }

    /// Scans a header and finds its end. The scan ends before a line that begins at `limit` or after it.
    fn scan_header(&mut self, start: usize, limit: usize) -> Header<'a> {
        let raw = self.raw;
        let mut fields = ContentFieldValues::default();
        let mut field: Option<(ContentField, usize)> = None;
        let mut own_boundary = OwnBoundary::Unknown;
        let mut position = start;
        let mut at_field = false;
        let mut stray_line = None;
        let end = loop {
            if position >= limit {
                break position;
            }
            self.effort.header_lines += 1;
            let next = line_end(raw, position);
            let line = &raw[position..next];
            if at_field && matches!(line[0], b' ' | b'\t') {
                position = next;
                continue;
            }
            if let Some((field, value_start)) = field.take() {
                fields.add(field, &raw[value_start..position]);
            }
            if is_blank_line(line) {
                break next;
            }
            if line.starts_with(b"--") && (own_boundary.is(line, &fields) || self.match_delimiter(position).is_some()) {
                break stray_line.unwrap_or(position);
            }
            match split_name(line) {
                Some((name_length, colon)) => {
                    field = ContentField::from_name(&line[..name_length]).map(|field| (field, position + colon + 1));
                    at_field = true;
                    stray_line = None;
                }
                None if self.is_body_start(next) => break position,
                None => {
                    at_field = false;
                    stray_line = Some(position);
                }
            }
            position = next;
        };
        if let Some((field, value_start)) = field {
            fields.add(field, &raw[value_start..end]);
        }
        Header { end, fields }
    }

    /// Returns `true` if the line after a stray line shows that the header is over.
    fn is_body_start(&self, next: usize) -> bool {
        let line = &self.raw[next..line_end(self.raw, next)];
        line.is_empty() || (!is_blank_line(line) && split_name(line).is_none())
    }
}

/// The boundary that is named by the header being scanned.
enum OwnBoundary {
    Unknown,
    Known(Option<Vec<u8>>),
}

impl OwnBoundary {
    /// Returns `true` if a line is the boundary that this header has named. The blank line of the header is then
    /// missing.
    fn is(&mut self, line: &[u8], fields: &ContentFieldValues<'_>) -> bool {
        if let (Self::Unknown, true) = (&self, fields.has_type()) {
            *self = Self::Known(fields.boundary());
        }
        match self {
            Self::Known(Some(boundary)) => line
                .get(2..)
                .and_then(|line| line.strip_prefix(&boundary[..]))
                .is_some_and(|rest| matches!(BoundaryLineEnd::parse(rest), BoundaryLineEnd::Exact { .. })),
            _ => false,
        }
    }
}

/// The text that follows a boundary on its line.
enum BoundaryLineEnd {
    /// Nothing or `--`, and white space. `length` is its number of bytes including the line end.
    Exact { closing: bool, length: usize },
    /// Other text, separated by white space or the closing `--`.
    Tolerable { closing: bool },
    /// The line only has the boundary as a prefix.
    Other,
}

impl BoundaryLineEnd {
    fn parse(rest: &[u8]) -> Self {
        if let Some(length) = blank_length(rest) {
            return Self::Exact { closing: false, length };
        }
        match rest {
            [b'-', b'-', after @ ..] => match blank_length(after) {
                Some(length) => Self::Exact { closing: true, length: length + 2 },
                None => Self::Tolerable { closing: true },
            },
            [b' ' | b'\t', ..] => Self::Tolerable { closing: false },
            _ => Self::Other,
        }
    }
}

/// Returns the length of a line of white space, including its line end. Returns `None` if there is other text.
fn blank_length(rest: &[u8]) -> Option<usize> {
    let padding = rest.get(..BOUNDARY_PADDING_BYTES_MAX).unwrap_or(rest);
    match padding.iter().position(|byte| !is_padding(*byte)) {
        Some(position) => (padding[position] == b'\n').then_some(position + 1),
        None => (padding.len() == rest.len()).then_some(rest.len()),
    }
}

/// Returns the end of the content before a boundary line. The line end before the line belongs to the boundary.
fn content_end(raw: &[u8], start: usize) -> usize {
    without_line_end(&raw[..start]).len()
}

/// A counter of line ends that works in one pass. The requested positions must not decrease.
struct LineCounter<'a> {
    raw: &'a [u8],
    position: usize,
    lines: u64,
}

impl LineCounter<'_> {
    fn before(&mut self, position: usize) -> u64 {
        let between = self.raw.get(self.position..position).unwrap_or_default();
        self.lines += memchr::memchr_iter(b'\n', between).count() as u64;
        self.position = self.position.max(position);
        self.lines
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn table_contains_every_boundary_that_a_comparison_finds(
            boundaries in prop::collection::vec("[ab-]{0,2}[ab]", 1..5),
            line in "[ab-]{0,4}[ \\t]{0,3}[\r]?[\nab]{0,2}",
        ) {
            let open: Vec<OpenContainer> = boundaries.iter().enumerate().map(|(part, boundary)| {
                OpenContainer { part, boundary: Some(boundary.clone().into_bytes()), place: PartContext::Other }
            }).collect();
            let found = KnownBoundaries::new(&open).candidates(line.as_bytes());
            let ends = boundaries.iter().map(|boundary| line.strip_prefix(boundary.as_str()));
            let ends: Vec<_> = ends.map(|rest| rest.map(|rest| BoundaryLineEnd::parse(rest.as_bytes()))).collect();
            let is_boundary = ends.iter().flatten().any(|end| matches!(end, BoundaryLineEnd::Exact { .. }));
            let is_tolerable = matches!(ends.last(), Some(Some(BoundaryLineEnd::Tolerable { .. })));
            prop_assert!(found == Candidates::Any || !is_boundary, "{:?} {:?}", boundaries, line);
            prop_assert!(found != Candidates::None || !is_tolerable, "{:?} {:?}", boundaries, line);
        }
    }
}
