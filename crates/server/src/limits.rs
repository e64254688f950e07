//! Named limits of the program: what files, lines and peers may bring, and how much is done at a time.
//!
//! What the operator may set stands in [`crate::config::keys`]; the rest is fixed here, because it bounds memory whatever the
//! configuration says.

use std::time::Duration;

/// Longest configuration file, in bytes.
pub const CONFIGURATION_BYTES_MAX: usize = 1 << 20;

/// Deepest nesting of tables in a configuration file. The keys that exist have one level.
pub const CONFIGURATION_DEPTH_MAX: usize = 8;

/// Longest line of the control socket in either direction, in bytes. Answers are lists of users or queue entries.
pub const CONTROL_LINE_BYTES_MAX: usize = 64 << 20;

/// Longest request over the control socket, in bytes.
pub const CONTROL_REQUEST_BYTES_MAX: u64 = 1 << 20;

/// Administration tasks that run at a time.
pub const CONTROL_CALLS_MAX: usize = 16;

/// Replies of a task that may wait for a slow client before the task waits too.
pub const CONTROL_REPLIES_MAX: usize = 64;

/// Longest line with a password on standard input, in bytes.
pub const PASSWORD_LINE_BYTES_MAX: u64 = 4_096;

/// Largest file of trusted certificates or of a password, in bytes.
pub const FILE_BYTES_MAX: u64 = 1 << 20;

/// Longest file with the design of a view, in bytes.
pub const VIEW_FILE_BYTES_MAX: u64 = 4 << 20;

/// Longest file of a template, in bytes.
pub const TEMPLATE_BYTES_MAX: u64 = 1 << 20;

/// Longest name of a template, in bytes.
pub const TEMPLATE_NAME_BYTES_MAX: usize = 64;

/// Most templates that an operator adds.
pub const OWN_TEMPLATES_MAX: usize = 200;

/// Longest line of a file with people, in bytes.
pub const BATCH_LINE_BYTES_MAX: u64 = 16 << 10;

/// Most people of a file that are added in one transaction.
pub const BATCH_PEOPLE_MAX: usize = 300;

/// Bytes of a file with people after which a transaction begins anyhow, so that a request stays below
/// [`CONTROL_REQUEST_BYTES_MAX`] even when every byte is escaped.
pub const BATCH_BYTES_MAX: u64 = 128 << 10;

/// People, groups or domains that are read from the directory at once.
pub const PAGE: usize = 500;

/// Attachments that one step of the collector looks at.
pub const COLLECT_STEP: usize = 500;

/// Connections that the system may keep for us while we do not accept.
pub const BACKLOG: u32 = 1_024;

/// Pause after an error of `accept`.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long the last work may take when the server has closed all connections.
pub const LAST_WORK: Duration = Duration::from_secs(10);

/// Longest pause between two looks at the queue. What is due earlier and announced does not wait.
pub const QUEUE_LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long a session may take to say good-bye once its account is not what it was.
pub const GOOD_BYE_TIME_MAX: Duration = Duration::from_secs(5);

/// Shortest pause between two looks whether those who have logged in may stay.
pub const SESSIONS_LOOK_EVERY: Duration = Duration::from_secs(1);

/// How often a fixup opens the store again to look behind damaged files that it took out.
pub const MEND_ROUNDS_MAX: usize = 64;

/// How long a query of the full-text index may take.
pub const QUERY_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a start waits for a data folder that somebody holds: a predecessor that was killed is not gone at once.
pub const LOCK_WAIT: Duration = Duration::from_secs(2);

/// How long a start waits between two looks at the lock; [`LOCK_WAIT`] is a multiple of it.
pub const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Longest content of the lock file that is read, in bytes.
pub const LOCK_BYTES_MAX: u64 = 64;

/// Most columns of a table that is imported or exported.
pub const TABLE_COLUMNS_MAX: usize = 1_000;

/// Longest row of a table that is imported, in bytes, as it stands in the file.
pub const TABLE_LINE_BYTES_MAX: u64 = 16 << 20;

/// Most rows of an import that are named because they could not be taken.
pub const TABLE_REFUSALS_MAX: usize = 1_000;

/// How long the text of one PDF may take, from the question to the answer.
pub const PDF_TIME_MAX: Duration = Duration::from_secs(10);

/// Most children that read PDFs at once.
pub const PDF_CHILDREN_MAX: usize = 2;

/// Files after which a child that reads PDFs makes room for a new one.
pub const PDF_FILES_PER_CHILD_MAX: usize = 200;

/// Bytes of address space of a child that reads PDFs, this program's own among them.
pub const PDF_ADDRESS_SPACE_BYTES_MAX: u64 = 768 << 20;

/// Seconds of processor time that a child that reads PDFs may take in all, should nobody be there to end it.
pub const PDF_PROCESSOR_SECONDS_MAX: u64 = 120;
