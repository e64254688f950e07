//! The limits of this crate.

use std::time::Duration;

/// Number of changes of a page of the list. A page has more if its last transaction has.
pub const CHANGES_PER_PAGE: usize = 2_000;

/// Number of marks, keywords and folders above which a page has fewer changes.
pub const STATES_PER_PAGE: usize = 100_000;

/// Number of unread marks of a page of their list. A page has more if its last transaction or block has. A page in
/// which each mark has a time of its own takes some 800 KB.
pub const MARKS_PER_PAGE: usize = 10_000;

/// Maximum number of unread marks of an answer: those of a page, of its last block, and of a transaction.
pub const MARKS_PER_ANSWER_MAX: usize = 10 * MARKS_PER_PAGE;

/// Maximum number of notes that one question asks for.
pub const NOTES_PER_QUESTION_MAX: usize = 250;

/// Maximum number of pages of a list within one pull that do not end behind the ones before.
pub const RESTARTS_MAX: usize = 16;

/// Maximum number of pages of a list within one pull: those of 400 million changes.
pub const PAGES_MAX: usize = 200_000;

/// Size in bytes at which the notes that one question asks for end.
pub const BYTES_PER_QUESTION: u64 = 4 << 20;

/// Size in bytes that a note counts for which earlier pulls have missed. Its size is not known, and it may be as large
/// as notes can be, so each is asked for alone.
pub const RETRIED_NOTE_BYTES: u64 = BYTES_PER_QUESTION;

/// Size in bytes from which a content that another database has is proved instead of sent. Smaller ones take no longer
/// to send than to prove.
pub const PROVED_CONTENT_BYTES_MIN: u64 = 32 << 10;

/// Size in bytes up to which a content is proved instead of sent. The proof of a larger one takes so long that the
/// other server, which sends nothing meanwhile, would count as gone.
pub const PROVED_CONTENT_BYTES_MAX: u64 = 512 << 20;

/// Maximum number of documents that a local replica offers at a time.
pub const NOTES_PER_OFFER_MAX: usize = 1_000;

/// Number of marks, keywords and folders at which the documents end that a local replica offers at a time.
pub const STATES_PER_OFFER: u64 = 10_000;

/// Size in bytes at which the documents end that a local replica sends at a time.
pub const BYTES_PER_PUSH: u64 = 2 << 20;

/// Size in bytes at which the contents of attachments end that a local replica sends at a time.
pub const CONTENT_BYTES_PER_PUSH: u64 = 16 << 20;

/// Maximum number of contents of attachments that a local replica sends at a time, unless one document has more.
pub const CONTENTS_PER_PUSH_MAX: usize = 500;

/// Time within which the end of a replication that has changed nothing is not recorded again.
pub const COMPLETED_PRECISION: Duration = Duration::from_secs(600);
