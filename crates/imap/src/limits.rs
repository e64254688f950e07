//! Limits of the `imap` crate: one of them bounds everything that a client sends.
//!
//! Sizes are in bytes and counts in items. A limit that the operator may change has its default here and is carried in
//! a configuration value.

use std::time::Duration;

/// Maximum length of a command without its literals.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Maximum length of a literal that holds a name, a password or a search text.
pub const STRING_LITERAL_BYTES_MAX: usize = 64 << 10;

/// Maximum total length of the literals in one command without messages.
pub const STRING_LITERALS_TOTAL_BYTES_MAX: usize = 256 << 10;

/// Maximum length of a line that answers a continuation request (AUTHENTICATE, IDLE).
pub const CONTINUATION_BYTES_MAX: usize = 16 << 10;

/// Maximum length of a literal before login.
pub const LITERAL_BYTES_BEFORE_LOGIN_MAX: usize = 4 << 10;

/// Maximum length of a message in APPEND and REPLACE, unless the configuration sets a lower limit.
pub const APPEND_BYTES_MAX: usize = base::limits::MESSAGE_BYTES_MAX;

/// Maximum number of messages in one MULTIAPPEND.
pub const APPEND_MESSAGES_MAX: usize = 1_000;

/// Maximum total length of the messages in one MULTIAPPEND.
pub const APPEND_TOTAL_BYTES_MAX: usize = base::limits::MESSAGE_BYTES_MAX;

/// Maximum number of literals in one command.
pub const LITERALS_MAX: usize = 2_000;

/// Maximum length of a tag.
pub const TAG_BYTES_MAX: usize = 128;

/// Maximum number of ranges in one sequence set.
pub const SEQUENCE_RANGES_MAX: usize = 16_384;

/// Maximum number of search keys in one SEARCH, SORT or THREAD, including nested ones.
pub const SEARCH_KEYS_MAX: usize = 1_024;

/// Maximum nesting depth of parentheses, NOT and OR in search keys.
pub const SEARCH_DEPTH_MAX: usize = 32;

/// Maximum number of attributes in one FETCH.
pub const FETCH_ATTRIBUTES_MAX: usize = 128;

/// Maximum number of header names in one `HEADER.FIELDS` list.
pub const HEADER_FIELDS_MAX: usize = 256;

/// Maximum depth of a part path (`1.2.3`).
pub const PART_DEPTH_MAX: usize = base::limits::MIME_DEPTH_MAX;

/// Maximum number of flags in one list.
pub const FLAGS_MAX: usize = 128;

/// Maximum length of a keyword.
pub const KEYWORD_BYTES_MAX: usize = 128;

/// Maximum number of sort criteria in one SORT.
pub const SORT_CRITERIA_MAX: usize = 16;

/// Maximum number of patterns in one LIST.
pub const LIST_PATTERNS_MAX: usize = 64;

/// Maximum number of elements in a parenthesized list that has no limit of its own (ID, ENABLE, STATUS, quota
/// resources).
pub const LIST_ITEMS_MAX: usize = 64;

/// Maximum length of a decoded mailbox name.
pub const MAILBOX_NAME_BYTES_MAX: usize = base::limits::FOLDER_NAME_BYTES_MAX;

/// Maximum number of event groups in one NOTIFY.
pub const EVENT_GROUPS_MAX: usize = 16;

/// Maximum number of mailboxes that a client may watch with NOTIFY.
pub const WATCHED_MAILBOXES_MAX: usize = 1_000;

/// Maximum work of one LIST or LSUB, in words of pattern automata. One pattern of up to 63 characters and wildcards
/// costs a word per character of a mailbox name.
pub const LIST_WORK_MAX: u64 = 20_000_000;

/// Work of one LIST or LSUB, in the same unit, after which other work gets its turn.
pub const LIST_SLICE_WORK: u64 = 500_000;

/// Work, in the same unit, that stands for describing and writing a name that matches.
pub const LISTED_NAME_WORK: usize = 16;

/// Maximum number of mailboxes for which the server remembers which messages are recent.
pub const RECENT_MAILBOXES_MAX: usize = 200_000;

