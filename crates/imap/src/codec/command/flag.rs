//! Flags: the five system flags as bits, and keywords as strings.
//!
//! A client cannot set `\Recent`, so it is not among them. Keywords are compared without regard to ASCII case. The
//! spelling that was used first in a database is kept, which the `mail` crate ensures.

/// A set of system flags (RFC 9051 §2.3.2), or one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SystemFlags(u8);

// In the order in which the flags are listed to clients.
bitflags::bitflags! {
    impl SystemFlags: u8 {
        /// No flag.
        const NONE = 0;
        /// `\Answered`.
        const ANSWERED = 1;
        /// `\Flagged`.
        const FLAGGED = 2;
        /// `\Deleted`.
        const DELETED = 4;
        /// `\Seen`.
        const SEEN = 8;
        /// `\Draft`.
        const DRAFT = 16;
    }
}

impl SystemFlags {
    const NAMES: [(Self, &'static str); 5] = [
        (Self::ANSWERED, "\\Answered"),
        (Self::FLAGGED, "\\Flagged"),
        (Self::DELETED, "\\Deleted"),
        (Self::SEEN, "\\Seen"),
        (Self::DRAFT, "\\Draft"),
    ];

    /// Returns the names of the flags, with their backslashes.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES.into_iter().filter(move |(flag, _)| self.contains(*flag)).map(|(_, name)| name)
    }

    /// Returns the flag with this name, which includes the backslash. Case is ignored.
    #[must_use]
    pub fn by_name(name: &[u8]) -> Option<Self> {
        Self::NAMES.into_iter().find(|(_, known)| known.as_bytes().eq_ignore_ascii_case(name)).map(|(flag, _)| flag)
    }
}

/// The flags that a client sets, removes or replaces.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RequestedFlags {
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
