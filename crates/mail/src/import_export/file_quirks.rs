//! The properties of a file beside a message's bytes, kept so that the same file can be written again.
//!
//! Most files have the usual form of their format, and nothing is kept. Unusual properties are kept in two items of the
//! message's note, which no protocol shows:
//!
//! | item | contents |
//! |---|---|
//! | `$FileForm` | words: `LF` or `CRLF`, if the file's line ends are not those of its format; the [`MessageTrailer`] in an mbox file |
//! | `$FileSeparator` | the line before the message in an mbox file, if it is not the one that would be generated |
//!
//! Unknown values in these items are ignored. The file is then written in the usual form.

use notes::{Item, item};

use super::line_endings::FileLineEnding;

const FORM_ITEM: &str = "$FileForm";
const SEPARATOR_ITEM: &str = "$FileSeparator";

/// The bytes that follow a message in an mbox file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MessageTrailer {
    /// An empty line.
    #[default]
    Blank,
    /// An empty line that ends with CRLF.
    CrlfBlank,
    /// The next separator, without an empty line.
    Separator,
    /// The end of the file, without an empty line.
    FileEnd,
}

const ENDINGS: [(MessageTrailer, &str); 3] = [
    (MessageTrailer::CrlfBlank, "crlf-blank"),
    (MessageTrailer::Separator, "separator"),
    (MessageTrailer::FileEnd, "end"),
];

/// The unusual properties of a message's file.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FileQuirks {
    /// The line ends, if they are not those of the format.
    pub line_ends: Option<FileLineEnding>,
    /// The bytes that followed the message in an mbox file.
    pub ending: MessageTrailer,
    /// The separator before the message in an mbox file, without the last LF, if it is not the one that would be
    /// generated.
    pub separator: Option<String>,
}

impl FileQuirks {
    /// Returns the items that keep the properties. The usual form needs no items.
    pub(crate) fn items(&self) -> Vec<Item> {
        let mut words: Vec<&str> = self.line_ends.iter().map(|ends| ends.name()).collect();
        words.extend(ENDINGS.iter().filter(|(ending, _)| *ending == self.ending).map(|(_, word)| word));
        let mut items = Vec::new();
        if !words.is_empty() {
            items.push(Item::text(FORM_ITEM, words.join(" ")));
        }
        items.extend(self.separator.as_ref().map(|line| Item::text(SEPARATOR_ITEM, line)));
        items
    }

    /// Reads the properties from the items of a note.
    pub(crate) fn from_items(items: &[Item]) -> Self {
        let text = |name| item::find_item(items, name).and_then(|item| item.value.text());
        let mut form = Self { separator: text(SEPARATOR_ITEM).map(str::to_owned), ..Self::default() };
        for word in text(FORM_ITEM).unwrap_or_default().split(' ') {
            if let Some((ending, _)) = ENDINGS.iter().find(|(_, known)| *known == word) {
                form.ending = *ending;
            } else if let Some(ends) = FileLineEnding::from_name(word) {
                form.line_ends = Some(ends);
            }
        }
        form
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unusual_properties_are_stored() {
        assert!(FileQuirks::default().items().is_empty());
        let form = FileQuirks {
            line_ends: Some(FileLineEnding::Crlf),
            ending: MessageTrailer::FileEnd,
            separator: Some("From - Sat Jan  3 01:05:34 2026\r".into()),
        };
        assert_eq!(FileQuirks::from_items(&form.items()), form);
        assert_eq!(FileQuirks::from_items(&[Item::text(FORM_ITEM, "odd LF")]).line_ends, Some(FileLineEnding::Lf));
    }
}
