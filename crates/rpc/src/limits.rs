//! The limits of the room. What the operator may set stands in [`crate::service::Options`].

use std::time::Duration;

/// Most bytes of one message in either direction.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;

/// Most bytes of a message from somebody who has not logged in, unpacked.
pub const LOGIN_MESSAGE_BYTES_MAX: usize = 8 << 10;

/// Most bytes that a request takes in memory when it is decoded, as [`proto::shape`] counts them.
pub const DECODED_BYTES_MAX: usize = 96 << 20;

/// Most bytes of memory that are made ready ahead of content that comes in.
pub const GROWTH_BYTES_MAX: usize = 1 << 20;

/// How long nothing may come of a request that has begun.
pub const READ_TIME_MAX: Duration = Duration::from_secs(60);

/// Most bytes of the messages that all calls hold at one time.
pub const MEMORY_BYTES_MAX: usize = 512 << 20;

/// Most bytes of those that the calls of one account hold; more only where one attachment may be larger.
pub const ACCOUNT_MEMORY_BYTES_MAX: usize = 128 << 20;

/// Most bytes of the header fields of one call.
pub const HEADER_BYTES_MAX: u32 = 16 << 10;

/// Most calls over one connection at a time.
pub const CALLS_PER_CONNECTION_MAX: u32 = 64;

/// Calls that a peer may begin and break off before the connection is closed.
pub const BROKEN_CALLS_MAX: usize = 64;

/// Bytes that a peer may send ahead for one call.
pub const CALL_WINDOW_BYTES: u32 = 256 << 10;

/// Bytes that a peer may send ahead over one connection.
pub const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// Bytes of one call's reply that wait for the peer.
pub const SEND_BUFFER_BYTES: usize = 256 << 10;

/// How long a peer that reads nothing of a reply is waited for.
pub const STALL_TIME_MAX: Duration = Duration::from_secs(60);

/// How often a connection is looked at for stalls and silence.
pub const LOOK_EVERY: Duration = Duration::from_secs(20);

/// How long a connection may be without a login.
pub const LOGIN_TIME_MAX: Duration = Duration::from_secs(60);

/// How long a peer may take to answer a ping.
pub const PING_TIME_MAX: Duration = Duration::from_secs(20);

/// Bytes of one piece of streamed content.
pub const CHUNK_BYTES: usize = 256 << 10;

/// Most bytes of a login name.
pub const LOGIN_BYTES_MAX: usize = 1_024;

/// Most bytes of a password or of a message of a SASL mechanism.
pub const SECRET_BYTES_MAX: usize = 4_096;

/// Most messages of a SASL exchange.
pub const EXCHANGE_STEPS_MAX: usize = 8;

/// How long a SASL exchange may take.
pub const EXCHANGE_TIME_MAX: Duration = Duration::from_secs(60);

/// Most notes that one call names.
pub const NOTES_PER_CALL_MAX: usize = 1_000;

/// Most items that one call names.
pub const NAMES_PER_CALL_MAX: usize = 1_000;

/// Most databases of one page.
pub const DATABASES_PER_PAGE_MAX: usize = 500;

/// Most unread notes of one page.
pub const UNREAD_PER_PAGE_MAX: usize = 1_000;

/// Most notes that one call looks at to find unread ones.
pub const UNREAD_LOOKS_MAX: usize = 20_000;

/// Softly deleted documents of one page unless the client says otherwise.
pub const DELETED_DEFAULT: usize = 100;

/// Most softly deleted documents of one page.
pub const DELETED_PER_PAGE_MAX: usize = 1_000;

/// Most softly deleted documents that one call looks at to find those that the caller may restore.
pub const DELETED_LOOKS_MAX: usize = 20_000;

/// Largest note, in bytes, whose items are changed one by one; the others are replaced as a whole.
pub const EDITED_NOTE_BYTES_MAX: u64 = 256 << 20;

/// Most bytes of a formula.
pub const FORMULA_BYTES_MAX: usize = 64 << 10;

/// Changes that one step of a search or of a change stream looks at.
pub const STEP_CHANGES: usize = 500;

/// Bytes of notes after which a step of a search ends its message.
pub const STEP_BYTES: usize = 1 << 20;

/// After how much silence a change stream shows that it lives.
pub const HEARTBEAT: Duration = Duration::from_secs(30);

/// Longest time that a poll for new mail waits.
pub const POLL_TIME_MAX: Duration = Duration::from_secs(30);

/// Most names that one call looks up.
pub const LOOKUPS_MAX: usize = 500;

/// Most databases that one call looks at to find those that the caller may see.
pub const DATABASE_LOOKS_MAX: usize = 2_000;

/// Most entries of one reply.
pub const ENTRIES_PER_REPLY_MAX: usize = 1_000;

/// Entries of one reply unless the client says otherwise.
pub const ENTRIES_DEFAULT: usize = 100;

/// Most items that stand for columns of a folder that has none.
pub const FOLDER_ITEMS_MAX: usize = 100;

/// Most values of a key that is looked for.
pub const FIND_KEYS_MAX: usize = 64;

/// Changes that one step applies to the index of a view.
pub const REFRESH_STEP_CHANGES: usize = 500;

/// How long a view that is opened is brought up to date (`docs/views.md`).
pub const REFRESH_TIME_MAX: Duration = Duration::from_secs(2);

/// Most bytes of a full-text query.
pub const QUERY_BYTES_MAX: usize = 4_096;

/// How long a full-text query may take.
pub const QUERY_TIME_MAX: Duration = Duration::from_secs(10);

/// Documents that a full-text query gives unless the client says otherwise.
pub const HITS_DEFAULT: usize = 50;
