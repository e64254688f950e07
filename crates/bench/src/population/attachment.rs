//! Attachments: files of real kinds, half of which are in a pool and occur in several messages.
//!
//! An attachment has exactly the size that is asked for. With the probability one half it is a file of its own, which
//! occurs once; otherwise it is one of the [`POOL_FILES`] files of the pool of its size, file *k* with the probability
//! proportional to 1 / *k*. A file of the pool follows from the seed, its number and its size, so all messages of a run
//! have the same bytes. [`distinct_files`] returns how many different files are expected among some attachments.
//!
//! [`formats`] writes the files. A file that is too small for its kind is a table of text. The shares of the kinds, the
//! share of the pool and its distribution are assumed.

mod formats;

use std::sync::LazyLock;

use super::language::Language;
use super::text::TextWriter;
use crate::plan::stream::{Draw, Stream};
use crate::random::SplitMix64;
use crate::workload::profile::Kind;

/// The files of the pool of a size.
pub const POOL_FILES: u64 = 1_000;
/// One attachment of so many is a file of the pool.
const POOL_PART: u64 = 2;

/// A kind as the population has it.
struct KindDefinition {
    kind: Kind,
    /// The share of the attachments, in percent.
    percent: usize,
    /// What deflate leaves of a file of 100 KB, in percent, to 5.
    compressed_percent: u64,
    media_type: &'static str,
    extension: &'static str,
}

/// All kinds.
const KINDS: &[KindDefinition] = &[
    definition(Kind::Text, [10, 35], "text/csv", "csv"),
    definition(Kind::Pdf, [30, 90], "application/pdf", "pdf"),
    definition(
        Kind::Office,
        [28, 80],
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
        "docx",
    ),
    definition(Kind::Image, [22, 100], "image/png", "png"),
    definition(Kind::Archive, [7, 100], "application/zip", "zip"),
    definition(Kind::Random, [3, 100], "application/octet-stream", "bin"),
];

const fn definition(
    kind: Kind,
    [percent, compressed_percent]: [usize; 2],
    media_type: &'static str,
    extension: &'static str,
) -> KindDefinition {
    KindDefinition { kind, percent, compressed_percent: compressed_percent as u64, media_type, extension }
}

/// A file that is attached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attachment {
    /// Its name.
    pub name: String,
    /// Its media type.
    pub media_type: &'static str,
    /// Its content.
    pub bytes: Vec<u8>,
}

/// From what the attachments of a run are drawn.
#[derive(Debug, Clone, Copy)]
pub struct AttachmentPool<'a> {
    /// The seed of the run.
    pub seed: u64,
    /// The kinds, all drawn alike. If there are none, each kind is drawn as often as the population has it.
    pub kinds: &'a [Kind],
}

impl AttachmentPool<'_> {
    /// Draws an attachment of a size.
    pub fn draw(&self, numbers: &mut SplitMix64, bytes: usize) -> Attachment {
        if numbers.number().is_multiple_of(POOL_PART) {
            return self.file(pool_number(numbers), bytes);
        }
        let mut own = SplitMix64::new(numbers.number());
        self.generate(&mut own, bytes)
    }

    /// Returns a file of the pool.
    fn file(&self, number: u64, bytes: usize) -> Attachment {
        let stream = Stream::new(self.seed, Draw::PoolFile, [number, bytes as u64, 0]);
        self.generate(&mut stream.into_numbers(), bytes)
    }

    fn generate(&self, numbers: &mut SplitMix64, bytes: usize) -> Attachment {
        let kind = self.draw_kind(numbers);
        let language = Language::draw(numbers);
        let stem = TextWriter::new(numbers, language).subject();
        let (kind, content) = match formats::generate(kind, numbers, bytes) {
            Some(content) => (kind, content),
            None => (Kind::Text, formats::table(numbers, bytes)),
        };
        let definition = definition_of(kind);
        let name = format!("{}.{}", stem.replace([' ', '/'], "_"), definition.extension);
        Attachment { name, media_type: definition.media_type, bytes: content }
    }

    fn draw_kind(&self, numbers: &mut SplitMix64) -> Kind {
        if !self.kinds.is_empty() {
            return *numbers.pick(self.kinds);
        }
        let mut percent = numbers.below(100);
        let drawn = KINDS.iter().find(|definition| {
            let is_drawn = percent < definition.percent;
            percent = percent.saturating_sub(definition.percent);
            is_drawn
        });
        drawn.expect("the shares add up to 100").kind
    }
}

/// Returns what deflate leaves of a large file of a kind, in percent.
pub fn compressed_percent(kind: Kind) -> u64 {
    definition_of(kind).compressed_percent
}

fn definition_of(kind: Kind) -> &'static KindDefinition {
    KINDS.iter().find(|definition| definition.kind == kind).expect("all kinds are in the table")
}

