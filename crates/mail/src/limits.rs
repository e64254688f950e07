//! The maxima of this room. Those that other rooms must know as well stand in [`base::limits`].
//!
//! What passes one of these is never refused for it: a message that was accepted is kept byte for byte. It is taken
//! apart less finely, or shown only as far as the limit goes.

use std::time::Duration;

/// Most bytes of one header field that are looked at when its contents are taken apart.
pub const FIELD_BYTES_MAX: usize = 64 << 10;

/// Longest value of one header field or parameter that is kept in a message's structure.
pub const STRUCTURE_VALUE_BYTES_MAX: usize = 8 << 10;

/// Most parameters of one header field that are kept in a message's structure.
pub const PARAMETERS_MAX: usize = 100;

/// Most languages of one part that are kept in a message's structure.
pub const LANGUAGES_MAX: usize = 100;

/// Longest boundary of a multipart that is understood (RFC 2046 allows 70).
pub const BOUNDARY_BYTES_MAX: usize = 998;

/// Most blanks that may follow a boundary on its line.
pub const BOUNDARY_PADDING_BYTES_MAX: usize = 998;

/// Smallest body of a part that is kept apart from its message, unless the configuration says otherwise.
pub const SEPARATE_PART_BYTES_MIN: usize = 4_096;

/// Largest quoted-printable body that is kept decoded: to give a range of it, all of it must be encoded again.
pub const QUOTED_PRINTABLE_BYTES_MAX: usize = 1 << 20;

/// Most addresses that are read from one header field.
pub const ADDRESSES_MAX: usize = 20_000;

/// Most bytes of a part that are looked at to make a preview of it.
pub const PREVIEW_SOURCE_BYTES_MAX: usize = 64 << 10;

/// Most characters of a preview (RFC 8970 §3.2 asks for no more than 200).
pub const PREVIEW_CHARACTERS_MAX: usize = 200;

/// Most parts that are tried for a preview.
pub const PREVIEW_PARTS_MAX: usize = 8;

/// Most addresses of one header field that are kept as items of a message's note.
pub const SUMMARY_ADDRESSES_MAX: usize = 100;

/// Most bytes of one text that is kept as an item of a message's note.
pub const SUMMARY_TEXT_BYTES_MAX: usize = 2_048;

/// Longest name of a mailbox, all levels together, in bytes of UTF-8.
pub const MAILBOX_NAME_BYTES_MAX: usize = base::limits::FOLDER_NAME_BYTES_MAX;

/// Most names that one user may be subscribed to.
pub const SUBSCRIPTIONS_MAX: usize = 10_000;

/// Most messages that one call appends.
pub const APPEND_MESSAGES_MAX: usize = 10_000;

/// How many messages of a mailbox that is deleted go in one transaction.
pub const DELETE_MESSAGES_PER_TRANSACTION: usize = 1_000;

/// Most mailboxes that one transaction delivers to; the others get the message from the queue.
pub const LOCAL_DELIVERIES_PER_TRANSACTION_MAX: usize = 500;

/// Most recipients elsewhere of one job: as many as a transfer puts into one transaction, so that a crash repeats no more than that.
pub const JOB_RECIPIENTS_MAX: usize = 100;

/// How long an attempt to reach a domain takes before the domain counts as slow.
pub const TRANSFER_SLOW_AFTER: Duration = Duration::from_secs(20);

/// How long an attempt to reach a domain that does not count as slow may take until a session is open: three addresses that do not answer.
pub const OPENING_TIME_MAX: Duration = Duration::from_secs(90);

/// How often a delivery of queued mail looks again whether the mailboxes have room, when one was filled meanwhile.
pub const SETTLE_TRIES_MAX: usize = 3;

/// Messages that an import puts in with one transaction.
pub const IMPORT_GROUP_MESSAGES: usize = 500;

/// Bytes of messages after which an import puts in what it has.
pub const IMPORT_GROUP_BYTES: usize = 16 << 20;

/// Longest line of an mbox file that can be a separator.
pub const SEPARATOR_BYTES_MAX: usize = 1_024;

/// Last bytes of a message that tell whether an interrupted import finds it again.
pub const IMPORT_CHECK_BYTES: usize = 1_024;

/// Most sources that the record of imports into one mail file holds: interrupted ones, and those that were imported together with
/// them; the oldest are forgotten.
pub const IMPORT_SOURCES_MAX: usize = 1_000;

/// Messages without `\\Deleted` in a row after which an expunge looks the next one up through the counts.
pub const DELETED_GAP_MAX: u32 = 256;

/// Most decoded bytes of one part in which IMAP looks for texts.
pub const SEARCH_PART_BYTES_MAX: usize = 32 << 20;

/// Most bytes that heads of messages take in memory, of all mail files together.
pub const HEADS_BYTES_MAX: usize = 32 << 20;
