//! The file `histograms.hlog`: the histograms of a run by sample, in the format of HdrHistogram's interval logs.
//!
//! A line has the beginning and the length of a sample in seconds from the start signal, and a compressed histogram.
//! Its tag is `VERB/CLASS/KIND/PHASE` or `lateness/PHASE`; a kind is `response`, `service` or `failed`, and a phase is
//! `measured-LEVEL` or `other`. Values are microseconds. The tools of HdrHistogram read the file.
//!
//! A file may come from another part of a run. So lines, histograms and their values have maxima, and a file that
//! exceeds one is refused.

use std::fmt;
use std::io::{self, BufRead, Read, Write};
use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use base64::Engine as _;
use hdrhistogram::serialization::interval_log::{
    IntervalLogHistogram, IntervalLogIterator, IntervalLogWriterBuilder, LogEntry, Tag as LogTag,
};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};

use super::histograms::{
    Action, ClassIndex, HistogramKey, HistogramSet, Kind, Phase, Subject, TimeHistogram, VerbIndex,
};

/// Maximum length of a line. A histogram of three digits up to 1 h has at most 23,552 counts of 9 bytes.
const LINE_BYTES_MAX: u64 = 512 * 1024;
/// Maximum length of a histogram that is not compressed.
const HISTOGRAM_BYTES_MAX: u64 = 256 * 1024;
/// The first four bytes of a compressed histogram, and of one that is not.
const COMPRESSED_COOKIE: [u8; 4] = 0x1C84_9314_u32.to_be_bytes();
const PLAIN_COOKIE: [u8; 4] = 0x1C84_9313_u32.to_be_bytes();
/// The bytes before the compressed counts, and before the counts.
const COMPRESSED_HEADER_BYTES: usize = 8;
const PLAIN_HEADER_BYTES: usize = 40;

/// The names of the verbs and classes of a workload, by their numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// The names of the verbs.
    pub verbs: Vec<String>,
    /// The names of the user classes.
    pub classes: Vec<String>,
}

impl Labels {
    /// Returns the tag of a key.
    ///
    /// # Panics
    ///
    /// If the key has a verb or a class that the workload does not have.
    pub fn tag(&self, key: HistogramKey) -> Tag {
        let subject = match key.subject {
            Subject::Lateness => TagSubject::Lateness,
            Subject::Steps(Action { verb, class }, kind) => TagSubject::Steps {
                verb: self.verbs[usize::from(verb.0)].clone(),
                class: self.classes[usize::from(class.0)].clone(),
                kind,
            },
        };
        Tag { subject, phase: key.phase }
    }

    /// Returns the key of a tag, or `None` if the workload has no such verb or class.
    pub fn key(&self, tag: &Tag) -> Option<HistogramKey> {
        let index = |names: &[String], name: &str| {
            names.iter().position(|known| known == name).and_then(|index| u16::try_from(index).ok())
        };
        let subject = match &tag.subject {
            TagSubject::Lateness => Subject::Lateness,
            TagSubject::Steps { verb, class, kind } => {
                let verb = VerbIndex(index(&self.verbs, verb)?);
                let class = ClassIndex(index(&self.classes, class)?);
                Subject::Steps(Action { verb, class }, *kind)
            }
        };
        Some(HistogramKey { subject, phase: tag.phase })
    }
}

/// The tag of a line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    /// What the times belong to.
    pub subject: TagSubject,
    /// The phase.
    pub phase: Phase,
}

/// What the times of a line belong to, by name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum TagSubject {
    /// The steps of a verb and class.
    Steps {
        /// The verb.
        verb: String,
        /// The user class.
        class: String,
        /// Which time.
        kind: Kind,
    },
    /// The lateness of the driver.
    Lateness,
}

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.subject {
            TagSubject::Lateness => f.write_str("lateness/")?,
            TagSubject::Steps { verb, class, kind } => write!(f, "{verb}/{class}/{}/", kind_name(*kind))?,
        }
        match self.phase {
            Phase::Other => f.write_str("other"),
            Phase::Measured(level) => write!(f, "measured-{level}"),
        }
    }
}

impl FromStr for Tag {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let words: Vec<&str> = text.split('/').collect();
        let (subject, phase) = match words[..] {
            ["lateness", phase] => (TagSubject::Lateness, phase),
            [verb, class, kind, phase] => {
                let kind = [Kind::Response, Kind::Service, Kind::Failed]
                    .into_iter()
                    .find(|known| kind_name(*known) == kind)
                    .ok_or(())?;
                (TagSubject::Steps { verb: verb.to_owned(), class: class.to_owned(), kind }, phase)
            }
            _ => return Err(()),
        };
        let phase = match phase.strip_prefix("measured-") {
            Some(level) => Phase::Measured(level.parse().map_err(drop)?),
            None if phase == "other" => Phase::Other,
            None => return Err(()),
        };
        Ok(Self { subject, phase })
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Response => "response",
        Kind::Service => "service",
        Kind::Failed => "failed",
    }
}

/// Appends the histograms of samples to a log.
pub struct HistogramLog<W> {
    writer: W,
    labels: Labels,
    serializer: V2DeflateSerializer,
}

