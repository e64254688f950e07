//! The information in the file and folder names of a Maildir.
//!
//! A message is a file in `cur` of its folder, or in `new` if it is unseen. Its flags are the letters after `:2,`. The
//! letters `a` to `z` are keywords, which the folder's file `dovecot-keywords` names. Folders below the inbox are
//! directories such as `.Work.2026` (Maildir++) beside `cur`. Their names are in modified UTF-7. A dot within a level
//! is written as `\2e`, like in Dovecot's plugin `listescape`.
//!
//! The size of the file is in its name as `S=`. `W=` is the size with the line ends of the wire. It is written if it
//! equals the size of the file although the message has lines. It then means that the message has LFs alone on the wire
//! too.

use base::Timestamp;
use notes::Marks;

use crate::import_export::status;
use crate::mailbox::{Flags, utf7};

/// Name of the file with the keywords of a folder.
pub const KEYWORDS_FILE: &str = "dovecot-keywords";

/// Maximum number of keywords that have letters in a folder.
const KEYWORDS_MAX: usize = 26;

const LETTERS: [(char, Marks); 5] =
    [('D', Marks::DRAFT), ('F', Marks::FLAGGED), ('R', Marks::ANSWERED), ('S', Marks::SEEN), ('T', Marks::DELETED)];

/// The keyword that has the same letter in every folder.
const FORWARDED: (char, &str) = ('P', "$Forwarded");

/// The keywords of one folder, by their letters.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct KeywordTable {
    names: Vec<String>,
}

impl KeywordTable {
    /// Parses the file [`KEYWORDS_FILE`]: lines of a number, counted from 0, and a name. Invalid lines are skipped.
    #[must_use]
    pub fn read(text: &str) -> Self {
        let mut names = vec![String::new(); KEYWORDS_MAX];
        for line in text.lines() {
            let Some((number, name)) = line.split_once(' ') else { continue };
            let place = number.parse::<usize>().ok().and_then(|number| names.get_mut(number));
            place.into_iter().for_each(|place| name.trim().clone_into(place));
        }
        Self { names }
    }

    /// Returns the content of the file, or `None` if there are no keywords.
    #[must_use]
    pub fn to_file(&self) -> Option<String> {
        let lines = self.names.iter().enumerate().map(|(number, name)| format!("{number} {name}\n"));
        (!self.names.is_empty()).then(|| lines.collect())
    }

    /// Returns the letter of a keyword, and assigns one if necessary. Returns `None` if all letters are taken.
    fn letter(&mut self, keyword: &str) -> Option<char> {
        let known = self.names.iter().position(|name| name.eq_ignore_ascii_case(keyword));
        let number = known.unwrap_or(self.names.len());
        if number >= KEYWORDS_MAX {
            return None;
        }
        if known.is_none() {
            self.names.push(keyword.to_owned());
        }
        u8::try_from(number).ok().map(|number| char::from(b'a' + number))
    }

    fn name(&self, letter: char) -> Option<&str> {
        let number = u32::from(letter).checked_sub(u32::from('a'))?;
        self.names.get(usize::try_from(number).ok()?).map(String::as_str).filter(|name| !name.is_empty())
    }
}

/// Returns the permanent name of a message in the Maildir: its file name without the flags, which change.
#[must_use]
pub fn unique_name(file_name: &str) -> &str {
    split_flags(file_name).0
}

/// Parses the flags of a file name such as `1700000000.M1P2.host:2,FSa`.
#[must_use]
pub fn flags_of(file_name: &str, keywords: &KeywordTable) -> Flags {
    let letters = split_flags(file_name).1;
    let marks = LETTERS.iter().filter(|(letter, _)| letters.contains(*letter));
    let mut flags = Flags::from_system_flags(marks.fold(Marks::NONE, |all, (_, mark)| all.union(*mark)));
    for letter in letters.chars() {
        let name = if letter == FORWARDED.0 { Some(FORWARDED.1) } else { keywords.name(letter) };
        name.into_iter().for_each(|name| status::add(&mut flags, name));
    }
    flags
}

/// Returns the time at the start of a file name, if there is one.
#[must_use]
pub fn time_of(file_name: &str) -> Option<Timestamp> {
    let seconds: i64 = file_name.split('.').next()?.parse().ok()?;
    (seconds > 0).then(|| Timestamp::from_seconds(seconds))
}

/// Returns `true` if the name of a file of this size marks its bytes as those on the wire, whatever their line ends.
#[must_use]
pub fn is_marked_as_wire(file_name: &str, size: usize) -> bool {
    unique_name(file_name).split(',').any(|field| field.strip_prefix("W=").is_some_and(|text| text.parse() == Ok(size)))
}

/// The information in the name of a message's file.
#[derive(Clone, Copy, Debug)]
pub struct MessageFileName<'a> {
    /// The time of receipt.
    pub received: Timestamp,
    /// A number that is unique in the folder.
    pub unique: u64,
    /// The size of the file.
    pub size: usize,
    /// `true` if the lines of the message end with LF on the wire too.
    pub has_wire_line_ends: bool,
    /// The flags of the message.
    pub flags: &'a Flags,
}

