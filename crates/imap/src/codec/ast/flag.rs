//! Flags: the five system flags as bits, and keywords as strings.
//!
//! A client cannot set `\Recent`, so it is not among them. Keywords are compared without regard to ASCII case. The
//! spelling that was used first in a database is kept, which the `mail` crate ensures.

/// A system flag (RFC 9051 §2.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SystemFlag {
    /// `\Seen`.
    Seen,
    /// `\Answered`.
    Answered,
    /// `\Flagged`.
    Flagged,
    /// `\Deleted`.
    Deleted,
    /// `\Draft`.
    Draft,
}

impl SystemFlag {
    /// All system flags, in the order in which they are listed to clients.
    pub const ALL: [Self; 5] = [Self::Answered, Self::Flagged, Self::Deleted, Self::Seen, Self::Draft];

    /// Returns the name with its backslash.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Seen => "\\Seen",
            Self::Answered => "\\Answered",
            Self::Flagged => "\\Flagged",
            Self::Deleted => "\\Deleted",
            Self::Draft => "\\Draft",
        }
    }

    /// Returns the flag with this name, which includes the backslash. Case is ignored.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|flag| flag.name().as_bytes().eq_ignore_ascii_case(name))
    }

    fn bit(self) -> u8 {
        match self {
            Self::Seen => 1,
            Self::Answered => 2,
            Self::Flagged => 4,
            Self::Deleted => 8,
            Self::Draft => 16,
        }
    }
}

/// A set of system flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SystemFlags(u8);

impl SystemFlags {
    /// The empty set.
    pub const NONE: Self = Self(0);

    /// Adds a flag.
    pub fn insert(&mut self, flag: SystemFlag) {
        self.0 |= flag.bit();
    }

    /// Returns `true` if the flag is in the set.
    #[must_use]
    pub fn contains(self, flag: SystemFlag) -> bool {
        self.0 & flag.bit() != 0
    }

    /// Returns `true` if the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the flags in the order in which they are listed to clients.
    pub fn iter(self) -> impl Iterator<Item = SystemFlag> {
        SystemFlag::ALL.into_iter().filter(move |flag| self.contains(*flag))
    }
}

/// The flags that a client sets, removes or replaces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FlagList {
    /// The system flags.
    pub system: SystemFlags,
    /// The keywords in the client's spelling, without duplicates.
    pub keywords: Vec<String>,
}

/// The way in which STORE changes the flags of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreAction {
    /// `FLAGS`.
    Replace,
    /// `+FLAGS`.
    Add,
    /// `-FLAGS`.
    Remove,
}
