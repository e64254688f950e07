//! What Maildir tells in file and folder names.
//!
//! A message is a file in `cur` (or `new`, unseen) of its folder, its flags the letters after `:2,`; folders below the inbox
//! are directories `.Work.2026` (Maildir++) beside `cur`.

use base::Timestamp;
use notes::Marks;

use crate::mailbox::Flags;

const LETTERS: [(char, Marks); 5] =
    [('D', Marks::DRAFT), ('F', Marks::FLAGGED), ('R', Marks::ANSWERED), ('S', Marks::SEEN), ('T', Marks::DELETED)];

/// Reads the flags of a file name such as `1700000000.M1P2.host:2,FS`.
#[must_use]
pub fn flags_of(file_name: &str) -> Flags {
    let letters = file_name.rsplit_once(":2,").map_or("", |(_, letters)| letters);
    let marks = LETTERS.iter().filter(|(letter, _)| letters.contains(*letter));
    let mut flags = Flags::of(marks.fold(Marks::NONE, |all, (_, mark)| all.with(*mark)));
    if letters.contains('P') {
        flags.add("$Forwarded");
    }
    flags
}

/// Gives the time at the start of a file name, if there is one.
#[must_use]
pub fn time_of(file_name: &str) -> Option<Timestamp> {
    let seconds: i64 = file_name.split('.').next()?.parse().ok()?;
    (seconds > 0).then(|| Timestamp::from_seconds(seconds))
}

/// Makes a file name from time, a number that is unique in the folder, the length and the flags.
#[must_use]
pub fn file_name(received: Timestamp, unique: u64, length: usize, flags: &Flags) -> String {
    let mut letters: String =
        LETTERS.iter().filter(|(_, mark)| flags.marks.has(*mark)).map(|(letter, _)| *letter).collect();
    if flags.has_keyword("$Forwarded") {
        let place = letters.find(|letter| letter > 'P').unwrap_or(letters.len());
        letters.insert(place, 'P');
    }
    format!("{}.M{}Q{unique}.doublet,S={length}:2,{letters}", received.seconds(), received.0.rem_euclid(1_000_000))
}

/// Gives the mailbox of a Maildir++ directory: `.Work.2026` is `Work/2026`; the top is the inbox.
#[must_use]
pub fn mailbox_of(directory: &str) -> String {
    match directory.strip_prefix('.') {
        Some(name) if !name.is_empty() => name.replace('/', "_").replace('.', "/"),
        _ => "INBOX".into(),
    }
}

/// Gives the Maildir++ directory of a mailbox; the inbox is the top, an empty name. Dots within a level become `_`.
#[must_use]
pub fn directory_of(mailbox: &str) -> String {
    if mailbox == "INBOX" { String::new() } else { format!(".{}", mailbox.replace('.', "_").replace('/', ".")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_times_read_back() {
        let flags: Flags = ["\\Seen", "\\Flagged", "$Forwarded"].into_iter().collect();
        let name = file_name(Timestamp::from_seconds(1_700_000_000), 7, 123, &flags);
        assert_eq!(name, "1700000000.M0Q7.doublet,S=123:2,FPS");
        assert_eq!((flags_of(&name), time_of(&name)), (flags, Some(Timestamp::from_seconds(1_700_000_000))));
        assert_eq!((flags_of("odd"), time_of("odd")), (Flags::none(), None));
    }

    #[test]
    fn folders_are_named_both_ways() {
        assert_eq!(
            (mailbox_of(".Work.2026"), mailbox_of(""), mailbox_of(".")),
            ("Work/2026".into(), "INBOX".into(), "INBOX".into())
        );
        assert_eq!((directory_of("Work/2026"), directory_of("INBOX")), (".Work.2026".into(), String::new()));
    }
}
