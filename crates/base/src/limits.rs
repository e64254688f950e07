//! The limits that several rooms must agree on. A room's own limits stand in its own `limits.rs`.
//!
//! Every quantity that comes from the network or from a file has a named maximum, here or there.

/// Most items that one note may have.
pub const ITEMS_PER_NOTE_MAX: usize = 10_000;

/// Longest item name, in bytes.
pub const ITEM_NAME_BYTES_MAX: usize = 255;

/// Most bytes that the summary items of one note may take together.
pub const SUMMARY_BYTES_MAX: usize = 16 << 20;

/// Most bytes of one message, unless the configuration says less.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Longest path of a database in the catalog, in bytes.
pub const DATABASE_PATH_BYTES_MAX: usize = 512;

/// Longest title of a database, in bytes.
pub const DATABASE_TITLE_BYTES_MAX: usize = 1_024;

/// Longest name of a folder, all its levels together, in bytes.
pub const FOLDER_NAME_BYTES_MAX: usize = 1_024;

/// Most levels of folders below one another.
pub const FOLDER_DEPTH_MAX: usize = 32;

/// Most levels of responses below a document (`domino.md` §2.3: 31).
pub const RESPONSE_DEPTH_MAX: usize = 31;

/// Deepest nesting of MIME parts that is taken apart; what lies deeper is kept as one opaque part.
pub const MIME_DEPTH_MAX: usize = 100;

/// Most MIME parts of one message that are taken apart; further ones are kept within the last.
pub const MIME_PARTS_MAX: usize = 10_000;

/// Deepest nesting of groups in the directory.
pub const GROUP_DEPTH_MAX: usize = 32;

/// Most members that the expansion of one group may yield.
pub const GROUP_EXPANSION_MAX: usize = 100_000;
