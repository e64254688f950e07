//! The limits of this room. Those that other rooms share stand in [`base::limits`].

use std::time::Duration;

/// Most entries of an ACL.
pub const ACL_ENTRIES_MAX: usize = 10_000;

/// Most roles of an ACL.
pub const ACL_ROLES_MAX: usize = 1_000;

/// Most deleted notes that one purge removes, so that the database's lock is held briefly.
pub const DELETED_PURGED_MAX: usize = 1_000;

/// Most losers of conflicts that are kept of one note; further ones are refused.
pub const CONFLICTS_PER_NOTE_MAX: usize = 32;

/// Most names that are kept of those who saved a document: the first, and the last ones.
pub const UPDATED_BY_MAX: usize = 64;

/// Most times that are kept of when a document was saved.
pub const REVISIONS_MAX: usize = 32;

/// Most bytes of the name of a profile document, and of the user's.
pub const PROFILE_NAME_BYTES_MAX: usize = 255;

/// Most bytes of a role between its brackets, as in the original.
pub const ROLE_BYTES_MAX: usize = 16;

/// Most bytes of a name in an ACL.
pub const ACL_NAME_BYTES_MAX: usize = 1_024;

/// Most changes of an ACL that are remembered; the oldest go first.
pub const ACL_HISTORY_MAX: usize = 500;

/// Most differences that one remembered change of an ACL tells; of more it tells the number.
pub const ACL_DIFFERENCES_MAX: usize = 200;

/// Notes that one step of an upgrade looks at, so that the database's lock is held briefly.
pub const UPGRADE_NOTES_PER_STEP: usize = 500;

/// Bytes at which a step of an upgrade ends.
pub const UPGRADE_BYTES_PER_STEP: usize = 4 << 20;

/// Most values of one list item.
pub const LIST_VALUES_MAX: usize = 1_000_000;

/// Bytes of a body item that are kept in one record; longer items are cut into several.
pub const BODY_CHUNK_BYTES: usize = 1 << 20;

/// Most bytes of one body item.
pub const BODY_ITEM_BYTES_MAX: usize = 1 << 30;

/// Most body items of one note.
pub const BODY_ITEMS_MAX: usize = 10_000;

/// Most keywords that one database may define; each is a number of two bytes in folder entries.
pub const KEYWORDS_PER_DATABASE_MAX: usize = 4_096;

/// Most keywords of one note.
pub const KEYWORDS_PER_NOTE_MAX: usize = 128;

/// Longest keyword, in bytes.
pub const KEYWORD_BYTES_MAX: usize = 128;

/// Most personal folders and views that one person has in a database.
pub const PERSONAL_VIEWS_MAX: usize = 200;

/// Most folders and views of one database.
pub const VIEWS_PER_DATABASE_MAX: usize = 10_000;

/// Most folders that one note may be in.
pub const FOLDERS_PER_NOTE_MAX: usize = 64;

/// Most names that say who may know of a folder.
pub const FOLDER_READERS_MAX: usize = 1_000;

/// Most blobs that one note may refer to.
pub const BLOBS_PER_NOTE_MAX: usize = 20_000;

/// Days after which deletion stubs are purged, unless the database says otherwise (`domino.md` §4: 90).
pub const PURGE_INTERVAL_DAYS: u16 = 90;

/// Most databases that one transaction may change.
pub const DATABASES_PER_TRANSACTION_MAX: usize = 1_024;

/// Most findings that a check of a database lists.
pub const FINDINGS_MAX: usize = 10_000;

/// Note ids left out when the counter of them was lost: notes that nothing tells of any more may have had them.
pub const NOTE_IDS_SKIPPED: u32 = 1 << 16;

/// Modseqs left out when the counter of them was lost: clients may have seen later ones than are left.
pub const MODSEQS_SKIPPED: u64 = 1 << 24;

/// Largest folder, in entries, that is kept in memory as a whole.
pub const FOLDER_IMAGE_ENTRIES_MAX: usize = 4_096;

/// Entries of a folder that a question about positions loads into memory: a block of the index.
pub const FOLDER_IMAGE_LOADED_ENTRIES_MAX: u64 = 256;

/// Most bytes that the folders in memory take, of all databases together.
pub const FOLDER_IMAGES_BYTES_MAX: usize = 64 << 20;

/// Most values of one column in one row of a view.
pub const CELL_VALUES_MAX: usize = 4_096;

/// Most characters of a text that decide about its place in a view.
pub const SORTED_TEXT_CHARACTERS_MAX: usize = 256;

/// Most bytes of its collation key that do.
pub const SORTED_TEXT_BYTES_MAX: usize = 480;