/// Number of response bytes that are produced before they are sent. More would only occupy memory while the client is
/// slow.
pub const SLICE_BYTES: usize = 64 << 10;

/// Number of messages that a worker examines for one command before other work gets its turn.
pub const SLICE_MESSAGES: usize = 4_096;

/// Number of messages with contents that a worker reads for one command before other work gets its turn.
pub const SLICE_CONTENTS: usize = 64;

/// Work of one SEARCH, SORT or THREAD after which other work gets its turn, in bytes of text that are compared with one
/// sought text.
pub const SEARCH_SLICE_WORK: u64 = 32 << 20;

/// Work, in the same unit, that stands for reading, decoding and folding a byte of a message.
pub const SEARCH_DECODED_BYTE_WORK: u64 = 16;

/// Work, in the same unit, that stands for a comparison of the names of header fields, or for a short text.
pub const SEARCH_FIELD_WORK: u64 = 32;

/// Number of mailboxes whose status a worker reads for one command or report before other work gets its turn.
pub const SLICE_MAILBOXES: usize = 256;

/// Number of changes of the mail file that a worker reads for one command before other work gets its turn.
pub const SLICE_CHANGES: usize = 4_096;

/// Number of expunges, or of messages with changed flags, that a worker reports before other work gets its turn.
pub const SLICE_EXPUNGES: usize = 2_048;

/// Number of transactions of other sessions whose changes a session records at once.
pub const TRANSACTIONS_RECORDED_AT_ONCE: u64 = 16;

/// Number of messages that a worker sorts for one SORT before other work gets its turn.
pub const SLICE_SORTED_MESSAGES: usize = 16_384;

/// Number of steps in which a worker builds threads for one THREAD before other work gets its turn. A message needs
/// about six.
pub const SLICE_THREAD_STEPS: usize = 16_384;

/// Time that a worker works for one command before other work gets its turn. A step that cannot be divided, such as
/// reading one piece of a message, may exceed it.
pub const SLICE_TIME: Duration = Duration::from_millis(20);

/// Number of messages that one transaction of COPY, MOVE or EXPUNGE changes.
pub const MESSAGES_PER_TRANSACTION: usize = 250;

/// Size of the pieces in which a larger section of a message is sent.
pub const PIECE_BYTES: u64 = 256 << 10;

/// Number of bytes of messages that a worker parses and compresses for one APPEND before other work gets its turn. A
/// message is not divided.
pub const SLICE_PREPARED_BYTES: usize = 1 << 20;

/// Number of bytes of parts that a worker decodes for one FETCH before other work gets its turn.
pub const FETCH_SLICE_BYTES: u64 = 2 << 20;

/// Number of messages that one transaction of STORE changes.
pub const STORE_MESSAGES_PER_TRANSACTION: usize = 500;

/// Maximum silence of a client after login (RFC 9051 §5.4: at least 30 minutes), unless the configuration sets another
/// value.
pub const INACTIVITY_TIME_MAX: Duration = Duration::from_secs(30 * 60);

/// Maximum silence of a client before login, unless the configuration sets another value.
pub const LOGIN_TIME_MAX: Duration = Duration::from_secs(3 * 60);

/// Maximum number of consecutive commands that are unknown, malformed or not permitted, unless the configuration sets
/// another value.
pub const BAD_COMMANDS_MAX: u32 = 20;

/// Maximum number of failed logins of one connection, unless the configuration sets another value.
pub const LOGIN_FAILURES_MAX: u32 = 3;

/// Maximum time for a client to receive one slice of a response.
pub const WRITE_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// Silence after which a compressed connection releases memory.
pub const IDLE_MEMORY_RELEASE_TIME: Duration = Duration::from_secs(5);

/// Maximum number of messages that are searched without asking the full-text index.
pub const SEARCH_WITHOUT_INDEX_MESSAGES_MAX: u64 = 32;

/// Maximum number of texts of one search for which the full-text index is asked.
pub const SEARCH_INDEXED_TEXTS_MAX: usize = 16;

/// Maximum number of ids of one References field that THREAD follows. The last ones count.
pub const REFERENCES_MAX: usize = 1_000;
