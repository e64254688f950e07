//! Preferences of a person in a mail file, which all clients share: the personal profile document `Preferences`.
//!
//! The names are those of the properties in JMAP (`docs/jmap.md`). An item has the name of its preference with a
//! capital letter, and a text as its value. A preference without an item stands for the choice of the client. A value
//! that is not valid here, because another program or a later version has written it, is the same as none.

use notes::{Item, Note};

use crate::limits::{PAGE_SIZE_MAX, PAGE_SIZE_MIN, UNDO_SECONDS_MAX};
use crate::object_id::is_object_id;

/// The name of the profile document.
pub const PREFERENCES_PROFILE: &str = "Preferences";

/// The names of all preferences.
pub const PREFERENCES: [&str; 9] = [
    "language",
    "timeZone",
    "pageSize",
    "collapseThreads",
    "composeFormat",
    "defaultIdentityId",
    "signaturePlacement",
    "undoSeconds",
    "webMode",
];

/// Number of hexadecimal digits of [`LockedPreferences::digest`].
const LOCKED_DIGEST_DIGITS: usize = 8;

/// The values of a preference.
#[derive(Clone, Copy, Debug)]
pub enum PreferenceKind {
    /// Texts for which a check returns `true`.
    Text(fn(&str) -> bool),
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// A number in a range.
    Number(u64, u64),
    /// A boolean.
    Flag,
}

impl PreferenceKind {
    /// Returns the values of a preference.
    #[must_use]
    pub fn of(name: &str) -> Self {
        match name {
            "language" => Self::Text(is_language),
            "timeZone" => Self::Text(is_time_zone),
            "pageSize" => Self::Number(PAGE_SIZE_MIN, PAGE_SIZE_MAX),
            "collapseThreads" => Self::Flag,
            "composeFormat" => Self::Choice(&["plain", "html"]),
            "defaultIdentityId" => Self::Text(is_object_id),
            "signaturePlacement" => Self::Choice(&["aboveQuote", "belowQuote", "none"]),
            "undoSeconds" => Self::Number(0, UNDO_SECONDS_MAX),
            _ => Self::Choice(&["full", "lite"]),
        }
    }

    /// Returns `true` if a text is one of the values.
    #[must_use]
    pub fn permits(self, value: &str) -> bool {
        match self {
            Self::Text(is_valid) => is_valid(value),
            Self::Choice(values) => values.contains(&value),
            Self::Number(min, max) => value.parse().is_ok_and(|number| (min..=max).contains(&number)),
            Self::Flag => matches!(value, "true" | "false"),
        }
    }
}

/// Returns the value of a preference, if it has a valid one.
#[must_use]
pub fn value<'n>(items: &'n [Item], name: &str) -> Option<&'n str> {
    let item = notes::item::find_item(items, &item_name(name))?;
    item.value.text().filter(|value| PreferenceKind::of(name).permits(value))
}

/// Returns the item with the value of a preference, or `None` if the value is not valid.
#[must_use]
pub fn item(name: &str, value: &str) -> Option<Item> {
    PreferenceKind::of(name).permits(value).then(|| Item::text(item_name(name), value))
}

fn item_name(name: &str) -> String {
    name.chars().take(1).flat_map(char::to_uppercase).chain(name.chars().skip(1)).collect()
}

/// The preferences that the operator has set for all people. Nobody changes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockedPreferences {
    values: Vec<(&'static str, String)>,
}

impl LockedPreferences {
    /// Parses `name=value`, several separated by commas. The error says what is wrong.
    pub fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut locked = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').ok_or_else(|| format!("{part:?} is not name=value"))?;
            let known = PREFERENCES.into_iter().find(|known| *known == name.trim());
            let name = known.ok_or_else(|| format!("there is no preference {:?}", name.trim()))?;
            if !PreferenceKind::of(name).permits(value.trim()) {
                return Err(format!("{:?} is no value of {name}", value.trim()));
            }
            if locked.value(name).is_some() {
                return Err(format!("{name} has two values"));
            }
            locked.values.push((name, value.trim().to_owned()));
        }
        Ok(locked)
    }

    /// Returns the value of a preference if it is locked.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(locked, _)| *locked == name).map(|(_, value)| value.as_str())
    }

    /// Returns the locked preferences, each with its item in the profile document.
    #[must_use]
    pub fn items(&self) -> Vec<(&'static str, Item)> {
        self.values.iter().filter_map(|(name, value)| Some((*name, item(name, value)?))).collect()
    }

    /// Returns a short text that depends on the names, values and order, or `None` if nothing is locked. States of
    /// preferences have it, because the values that people see change with it.
    #[must_use]
    pub fn digest(&self) -> Option<String> {
        if self.values.is_empty() {
            return None;
        }
        let mut hasher = blake3::Hasher::new();
        for (name, value) in &self.values {
            // No name and no value has a zero byte.
            hasher.update(name.as_bytes()).update(b"\0").update(value.as_bytes()).update(b"\0");
        }
        Some(hasher.finalize().to_hex()[..LOCKED_DIGEST_DIGITS].to_owned())
    }

    /// Returns the names of the locked preferences.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.values.iter().map(|(name, _)| *name)
    }
}

/// The place of the signature in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignaturePlacement {
    /// It is above the message that is quoted.
    AboveQuote,
    /// It is below the message that is quoted.
    BelowQuote,
    /// Messages get no signature.
    None,
}

/// The preferences of a person. `None` stands for the choice of the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    /// A language tag (RFC 5646).
    pub language: Option<String>,
    /// A name that has the form of those in the IANA time zone database. It need not exist.
    pub time_zone: Option<String>,
    /// Rows of a list.
    pub page_size: Option<u32>,
    /// `true` if lists show conversations.
    pub collapse_threads: Option<bool>,
    /// The identity of new messages. It need not exist.
    pub default_identity: Option<String>,
    /// The place of the signature.
    pub signature_placement: Option<SignaturePlacement>,
    /// The time in which sending can be undone, in seconds.
    pub undo_seconds: Option<u32>,
}

