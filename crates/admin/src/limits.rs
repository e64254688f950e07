//! Fixed limits of administration: the control socket, tables, and the steps of long commands.
//!
//! Limits that the operator may set are in the configuration. The limits here are fixed, because they bound memory
//! whatever the configuration says.

use std::time::Duration;

/// Maximum length of a line on the control socket in either direction, in bytes. Replies are lists of users or queue
/// entries.
pub const CONTROL_LINE_BYTES_MAX: usize = 64 << 20;

/// Maximum length of a request on the control socket, in bytes.
pub const CONTROL_REQUEST_BYTES_MAX: u64 = 1 << 20;

/// Maximum number of administration requests that run at the same time.
pub const CONTROL_CALLS_MAX: usize = 16;

/// Pause after an error of `accept` on the control socket.
pub const CONTROL_ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum number of progress reports that are queued for a slow client. Further reports are dropped.
pub const CONTROL_REPLIES_MAX: usize = 64;

/// Number of people, groups or domains that are read from the directory at once.
pub const DIRECTORY_PAGE_SIZE: usize = 500;

/// Number of attachments that one step of the blob collection examines.
pub const BLOB_COLLECTION_STEP: usize = 500;

/// Maximum number of times that a fixup reopens the store to find further damage after it has removed damaged files.
pub const REPAIR_ROUNDS_MAX: usize = 64;

/// Maximum duration of a query of the full-text index.
pub const QUERY_TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum number of columns of a table that is imported or exported.
pub const TABLE_COLUMNS_MAX: usize = 1_000;

/// Maximum length of a row of an imported table, in bytes as in the file.
pub const TABLE_LINE_BYTES_MAX: u64 = 16 << 20;

/// Maximum number of refused rows that an import reports individually.
pub const TABLE_REFUSALS_MAX: usize = 1_000;
