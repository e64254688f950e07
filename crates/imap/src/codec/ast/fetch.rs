//! What FETCH can ask of a message.
//!
//! The macros ALL, FAST and FULL are expanded by the decoder. `RFC822`, `RFC822.HEADER` and `RFC822.TEXT` stay
//! apart from the `BODY[]` forms that mean the same, because the answer repeats the client's word.

/// One attribute of a message (RFC 9051 §6.4.5 and extensions).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchAttribute {
    /// BINARY[...]: a part without its transfer encoding
    Binary {
        /// Which part; empty for the whole message.
        part: PartPath,
        /// Which octets of it.
        partial: Option<Partial>,
        /// Whether `\Seen` stays untouched.
        peek: bool,
    },
    /// BINARY.SIZE[...]
    BinarySize(PartPath),
    /// BODY: the structure without extension data
    Body,
    /// BODY[...]
    BodySection {
        /// Which part.
        section: Section,
        /// Which octets of it.
        partial: Option<Partial>,
        /// Whether `\Seen` stays untouched.
        peek: bool,
    },
    /// BODYSTRUCTURE
    BodyStructure,
    /// EMAILID (RFC 8474)
    EmailId,
    /// ENVELOPE
    Envelope,
    /// FLAGS
    Flags,
    /// INTERNALDATE
    InternalDate,
    /// MODSEQ (RFC 7162)
    ModSeq,
    /// PREVIEW (RFC 8970)
    Preview {
        /// Whether the client can do without one that must first be made.
        lazy: bool,
    },
    /// RFC822
    Rfc822,
    /// RFC822.HEADER
    Rfc822Header,
    /// RFC822.SIZE
    Rfc822Size,
    /// RFC822.TEXT
    Rfc822Text,
    /// SAVEDATE (RFC 8514)
    SaveDate,
    /// THREADID (RFC 8474)
    ThreadId,
    /// UID
    Uid,
}

impl FetchAttribute {
    /// Whether fetching this sets `\Seen`.
    #[must_use]
    pub fn marks_seen(&self) -> bool {
        match self {
            Self::Binary { peek, .. } | Self::BodySection { peek, .. } => !peek,
            Self::Rfc822 | Self::Rfc822Text => true,
            _ => false,
        }
    }

    /// Whether this can be answered from the folder's entry alone, without reading the message.
    #[must_use]
    pub fn needs_entry_only(&self) -> bool {
        matches!(self, Self::Flags | Self::InternalDate | Self::ModSeq | Self::Rfc822Size | Self::SaveDate | Self::Uid)
    }
}

/// The numbers that lead to a part: `1.2.3`. Empty means the message itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartPath(pub Vec<u32>);

/// What stands in the brackets of `BODY[...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Which part.
    pub part: PartPath,
    /// What of that part.
    pub text: SectionText,
}

/// What of a part is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SectionText {
    /// All of it: `BODY[]`, `BODY[1]`.
    Whole,
    /// HEADER
    Header,
    /// HEADER.FIELDS with the names as written
    HeaderFields(Vec<String>),
    /// HEADER.FIELDS.NOT with the names as written
    HeaderFieldsNot(Vec<String>),
    /// TEXT
    Text,
    /// MIME; only with a part
    Mime,
}

/// `<start.length>` after a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partial {
    /// The first octet.
    pub start: u64,
    /// How many octets at most; never zero.
    pub length: u64,
}