impl Preferences {
    /// Reads the profile document. Locked preferences have the value of the operator.
    #[must_use]
    pub fn read(note: Option<&Note>, locked: &LockedPreferences) -> Self {
        let items = note.map_or(&[][..], |note| &note.items);
        let value = |name: &str| locked.value(name).or_else(|| value(items, name));
        let text = |name: &str| value(name).map(str::to_owned);
        let number = |name: &str| value(name).and_then(|number| number.parse().ok());
        Self {
            language: text("language"),
            time_zone: text("timeZone"),
            page_size: number("pageSize"),
            collapse_threads: value("collapseThreads").map(|flag| flag == "true"),
            default_identity: text("defaultIdentityId"),
            signature_placement: value("signaturePlacement").map(|placement| match placement {
                "aboveQuote" => SignaturePlacement::AboveQuote,
                "belowQuote" => SignaturePlacement::BelowQuote,
                _ => SignaturePlacement::None,
            }),
            undo_seconds: number("undoSeconds"),
        }
    }
}

/// Returns the items of the profile document after some preferences have changed, or the name of a preference whose new
/// value is not valid. `None` removes a value. What a person has chosen before a preference was locked stays.
pub fn changed_items<'c>(
    note: Option<&Note>,
    changes: &[(&'c str, Option<String>)],
    locked: &LockedPreferences,
) -> std::result::Result<Vec<Item>, &'c str> {
    let present = note.map_or(&[][..], |note| &note.items);
    let mut items = Vec::new();
    for name in PREFERENCES {
        let change = changes.iter().find(|(changed, _)| *changed == name && locked.value(name).is_none());
        match change {
            Some((_, None)) => {}
            Some((changed, Some(new))) => items.push(item(name, new).ok_or(*changed)?),
            None => items.extend(value(present, name).and_then(|value| item(name, value))),
        }
    }
    Ok(items)
}

/// Returns `true` if a text has the form of a language tag (RFC 5646).
fn is_language(text: &str) -> bool {
    let is_subtag = |tag: &str| (1..=8).contains(&tag.len()) && tag.bytes().all(|byte| byte.is_ascii_alphanumeric());
    text.len() <= 35 && text.split('-').all(is_subtag)
}

/// Returns `true` if a text has the form of a name in the IANA time zone database.
fn is_time_zone(text: &str) -> bool {
    let is_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"_+-".contains(&byte);
    text.len() <= 64 && text.split('/').all(|part| !part.is_empty() && part.bytes().all(is_byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked() {
        let check = |name: &str, valid: &[&str], invalid: &[&str]| {
            for value in valid {
                assert!(item(name, value).is_some(), "{name} {value:?}");
            }
            for value in invalid {
                assert!(item(name, value).is_none(), "{name} {value:?}");
            }
        };
        check("language", &["de", "de-CH", "zh-Hant-TW"], &["", "de_CH", "de-", "abcdefghi"]);
        check("timeZone", &["UTC", "Europe/Zurich", "Etc/GMT+1"], &["", "Europe/", "a b", "../x"]);
        check("pageSize", &["10", "200"], &["9", "201", "-1", "x", ""]);
        check("collapseThreads", &["true", "false"], &["", "yes"]);
        check("signaturePlacement", &["aboveQuote", "belowQuote", "none"], &["", "below"]);
        check("undoSeconds", &["0", "120"], &["121", "1.5"]);
        check("defaultIdentityId", &["I0"], &["", "a b"]);
    }

    #[test]
    fn items_that_are_not_changed_stay_and_invalid_ones_go() {
        let items = [Item::text("WebMode", "full"), Item::text("PageSize", "5000"), Item::text("Language", "de")];
        assert_eq!((value(&items, "webMode"), value(&items, "pageSize")), (Some("full"), None));
        let changes = [("language", None), ("undoSeconds", Some("10".to_owned()))];
        let free = LockedPreferences::default();
        let new = changed_items(None, &changes, &free).expect("they are valid");
        assert_eq!(new, [Item::text("UndoSeconds", "10")]);
        assert_eq!(changed_items(None, &[("pageSize", Some("1".to_owned()))], &free), Err("pageSize"));
    }

    #[test]
    fn locked_preferences_have_the_value_of_the_operator() {
        let locked = LockedPreferences::parse(" undoSeconds = 10,timeZone=Europe/Zurich, ").expect("it is valid");
        let preferences = Preferences::read(None, &locked);
        assert_eq!((preferences.undo_seconds, preferences.time_zone.as_deref()), (Some(10), Some("Europe/Zurich")));
        assert_eq!(locked.names().collect::<Vec<_>>(), ["undoSeconds", "timeZone"]);
        let changes = [("undoSeconds", Some("20".to_owned())), ("language", Some("de".to_owned()))];
        assert_eq!(changed_items(None, &changes, &locked), Ok(vec![Item::text("Language", "de")]));
        let digest = |text| LockedPreferences::parse(text).expect("it is valid").digest();
        assert_eq!((digest(""), digest("pageSize=20")), (None, digest(" pageSize = 20,")));
        assert_ne!(digest("pageSize=20"), digest("pageSize=30"));
        assert_ne!(digest("pageSize=20"), digest("pageSize=20,language=de"));
        for wrong in ["undoSeconds", "undoSeconds=x", "colour=red", "language=de,language=fr"] {
            assert!(LockedPreferences::parse(wrong).is_err(), "{wrong}");
        }
    }
}