impl MessageFileName<'_> {
    /// Returns the file name and the number of keywords that did not fit into it.
    #[must_use]
    pub fn file_name(&self, keywords: &mut KeywordTable) -> (String, usize) {
        let mut letters: Vec<char> =
            LETTERS.iter().filter(|(_, mark)| self.flags.marks.contains(*mark)).map(|(letter, _)| *letter).collect();
        let mut left_out = 0;
        for name in &self.flags.keywords {
            let forwarded = name.eq_ignore_ascii_case(FORWARDED.1).then_some(FORWARDED.0);
            match forwarded.or_else(|| keywords.letter(name)) {
                Some(letter) => letters.push(letter),
                None => left_out += 1,
            }
        }
        letters.sort_unstable();
        let seconds = self.received.seconds();
        let micros = self.received.0.rem_euclid(1_000_000);
        let wire_size = if self.has_wire_line_ends { format!(",W={}", self.size) } else { String::new() };
        let letters: String = letters.into_iter().collect();
        // The zeros keep the order of messages that arrived within the same second.
        let stamp = format!("{seconds}.M{micros:06}Q{:08}", self.unique);
        (format!("{stamp}.doublet,S={}{wire_size}:2,{letters}", self.size), left_out)
    }
}

/// Returns the mailbox of a Maildir++ directory: `.Work.2026` is `Work/2026`, and the top directory is the inbox.
#[must_use]
pub fn mailbox_of(directory: &str) -> String {
    match directory.strip_prefix('.') {
        Some(name) if !name.is_empty() => {
            let name = utf7::decode(name.as_bytes()).unwrap_or_else(|| name.to_owned());
            let levels: Vec<String> = name.split('.').map(|level| unescape_level(&level.replace('/', "_"))).collect();
            levels.join("/")
        }
        _ => "INBOX".into(),
    }
}

/// Returns the Maildir++ directory of a mailbox. The directory of the inbox is the top directory, an empty name.
#[must_use]
pub fn directory_of(mailbox: &str) -> String {
    if mailbox == "INBOX" {
        return String::new();
    }
    let levels: Vec<String> =
        mailbox.split('/').map(|level| utf7::encode(&level.replace('\\', "\\5c").replace('.', "\\2e"))).collect();
    format!(".{}", levels.join("."))
}

fn unescape_level(level: &str) -> String {
    level.replace("\\2e", ".").replace("\\2E", ".").replace("\\5c", "\\").replace("\\5C", "\\")
}

/// Splits a file name into its permanent part and the letters of its flags. Where `:` is not allowed, programs write
/// `!` or `;`.
fn split_flags(file_name: &str) -> (&str, &str) {
    [":2,", "!2,", ";2,"].iter().find_map(|sign| file_name.rsplit_once(sign)).unwrap_or((file_name, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_times_read_back() {
        let flags: Flags = ["\\Seen", "\\Flagged", "$Forwarded", "Work", "Later"].into_iter().collect();
        let received = Timestamp::from_seconds(1_700_000_000);
        let mut letters = KeywordTable::default();
        let letter = MessageFileName { received, unique: 7, size: 123, has_wire_line_ends: false, flags: &flags };
        let (name, left_out) = letter.file_name(&mut letters);
        assert_eq!((name.as_str(), left_out), ("1700000000.M000000Q00000007.doublet,S=123:2,FPSab", 0));
        let read = KeywordTable::read(&letters.to_file().expect("there are keywords"));
        assert_eq!((flags_of(&name, &read), time_of(&name)), (flags, Some(received)));
        assert_eq!((flags_of("odd", &read), time_of("odd")), (Flags::none(), None));
        assert_eq!(unique_name(&name), unique_name("1700000000.M000000Q00000007.doublet,S=123"));
        assert!(!is_marked_as_wire(&name, 123));
    }

    #[test]
    fn file_name_marks_wire_line_ends() {
        let letter = MessageFileName {
            received: Timestamp(5_000_001),
            unique: 1,
            size: 9,
            has_wire_line_ends: true,
            flags: &Flags::none(),
        };
        let (name, _) = letter.file_name(&mut KeywordTable::default());
        assert_eq!(name, "5.M000001Q00000001.doublet,S=9,W=9:2,");
        assert!(is_marked_as_wire(&name, 9) && !is_marked_as_wire(&name, 8));
    }

    #[test]
    fn only_26_keywords_get_letters() {
        let flags: Flags =
            (0..30).map(|number| format!("k{number}")).collect::<Vec<_>>().iter().map(String::as_str).collect();
        let letter =
            MessageFileName { received: Timestamp(0), unique: 1, size: 0, has_wire_line_ends: false, flags: &flags };
        let mut letters = KeywordTable::default();
        let (name, left_out) = letter.file_name(&mut letters);
        assert!(name.ends_with(":2,abcdefghijklmnopqrstuvwxyz"), "{name}");
        assert_eq!(left_out, 4);
        let odd = KeywordTable::read("0 Good\n1 b(ad\nx y\n\n99 Far\n3 \n");
        assert_eq!(flags_of("a:2,abdz", &odd), ["Good"].into_iter().collect());
        assert_eq!(KeywordTable::default().to_file(), None);
    }

    #[test]
    fn folder_names_map_in_both_directions() {
        let check = |mailbox: &str, directory: &str| {
            assert_eq!((directory_of(mailbox).as_str(), mailbox_of(directory).as_str()), (directory, mailbox));
        };
        check("INBOX", "");
        check("Work/2026", ".Work.2026");
        check("INBOX/Sub", ".INBOX.Sub");
        check("Entw\u{fc}rfe", ".Entw&APw-rfe");
        check("Sub.v1.2/a\\b & c", ".Sub\\2ev1\\2e2.a\\5cb &- c");
        check("a\\2e", ".a\\5c2e");
        assert_eq!(
            (mailbox_of("."), mailbox_of(".a&b"), mailbox_of(".x/y")),
            ("INBOX".into(), "a&b".into(), "x_y".into())
        );
    }
}
