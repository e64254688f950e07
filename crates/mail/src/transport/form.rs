//! What a file had beside a message's bytes, so that the same file can be written again.
//!
//! Most files are as their format usually is and have nothing to keep. What is unusual goes into two items of the message's note,
//! which no protocol shows:
//!
//! | item | what it holds |
//! |---|---|
//! | `$FileForm` | words: `LF` or `CRLF`, when the file's line ends are not those of its format; the [`Ending`] in an mbox file |
//! | `$FileSeparator` | the line before the message in an mbox file, when it is not the one that would be made |
//!
//! Items that say something unknown are passed over: the file is then written in the usual form.

use notes::{Item, item};

use super::line_ends::LineEnds;

const FORM_ITEM: &str = "$FileForm";
const SEPARATOR_ITEM: &str = "$FileSeparator";

/// What follows a message in an mbox file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Ending {
    /// An empty line.
    #[default]
    Blank,
    /// An empty line that ends with CRLF.
    CrlfBlank,
    /// The next separator, at once.
    Separator,
    /// The end of the file, at once.
    FileEnd,
}

const ENDINGS: [(Ending, &str); 3] =
    [(Ending::CrlfBlank, "crlf-blank"), (Ending::Separator, "separator"), (Ending::FileEnd, "end")];

/// How a message stood in its file, as far as that was unusual.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct FileForm {
    /// Its line ends, when they are not those of the format.
    pub line_ends: Option<LineEnds>,
    /// What followed it in an mbox file.
    pub ending: Ending,
    /// The separator before it in an mbox file, without the last LF, when it is not the one that would be made.
    pub separator: Option<String>,
}

impl FileForm {
    /// Gives the items that keep it; none for what is usual.
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

    /// Reads the items of a note.
    pub(crate) fn of(items: &[Item]) -> Self {
        let text = |name| item::find(items, name).and_then(|item| item.value.text());
        let mut form = Self { separator: text(SEPARATOR_ITEM).map(str::to_owned), ..Self::default() };
        for word in text(FORM_ITEM).unwrap_or_default().split(' ') {
            if let Some((ending, _)) = ENDINGS.iter().find(|(_, known)| *known == word) {
                form.ending = *ending;
            } else if let Some(ends) = LineEnds::from_name(word) {
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
    fn what_is_unusual_is_kept_and_nothing_else() {
        assert!(FileForm::default().items().is_empty());
        let form = FileForm {
            line_ends: Some(LineEnds::Crlf),
            ending: Ending::FileEnd,
            separator: Some("From - Sat Jan  3 01:05:34 2026\r".into()),
        };
        assert_eq!(FileForm::of(&form.items()), form);
        assert_eq!(FileForm::of(&[Item::text(FORM_ITEM, "odd LF")]).line_ends, Some(LineEnds::Lf));
    }
}
