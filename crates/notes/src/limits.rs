//! The limits of this crate. Limits that are shared with other crates are in [`base::limits`].

use std::time::Duration;

/// Maximum number of entries of an ACL.
pub const ACL_ENTRIES_MAX: usize = 10_000;

/// Maximum number of roles of an ACL.
pub const ACL_ROLES_MAX: usize = 1_000;

/// Maximum number of deleted notes that one purge removes, so that the database's lock is held only briefly.
pub const DELETED_PURGED_MAX: usize = 1_000;

/// Maximum number of conflict documents that are kept per note. Further ones are refused.
pub const CONFLICTS_PER_NOTE_MAX: usize = 32;

/// Maximum number of names that are kept of the editors of a document: the first one and the last ones.
pub const UPDATED_BY_MAX: usize = 64;

/// Maximum number of save times that are kept of a document.
pub const REVISIONS_MAX: usize = 32;

/// Maximum length of the name of a profile document, and of its user's name, in bytes.
pub const PROFILE_NAME_BYTES_MAX: usize = 255;

/// Maximum length of a role between its brackets in bytes, as in Domino.
pub const ROLE_BYTES_MAX: usize = 16;

/// Maximum length of a name in an ACL, in bytes.
pub const ACL_NAME_BYTES_MAX: usize = 1_024;

/// Maximum number of changes that the history of an ACL keeps. The oldest are dropped first.
pub const ACL_HISTORY_MAX: usize = 500;

/// Maximum number of differences in one change of the ACL history. Of further ones, only the number is kept.
pub const ACL_DIFFERENCES_MAX: usize = 200;

/// Number of open databases above which those that are not in use are closed, unless the operator sets another one.
pub const OPEN_DATABASES_DEFAULT: usize = 10_000;

/// Number of records that one step of a copy of a database examines.
pub const COPY_RECORDS_PER_STEP: usize = 8_000;

/// Size in bytes of a batch at which a step of a copy of a database ends.
pub const COPY_BYTES_PER_STEP: usize = 1 << 20;

/// Number of notes that one step of an upgrade examines, so that the database's lock is held only briefly.
pub const UPGRADE_NOTES_PER_STEP: usize = 500;

/// Size in bytes at which a step of an upgrade ends.
pub const UPGRADE_BYTES_PER_STEP: usize = 4 << 20;

/// Maximum number of values of a list item.
pub const LIST_VALUES_MAX: usize = 1_000_000;

/// Number of bytes of a body item per record. Longer items are split into several records.
pub const BODY_CHUNK_BYTES: usize = 1 << 20;

/// Number of times of marks, keywords and folders of a note above which those of values that are not set are dropped,
/// the oldest first.
pub const CHANGE_TIMES_MAX: usize = 256;

/// Maximum number of keywords of a note that has them from several replicas. Each of them keeps the limits for people
/// ([`KEYWORDS_PER_NOTE_MAX`], [`FOLDERS_PER_NOTE_MAX`]), but together they can exceed these. Earlier versions stored
/// as many folders, too.
pub const JOINED_VALUES_MAX: usize = 1_024;

/// Maximum number of folders that a note gets from several replicas. It can leave as many in one transaction: each
/// departure has a number of its own.
pub const JOINED_FOLDERS_MAX: usize = 250;

/// Maximum number of times that a stored note has: of all marks, keywords and folders that are set, and of others.
pub const CHANGE_TIMES_STORED_MAX: usize = 2 * JOINED_VALUES_MAX + CHANGE_TIMES_MAX + 8;

/// Maximum number of notes that one transaction takes out of a folder that another replica has deleted.
pub const UNFILED_PER_TRANSACTION_MAX: usize = 250;

/// Maximum number of held entries of a folder that one transaction shows to clients.
pub const UIDS_RELEASED_PER_TRANSACTION: usize = 1_000;

/// The first UID that is not given out in a folder whose UIDs are shared. Greater ones of other servers are replaced.
pub const SHARED_UID_MAX: u32 = 0xF000_0000;

/// Maximum length of the name that a CouchDB client has given a document, in bytes.
pub const CLIENT_ID_BYTES_MAX: usize = 1_024;

/// The first UID that is not taken from another server. What this server gives out itself may be greater, so no other
/// server can use the UIDs of a folder up. By the clock it would be reached after 136 years.
pub const RECEIVED_UID_MAX: u32 = 0x8000_0000;

/// The greatest UIDVALIDITY that is taken from another server: the first second of 2100. It leaves enough greater ones
/// for folders that are made here.
pub const RECEIVED_UID_VALIDITY_MAX: u32 = 4_102_444_800;

