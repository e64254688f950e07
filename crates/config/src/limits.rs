//! Fixed limits of configuration files, and the memory that a connection counts for.

/// Maximum length of a configuration file, in bytes.
pub const CONFIGURATION_BYTES_MAX: usize = 1 << 20;

/// Maximum nesting depth of tables in a configuration file. All existing keys have depth 1.
pub const CONFIGURATION_DEPTH_MAX: usize = 8;

/// Memory that each possible connection takes of `server.memory`, in bytes, without its messages and literals. An idle
/// IMAP connection with a selected mailbox needs about 27 KB.
pub const CONNECTION_BYTES: u64 = 32 << 10;
