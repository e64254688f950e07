//! Fixed limits of this crate. Limits that the operator may set are in [`crate::service::ServiceOptions`].

use std::time::Duration;

/// Maximum size of one message in either direction, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Maximum size of a decompressed message in a call without a session, in bytes.
pub const LOGIN_MESSAGE_BYTES_MAX: usize = 8 << 10;

/// Maximum memory of a decoded request in bytes, as counted by [`proto::decode_cost`].
pub const DECODED_BYTES_MAX: usize = 96 << 20;

/// Maximum time in which a started request receives no data.
pub const READ_TIME_MAX: Duration = Duration::from_secs(60);

/// Maximum size of the header fields of one call, in bytes.
pub const HEADER_BYTES_MAX: u32 = 16 << 10;

/// Maximum number of concurrent calls over one connection.
pub const CALLS_PER_CONNECTION_MAX: u32 = 64;

/// Maximum number of calls that a peer may start and reset before the connection is closed.
pub const RESET_CALLS_MAX: usize = 64;

/// Flow-control window of one call, in bytes.
pub const CALL_WINDOW_BYTES: u32 = 256 << 10;

/// Flow-control window of one connection, in bytes.
pub const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Maximum number of bytes of one call's reply that are buffered for the peer.
pub const SEND_BUFFER_BYTES: usize = 256 << 10;

/// Maximum time in which a peer reads nothing of a waiting reply.
pub const STALL_TIME_MAX: Duration = Duration::from_secs(60);

/// Interval between two checks of a connection for stalls and idle time.
pub const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_secs(20);

/// Maximum time until the first login over a connection.
pub const LOGIN_TIME_MAX: Duration = Duration::from_secs(60);

/// Maximum time until a peer acknowledges a ping.
pub const PING_TIME_MAX: Duration = Duration::from_secs(20);

/// Size of one chunk of streamed content, in bytes.
pub const CHUNK_BYTES: usize = 256 << 10;

/// Maximum size of a certificate signing request, in bytes. One with a name and an RSA key has about 1 KiB.
pub const SIGNING_REQUEST_BYTES_MAX: usize = 16 << 10;

/// Maximum length of a login name, in bytes.
pub const LOGIN_BYTES_MAX: usize = 1_024;

/// Maximum length of a password or of a SASL message, in bytes.
pub const SECRET_BYTES_MAX: usize = 4_096;

/// Maximum number of client messages in a SASL exchange.
pub const EXCHANGE_STEPS_MAX: usize = 8;

/// Maximum duration of a SASL exchange.
pub const EXCHANGE_TIME_MAX: Duration = Duration::from_secs(60);

/// Maximum number of notes that one call names.
pub const NOTES_PER_CALL_MAX: usize = 1_000;

/// Maximum number of items that one call names.
pub const NAMES_PER_CALL_MAX: usize = 1_000;

/// Maximum number of databases per page.
pub const DATABASES_PER_PAGE_MAX: usize = 500;

/// Maximum number of unread notes per page.
pub const UNREAD_PER_PAGE_MAX: usize = 1_000;

/// Maximum number of notes that one call examines to find unread ones.
pub const UNREAD_EXAMINED_MAX: usize = 20_000;

/// Default number of soft-deleted documents per page.
pub const DELETED_PER_PAGE_DEFAULT: usize = 100;

/// Maximum number of soft-deleted documents per page.
pub const DELETED_PER_PAGE_MAX: usize = 1_000;

/// Maximum number of soft-deleted documents that one call examines to find those that the caller may restore.
pub const DELETED_EXAMINED_MAX: usize = 20_000;

/// Maximum size in bytes of a note whose items can be changed individually. Larger notes can only be replaced as a
/// whole.
pub const EDITED_NOTE_BYTES_MAX: u64 = 256 << 20;

/// Size in bytes from which an item outside the summary is not read when a note is changed, if it is a text.
pub const LARGE_BODY_BYTES_MIN: u64 = 64 << 10;

