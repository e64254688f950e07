//! The limits of this crate. Those that operators set are in [`crate::FrontOptions`] and [`crate::SessionOptions`].

use std::time::Duration;

/// Maximum size of the header of a request, in bytes.
pub const HEADER_BYTES_MAX: usize = 64 << 10;

/// Maximum number of fields in the header of a request over HTTP/1.1. HTTP/2 limits their bytes.
pub const HEADER_FIELDS_MAX: usize = 100;

/// Maximum number of streams that a client may reset before the server has ended them, and maximum number that the
/// server itself may have to reset. A client with more of them loses its connection ("rapid reset", CVE-2023-44487).
pub const RESET_STREAMS_MAX: usize = 50;

/// Number of bytes that a client may send on one stream before the server has taken them.
pub const STREAM_WINDOW_BYTES: u32 = 1 << 20;

/// Number of bytes that a client may send on all streams of a connection before the server has taken them.
pub const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;

/// Number of bytes of one answer that wait in a connection before the server makes more of it.
pub const SEND_BUFFER_BYTES: usize = 256 << 10;

/// Time between two checks of a connection for idleness and slow readers.
pub const CONNECTION_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Time in which a client that has connected must send its first request.
pub const FIRST_REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// Time in which a client must read some of what waits for it.
pub const STALL_TIME_MAX: Duration = Duration::from_secs(120);

/// Time in which a client must answer a PING of HTTP/2.
pub const PING_TIME_MAX: Duration = Duration::from_secs(30);

/// Size in bytes from which an answer is compressed.
pub const COMPRESSED_ANSWER_BYTES_MIN: u64 = 1 << 10;

/// Maximum number of sessions of all people together. Beyond it the one that was used the longest time ago ends.
pub const SESSIONS_MAX: usize = 100_000;

/// Maximum number of sessions of one person. Beyond it the one that was used the longest time ago ends.
pub const SESSIONS_PER_PERSON_MAX: usize = 100;

/// Time after which the last use of a session is written into its note.
pub const SESSION_USE_INTERVAL: Duration = Duration::from_secs(600);

/// Maximum size of the description of a client (the field `User-Agent`) that a session keeps, in bytes.
pub const SESSION_CLIENT_BYTES_MAX: usize = 200;

/// Number of sessions that one transaction removes.
pub const SESSIONS_PER_TRANSACTION: usize = 500;

/// Maximum number of routes whose requests are counted separately. Those of further ones count as one.
pub const ROUTES_MAX: usize = 200;

/// Time for which a login waits for a code of the second factor.
pub const PENDING_LOGIN_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// Number of codes that one login may try.
pub const CODE_TRIES_MAX: u32 = 5;

/// Maximum number of logins of one person that wait for a code.
pub const PENDING_LOGINS_PER_PERSON_MAX: usize = 10;

/// Maximum number of logins that wait for a code.
pub const PENDING_LOGINS_MAX: usize = 10_000;

/// Maximum number of people and application passwords whose last use is kept.
pub const USES_MAX: usize = 200_000;

/// Maximum number of characters of the name of a download.
pub const FILE_NAME_CHARACTERS_MAX: usize = 200;
