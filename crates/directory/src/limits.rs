//! Limits of the directory, and the parameters of login throttling.
//!
//! The maximum depth and size of a group expansion are shared with other crates and are in [`base::limits`].

use std::time::Duration;

/// Maximum length of the local part of an address, in bytes (RFC 5321 §4.5.3.1.1).
pub const LOCAL_PART_BYTES_MAX: usize = 64;

/// Maximum length of a domain in ASCII form, in bytes (RFC 5321 §4.5.3.1.2, RFC 1035 §2.3.4 without the final dot).
pub const DOMAIN_BYTES_MAX: usize = 253;

/// Maximum length of a domain label, in bytes (RFC 1035 §2.3.4).
pub const DOMAIN_LABEL_BYTES_MAX: usize = 63;

/// Maximum length of an address as written, in bytes. It exceeds that of any valid address, so that hostile input is
/// cheap to refuse.
pub const ADDRESS_BYTES_MAX: usize = 1_024;

/// Maximum length of a name of a person, group or server, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Maximum length of a login name, in bytes.
pub const LOGIN_BYTES_MAX: usize = 512;

/// Maximum number of names and aliases of local domains in which another spelling of a login name is searched.
pub const LOGIN_DOMAINS_MAX: usize = 16;

/// Maximum length of a password, in bytes.
pub const PASSWORD_BYTES_MAX: usize = 1_024;

/// Default minimum length of a new password, in characters.
pub const PASSWORD_CHARACTERS_MIN: usize = 8;

/// Maximum number of application passwords of one person.
pub const APPLICATION_PASSWORDS_MAX: usize = 50;

/// Maximum length of the name of an application password, in bytes.
pub const APPLICATION_NAME_BYTES_MAX: usize = 100;

/// Number of recovery codes that a person gets with a second factor.
pub const RECOVERY_CODES: usize = 10;

/// Maximum length of a code of a second factor as it is typed, in bytes.
pub const FACTOR_CODE_BYTES_MAX: usize = 64;

/// Maximum argon2 memory that a stored hash may require, in KiB. Each thread that checks logins may need as much.
pub const ARGON2_MEMORY_KIB_MAX: u32 = 256 << 10;

/// Maximum number of argon2 passes that a stored hash may require. With the maximum of memory, a login takes about a
/// second.
pub const ARGON2_PASSES_MAX: u32 = 8;

/// Minimum number of SCRAM iterations (RFC 7677 §4).
pub const SCRAM_ITERATIONS_MIN: u32 = 4_096;

/// Maximum number of SCRAM iterations in stored keys.
pub const SCRAM_ITERATIONS_MAX: u32 = 10_000_000;

/// Default number of SCRAM iterations.
pub const SCRAM_ITERATIONS_DEFAULT: u32 = 10_000;

/// Number of failed logins of one account that cause no delay.
pub const ACCOUNT_FAILURES_FREE: u32 = 10;

/// Number of failed logins from one address (IPv6: one /64) that cause no delay.
pub const ADDRESS_FAILURES_FREE: u32 = 50;

/// The IPv6 networks that failed logins are counted against, by the number of prefix bits, and the factor by which each
/// may fail more often than a single address: 50, 200 and 800 failures cause no delay. Providers assign a /64, a /56 or
/// a /48 to a customer.
pub const ADDRESS_PREFIXES: [(u32, u32); 3] = [(64, 1), (56, 4), (48, 16)];

/// Delay after the first failure that causes one. Every further failure doubles it.
pub const THROTTLE_DELAY_FIRST: Duration = Duration::from_secs(1);

/// Maximum delay.
pub const THROTTLE_DELAY_MAX: Duration = Duration::from_secs(15 * 60);

/// Time after which one failure of an account is forgiven.
pub const ACCOUNT_FORGIVE_AFTER: Duration = Duration::from_secs(15 * 60);

/// Time after which one failure from an address is forgiven. It is shorter for larger networks by the factor of
/// [`ADDRESS_PREFIXES`].
pub const ADDRESS_FORGIVE_AFTER: Duration = Duration::from_secs(60);

/// Maximum number of accounts, and of addresses, that throttling tracks.
pub const THROTTLE_ENTRIES_MAX: usize = 100_000;

/// Maximum number of verified passwords in the cache.
pub const VERIFIED_ENTRIES_MAX: usize = 100_000;

/// Time for which a verified password is cached.
pub const VERIFIED_TTL: Duration = Duration::from_secs(15 * 60);

/// Default size of the name lookup cache in bytes. Domino's NLCACHE_SIZE has the same default.
pub const NAME_CACHE_BYTES_DEFAULT: u64 = 16 << 20;

/// Maximum number of addresses, and of other names, of one person or group.
pub const NAMES_PER_NOTE_MAX: usize = 1_000;

/// Maximum number of direct members of one group. A nested group counts as one member.
pub const MEMBERS_PER_GROUP_MAX: usize = base::limits::GROUP_EXPANSION_MAX;

/// Maximum number of notes with one key that are compared to find the one that counts.
pub const HOLDERS_COMPARED_MAX: usize = 64;

/// Maximum number of entries on one page of a list.
pub const PAGE_ENTRIES_MAX: usize = 10_000;

/// Maximum length of an index key, in bytes. Longer keys are truncated.
pub const KEY_TEXT_BYTES_MAX: usize = 1_024;

/// Number of changed notes that one transaction adds to the index.
pub const CATCH_UP_NOTES_MAX: usize = 10_000;

/// Maximum number of times that one lookup brings the index up to date because other writers change the database. After
/// that, the lookup uses the index as it is.
pub const CATCH_UP_TRIES_MAX: usize = 8;

/// Maximum number of groups of one identity.
pub const GROUPS_PER_IDENTITY_MAX: usize = 10_000;

/// Maximum number of aliases of a domain.
pub const ALIASES_PER_DOMAIN_MAX: usize = 1_000;

/// Maximum number of numbered variants tried to find a free mail file path.
pub const MAIL_FILE_NUMBERS_MAX: u32 = 1_000;

/// Maximum number of people added in one transaction.
pub const USERS_AT_ONCE_MAX: usize = 1_000;

/// Maximum number of databases that a connection names.
pub const CONNECTION_DATABASES_MAX: usize = 1_000;

/// Maximum number of times of the day at which a connection is used.
pub const CONNECTION_TIMES_MAX: usize = 100;

/// Maximum number of names in each of the lists of a server document that admit and exclude other servers.
pub const SERVER_ACCESS_NAMES_MAX: usize = 1_000;

/// Maximum length of the name of a connection in bytes.
pub const CONNECTION_NAME_BYTES_MAX: usize = 64;

/// Maximum time from now to the end of a certificate of a server that is valid now. The certifier issues them for
/// 5 years, and valid for up to 13 months before that.
pub const SERVER_CERTIFICATE_TIME_MAX: Duration = Duration::from_secs((6 * 366 + 31) * 86_400);

/// Maximum number of minutes between two replications of a connection: 30 days.
pub const CONNECTION_MINUTES_MAX: u32 = 30 * 24 * 60;