/// Maximum number of instances of a replica that are remembered. Each run of a server that changes the database adds
/// one.
pub const INSTANCES_MAX: usize = 256;

/// Maximum number of notes of another replica that are remembered to be asked for again. With more, the next
/// replication compares everything.
pub const MISSED_NOTES_MAX: usize = 1_000;

/// Maximum size of the formula in replication settings, in bytes.
pub const REPLICATION_FORMULA_BYTES_MAX: usize = 8 << 10;

/// Maximum number of folders in replication settings.
pub const REPLICATION_FOLDERS_MAX: usize = 100;

/// Maximum cut-off of replication settings in days.
pub const REPLICATION_CUT_OFF_DAYS_MAX: u16 = 3_650;

/// Maximum sequence number of a note from another replica. A note with more saves could soon not be saved any more.
pub const RECEIVED_SEQUENCE_MAX: u32 = 1 << 30;

/// Latest time that a note from another replica may have, in microseconds since 1970: the beginning of the year 2200. A
/// greater one would leave no later times for further changes.
pub const RECEIVED_TIME_MAX: i64 = 7_258_118_400_000_000;

/// Maximum number of losing versions of one document that are read.
pub const LOSERS_READ_MAX: usize = 1_000;

/// Maximum difference between the sequence number of a version that a person brings and that of the stored one. A
/// greater one would win all conflicts for years.
pub const BROUGHT_SEQUENCE_STEP_MAX: u32 = 1 << 20;

/// Maximum sequence number of a version that a person brings. Steps of [`BROUGHT_SEQUENCE_STEP_MAX`] could otherwise
/// lead to [`RECEIVED_SEQUENCE_MAX`], beyond which no other server takes a save. Saves on servers go on from here.
pub const BROUGHT_SEQUENCE_MAX: u32 = RECEIVED_SEQUENCE_MAX / 2;

/// Maximum size of a local document, in bytes.
pub const LOCAL_DOCUMENT_BYTES_MAX: usize = 64 << 10;

/// Maximum number of local documents of one person in a database. With more, the oldest is deleted.
pub const LOCAL_DOCUMENTS_PER_PERSON_MAX: usize = 1_000;

/// Time for which a losing version of a conflict can be restored in a database that keeps no other deleted documents.
pub const LOSERS_KEPT_HOURS: u64 = 48;

/// Maximum size of a body item, in bytes.
pub const BODY_ITEM_BYTES_MAX: usize = 1 << 30;

/// Maximum number of body items of a note.
pub const BODY_ITEMS_MAX: usize = 10_000;

/// Maximum number of keywords of a database. Each is a number of two bytes in folder entries.
pub const KEYWORDS_PER_DATABASE_MAX: usize = 4_096;

/// Maximum number of keywords of a note.
pub const KEYWORDS_PER_NOTE_MAX: usize = 128;

/// Maximum length of a keyword, in bytes.
pub const KEYWORD_BYTES_MAX: usize = 128;

/// Maximum number of personal folders and views of one user in a database.
pub const PERSONAL_VIEWS_MAX: usize = 200;

/// Maximum number of folders and views of a database.
pub const VIEWS_PER_DATABASE_MAX: usize = 10_000;

/// Maximum number of folders that contain a note.
pub const FOLDERS_PER_NOTE_MAX: usize = 64;

/// Maximum number of names that may know of a folder.
pub const FOLDER_READERS_MAX: usize = 1_000;

/// Maximum length of the id of a thread, in bytes (RFC 8620 §1.2).
pub const THREAD_ID_BYTES_MAX: usize = 255;

/// Maximum number of keys of a note in the index of threads. Further ones are not indexed.
pub const THREAD_KEYS_MAX: usize = 16;

/// Maximum number of messages with one key that are examined for one that the caller may see.
pub const THREAD_NOTES_EXAMINED_MAX: usize = 32;

/// Maximum number of blobs to which a note refers.
pub const BLOBS_PER_NOTE_MAX: usize = 20_000;

/// Maximum number of names in the Readers and Authors items of a note together. Every access to the note compares them
/// with the names of the caller.
pub const ACCESS_NAMES_PER_NOTE_MAX: usize = 10_000;

/// Default number of days after which deletion stubs are purged. It is 90, as in Domino.
pub const PURGE_INTERVAL_DAYS: u16 = 90;

/// Number of purge intervals for which the deletion of a note stays known after its stub was purged.
pub const PURGED_DELETIONS_INTERVALS: u32 = 4;

/// Maximum number of databases that one transaction changes.
pub const DATABASES_PER_TRANSACTION_MAX: usize = 1_024;

/// Maximum number of findings that a check of a database lists.
pub const FINDINGS_MAX: usize = 10_000;

