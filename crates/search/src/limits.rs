//! The limits of this crate.

/// Maximum number of bytes of text indexed per note, including attachments.
pub const TEXT_BYTES_MAX: usize = 4 << 20;

/// Maximum number of bytes of text indexed per attachment.
pub const ATTACHMENT_TEXT_BYTES_MAX: usize = 1 << 20;

/// Maximum size of an attachment whose text is extracted, in bytes.
pub const ATTACHMENT_BYTES_MAX: usize = 16 << 20;

/// Maximum number of attachments per note whose text is extracted. The names of all attachments are indexed.
pub const ATTACHMENTS_MAX: usize = 50;

/// Maximum number of PDFs read per note. Each may take seconds, during which nothing else is indexed.
pub const PDFS_MAX: usize = 8;

/// Maximum number of bytes unpacked from one office document.
pub const UNPACKED_BYTES_MAX: usize = 32 << 20;

/// Maximum number of members of an archive whose text is extracted.
pub const ARCHIVE_MEMBERS_MAX: usize = 20_000;

/// Maximum number of numbers and times indexed per note.
pub const VALUES_MAX: usize = 4_096;

/// Maximum length of a word, in bytes. Longer words are cut, in documents as in queries.
pub const WORD_BYTES_MAX: usize = 64;

/// Maximum number of bytes of a note's folded texts whose words are kept for substring search. A note with more text is
/// never excluded.
pub const SUBSTRING_TEXT_BYTES_MAX: usize = 16 << 20;

/// Maximum length of a word kept for substring search, in bytes. A note with a longer word is never excluded.
pub const SUBSTRING_WORD_BYTES_MAX: usize = 512;

/// Maximum number of words of one segment that match a piece of a substring. A piece with more matches excludes no
/// notes in that segment.
pub const SUBSTRING_WORDS_MAX: usize = 4_096;

/// Maximum number of characters of words examined for the pieces of the texts that are looked up at once. Pieces beyond
/// this limit exclude no notes.
pub const SUBSTRING_STEPS_MAX: usize = 20_000_000;

/// Number of candidate documents of a segment up to which the documents are read instead of excluded by a scan over all
/// words.
pub const SUBSTRING_SCAN_DOCUMENTS_MIN: usize = 16;

/// Maximum length of a query, in bytes.
pub const QUERY_BYTES_MAX: usize = 8 << 10;

/// Maximum number of words, comparisons and operators in a query.
pub const QUERY_PARTS_MAX: usize = 256;

/// Maximum nesting of parentheses and negations in a query.
pub const QUERY_DEPTH_MAX: usize = 32;

/// Maximum number of other words between words that must be near each other.
pub const DISTANCE_MAX: u32 = 100;

/// Default number of other words between the operands of `NEAR`.
pub const DISTANCE_DEFAULT: u32 = 8;

/// Maximum number of words that one wildcard or range matches.
pub const PATTERN_WORDS_MAX: usize = 4_096;

/// Maximum number of words compared with the wildcards of one query.
pub const PATTERN_COMPARED_MAX: usize = 2_000_000;

/// Maximum number of hits in one result.
pub const HITS_MAX: usize = 1_000;

/// Maximum number of hits up to the end of a page, including the skipped ones.
pub const HITS_WINDOW_MAX: usize = 100_000;

/// Maximum number of hits of one query whose access is looked up one by one.
pub const LOOKUPS_MAX: usize = 50_000;

/// Number of unindexed changes at which every hit is looked up.
pub const UNINDEXED_CHANGES_MAX: usize = 20_000;

/// Number of documents after which an update commits automatically.
pub const COMMIT_DOCUMENTS_MAX: usize = 50_000;

/// Default number of bytes of text after which an update commits automatically.
pub const COMMIT_BYTES: usize = 256 << 20;

/// Number of documents below which all segments count as equally large when segments are selected for merging.
pub const MERGE_DOCUMENTS_MIN: u32 = 100;

/// Steps of a [`base::Pacer`] that finding the documents with a value in a range counts as.
pub const STEPS_PER_RANGE: u64 = 1_000;

/// Steps that looking up a document counts as.
pub const STEPS_PER_LOOKUP: u64 = 8;
