//! The limits of this crate.

use std::time::Duration;

/// Maximum size of the body of a request, in bytes.
pub const BODY_BYTES_MAX: usize = 64 << 20;

/// Maximum size of one document in a request, with its attachments, in bytes.
pub const DOCUMENT_BYTES_MAX: usize = 32 << 20;

/// Maximum size of the contents of attachments that a request sends compressed, when they are decompressed, in bytes.
pub const DECOMPRESSED_CONTENT_BYTES_MAX: usize = 64 << 20;

/// Maximum size of the body of a request that names documents, in bytes. It has room for 10,000 ids.
pub const LIST_BODY_BYTES_MAX: usize = 8 << 20;

/// Maximum size of a value that begins or ends a range of ids, in bytes.
pub const LIST_OPTION_BYTES_MAX: usize = 4 << 10;

/// Maximum number of parts of a body: a document and its attachments.
pub const PARTS_MAX: usize = 1_000;

/// Maximum size of the header of a part of a body, in bytes.
pub const PART_HEADER_BYTES_MAX: usize = 8 << 10;

/// Size in bytes at which a part of an answer that is streamed ends.
pub const ANSWER_PART_BYTES: usize = 2 << 20;

/// Size in bytes of the ids that one pass over the documents collects for a list in the order of the ids.
pub const LISTED_IDS_BYTES_MAX: usize = 8 << 20;

/// Maximum number of members of a JSON object that is a request, a document, or a value with a type.
pub const MEMBERS_MAX: usize = 20_000;

/// Maximum number of values of a list that becomes a text list or a number list. A longer one is an item of type JSON.
pub const PLAIN_LIST_VALUES_MAX: usize = 100_000;

/// Maximum number of comparisons by which a selector examines one document, with one more for each 64 bytes of the
/// compared texts and names of members.
pub const SELECTOR_STEPS_MAX: u64 = 2_000_000;

/// Maximum number of documents, revisions or ids in one request.
pub const DOCUMENTS_PER_REQUEST_MAX: usize = 10_000;

/// Maximum number of rows of changes or documents in one answer. Clients ask for the rest.
pub const ROWS_MAX: usize = 1_000;

/// Maximum size of the body of a login, in bytes.
pub const LOGIN_BYTES_MAX: usize = 16 << 10;

/// Maximum size of the body of a request that writes a local document, in bytes.
pub const LOCAL_BYTES_MAX: usize = 128 << 10;

/// Maximum size of a selector, in bytes.
pub const SELECTOR_BYTES_MAX: usize = 64 << 10;

/// Size in bytes after which no further revision of a document is added to an answer.
pub const REVISIONS_BYTES_MAX: usize = 64 << 20;

/// Number of documents that one transaction takes over.
pub const DOCUMENTS_PER_TRANSACTION: usize = 50;

/// Size in bytes of the documents at which a transaction ends.
pub const TRANSACTION_BYTES: usize = 4 << 20;

/// Maximum length of the `_id` of a document, in bytes.
pub const ID_BYTES_MAX: usize = 512;

/// Size in bytes up to which a value of a document is stored in the summary, where views and formulas see it.
pub const SUMMARY_VALUE_BYTES_MAX: usize = 4 << 10;

/// Size in bytes of all values that are stored in the summary of a document because they are small.
pub const SUMMARY_VALUES_BYTES_MAX: usize = 32 << 10;

/// Time after which a request for future changes is answered at the latest.
pub const FEED_TIME_MAX: Duration = Duration::from_secs(60);

/// Interval at which a feed sends an empty line if the client names none.
pub const HEARTBEAT: Duration = Duration::from_secs(60);

/// Shortest interval at which a feed sends empty lines.
pub const HEARTBEAT_MIN: Duration = Duration::from_secs(1);

/// Maximum number of requests of one person that wait for changes.
pub const FEEDS_PER_PERSON_MAX: usize = 100;

/// Maximum number of requests that wait for changes, of all people together.
pub const FEEDS_MAX: usize = 5_000;

/// Maximum number of nested conditions in a selector.
pub const SELECTOR_DEPTH_MAX: usize = 32;

/// Maximum number of conditions in a selector.
pub const SELECTOR_CONDITIONS_MAX: usize = 1_000;

/// Maximum time between two parts of the body of a request.
pub const BODY_PAUSE_MAX: Duration = Duration::from_secs(60);