impl<W: Write> HistogramLog<W> {
    /// Begins a log.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn begin(mut writer: W, labels: Labels) -> io::Result<Self> {
        writer.write_all(b"#[Histogram log of doublet-bench, times in microseconds]\n")?;
        Ok(Self { writer, labels, serializer: V2DeflateSerializer::new() })
    }

    /// Appends the histograms of a sample. Those without times are left out.
    ///
    /// # Errors
    ///
    /// If the log cannot be written.
    pub fn append(&mut self, sample: &Range<Duration>, histograms: &HistogramSet) -> io::Result<()> {
        let builder = IntervalLogWriterBuilder::new();
        let mut log = builder.begin_log_with(&mut self.writer, &mut self.serializer)?;
        let length = sample.end - sample.start;
        for (key, times) in histograms.iter() {
            let text = self.labels.tag(key).to_string();
            let tag = LogTag::new(&text);
            assert!(tag.is_some(), "names of verbs and classes have no commas and spaces");
            log.write_histogram(times.counts(), sample.start, length, tag).map_err(io::Error::other)?;
        }
        self.writer.flush()
    }

    /// Ends the log and returns its file.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.writer.flush()?;
        Ok(self.writer)
    }
}

/// A histogram of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedHistogram {
    /// The sample, from the start signal, in whole milliseconds.
    pub sample: Range<Duration>,
    /// What the times belong to.
    pub tag: Tag,
    /// The times.
    pub times: TimeHistogram,
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The file is not a log of this program.
    #[error("line {line} is damaged: {reason}")]
    Malformed {
        /// The line, from 1.
        line: u64,
        /// What is wrong with it.
        reason: &'static str,
    },
}

/// Reads the histograms of a log one after the other.
pub struct LogReader<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
}

impl<R: BufRead> LogReader<R> {
    /// Reads from a file.
    pub fn new(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0 }
    }

    /// Reads the next line with its end. Returns `false` at the end of the file.
    fn read_line(&mut self) -> Result<bool, LogError> {
        self.line.clear();
        self.number += 1;
        let length = self.input.by_ref().take(LINE_BYTES_MAX + 1).read_until(b'\n', &mut self.line)?;
        if length as u64 > LINE_BYTES_MAX {
            return Err(self.malformed("it is too long"));
        }
        if length > 0 && !self.line.ends_with(b"\n") {
            return Err(self.malformed("it is cut off"));
        }
        Ok(length > 0)
    }

    fn malformed(&self, reason: &'static str) -> LogError {
        LogError::Malformed { line: self.number, reason }
    }

    fn histogram(&self) -> Result<LoggedHistogram, &'static str> {
        let mut entries = IntervalLogIterator::new(&self.line);
        let Some(Ok(LogEntry::Interval(entry))) = entries.next() else { return Err("it has no histogram") };
        let tag = entry.tag().ok_or("it has no tag")?.as_str().parse().map_err(|()| "its tag is unknown")?;
        Ok(LoggedHistogram { sample: sample(&entry)?, tag, times: decode(entry.encoded_histogram())? })
    }
}

impl<R: BufRead> Iterator for LogReader<R> {
    type Item = Result<LoggedHistogram, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.read_line() {
                Ok(true) if matches!(self.line.first(), Some(b'#' | b'\n')) => {}
                Ok(true) => return Some(self.histogram().map_err(|reason| self.malformed(reason))),
                Ok(false) => return None,
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Returns the sample of a line. The format has decimal fractions, which are rounded to milliseconds again.
fn sample(entry: &IntervalLogHistogram<'_>) -> Result<Range<Duration>, &'static str> {
    let rounded = |time: Duration| {
        let millis = (time.as_micros() + 500) / 1_000;
        u64::try_from(millis).map(Duration::from_millis).map_err(|_| "its time is too large")
    };
    let start = rounded(entry.start_timestamp())?;
    let length = rounded(entry.duration())?;
    Ok(start..start.checked_add(length).ok_or("its time is too large")?)
}

/// Decodes a histogram. The lengths that it states are checked before memory is allocated for them.
fn decode(text: &str) -> Result<TimeHistogram, &'static str> {
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).map_err(|_| "it is not base64")?;
    let compressed = bytes.get(COMPRESSED_HEADER_BYTES..).ok_or("its histogram is too short")?;
    if !bytes.starts_with(&COMPRESSED_COOKIE) {
        return Err("its histogram has another format");
    }
    let mut plain = Vec::new();
    let decoder = flate2::read::ZlibDecoder::new(compressed);
    decoder.take(HISTOGRAM_BYTES_MAX).read_to_end(&mut plain).map_err(|_| "its histogram is not compressed")?;
    let length = plain.get(4..8).and_then(|field| field.try_into().ok()).map(u32::from_be_bytes);
    let is_whole = length.is_some_and(|length| PLAIN_HEADER_BYTES.checked_add(length as usize) == Some(plain.len()));
    if !plain.starts_with(&PLAIN_COOKIE) || !is_whole {
        return Err("its histogram is not whole");
    }
    let counts = Deserializer::new().deserialize(&mut plain.as_slice()).map_err(|_| "its histogram is damaged")?;
    TimeHistogram::from_counts(&counts).ok_or("its histogram has other digits or values")
}