/// Most other names of a view.
pub const VIEW_ALIASES_MAX: usize = 16;

/// Most names that say who may see a view.
pub const VIEW_READERS_MAX: usize = 1_000;

/// Most bytes of the name of a view's locale.
pub const VIEW_LOCALE_BYTES_MAX: usize = 64;

/// Most bytes of the title of a column.
pub const COLUMN_TITLE_BYTES_MAX: usize = 1_024;

/// Most bytes of what a column says to clients about the form of its values.
pub const COLUMN_FORMAT_BYTES_MAX: usize = 4_096;

/// Most columns of a view.
pub const VIEW_COLUMNS_MAX: usize = 256;

/// Most orders in which a view is kept.
pub const VIEW_COLLATIONS_MAX: usize = 16;

/// Most bytes of the source of a selection or a column.
pub const FORMULA_BYTES_MAX: usize = 64 << 10;

/// Most levels of categories above a document.
pub const CATEGORY_LEVELS_MAX: usize = 31;

/// Most spellings of one category that are told apart.
pub const CATEGORY_SPELLINGS_MAX: usize = 64;

/// Most persons and orders of one view for which is kept what they may not see.
pub const VIEW_HIDDEN_KEPT_MAX: usize = 256;

/// Most ranges of rows, of some 250 bytes each, that all of these come to.
pub const VIEW_HIDDEN_RANGES_MAX: usize = 200_000;

/// Most changes of rows that are kept with a view so that what is hidden can follow them.
pub const VIEW_HIDDEN_CHANGES_MAX: usize = 4_096;

/// Most answers to whether somebody may read what names certain readers that are kept with a view.
pub const VIEW_READERS_KEPT_MAX: usize = 65_536;

/// Changes of a database that are kept in memory for the indexes that follow it.
pub const RECENT_CHANGES_MAX: usize = 512;

/// Bytes of versions before changes that are kept with those of a database whose views are open.
pub const RECENT_VERSIONS_BYTES_MAX: usize = 64 << 10;

/// How long the answers of a view hold whose formulas ask for the time, at least.
pub const TIME_REFRESH_MIN: Duration = Duration::from_secs(60);

/// A new index over more notes than this is built at once, not change by change.
pub const VIEW_BUILD_NOTES_MIN: u64 = 2_000;

/// Documents between two reports of a build.
pub const VIEW_BUILD_REPORT_NOTES: u64 = 4_096;

/// Changes that are applied to an index in one batch, while others wait to write.
pub const VIEW_REFRESH_CHANGES: usize = 200;

/// Most rows of a view that a client says to be open or closed against the rule.
pub const VIEW_EXPANSIONS_MAX: usize = 10_000;

/// Most rows of one answer.
pub const VIEW_ANSWER_ROWS_MAX: usize = 10_000;

/// Bytes at which an answer with rows ends.
pub const VIEW_ANSWER_BYTES_MAX: usize = 1 << 20;

/// Most rows that are looked at for one answer.
pub const VIEW_LOOKED_AT_MAX: u64 = 100_000;

/// Most rows that one document has in one order of a view.
pub const VIEW_ENTRIES_PER_NOTE_MAX: usize = 1_024;

/// Most levels of responses under a document (`domino.md` §2.3).
pub const RESPONSE_LEVELS_MAX: usize = 31;

/// Most numbers of a place in a view: categories, a document, and the responses under it.
pub const TUMBLER_LEVELS_MAX: usize = CATEGORY_LEVELS_MAX + 1 + RESPONSE_LEVELS_MAX;

/// Most rows of a view that a formula looks up at once.
pub const LOOKUP_ROWS_MAX: u64 = 10_000;

/// Most bytes of what a formula looks up at once, as in the original.
pub const LOOKUP_BYTES_MAX: usize = 64 << 10;

/// Most bytes of what tells a look-up from others: names, key, keywords.
pub const LOOKUP_KEY_BYTES_MAX: usize = 4 << 10;

/// What a look-up costs besides the rows that it reads, in rows.
pub const LOOKUP_COST: u64 = 50;

/// Most that formulas look up for one batch of documents, in rows.
pub const LOOKUP_COST_MAX: u64 = 100_000;

/// Most bytes of look-ups whose outcome is kept for the next document.
pub const LOOKUPS_KEPT_BYTES_MAX: usize = 4 << 20;

/// What the evaluation of a formula over one of many documents may take: a tenth of the steps of a single one.
pub const DOCUMENT_LIMITS: formula::limits::Limits = formula::limits::Limits { steps: 1_000_000, bytes: 64 << 20 };
