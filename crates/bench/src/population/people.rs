//! The people of a run: their numbers, addresses, names and languages.

use super::language::Language;
use super::text::full_name;
use crate::plan::stream::{Draw, Stream};

use std::fmt;

/// The place of the number in a pattern.
const PLACEHOLDER: &str = "{}";

/// The addresses of the users of a run: a pattern such as `mail{}@bench.test`, with the number for `{}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserNames {
    before: String,
    after: String,
}

/// Formats the pattern.
impl fmt::Display for UserNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{PLACEHOLDER}{}", self.before, self.after)
    }
}

impl UserNames {
    /// Reads a pattern. Returns `None` unless it has one `{}`, is an address, and its domain has no `{}`.
    pub fn parse(pattern: &str) -> Option<Self> {
        let (before, after) = pattern.split_once(PLACEHOLDER)?;
        let (_, domain) = after.split_once('@')?;
        let is_plain =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic() && !b"<>,;\"\\()[]{}".contains(&byte));
        let is_address = is_plain(before) && is_plain(after) && !domain.is_empty() && !before.contains('@');
        (is_address && !domain.contains('@')).then(|| Self { before: before.to_owned(), after: after.to_owned() })
    }

    /// Returns the address of a user.
    pub fn address(&self, number: u64) -> String {
        format!("{}{number}{}", self.before, self.after)
    }

    /// Returns the domain of the addresses.
    pub fn domain(&self) -> &str {
        self.after.rsplit('@').next().unwrap_or_default()
    }

    /// Returns the number of the user to whom an address belongs, if it is one of the `users` of the run: alone, or
    /// within `<` and `>` after a name. A list of addresses belongs to nobody.
    pub fn number_of(&self, address: &str, users: u64) -> Option<u64> {
        let address = match address.trim().split_once('<') {
            Some((name, _)) if name.contains('@') => return None,
            Some((_, address)) => address.strip_suffix('>')?,
            None => address,
        };
        let number = address.trim().strip_prefix(&self.before)?.strip_suffix(&self.after)?;
        let is_number = number.bytes().all(|byte| byte.is_ascii_digit()) && !number.starts_with('0');
        number.parse().ok().filter(|number| is_number && *number <= users)
    }
}

/// Who a person is. It follows from the seed and the number. Several persons may have the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Person {
    /// In which the person writes.
    pub language: Language,
    /// The name as the language writes it.
    pub name: String,
}

impl Person {
    /// Draws the person of a number in the run of a seed: language, given name and family name in this order.
    pub fn new(seed: u64, number: u64) -> Self {
        let mut numbers = Stream::new(seed, Draw::Person, [number, 0, 0]).into_numbers();
        let language = Language::draw(&mut numbers);
        let vocabulary = language.vocabulary();
        let given = *numbers.pick(&vocabulary.given);
        let family = *numbers.pick(&vocabulary.family);
        Self { language, name: full_name(language, given, family) }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn persons_follow_from_the_seed_and_speak_all_languages() {
        assert_eq!(Person::new(1, 17), Person::new(1, 17));
        let persons: Vec<Person> = (1..=500).map(|number| Person::new(1, number)).collect();
        let languages: BTreeSet<Language> = persons.iter().map(|person| person.language).collect();
        assert_eq!(languages.len(), Language::all().count());
        let names: BTreeSet<&str> = persons.iter().map(|person| person.name.as_str()).collect();
        assert!(names.len() > 400, "{}", names.len());
        assert!((1..=500).any(|number| Person::new(2, number) != persons[number as usize - 1]));
    }

    #[test]
    fn addresses_and_numbers_are_converted() {
        let names = UserNames::parse("mail{}@bench.test").expect("a pattern");
        assert_eq!(names.address(17), "mail17@bench.test");
        assert_eq!(names.domain(), "bench.test");
        let check = |address, expected| assert_eq!(names.number_of(address, 99), expected, "{address:?}");
        check("mail17@bench.test", Some(17));
        check("Mail 17 <mail17@bench.test>", Some(17));
        for other in
            ["mail@bench.test", "mail017@bench.test", "mail+1@bench.test", "mail1@bench.test.x", "", "<", "a<b"]
        {
            check(other, None);
        }
        check("mail99999999999999999999@bench.test", None);
        check("mail99@bench.test", Some(99));
        check("mail100@bench.test", None);
        check("x@outside.example, <mail17@bench.test>", None);
        check("<mail17@bench.test>, <mail18@bench.test>", None);
    }

    #[test]
    fn patterns_are_checked() {
        for pattern in ["", "mail@bench.test", "mail{}", "mail{}@", "a@b{}@c", "mail{}@b{}.test", "ma il{}@bench.test"]
        {
            assert_eq!(UserNames::parse(pattern), None, "{pattern:?}");
        }
        assert!(UserNames::parse("{}bench@bench.test").is_some());
    }
}
