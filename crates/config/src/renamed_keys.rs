//! Keys that have a new name.
//!
//! The old name of a key works for two releases, with a warning that names the new one. Only the names of the table
//! below do; every other unknown name is an error. A test demands that an entry is removed after its two releases.

use super::Problem;
use super::raw::RawConfig;

/// A key that has a new name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RenamedKey {
    /// The old name, with its section.
    pub old: &'static str,
    /// The name that it has now.
    pub new: &'static str,
    /// Minor version of the first release with the new name: 2 for release 0.2.
    pub since_minor: u32,
}

/// Number of releases in which the old name of a key works.
const RELEASES: u32 = 2;

/// All renamed keys whose old names still work.
pub const RENAMED: &[RenamedKey] =
    &[RenamedKey { old: "native.database_makers", new: "native.database_creators", since_minor: 1 }];

impl RenamedKey {
    /// Returns the minor version of the first release in which the old name is an error.
    #[must_use]
    pub fn until_minor(&self) -> u32 {
        self.since_minor + RELEASES
    }
}

/// The result of replacing old names.
#[derive(Debug, Default)]
pub(super) struct RenameReport {
    /// One warning for each old name.
    pub(super) warnings: Vec<Problem>,
    /// One problem for each key with both names.
    pub(super) problems: Vec<Problem>,
}

/// Replaces the old names of keys in one source by the new ones.
pub(super) fn rename_keys(raw: &mut RawConfig, renamed: &[RenamedKey]) -> RenameReport {
    let mut report = RenameReport::default();
    for key in renamed {
        let Some(value) = raw.remove(key.old) else { continue };
        let line = value.source.line();
        let problem = |text| Problem { key: key.old.to_owned(), line, text };
        if raw.contains_key(key.new) {
            report.problems.push(problem(format!("this key is now {}, which is set too; remove one of them", key.new)));
            continue;
        }
        let text = format!("this key is now {}; the old name works until release 0.{}", key.new, key.until_minor());
        report.warnings.push(problem(text));
        raw.insert(key.new.to_owned(), value);
    }
    report
}

#[cfg(test)]
mod tests {
    use super::super::{KEYS, raw};
    use super::*;

    const MOVED: &[RenamedKey] = &[
        RenamedKey { old: "mail.size", new: "limits.message_size", since_minor: 4 },
        RenamedKey { old: "imap.idle", new: "imap.idle_timeout", since_minor: 5 },
    ];

    fn check(text: &str, keys: &[&str], warnings: &[&str], problems: &[&str]) {
        let mut read = raw::parse(text).expect("TOML");
        let report = rename_keys(&mut read.raw, MOVED);
        let texts = |problems: &[Problem]| problems.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(read.raw.keys().collect::<Vec<_>>(), keys, "{text}");
        assert_eq!(texts(&report.warnings), warnings, "{text}");
        assert_eq!(texts(&report.problems), problems, "{text}");
    }

    #[test]
    fn an_old_name_works_with_a_warning() {
        check("[imap]\nidle_timeout = 1\n", &["imap.idle_timeout"], &[], &[]);
        check(
            "[imap]\nidle = 1\n[mail]\nsize = 2\n",
            &["imap.idle_timeout", "limits.message_size"],
            &[
                "line 4: mail.size: this key is now limits.message_size; the old name works until release 0.6",
                "line 2: imap.idle: this key is now imap.idle_timeout; the old name works until release 0.7",
            ],
            &[],
        );
        check(
            "[imap]\nidle = 1\nidle_timeout = 2\n",
            &["imap.idle_timeout"],
            &[],
            &["line 2: imap.idle: this key is now imap.idle_timeout, which is set too; remove one of them"],
        );
    }

    #[test]
    fn renamed_keys_exist_and_are_removed_after_two_releases() {
        let minor: u32 = env!("CARGO_PKG_VERSION_MINOR").parse().expect("a number");
        for key in RENAMED {
            assert!(KEYS.iter().any(|known| known.name == key.new), "{} is a key", key.new);
            assert!(KEYS.iter().all(|known| known.name != key.old), "{} is no key", key.old);
            assert!(key.since_minor <= minor + 1, "{}: the next release is 0.{}", key.old, minor + 1);
            assert!(minor < key.until_minor(), "{}: remove this entry, its two releases are over", key.old);
        }
    }
}
