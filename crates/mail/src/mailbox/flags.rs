//! Flags of messages by name: the system flags and the keywords of RFC 9051 §2.3.2.

use notes::Marks;

/// The flags of a message.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Flags {
    /// The system flags.
    pub marks: Marks,
    /// The keywords, such as `$Forwarded`, each once.
    pub keywords: Vec<String>,
}

impl Flags {
    /// Returns an empty set of flags.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates flags from system flags, without keywords.
    #[must_use]
    pub fn from_system_flags(marks: Marks) -> Self {
        Self { marks, keywords: Vec::new() }
    }

    /// Adds a flag by its IMAP name. `\Recent` and unknown system flags are ignored.
    pub fn add(&mut self, name: &str) {
        if let Some(mark) = system_flag(name) {
            self.marks = self.marks.union(mark);
        } else if !name.starts_with('\\') && !self.has_keyword(name) {
            self.keywords.push(name.to_owned());
        }
    }

    /// Returns `true` if the keyword is among the flags, ignoring case.
    #[must_use]
    pub fn has_keyword(&self, name: &str) -> bool {
        self.keywords.iter().any(|known| known.eq_ignore_ascii_case(name))
    }
}

impl<'a> FromIterator<&'a str> for Flags {
    fn from_iter<T: IntoIterator<Item = &'a str>>(names: T) -> Self {
        let mut flags = Self::none();
        names.into_iter().for_each(|name| flags.add(name));
        flags
    }
}

const MARKS: [(&str, Marks); 5] = [
    ("\\Answered", Marks::ANSWERED),
    ("\\Flagged", Marks::FLAGGED),
    ("\\Deleted", Marks::DELETED),
    ("\\Seen", Marks::SEEN),
    ("\\Draft", Marks::DRAFT),
];

/// Returns the system flag with a name such as `\Seen`.
#[must_use]
pub fn system_flag(name: &str) -> Option<Marks> {
    MARKS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, mark)| *mark)
}

/// Returns the names of the system flags that are set.
pub fn system_flag_names(marks: Marks) -> impl Iterator<Item = &'static str> {
    MARKS.into_iter().filter(move |(_, mark)| marks.contains(*mark)).map(|(name, _)| name)
}

/// A change of the flags of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FlagChange {
    /// Sets these flags. The others stay.
    Add(Flags),
    /// Clears these flags. The others stay.
    Remove(Flags),
    /// Sets these flags and clears the others.
    Replace(Flags),
}

impl FlagChange {
    /// Returns the flags after the change.
    #[must_use]
    pub fn apply(&self, old: &Flags) -> Flags {
        match self {
            Self::Replace(flags) => flags.clone(),
            Self::Add(more) => {
                let mut flags = old.clone();
                flags.marks = flags.marks.union(more.marks);
                more.keywords.iter().for_each(|keyword| flags.add(keyword));
                flags
            }
            Self::Remove(less) => Flags {
                marks: old.marks.difference(less.marks),
                keywords: old.keywords.iter().filter(|keyword| !less.has_keyword(keyword)).cloned().collect(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_apply_to_flags_and_keywords() {
        let check = |change: FlagChange, old: &[&str], expected: &[&str]| {
            let old: Flags = old.iter().copied().collect();
            assert_eq!(change.apply(&old), expected.iter().copied().collect(), "{change:?}");
        };
        let flags = |names: &[&str]| names.iter().copied().collect::<Flags>();
        check(FlagChange::Add(flags(&["\\seen", "A"])), &["\\Draft", "a"], &["\\Draft", "\\Seen", "a"]);
        check(FlagChange::Remove(flags(&["\\Seen", "B"])), &["\\Seen", "a", "b"], &["a"]);
        check(FlagChange::Replace(flags(&["\\Flagged"])), &["\\Seen", "a"], &["\\Flagged"]);
    }

    #[test]
    fn unknown_system_flags_are_left_out() {
        assert_eq!(["\\Recent", "\\Nonsense"].into_iter().collect::<Flags>(), Flags::none());
    }
}
