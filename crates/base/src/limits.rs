//! Limits that several crates must agree on. The limits of a single crate are in its own `limits.rs`.
//!
//! Every quantity that comes from the network or from a file has a named maximum in one of these places.

/// Maximum number of items of one note.
pub const ITEMS_PER_NOTE_MAX: usize = 10_000;

/// Maximum length of an item name, in bytes.
pub const ITEM_NAME_BYTES_MAX: usize = 255;

/// Maximum number of bytes of all summary items of one note together.
pub const SUMMARY_BYTES_MAX: usize = 16 << 20;

/// Maximum number of bytes of one message, unless the configuration sets a lower limit.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// Maximum length of the path of a database in the catalog, in bytes.
pub const DATABASE_PATH_BYTES_MAX: usize = 512;

/// Maximum length of the title of a database, in bytes.
pub const DATABASE_TITLE_BYTES_MAX: usize = 1_024;

/// Maximum length of the name of a folder, all its levels together, in bytes.
pub const FOLDER_NAME_BYTES_MAX: usize = 1_024;

/// Maximum number of nested folder levels.
pub const FOLDER_DEPTH_MAX: usize = 32;

/// Maximum number of levels of responses below a document. Domino allows 31 as well.
pub const RESPONSE_DEPTH_MAX: usize = 31;

/// Maximum nesting depth of MIME parts that are parsed. Parts that are nested deeper are kept as one opaque part.
pub const MIME_DEPTH_MAX: usize = 100;

/// Maximum number of MIME parts of one message that are parsed. Further parts are kept within the last one.
pub const MIME_PARTS_MAX: usize = 10_000;

/// Maximum nesting depth of groups in the directory.
pub const GROUP_DEPTH_MAX: usize = 32;

/// Maximum number of members in the expansion of one group.
pub const GROUP_EXPANSION_MAX: usize = 100_000;

/// Maximum number of bytes allocated ahead of content that arrives in pieces.
pub const PREALLOCATION_BYTES_MAX: usize = 1 << 20;

/// Memory that a share has besides that for a message of the maximum size: the trace field, the recipients, commands.
pub const MESSAGE_OVERHEAD_BYTES_MAX: usize = 1 << 20;

/// Memory that the share of an account has besides that for a message of the maximum size: a request and a reply of the
/// native protocol.
pub const CALL_MEMORY_BYTES_MAX: usize = 16 << 20;

/// Number of entries of the table of memory shares up to which those without a share are not removed.
pub const SHARES_SWEEP_MIN: usize = 64;