/// Number of note ids that are skipped if their counter was lost, because lost notes may have used them.
pub const NOTE_IDS_SKIPPED: u32 = 1 << 16;

/// Number of modseqs that are skipped if their counter was lost, because clients may have seen greater ones than those
/// that are left.
pub const MODSEQS_SKIPPED: u64 = 1 << 24;

/// Maximum number of entries of a folder that is cached as a whole.
pub const FOLDER_CACHE_ENTRIES_MAX: usize = 4_096;

/// Entries of a folder that a question about positions loads into memory: a block of the index.
pub const FOLDER_CACHE_LOADED_ENTRIES_MAX: u64 = 256;

/// Maximum total size of all cached folders of all databases, in bytes.
pub const FOLDER_CACHE_BYTES_MAX: usize = 64 << 20;

/// Maximum number of values of one column in one row of a view.
pub const CELL_VALUES_MAX: usize = 4_096;

/// Maximum number of characters of a text that determine its position in a view.
pub const SORTED_TEXT_CHARACTERS_MAX: usize = 256;

/// Maximum number of bytes of a text's collation key that determine its position in a view.
pub const SORTED_TEXT_BYTES_MAX: usize = 480;

/// Maximum number of aliases of a view.
pub const VIEW_ALIASES_MAX: usize = 16;

/// Maximum number of names that may see a view.
pub const VIEW_READERS_MAX: usize = 1_000;

/// Maximum length of the name of a view's locale, in bytes.
pub const VIEW_LOCALE_BYTES_MAX: usize = 64;

/// Maximum length of a column's title, in bytes.
pub const COLUMN_TITLE_BYTES_MAX: usize = 1_024;

/// Maximum size of a column's display format for clients, in bytes.
pub const COLUMN_FORMAT_BYTES_MAX: usize = 4_096;

/// Maximum number of columns of a view.
pub const VIEW_COLUMNS_MAX: usize = 256;

/// Maximum number of sort orders of a view.
pub const VIEW_COLLATIONS_MAX: usize = 16;

/// Maximum number of sort orders of a personal view.
pub const PERSONAL_COLLATIONS_MAX: usize = 4;

/// Default for the maximum size in bytes of the indexes of one user's personal views in a database that is not the
/// user's own.
pub const PERSONAL_INDEX_BYTES_DEFAULT: u64 = 64 << 20;

/// Maximum length of the source of a selection or column formula, in bytes.
pub const FORMULA_BYTES_MAX: usize = 64 << 10;

/// Maximum length of all formulas of a view together, in bytes. They are compiled while other writers of the database
/// wait.
pub const VIEW_FORMULAS_BYTES_MAX: usize = 512 << 10;

/// Maximum number of category levels above a document.
pub const CATEGORY_LEVELS_MAX: usize = 31;

/// Maximum number of spellings of one category that are counted separately.
pub const CATEGORY_SPELLINGS_MAX: usize = 64;

/// Maximum number of combinations of user and sort order of a view whose hidden rows are cached.
pub const VIEW_HIDDEN_CACHE_MAX: usize = 256;

/// Maximum total number of row ranges, of about 250 bytes each, in this cache.
pub const VIEW_HIDDEN_RANGES_MAX: usize = 200_000;

/// Maximum number of row changes that are kept with a view, so that its cached hidden rows can be updated.
pub const VIEW_HIDDEN_CHANGES_MAX: usize = 4_096;

/// Maximum number of access decisions that are cached with a view, each on whether a user may read notes with certain
/// readers.
pub const VIEW_READERS_CACHE_MAX: usize = 65_536;

/// Maximum number of entries at the end of a database's change log that are kept in memory, for readers that follow it.
/// An entry takes about 100 bytes.
pub const CHANGE_LOG_TAIL_ENTRIES_MAX: usize = 256;

/// Number of changes of a database that are kept in memory, for the indexes that follow it.
pub const RECENT_CHANGES_MAX: usize = 512;

/// Maximum size in bytes of the earlier versions of notes that are kept with these changes. They are kept only while
/// views are open.
pub const RECENT_VERSIONS_BYTES_MAX: usize = 64 << 10;

/// Minimum time between evaluations of a view whose formulas use the current time.
pub const TIME_REFRESH_MIN: Duration = Duration::from_secs(60);

/// Interval at which a reader checks whether the ticket of a visible change was published. This takes microseconds.
pub const PUBLICATION_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// Number of notes above which a new index is built in bulk, not change by change.
pub const VIEW_BUILD_NOTES_MIN: u64 = 2_000;

/// Number of documents between two progress reports of a build.
pub const VIEW_BUILD_REPORT_NOTES: u64 = 4_096;

/// Number of changes that are applied to an index in one batch, while other writers wait.
pub const VIEW_REFRESH_CHANGES: usize = 200;

