//! Fixed limits of the command line: files and lines that it reads.
//!
//! Limits that the operator may set are in the configuration. The limits here are fixed, because they bound memory
//! whatever the configuration says.

/// Maximum length of a line with a password on standard input, in bytes.
pub const PASSWORD_LINE_BYTES_MAX: u64 = 4_096;

/// Maximum size of a file with the design of a view, in bytes.
pub const VIEW_FILE_BYTES_MAX: u64 = 4 << 20;

/// Maximum length of a line in a file of people, in bytes.
pub const BATCH_LINE_BYTES_MAX: u64 = 16 << 10;

/// Maximum number of people in a file that are added in one transaction.
pub const BATCH_PEOPLE_MAX: usize = 300;

/// Number of bytes in a file of people after which a new transaction starts. It keeps a request below
/// [`admin::limits::CONTROL_REQUEST_BYTES_MAX`] even if every byte is escaped.
pub const BATCH_BYTES_MAX: u64 = 128 << 10;