/// Maximum length of a formula, in bytes.
pub const FORMULA_BYTES_MAX: usize = 64 << 10;

/// Maximum size in bytes of a note's items outside the summary in an exchange of replicas. Larger notes are skipped.
pub const REPLICA_NOTE_BYTES_MAX: u64 = 256 << 20;

/// Size in bytes of the parts in which large notes are sent, if their items are smaller.
pub const REPLICA_PART_BYTES: usize = 16 << 20;

/// Maximum size in bytes of a part of a note, and of a note that is sent in one part.
pub const REPLICA_PART_BYTES_MAX: usize = 48 << 20;

/// Maximum size of a note's items outside the summary that a person gets for a local replica, in bytes. A larger one
/// could not be sent back.
pub const PERSON_NOTE_BYTES_MAX: u64 = 7 << 20;

/// Maximum time by which a document or a mark of a local replica may be later than the clock of the server.
pub const CLOCK_AHEAD_MAX: Duration = Duration::from_secs(600);

/// Maximum size of one message with notes of replicas, in bytes.
pub const REPLICA_MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Maximum number of marks, keywords and folders of the notes of one call that a local replica offers.
pub const STATES_PER_OFFER_MAX: usize = 20_000;

/// Number of changes that one step of a search or of a change stream examines.
pub const STEP_CHANGES: usize = 500;

/// Number of bytes of notes after which a step of a search ends its message.
pub const STEP_BYTES: usize = 1 << 20;

/// Time without changes after which a change stream sends a heartbeat message.
pub const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum time that a poll for new mail waits.
pub const POLL_TIME_MAX: Duration = Duration::from_secs(30);

/// Maximum number of names that one call looks up.
pub const LOOKUPS_MAX: usize = 500;

/// Maximum number of databases that one call examines to find those that the caller may access.
pub const DATABASES_EXAMINED_MAX: usize = 2_000;

/// Maximum number of entries in one reply.
pub const ENTRIES_PER_REPLY_MAX: usize = 1_000;

/// Default number of entries in one reply.
pub const ENTRIES_PER_REPLY_DEFAULT: usize = 100;

/// Maximum number of items that serve as columns of a folder without columns.
pub const FOLDER_ITEMS_MAX: usize = 100;

/// Maximum number of values in a search key.
pub const FIND_KEYS_MAX: usize = 64;

/// Number of changes that one step applies to the index of a view.
pub const REFRESH_STEP_CHANGES: usize = 500;

/// Maximum time for updating the index of a view when it is opened (`docs/views.md`).
pub const REFRESH_TIME_MAX: Duration = Duration::from_secs(2);

/// Maximum length of a full-text query, in bytes.
pub const QUERY_BYTES_MAX: usize = 4_096;

/// Maximum duration of a full-text query.
pub const QUERY_TIME_MAX: Duration = Duration::from_secs(10);

/// Default number of documents returned by a full-text query.
pub const HITS_PER_REPLY_DEFAULT: usize = 50;

/// Maximum number of steps of one job of a call that is divided into several jobs. A step takes about a microsecond.
pub const PART_STEPS_MAX: u64 = 25_000;

/// Steps that reading the summary items of a note counts as. Each note may be large, so the clock is looked at between
/// any two.
pub const STEPS_PER_NOTE: u64 = 32;

/// Steps that opening a database and evaluating its access control list counts as.
pub const STEPS_PER_DATABASE: u64 = 100;

/// Steps that looking up a name in the directory counts as.
pub const STEPS_PER_NAME: u64 = 32;

/// Maximum number of calls of one account that are divided at the same time. Each has a thread of its own. Further
/// calls wait.
pub const ACCOUNT_COROUTINES_MAX: usize = 8;

/// Maximum number of calls of all accounts that are divided at the same time.
pub const COROUTINES_MAX: usize = 256;