/// The sums of the weights of the files of the pool.
static POOL_WEIGHTS: LazyLock<Vec<u64>> = LazyLock::new(|| {
    let weights = (1..=POOL_FILES).scan(0, |sum, number| {
        *sum += pool_weight(number);
        Some(*sum)
    });
    weights.collect()
});

/// Returns the weight of a file of the pool, in whole numbers, which are the same on every machine.
fn pool_weight(number: u64) -> u64 {
    1_000_000_000 / number
}

/// Draws a file of the pool: its number, from 1.
fn pool_number(numbers: &mut SplitMix64) -> u64 {
    let all = POOL_WEIGHTS.last().copied().expect("the pool has files");
    let drawn = numbers.number() % all;
    POOL_WEIGHTS.partition_point(|sum| *sum <= drawn) as u64 + 1
}

/// Returns how many different files are expected among so many attachments of one size.
pub fn distinct_files(attachments: u64) -> f64 {
    let all = POOL_WEIGHTS.last().copied().expect("the pool has files") as f64;
    let drawn = |number: u64| {
        let probability = pool_weight(number) as f64 / all / POOL_PART as f64;
        1.0 - (1.0 - probability).powf(attachments as f64)
    };
    let of_pool: f64 = (1..=POOL_FILES).map(drawn).sum();
    attachments as f64 * (1.0 - 1.0 / POOL_PART as f64) + of_pool
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::DeflateEncoder;

    use super::*;

    fn pool(kinds: &[Kind]) -> AttachmentPool<'_> {
        AttachmentPool { seed: 1, kinds }
    }

    #[test]
    fn attachments_have_their_size_and_follow_from_the_seed() {
        for bytes in [1, 20, 300, 5_000, 50_000, 300_001] {
            for definition in KINDS {
                let kinds = [definition.kind];
                let draw = |seed| pool(&kinds).draw(&mut SplitMix64::new(seed), bytes);
                assert_eq!(draw(3), draw(3));
                assert_eq!(draw(4).bytes.len(), bytes, "{:?}", definition.kind);
            }
        }
    }

    /// Checks what deflate leaves. The encoder is another one when the whole workspace is built, with other results.
    #[test]
    fn kinds_are_as_compressible_as_stated() {
        let mut wrong = Vec::new();
        for definition in KINDS {
            let kinds = [definition.kind];
            let content = pool(&kinds).draw(&mut SplitMix64::new(9), 100_000).bytes;
            let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
            encoder.write_all(&content).expect("memory takes all");
            let compressed = encoder.finish().expect("memory takes all").len() * 100 / content.len();
            let stated = compressed_percent(definition.kind);
            if stated.abs_diff(compressed as u64) > 5 {
                wrong.push((definition.kind, compressed));
            }
        }
        assert!(wrong.is_empty(), "{wrong:?}");
    }

    #[test]
    fn kinds_have_their_shares_and_only_those_wanted_are_drawn() {
        assert_eq!(KINDS.iter().map(|definition| definition.percent).sum::<usize>(), 100);
        let mut numbers = SplitMix64::new(2);
        let mut counts = BTreeMap::new();
        for _ in 0..20_000 {
            *counts.entry(pool(&[]).draw_kind(&mut numbers) as u8).or_insert(0_usize) += 1;
        }
        for definition in KINDS {
            let percent = counts[&(definition.kind as u8)] as f64 / 200.0;
            assert!((percent - definition.percent as f64).abs() < 1.2, "{:?}: {percent}", definition.kind);
        }
        let wanted = [Kind::Pdf, Kind::Image];
        for _ in 0..100 {
            assert!(wanted.contains(&pool(&wanted).draw_kind(&mut numbers)));
        }
    }

    /// Checks the sharing: the number of different files among some attachments, and the frequencies of the pool.
    #[test]
    fn files_are_shared_as_stated() {
        let mut numbers = SplitMix64::new(6);
        for attachments in [10, 1_000, 20_000] {
            let drawn: BTreeSet<Vec<u8>> =
                (0..attachments).map(|_| pool(&[Kind::Random]).draw(&mut numbers, 16).bytes).collect();
            let expected = distinct_files(attachments);
            assert!((drawn.len() as f64 / expected - 1.0).abs() < 0.05, "{attachments}: {} {expected}", drawn.len());
        }
        let mut counts = BTreeMap::new();
        for _ in 0..100_000 {
            *counts.entry(pool_number(&mut numbers)).or_insert(0_u64) += 1;
        }
        assert!(counts.keys().all(|number| (1..=POOL_FILES).contains(number)));
        let [first, fourth] = [counts[&1] as f64, counts[&4] as f64];
        assert!((first / fourth - 4.0).abs() < 0.4, "{first} {fourth}");
    }
}