/// Maximum number of rows of a view that a client marks as exceptions: expanded or collapsed against the default.
pub const VIEW_EXPANSIONS_MAX: usize = 10_000;

/// Maximum number of rows of a reply.
pub const VIEW_REPLY_ROWS_MAX: usize = 10_000;

/// Size in bytes at which a reply with rows ends.
pub const VIEW_REPLY_BYTES_MAX: usize = 1 << 20;

/// Maximum number of rows that are examined for one reply.
pub const VIEW_EXAMINED_ROWS_MAX: u64 = 100_000;

/// Maximum number of rows of one document in all sort orders of a view together. A view with more sort orders shows
/// fewer entries of a document in each.
pub const NOTE_ROWS_PER_VIEW_MAX: usize = 1_024;

/// Maximum number of response levels below a document, as in Domino.
pub const RESPONSE_LEVELS_MAX: usize = 31;

/// Maximum number of levels of a position in a view: categories, a document, and the responses below it.
pub const POSITION_LEVELS_MAX: usize = CATEGORY_LEVELS_MAX + 1 + RESPONSE_LEVELS_MAX;

/// Maximum number of view rows that a formula looks up at once.
pub const LOOKUP_ROWS_MAX: u64 = 10_000;

/// Maximum size in bytes of the values that a formula looks up at once, as in Domino.
pub const LOOKUP_BYTES_MAX: usize = 64 << 10;

/// Maximum size in bytes of the parameters that identify a lookup: names, key, keywords.
pub const LOOKUP_KEY_BYTES_MAX: usize = 4 << 10;

/// Fixed cost of a lookup in addition to the rows that it reads, in rows.
pub const LOOKUP_FIXED_COST_ROWS: u64 = 50;

/// Maximum cost of all lookups of formulas for one batch of documents, in rows.
pub const LOOKUP_COST_MAX: u64 = 100_000;

/// Maximum size of the lookup results that are memoized for further documents, in bytes.
pub const LOOKUP_CACHE_BYTES_MAX: usize = 4 << 20;

/// Limits for the evaluation of formulas over one of many documents: of the selection and all columns of a view
/// together, or of the selection of a search. They have a fifth of the steps that a single evaluation may take.
pub const DOCUMENT_LIMITS: formula::limits::Limits = formula::limits::Limits { steps: 2_000_000, bytes: 64 << 20 };

/// Time after which the evaluation of formulas over one of many documents is stopped.
pub const DOCUMENT_TIME_MAX: Duration = Duration::from_millis(20);

/// Number of checks after which this time begins. Until then about 131,000 steps are spent, which take a millisecond or
/// two. So the result of most formulas never depends on the time, even if the machine is busy.
pub const DOCUMENT_UNTIMED_CHECKS: u32 = 32;

/// Steps of a [`base::Pacer`] that reading a record in a scan counts as.
pub const STEPS_PER_RECORD: u64 = 2;

/// Steps that looking up a record, or descending a tree of counts, counts as.
pub const STEPS_PER_LOOKUP: u64 = 8;

/// Steps that hashing or compressing a chunk of an attachment, of 256 KiB, counts as.
pub const STEPS_PER_BLOB_CHUNK: u64 = 500;

/// Maximum size in bytes that a note from another replica may state: 1 TiB.
pub const RECEIVED_SIZE_MAX: u64 = 1 << 40;

/// Size in bytes of the items outside the summary that a truncated document keeps. As in Domino.
pub const TRUNCATED_BODY_BYTES: usize = 40 << 10;

/// Maximum size in bytes of the record of the revisions of a note from another replica. A list of 64 ancestors and the
/// names of 10,000 items are below it.
pub const REVISION_RECORD_BYTES_MAX: usize = 4 << 20;

/// Maximum number of unread marks of a database that are kept for notes which have not arrived from other replicas.
pub const PENDING_UNREAD_MARKS_MAX: u32 = 100_000;

/// Maximum length of the name of a user whose unread marks come from another replica, in bytes.
pub const UNREAD_USER_BYTES_MAX: usize = 1_024;

/// Maximum number of blocks of unread marks whose times a purge removes in one batch, while writers wait.
pub const PURGED_UNREAD_BLOCKS_MAX: usize = 1_000;

/// Number of bytes of a content that are read at a time to prove that a server knows it.
pub const PROOF_PIECE_BYTES: u64 = 1 << 20;

/// Maximum time by which the time of creation of a new note may be later than the clock, so that it is later than that
/// of the note before. If the clock was set back further, the order of the notes is that of the clock.
pub const CREATED_AHEAD_MICROSECONDS_MAX: i64 = 1_000_000;
