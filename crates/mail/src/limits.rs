//! Limits of this crate. Limits that other crates need as well are in [`base::limits`].
//!
//! An accepted message that exceeds one of these limits is never refused for it: it is kept byte for byte. It is parsed
//! less finely, or shown only up to the limit.

use std::time::Duration;

/// Maximum number of bytes of one header field that are examined when its contents are parsed.
pub const FIELD_BYTES_MAX: usize = 64 << 10;

/// Maximum size of the header of a message that a client or another server hands over. A larger one is refused, so that
/// every check can read the whole header.
pub const HEADER_BYTES_MAX: usize = 1 << 20;

/// Default number of `Received` fields above which a message is considered to loop.
pub const HOPS_MAX: usize = 50;

/// Maximum number of gaps in an international authserv-id that is compared with the name of this server. A field with
/// more gaps is removed like one of this server.
pub const AUTHSERV_ID_GAPS_MAX: usize = 4;

/// Maximum number of targets that the answers about the recipients of one message may hold while the message arrives.
/// The answers beyond it, as for large groups, are looked up again when the message is accepted.
pub const KEPT_TARGETS_MAX: usize = 1_000;

/// Maximum number of targets of all groups among the recipients of one message.
pub const GROUP_TARGETS_PER_MESSAGE_MAX: usize = 10_000;

/// Maximum number of deliveries to members of groups that one sender causes within an hour.
pub const GROUP_TARGETS_PER_HOUR_MAX: u64 = 50_000;

/// Maximum number of senders whose deliveries to members of groups are counted.
pub const GROUP_SENDERS_MAX: usize = 100_000;

/// Maximum number of members of a mailing list that are disclosed.
pub const LISTED_MEMBERS_MAX: usize = 1_000;

/// Maximum number of accepted requests whose results are kept, so that a repetition gets the same result.
pub const LOGGED_REQUESTS_MAX: usize = 10_000;

/// Maximum length of the identifier that a client gives a request.
pub const REQUEST_ID_BYTES_MAX: usize = 100;

/// Maximum length of one header field or parameter value that is kept in a message's structure.
pub const STRUCTURE_VALUE_BYTES_MAX: usize = 8 << 10;

/// Maximum number of parameters of one header field that are kept in a message's structure.
pub const PARAMETERS_MAX: usize = 100;

/// Maximum number of languages of one part that are kept in a message's structure.
pub const LANGUAGES_MAX: usize = 100;

/// Maximum length of a multipart boundary that is recognized (RFC 2046 allows 70).
pub const BOUNDARY_BYTES_MAX: usize = 998;

/// Maximum number of white-space characters after a boundary on its line.
pub const BOUNDARY_PADDING_BYTES_MAX: usize = 998;

/// Number of lines that begin with `--` and are compared with each open boundary before a table of the boundaries is
/// made.
pub const COMPARED_LINES_MAX: u32 = 16;

/// Minimum size of a part's body that is stored separately from its message, unless the configuration sets another
/// value.
pub const SEPARATE_PART_BYTES_MIN: usize = 4_096;

/// Maximum size of a quoted-printable body that is stored decoded. Reading a range of it requires encoding all of it
/// again.
pub const QUOTED_PRINTABLE_BYTES_MAX: usize = 1 << 20;

/// Maximum number of bytes of a decoded subject from which the base subject is taken.
pub const SUBJECT_BYTES_MAX: usize = 4 << 10;

/// Maximum length of a message id that connects messages.
pub const MESSAGE_ID_BYTES_MAX: usize = 998;

/// Maximum number of message ids of a message by which its thread is found: its own, the nearest references, and the
/// first one. Each is a key of the index of threads.
pub const THREAD_MESSAGE_IDS_MAX: usize = 10;

/// Maximum number of message ids of an In-Reply-To field that count.
pub const IN_REPLY_TO_MAX: usize = 4;

/// Maximum number of addresses that are read from one header field.
pub const ADDRESSES_MAX: usize = 20_000;

/// Maximum number of bytes of a part that are examined for a preview.
pub const PREVIEW_SOURCE_BYTES_MAX: usize = 64 << 10;

/// Maximum number of characters of a preview (RFC 8970 §3.2 asks for no more than 200).
pub const PREVIEW_CHARACTERS_MAX: usize = 200;

/// Maximum number of parts that are tried for a preview.
pub const PREVIEW_PARTS_MAX: usize = 8;

/// Maximum number of addresses of one header field that are kept as items of a message's note.
pub const SUMMARY_ADDRESSES_MAX: usize = 100;

/// Maximum size of the text of a message that is composed from the items of a document. The rest is not shown.
pub const COMPOSED_TEXT_BYTES_MAX: usize = 4 << 20;

/// Maximum number of attachments of a message that is composed from the items of a document.
pub const COMPOSED_ATTACHMENTS_MAX: usize = 1_000;

/// Maximum number of bytes of one text that is kept as an item of a message's note.
pub const SUMMARY_TEXT_BYTES_MAX: usize = 2_048;

/// Maximum length of a mailbox name, all levels together, in bytes of UTF-8.
pub const MAILBOX_NAME_BYTES_MAX: usize = base::limits::FOLDER_NAME_BYTES_MAX;

/// Maximum number of levels of a mailbox name.
pub const MAILBOX_LEVELS_MAX: usize = base::limits::FOLDER_DEPTH_MAX;

/// Maximum number of names that one user may subscribe to. A longer list, which an older version stored, can only
/// shrink.
pub const SUBSCRIPTIONS_MAX: usize = 1_000;

/// Maximum length of all names together that one user may subscribe to, because a change rewrites them all.
pub const SUBSCRIPTIONS_BYTES_MAX: usize = 256 << 10;

/// Maximum number of messages that one call appends.
pub const APPEND_MESSAGES_MAX: usize = 10_000;

