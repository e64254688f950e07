//! Short texts of message structures. Frequent texts take no memory and few bytes when stored.
//!
//! The numbers of the words are part of the stored format: words are added at the end and are never removed.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

/// A short text as it stands in the message. It consists of bytes, because mail may contain any bytes.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct InternedText(Cow<'static, [u8]>);

impl InternedText {
    /// Creates a text.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        match number_of(bytes) {
            Some(number) => Self(Cow::Borrowed(WORDS[usize::from(number)])),
            None => Self(Cow::Owned(bytes.to_vec())),
        }
    }

    /// Returns the number under which a frequent word is stored. Returns `None` for other texts.
    #[must_use]
    pub(crate) fn number(&self) -> Option<u8> {
        number_of(&self.0)
    }

    /// Returns the word with this number.
    #[must_use]
    pub(crate) fn from_number(number: u64) -> Option<Self> {
        let word = WORDS.get(usize::try_from(number).ok()?)?;
        Some(Self(Cow::Borrowed(word)))
    }
}

impl Deref for InternedText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for InternedText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(&self.0))
    }
}

/// Defines the table of words and the lookup of their numbers.
macro_rules! words {
    ($($number:literal $word:literal,)*) => {
        const WORDS: &[&[u8]] = &[$($word,)*];

        fn number_of(bytes: &[u8]) -> Option<u8> {
            match bytes {
                $($word => Some($number),)*
                _ => None,
            }
        }

        #[cfg(test)]
        const NUMBERS: &[u8] = &[$($number,)*];
    };
}

words! {
    0 b"text", 1 b"plain", 2 b"html", 3 b"multipart", 4 b"mixed", 5 b"alternative", 6 b"related", 7 b"application",
    8 b"octet-stream", 9 b"image", 10 b"png", 11 b"jpeg", 12 b"gif", 13 b"message", 14 b"rfc822", 15 b"pdf",
    16 b"charset", 17 b"boundary", 18 b"name", 19 b"filename", 20 b"format", 21 b"flowed", 22 b"delsp", 23 b"yes",
    24 b"utf-8", 25 b"UTF-8", 26 b"us-ascii", 27 b"US-ASCII", 28 b"iso-8859-1", 29 b"ISO-8859-1", 30 b"windows-1252",
    31 b"attachment", 32 b"inline", 33 b"size", 34 b"type", 35 b"protocol", 36 b"micalg", 37 b"report-type",
    38 b"report", 39 b"signed", 40 b"encrypted", 41 b"digest", 42 b"delivery-status", 43 b"disposition-notification",
    44 b"rfc822-headers", 45 b"calendar", 46 b"method", 47 b"zip", 48 b"msword", 49 b"pgp-signature",
    50 b"pkcs7-signature", 51 b"x-pkcs7-signature", 52 b"pkcs7-mime", 53 b"ms-tnef", 54 b"csv", 55 b"xml", 56 b"json",
    57 b"audio", 58 b"video", 59 b"x-unix-mode", 60 b"creation-date", 61 b"modification-date", 62 b"read-date",
    63 b"filename*", 64 b"global", 65 b"fixed", 66 b"TEXT", 67 b"PLAIN", 68 b"start", 69 b"utf8",
    70 b"vnd.openxmlformats-officedocument.wordprocessingml.document",
    71 b"vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    72 b"vnd.openxmlformats-officedocument.presentationml.presentation",
    73 b"vnd.ms-excel", 74 b"vnd.ms-powerpoint", 75 b"x-zip-compressed", 76 b"rtf", 77 b"svg+xml", 78 b"en",
    79 b"en-US", 80 b"text/html", 81 b"text/plain", 82 b"multipart/alternative", 83 b"sha-256", 84 b"pgp-sha256",
    85 b"delivery-notification", 86 b"ics", 87 b"REQUEST", 88 b"1",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_numbered_by_their_index() {
        for (index, (word, number)) in WORDS.iter().zip(NUMBERS).enumerate() {
            assert_eq!(usize::from(*number), index);
            assert_eq!(number_of(word), Some(*number));
            assert_eq!(InternedText::from_number(index as u64), Some(InternedText::new(word)));
        }
        assert_eq!(InternedText::from_number(WORDS.len() as u64), None);
        assert_eq!(InternedText::new(b"unheard-of").number(), None);
    }
}
