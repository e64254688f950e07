//! The limits of the Email object.
//!
//! The limits of a message's structure, the number and depth of its parts among them, are those of crate `mail`. A
//! message that exceeds a limit of this module is shown up to the limit. A message that a client composes is refused if
//! it exceeds one.

/// Maximum number of properties, or of body properties, in one request for Email objects.
pub const PROPERTIES_MAX: usize = 1_000;

/// Maximum length of a line of a composed message (RFC 5322 §2.1.1).
pub const LINE_BYTES_MAX: usize = 998;

/// Maximum length of one address, message id or URL in a composed message. It must fit on one line.
pub const UNFOLDABLE_BYTES_MAX: usize = 900;

/// Maximum length of the name of a header field in a composed message.
pub const FIELD_NAME_BYTES_MAX: usize = 255;

/// Maximum length of a file name in a composed message.
pub const FILE_NAME_BYTES_MAX: usize = 1_024;

/// Maximum number of parts of a composed message.
pub const COMPOSED_PARTS_MAX: usize = 1_000;

/// Maximum number of header properties of one part of a composed message.
pub const COMPOSED_FIELDS_MAX: usize = 1_000;

/// Maximum number of violated rules that the refusal of a composed message describes.
pub const PROBLEMS_DESCRIBED_MAX: usize = 10;

/// Maximum depth of the parts of a composed message.
pub const COMPOSED_DEPTH_MAX: usize = 30;

/// Maximum number of bytes of a message's texts that are searched for a snippet.
pub const SNIPPET_SOURCE_BYTES_MAX: usize = 1 << 20;

/// Maximum number of terms that a snippet highlights.
pub const SNIPPET_TERMS_MAX: usize = 100;

/// Maximum number of occurrences of terms that a snippet considers.
pub const SNIPPET_MATCHES_MAX: usize = 10_000;