/// Number of messages that one transaction deletes when a mailbox is deleted.
pub const DELETE_MESSAGES_PER_TRANSACTION: usize = 250;

/// Number of messages that one transaction moves when the inbox is renamed.
pub const MOVE_MESSAGES_PER_TRANSACTION: usize = 250;

/// Maximum number of mailboxes that one transaction delivers to. The remaining recipients receive the message from the
/// queue.
pub const LOCAL_DELIVERIES_PER_TRANSACTION_MAX: usize = 500;

/// Maximum number of remote recipients of one job. It equals the number that a transfer puts into one SMTP transaction,
/// so a crash repeats no more than one transaction.
pub const JOB_RECIPIENTS_MAX: usize = 100;

/// Maximum number of senders whose delivery reports are counted.
pub const REPORT_SENDERS_MAX: usize = 100_000;

/// Number of addresses that may get the notification about one message (RFC 8098).
pub const NOTIFICATION_RECIPIENTS_MAX: usize = 5;

/// Number of bytes of a field of a notification, and of a value in it.
pub const NOTIFICATION_LINE_BYTES_MAX: usize = 900;

/// Number of bytes of a notification's text for people, and of its fields for programs.
pub const NOTIFICATION_TEXT_BYTES_MAX: usize = 64 << 10;

/// Number of extension fields, and of errors, of a notification.
pub const NOTIFICATION_FIELDS_MAX: usize = 50;

/// Number of bytes of a message that a notification returns whole. Of a larger one, it returns the header.
pub const NOTIFICATION_RETURN_BYTES_MAX: usize = 256 << 10;

/// Duration of an attempt to reach a domain after which the domain counts as slow.
pub const TRANSFER_SLOW_AFTER: Duration = Duration::from_secs(20);

/// Maximum time until a session is open, for an attempt to reach a domain that does not count as slow. It suffices for
/// three addresses that do not answer.
pub const CONNECT_TIME_MAX: Duration = Duration::from_secs(90);

/// Maximum number of attempts at one delivery of queued mail if a mailbox fills up between the quota check and the
/// delivery.
pub const LOCAL_DELIVERY_TRIES_MAX: usize = 3;

/// Number of messages that an import puts in with one transaction.
pub const IMPORT_GROUP_MESSAGES: usize = 500;

/// Number of message bytes after which an import commits the messages that it has gathered.
pub const IMPORT_GROUP_BYTES: usize = 16 << 20;

/// Maximum length of a line of an mbox file that can be a separator.
pub const SEPARATOR_BYTES_MAX: usize = 1_024;

/// Number of bytes at the end of a message by which an interrupted import recognizes the message.
pub const IMPORT_CHECK_BYTES: usize = 1_024;

/// Maximum number of sources in the record of imports into one mail file. The record holds interrupted sources and the
/// sources that were imported together with them. The oldest are dropped.
pub const IMPORT_SOURCES_MAX: usize = 1_000;

/// Number of consecutive messages without `\\Deleted` after which an expunge stops scanning and looks up the next
/// deleted message by its position, with the counts in the folder's tree.
pub const EXPUNGE_SCAN_GAP_MAX: u32 = 256;

/// Number of deletion stubs of a `mail.box` above which they are purged, unless the queue holds four times as many
/// notes. The start of the server reads them all.
pub const QUEUE_STUBS_MAX: u64 = 250;

/// Maximum number of decoded bytes of one part that an IMAP search examines.
pub const SEARCH_PART_BYTES_MAX: usize = 32 << 20;

/// Number of bytes of a part that an IMAP search decodes and compares at a time.
pub const SEARCH_PIECE_BYTES: usize = 32 << 10;

/// Number of bytes of a part that an IMAP search reads at a time. Reading less would not cost less if the part is
/// stored as quoted-printable.
pub const SEARCH_READ_BYTES: u64 = 1 << 20;

/// Maximum number of bytes of message heads that are kept in memory, for all mail files together.
pub const HEAD_CACHE_BYTES_MAX: usize = 32 << 20;

/// Maximum number of sizes of composed messages that are kept in memory, for all mail files together. They take some
/// 100 bytes each.
pub const COMPOSED_SIZES_MAX: usize = 50_000;

/// Number of profile documents that are kept in memory, unless the operator says otherwise.
pub const CACHED_PROFILES_DEFAULT: usize = 6_000;

/// Maximum number of bytes of the items of a profile document that is kept in memory.
pub const CACHED_PROFILE_BYTES_MAX: usize = 4 * 1024;

/// Number of mail files whose messages are kept in memory.
pub const TABLES_MAX: usize = 256;

/// Number of messages that left a mailbox and are remembered in memory.
pub const DEPARTURES_MAX: usize = 100_000;

/// Number of results of queries that are kept for a mail file.
pub const CACHED_QUERIES_MAX: usize = 4;

/// Maximum number of lists of a mail file that follow its changes. Each folder that a person opens has one.
pub const LIVE_LISTS_MAX: usize = 16;

/// Maximum number of characters of the identifier of a message, a thread or a mailbox (RFC 8474 §4).
pub const OBJECT_ID_CHARACTERS_MAX: usize = 255;

/// Number of identities of senders that were destroyed and are remembered.
pub const IDENTITIES_DESTROYED_MAX: usize = 100;

/// Maximum number of bytes of a signature.
pub const SIGNATURE_BYTES_MAX: usize = 64 << 10;

/// Smallest page size among the preferences.
pub const PAGE_SIZE_MIN: u64 = 10;

/// Greatest page size among the preferences.
pub const PAGE_SIZE_MAX: u64 = 200;

/// Greatest number of seconds among the preferences in which sending can be undone.
pub const UNDO_SECONDS_MAX: u64 = 120;
