//! The limits of the directory, and the numbers of login throttling.
//!
//! Depth and size of group expansion are agreed with other rooms and stand in [`base::limits`].

use std::time::Duration;

/// Longest local part of an address, in bytes (RFC 5321 §4.5.3.1.1).
pub const LOCAL_PART_BYTES_MAX: usize = 64;

/// Longest domain, in bytes, in its ASCII form (RFC 5321 §4.5.3.1.2, RFC 1035 §2.3.4 without the final dot).
pub const DOMAIN_BYTES_MAX: usize = 253;

/// Longest label of a domain, in bytes (RFC 1035 §2.3.4).
pub const DOMAIN_LABEL_BYTES_MAX: usize = 63;

/// Longest address as it is written, in bytes; more than any valid one, so that hostile input costs little.
pub const ADDRESS_BYTES_MAX: usize = 1_024;

/// Longest name of a person, group or server, in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// Longest login name, in bytes.
pub const LOGIN_BYTES_MAX: usize = 512;

/// Longest password, in bytes.
pub const PASSWORD_BYTES_MAX: usize = 1_024;

/// Shortest password that is accepted when one is set, in characters, unless the options say otherwise.
pub const PASSWORD_CHARACTERS_MIN: usize = 8;

/// Most argon2 memory that a stored hash may ask for, in KiB.
pub const ARGON2_MEMORY_KIB_MAX: u32 = 1 << 20;

/// Most argon2 passes that a stored hash may ask for.
pub const ARGON2_PASSES_MAX: u32 = 64;

/// Password hashes that are computed at once, unless the options say otherwise; each takes its memory for itself.
pub const HASHES_AT_ONCE_MAX: usize = 4;

/// Longest SCRAM message that is looked at, in bytes.
pub const SCRAM_MESSAGE_BYTES_MAX: usize = 4_096;

/// Fewest SCRAM iterations (RFC 7677 §4).
pub const SCRAM_ITERATIONS_MIN: u32 = 4_096;

/// Most SCRAM iterations that stored keys may name.
pub const SCRAM_ITERATIONS_MAX: u32 = 10_000_000;

/// SCRAM iterations unless the options say otherwise.
pub const SCRAM_ITERATIONS_DEFAULT: u32 = 10_000;

/// Failed logins of one account that cost no delay.
pub const ACCOUNT_FAILURES_FREE: u32 = 10;

/// Failed logins from one address (IPv6: one /64) that cost no delay.
pub const ADDRESS_FAILURES_FREE: u32 = 50;

/// The delay after the first failure that is not free; every further failure doubles it.
pub const THROTTLE_DELAY_FIRST: Duration = Duration::from_secs(1);

/// The longest delay.
pub const THROTTLE_DELAY_MAX: Duration = Duration::from_secs(15 * 60);

/// The time after which one failure of an account is forgiven.
pub const ACCOUNT_FORGIVE_AFTER: Duration = Duration::from_secs(15 * 60);

/// The time after which one failure from an address is forgiven.
pub const ADDRESS_FORGIVE_AFTER: Duration = Duration::from_secs(60);

/// Most accounts, and most addresses, that throttling remembers.
pub const THROTTLE_ENTRIES_MAX: usize = 100_000;

/// Most verified passwords that are remembered.
pub const VERIFIED_ENTRIES_MAX: usize = 100_000;

/// The time for which a verified password is remembered.
pub const VERIFIED_TTL: Duration = Duration::from_secs(15 * 60);

/// Bytes of the name lookup cache (the original's NLCACHE_SIZE has the same default).
pub const NAME_CACHE_BYTES_DEFAULT: u64 = 16 << 20;

/// Most addresses, aliases and short names that one person or group may have, each.
pub const NAMES_PER_NOTE_MAX: usize = 1_000;

/// Most members that one group lists itself, nested groups counted once.
pub const MEMBERS_PER_GROUP_MAX: usize = base::limits::GROUP_EXPANSION_MAX;

/// Most entries that one page of a list has.
pub const PAGE_ENTRIES_MAX: usize = 10_000;

/// Longest key of the index, in bytes; longer ones are cut.
pub const KEY_TEXT_BYTES_MAX: usize = 1_024;

/// Changed notes that one transaction brings into the index.
pub const CATCH_UP_NOTES_MAX: usize = 10_000;

/// Times that a look-up brings the index up to date because others change the database without this room, before it takes
/// the index as it is.
pub const CATCH_UP_TRIES_MAX: usize = 8;

/// Most groups that one identity may belong to.
pub const GROUPS_PER_IDENTITY_MAX: usize = 10_000;

/// Most aliases of a domain.
pub const ALIASES_PER_DOMAIN_MAX: usize = 1_000;

/// Numbers that are tried to tell mail files of like names apart.
pub const MAIL_FILE_NUMBERS_MAX: u32 = 1_000;

/// Most people that are added in one transaction.
pub const USERS_AT_ONCE_MAX: usize = 1_000;
