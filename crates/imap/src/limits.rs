//! The maxima of this room: whatever a client sends has one of these as its bound.
//!
//! Sizes are bytes, counts are items. A limit that the operator may change has its default here and is carried in a
//! configuration value.

use std::time::Duration;

/// Longest command without its literals.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Longest literal that stands for a name, a password or a search text.
pub const STRING_LITERAL_BYTES_MAX: usize = 64 << 10;

/// Most bytes that the literals of one command without messages may have together.
pub const STRING_LITERALS_TOTAL_BYTES_MAX: usize = 256 << 10;

/// Longest line that answers a continuation request (AUTHENTICATE, IDLE).
pub const CONTINUATION_BYTES_MAX: usize = 16 << 10;

/// Longest literal before the client has logged in.
pub const LITERAL_BYTES_BEFORE_LOGIN_MAX: usize = 4 << 10;

/// Longest message that APPEND and REPLACE take, unless the configuration says less.
pub const APPEND_BYTES_MAX: usize = base::limits::MESSAGE_BYTES_MAX;

/// Most messages of one MULTIAPPEND.
pub const APPEND_MESSAGES_MAX: usize = 1_000;

/// Most bytes that the messages of one MULTIAPPEND may have together.
pub const APPEND_TOTAL_BYTES_MAX: usize = base::limits::MESSAGE_BYTES_MAX;

/// Most literals in one command.
pub const LITERALS_MAX: usize = 2_000;

/// Longest tag.
pub const TAG_BYTES_MAX: usize = 128;

/// Most ranges in one sequence set.
pub const SEQUENCE_RANGES_MAX: usize = 16_384;

/// Most search keys in one SEARCH, SORT or THREAD, nested ones counted.
pub const SEARCH_KEYS_MAX: usize = 1_024;

/// Deepest nesting of parentheses, NOT and OR in search keys.
pub const SEARCH_DEPTH_MAX: usize = 32;

/// Most attributes in one FETCH.
pub const FETCH_ATTRIBUTES_MAX: usize = 128;

/// Most header names in one `HEADER.FIELDS` list.
pub const HEADER_FIELDS_MAX: usize = 256;

/// Deepest part path (`1.2.3`) that is understood.
pub const PART_DEPTH_MAX: usize = base::limits::MIME_DEPTH_MAX;

/// Most flags in one list.
pub const FLAGS_MAX: usize = 128;

/// Longest keyword.
pub const KEYWORD_BYTES_MAX: usize = 128;

/// Most sort criteria in one SORT.
pub const SORT_CRITERIA_MAX: usize = 16;

/// Most patterns in one LIST.
pub const LIST_PATTERNS_MAX: usize = 64;

/// Most entries of a parenthesised list that has no limit of its own (ID, ENABLE, STATUS, quota resources).
pub const LIST_ITEMS_MAX: usize = 64;

/// Longest mailbox name, decoded.
pub const MAILBOX_NAME_BYTES_MAX: usize = base::limits::FOLDER_NAME_BYTES_MAX;

/// Most event groups of one NOTIFY.
pub const EVENT_GROUPS_MAX: usize = 16;

/// Most mailboxes that a client may watch with NOTIFY.
pub const WATCHED_MAILBOXES_MAX: usize = 1_000;

/// Most steps that matching one mailbox name against one pattern may take.
pub const LIST_STEPS_MAX: usize = 100_000;

/// Most mailboxes for which it is remembered which messages are recent.
pub const RECENT_MAILBOXES_MAX: usize = 200_000;

/// So many bytes of an answer are made before they are sent; more would only fill memory while the client is slow.
pub const SLICE_BYTES: usize = 64 << 10;

/// So many messages one worker looks at for one command before others have their turn.
pub const SLICE_MESSAGES: usize = 4_096;

/// So many messages whose contents are read one worker takes for one command before others have their turn.
pub const SLICE_CONTENTS: usize = 64;

/// A section of a message that is larger is sent in pieces of this size.
pub const PIECE_BYTES: u64 = 256 << 10;

/// So many messages are changed by one transaction of STORE.
pub const STORE_MESSAGES_PER_TRANSACTION: usize = 1_000;

/// So long a client may be silent after login (RFC 9051 §5.4: at least 30 minutes), unless the configuration says other.
pub const SILENCE_TIME_MAX: Duration = Duration::from_secs(30 * 60);

/// So long a client may be silent before login, unless the configuration says other.
pub const LOGIN_TIME_MAX: Duration = Duration::from_secs(3 * 60);

/// Most commands in a row that are unknown, malformed or out of place, unless the configuration says other.
pub const ERRORS_MAX: u32 = 20;

/// Most failed logins of one connection, unless the configuration says other.
pub const LOGIN_FAILURES_MAX: u32 = 3;

/// So long a client may take to take one slice of an answer.
pub const WRITE_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// After so much silence a compressed connection gives memory back.
pub const RELAX_TIME: Duration = Duration::from_secs(5);

/// So few messages are searched without asking the full-text index.
pub const SEARCH_READ_MESSAGES_MAX: u64 = 32;

/// Most texts of one search for which the full-text index is asked.
pub const SEARCH_INDEXED_TEXTS_MAX: usize = 16;

/// Most ids of one References field that THREAD follows; the last ones count.
pub const REFERENCES_MAX: usize = 1_000;

/// Longest message id that THREAD knows.
pub const MESSAGE_ID_BYTES_MAX: usize = 998;
