//! Attributes and sections that FETCH can request.
//!
//! The decoder expands the macros ALL, FAST and FULL. `RFC822`, `RFC822.HEADER` and `RFC822.TEXT` stay separate from
//! the equivalent `BODY[]` forms, because the response repeats the name that the client used.

/// A message attribute (RFC 9051 §6.4.5 and extensions).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FetchAttribute {
    /// BINARY[...]: a part without its transfer encoding.
    Binary {
        /// The part. Empty for the whole message.
        part: PartPath,
        /// The range of octets.
        partial: Option<Partial>,
        /// `true` if `\Seen` stays unchanged.
        peek: bool,
    },
    /// BINARY.SIZE[...].
    BinarySize(PartPath),
    /// BODY: the structure without extension data.
    Body,
    /// BODY[...].
    BodySection {
        /// The section.
        section: SectionSpec,
        /// The range of octets.
        partial: Option<Partial>,
        /// `true` if `\Seen` stays unchanged.
        peek: bool,
    },
    /// BODYSTRUCTURE.
    BodyStructure,
    /// EMAILID (RFC 8474).
    EmailId,
    /// ENVELOPE.
    Envelope,
    /// FLAGS.
    Flags,
    /// INTERNALDATE.
    InternalDate,
    /// MODSEQ (RFC 7162).
    ModSeq,
    /// PREVIEW (RFC 8970).
    Preview {
        /// `true` if the client can do without a preview that would first have to be generated (LAZY).
        lazy: bool,
    },
    /// RFC822.
    Rfc822,
    /// RFC822.HEADER.
    Rfc822Header,
    /// RFC822.SIZE.
    Rfc822Size,
    /// RFC822.TEXT.
    Rfc822Text,
    /// SAVEDATE (RFC 8514).
    SaveDate,
    /// THREADID (RFC 8474).
    ThreadId,
    /// UID.
    Uid,
}

impl FetchAttribute {
    /// Returns `true` if fetching this attribute sets `\Seen`.
    #[must_use]
    pub fn marks_seen(&self) -> bool {
        match self {
            Self::Binary { peek, .. } | Self::BodySection { peek, .. } => !peek,
            Self::Rfc822 | Self::Rfc822Text => true,
            _ => false,
        }
    }

    /// Returns `true` if the folder's entry alone answers this attribute, without reading the message.
    #[must_use]
    pub fn needs_entry_only(&self) -> bool {
        matches!(self, Self::Flags | Self::InternalDate | Self::ModSeq | Self::Rfc822Size | Self::SaveDate | Self::Uid)
    }

    /// Returns `true` if this attribute is answered without reading the body of the message.
    #[must_use]
    pub fn needs_no_body(&self) -> bool {
        match self {
            Self::Body | Self::BodyStructure | Self::EmailId | Self::Envelope | Self::Rfc822Header | Self::ThreadId => {
                true
            }
            Self::BodySection { section, .. } => section.is_of_message_header(),
            _ => self.needs_entry_only(),
        }
    }
}

/// The numbers that lead to a part, such as `1.2.3`. Empty for the message itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartPath(pub Vec<u32>);

/// The content of the brackets in `BODY[...]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SectionSpec {
    /// The part.
    pub part: PartPath,
    /// The portion of that part.
    pub text: SectionText,
}

impl SectionSpec {
    /// Returns `true` if the section is the header of the message itself, or fields of it.
    #[must_use]
    pub fn is_of_message_header(&self) -> bool {
        let of_header =
            matches!(self.text, SectionText::Header | SectionText::HeaderFields(_) | SectionText::HeaderFieldsNot(_));
        of_header && self.part.0.is_empty()
    }
}

/// The requested portion of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SectionText {
    /// The whole part: `BODY[]`, `BODY[1]`.
    Whole,
    /// HEADER.
    Header,
    /// HEADER.FIELDS with the field names as written.
    HeaderFields(Vec<String>),
    /// HEADER.FIELDS.NOT with the field names as written.
    HeaderFieldsNot(Vec<String>),
    /// TEXT.
    Text,
    /// MIME. Valid only with a part.
    Mime,
}

/// The range `<start.length>` after a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partial {
    /// Offset of the first octet.
    pub start: u64,
    /// Maximum number of octets. Never zero.
    pub length: u64,
}
