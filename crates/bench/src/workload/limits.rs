//! Limits of workload files. A file may come from a stranger, so everything in it has a maximum.

/// Maximum size of a file in bytes.
pub const FILE_BYTES_MAX: usize = 256 * 1024;
/// Maximum nesting of tables and lists, the file included.
pub const NESTING_MAX: usize = 8;
/// Maximum number of findings that are kept. Further ones are counted.
pub const FINDINGS_MAX: usize = 100;
/// Maximum number of characters of a file's text that a finding repeats.
pub const QUOTED_CHARACTERS_MAX: usize = 60;
/// Maximum number of user classes.
pub const CLASSES_MAX: usize = 16;
/// Maximum number of steps of a class.
pub const STEPS_MAX: usize = 1_000;
/// Maximum number of kinds of databases.
pub const DATABASES_MAX: usize = 16;
/// Maximum number of databases of a kind.
pub const DATABASE_COUNT_MAX: u64 = 10_000;
/// Maximum number of size profiles of a file.
pub const PROFILES_MAX: usize = 16;
/// Maximum number of rows of a size profile.
pub const PROFILE_ROWS_MAX: usize = 32;
/// Maximum number of parameters.
pub const PARAMETERS_MAX: usize = 100;
/// Maximum number of tags of a file, and of tags of one source.
pub const TAGS_MAX: usize = 100;
/// Maximum number of entries of lists of words.
pub const WORDS_MAX: usize = 16;
/// Maximum number of activities beside the users.
pub const PARTS_MAX: usize = 16;
/// Maximum number of repetitions of all steps of an iteration.
pub const REPETITIONS_MAX: u64 = 10_000;
/// Maximum of `every`.
pub const EVERY_MAX: u64 = 10_000;
/// Maximum number of users.
pub const USERS_MAX: u64 = 1_000_000;
/// Maximum number of iterations of a user.
pub const ITERATIONS_MAX: u64 = 1_000_000;
/// Maximum number of documents of a database or folder, and of persons.
pub const DOCUMENTS_MAX: u64 = 10_000_000;
/// Maximum number of recipients of a message.
pub const RECIPIENTS_MAX: u64 = 1_000;
/// Maximum number of names in a lookup.
pub const NAMES_MAX: u64 = 500;
/// Maximum number of words of a search.
pub const SEARCH_WORDS_MAX: u64 = 8;
/// Maximum number of rows of a screen of a view.
pub const SCREEN_ROWS_MAX: u64 = 1_000;
/// Maximum size of a message, an attachment or a document in bytes.
pub const SIZE_BYTES_MAX: u64 = 64 << 20;
/// Maximum length of a name in bytes.
pub const NAME_BYTES_MAX: usize = 40;
/// Maximum length of a title in bytes.
pub const TITLE_BYTES_MAX: usize = 120;
/// Maximum length of the description of a workload in bytes.
pub const ABOUT_BYTES_MAX: usize = 4_000;
/// Maximum length of the description of a parameter or tag in bytes.
pub const REMARK_BYTES_MAX: usize = 400;
/// Maximum length of the name of a view or folder in bytes.
pub const VIEW_BYTES_MAX: usize = 127;
/// Maximum duration in microseconds: 168 hours.
pub const DURATION_US_MAX: u64 = 168 * 3_600 * 1_000_000;
