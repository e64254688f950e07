//! Fixed limits of the program: sizes of files, lines and requests, and degrees of concurrency.
//!
//! Limits that the operator may set are in [`crate::config::keys`]. The limits here are fixed, because they bound
//! memory whatever the configuration says.

use std::time::Duration;

/// Maximum length of a configuration file, in bytes.
pub const CONFIGURATION_BYTES_MAX: usize = 1 << 20;

/// Maximum nesting depth of tables in a configuration file. All existing keys have depth 1.
pub const CONFIGURATION_DEPTH_MAX: usize = 8;

/// Maximum length of a line on the control socket in either direction, in bytes. Replies are lists of users or queue
/// entries.
pub const CONTROL_LINE_BYTES_MAX: usize = 64 << 20;

/// Maximum length of a request on the control socket, in bytes.
pub const CONTROL_REQUEST_BYTES_MAX: u64 = 1 << 20;

/// Maximum number of administration requests that run at the same time.
pub const CONTROL_CALLS_MAX: usize = 16;

/// Maximum number of progress reports that are queued for a slow client. Further reports are dropped.
pub const CONTROL_REPLIES_MAX: usize = 64;

/// Maximum length of a line with a password on standard input, in bytes.
pub const PASSWORD_LINE_BYTES_MAX: u64 = 4_096;

/// Maximum size of a file with trusted certificates or with a password, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Maximum size of a file with the design of a view, in bytes.
pub const VIEW_FILE_BYTES_MAX: u64 = 4 << 20;

/// Maximum size of a template file, in bytes.
pub const TEMPLATE_BYTES_MAX: u64 = 1 << 20;

/// Maximum length of a template name, in bytes.
pub const TEMPLATE_NAME_BYTES_MAX: usize = 64;

/// Maximum number of templates added by the operator.
pub const CUSTOM_TEMPLATES_MAX: usize = 200;

/// Maximum length of a line in a file of people, in bytes.
pub const BATCH_LINE_BYTES_MAX: u64 = 16 << 10;

/// Maximum number of people in a file that are added in one transaction.
pub const BATCH_PEOPLE_MAX: usize = 300;

/// Number of bytes in a file of people after which a new transaction starts. It keeps a request below
/// [`CONTROL_REQUEST_BYTES_MAX`] even if every byte is escaped.
pub const BATCH_BYTES_MAX: u64 = 128 << 10;

/// Number of people, groups or domains that are read from the directory at once.
pub const DIRECTORY_PAGE_SIZE: usize = 500;

/// Number of attachments that one step of the blob collection examines.
pub const BLOB_COLLECTION_STEP: usize = 500;

/// Length of the system's queue of connections that are not accepted yet.
pub const BACKLOG: u32 = 1_024;

/// Pause after an error of `accept`.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum time for the remaining work after the server has closed all connections.
pub const SHUTDOWN_WORK_TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum interval between two checks of the queue. A notification of newly queued mail triggers a check at once.
pub const QUEUE_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum time in which a session has to end after its account was changed so that it may not continue.
pub const SESSION_END_TIME_MAX: Duration = Duration::from_secs(5);

/// Minimum interval between two checks whether the logged-in sessions may continue.
pub const SESSION_CHECK_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Maximum number of times that a fixup reopens the store to find further damage after it has removed damaged files.
pub const REPAIR_ROUNDS_MAX: usize = 64;

/// Maximum duration of a query of the full-text index.
pub const QUERY_TIME_MAX: Duration = Duration::from_secs(10);

/// Maximum time that a start waits for a locked data folder. The process of a predecessor that was killed does not
/// disappear at once.
pub const LOCK_WAIT_MAX: Duration = Duration::from_secs(2);

/// Pause between two attempts to take the lock; [`LOCK_WAIT_MAX`] is a multiple of it.
pub const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Maximum number of bytes that are read from the lock file.
pub const LOCK_BYTES_MAX: u64 = 64;

/// Maximum number of columns of a table that is imported or exported.
pub const TABLE_COLUMNS_MAX: usize = 1_000;

/// Maximum length of a row of an imported table, in bytes as in the file.
pub const TABLE_LINE_BYTES_MAX: u64 = 16 << 20;

/// Maximum number of refused rows that an import reports individually.
pub const TABLE_REFUSALS_MAX: usize = 1_000;

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
