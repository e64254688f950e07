//! The limits of this room.

/// Most bytes of text that are indexed of one note, attachments included.
pub const TEXT_BYTES_MAX: usize = 4 << 20;

/// Most bytes of text that are indexed of one attachment.
pub const ATTACHMENT_TEXT_BYTES_MAX: usize = 1 << 20;

/// Largest attachment, in bytes, that is looked into.
pub const ATTACHMENT_BYTES_MAX: usize = 16 << 20;

/// Most attachments of one note that are looked into; the names of all are indexed.
pub const ATTACHMENTS_MAX: usize = 50;

/// Most PDFs of one note that are read. Each may take seconds, and nothing else is indexed meanwhile.
pub const PDFS_MAX: usize = 8;

/// Most bytes that are unpacked of one office document.
pub const UNPACKED_BYTES_MAX: usize = 32 << 20;

/// Most members of an archive that is looked into.
pub const ARCHIVE_MEMBERS_MAX: usize = 20_000;

/// Most numbers and times of one note that are indexed.
pub const VALUES_MAX: usize = 4_096;

/// Bytes of a word that are looked at; longer ones are cut, in documents as in queries.
pub const WORD_BYTES_MAX: usize = 64;

/// Most bytes of a note's folded texts whose words are kept to rule it out when substrings are looked for; a note with more is never ruled out.
pub const SEARCHED_BYTES_MAX: usize = 16 << 20;

/// Longest of those words, in bytes; a note with a longer one is never ruled out.
pub const SEARCHED_WORD_BYTES_MAX: usize = 512;

/// Most words of one piece of the index that a piece of a substring stands for; what stands for more rules nothing out there.
pub const SUBSTRING_WORDS_MAX: usize = 4_096;

/// Most characters of words that are looked at for the pieces of one search; what goes beyond rules nothing out.
pub const SUBSTRING_STEPS_MAX: usize = 20_000_000;

/// So few documents of a piece of the index are read rather than ruled out by comparing all words.
pub const SUBSTRING_DOCUMENTS_FEW: usize = 16;

/// Longest query, in bytes.
pub const QUERY_BYTES_MAX: usize = 8 << 10;

/// Most words, comparisons and operators of a query.
pub const QUERY_PARTS_MAX: usize = 256;

/// Most levels of parentheses and negations.
pub const QUERY_DEPTH_MAX: usize = 32;

/// Most words between those that are to be near each other.
pub const DISTANCE_MAX: u32 = 100;

/// Words between those that `NEAR` joins when it says no number.
pub const DISTANCE_DEFAULT: u32 = 8;

/// Most words that one wildcard or range stands for.
pub const PATTERN_WORDS_MAX: usize = 4_096;

/// Most words that are compared with the wildcards of one query.
pub const PATTERN_COMPARED_MAX: usize = 2_000_000;

/// Most hits of one answer.
pub const HITS_MAX: usize = 1_000;

/// Most hits that may lie before the end of an answer.
pub const HITS_WINDOW_MAX: usize = 100_000;

/// Most hits of one query whose right to be read is looked up one by one.
pub const LOOKED_UP_MAX: usize = 50_000;

/// Most changes that the index may be behind before every hit is looked up.
pub const BEHIND_MAX: usize = 20_000;

/// Documents after which an update commits by itself.
pub const COMMIT_DOCUMENTS_MAX: usize = 50_000;

/// Bytes of text after which an update commits by itself, unless the options say otherwise.
pub const COMMIT_BYTES: usize = 256 << 20;

/// Pieces of the index with fewer documents than this count as equally large when it is decided which become one.
pub const MERGE_DOCUMENTS_MIN: u32 = 100;
