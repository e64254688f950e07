//! Fixed limits of the data folder: its lock, small files, file descriptors, the child processes that read PDFs, and
//! the division of the memory.
//!
//! Limits that the operator may set are in the configuration. The limits here are fixed, because they bound memory
//! whatever the configuration says.

use std::time::Duration;

/// Maximum size of a file with trusted certificates or with a password, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Time before the end of a certificate of the domain's certifier from which the server asks for a new one.
pub const CERTIFICATE_RENEWAL_TIME: Duration = Duration::from_secs(90 * 86_400);

/// Maximum size of the file with the key of encrypted attachments, in bytes.
pub const BLOB_KEY_FILE_BYTES_MAX: u64 = 1_024;

/// Maximum time that a start waits for a locked data folder. The process of a predecessor that was killed does not
/// disappear at once.
pub const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);

/// Pause between two attempts to take the lock; [`LOCK_WAIT_MAX`] is a multiple of it.
pub const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Maximum number of bytes that are read from the lock file.
pub const LOCK_BYTES_MAX: u64 = 64;

/// File descriptors that are kept free for everything but the files of tables when a store is opened. The server
/// divides the descriptors further before it opens its store.
pub const OTHER_DESCRIPTORS: u64 = 128;

/// Number of files of tables that the storage engine may keep open, however low the system's limit is.
pub const STORE_FILES_MIN: u64 = 48;

/// Maximum time to extract the text of one PDF, from request to reply.
pub const PDF_TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum number of child processes that read PDFs at the same time.
pub const PDF_CHILDREN_MAX: usize = 2;

/// Number of files after which a child process that reads PDFs is replaced by a new one.
pub const PDF_FILES_PER_CHILD_MAX: usize = 200;

/// Maximum address space in bytes of a child process that reads PDFs, including that of the program itself.
pub const PDF_ADDRESS_SPACE_BYTES_MAX: u64 = 768 << 20;

/// Maximum total processor time in seconds of a child process that reads PDFs. It applies if the parent is no longer
/// there to end the child.
pub const PDF_PROCESSOR_SECONDS_MAX: u64 = 120;

/// Maximum number of threads that check logins. Each may hold the memory of one password hash.
pub const LOGIN_THREADS_MAX: usize = 4;

/// Maximum number of connections if neither the configuration nor the memory limits it.
pub const CONNECTIONS_DEFAULT: u64 = 20_000;

/// Number of connections for which there is memory if the configuration does not set their number.
pub const CONNECTIONS_MIN: u64 = 1_000;

/// Number of copies of a message that exist while a thread checks, signs or stores it.
pub const MESSAGE_COPIES_MAX: u64 = 3;

/// Text that waits for the indexing threads, as a multiple of the memory of one of them.
pub const WAITING_TEXT_FACTOR: u64 = 4;

/// Maximum size of the cache of the store, as in the configuration.
pub const STORE_CACHE_BYTES_MAX: u64 = 1 << 40;

/// Memory for the known ranges without entries, in bytes: 64 times [`store::limits::GAPS_PER_SLOT_MAX`] ranges of about
/// 150 bytes.
pub const GAP_CACHE_BYTES: u64 = 20 << 20;

/// Memory that the program needs without any data, in bytes: its code, its threads, and the tables of the storage
/// engine. A server that has just started needs about 75 MB.
pub const PROGRAM_BYTES: u64 = 96 << 20;
