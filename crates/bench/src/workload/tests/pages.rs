//! The pages about workloads: their lists are those of the program, and their example is valid.

use std::collections::BTreeSet;

use super::super::Door;
use super::super::class::{KEYS as CLASS_KEYS, STEP_KEYS};
use super::super::fraction::Fraction;
use super::super::profile::SizeProfile;
use super::super::rates::Rates;
use super::super::source::TAGS;
use super::super::units::format_integer;
use super::super::verb::{STEP_VERBS, Verb};
use super::super::{check, parameter, profile};
use super::valid;

const WORKLOADS: &str = include_str!("../../../../../docs/workloads.md");
const NOTESBENCH: &str = include_str!("../../../../../docs/notesbench.md");

/// Returns the part of a page from a heading to the next one.
fn section<'p>(page: &'p str, heading: &str) -> &'p str {
    let (_, rest) = page.split_once(&format!("{heading}\n")).unwrap_or_else(|| panic!("{heading} is missing"));
    rest.split("\n#").next().unwrap_or_default()
}

/// Returns the cells of the rows of tables.
fn rows(section: &str) -> impl Iterator<Item = Vec<&str>> {
    section.lines().filter(|line| line.starts_with("| ")).map(|line| line.split('|').map(str::trim).collect())
}

fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Checks the keys in the first column of a table.
fn check_keys(heading: &str, keys: &[&str]) {
    let described: BTreeSet<&str> = rows(section(WORKLOADS, heading)).flat_map(|row| quoted(row[1])).collect();
    let known: BTreeSet<&str> = keys.iter().copied().collect();
    let described: BTreeSet<&str> = described.difference(&BTreeSet::from(["source", "sources"])).copied().collect();
    assert_eq!(described, known, "{heading}");
}

#[test]
fn keys_are_those_of_the_page() {
    check_keys("## Keys of the file", check::KEYS);
    check_keys("### `parameters.NAME`", parameter::KEYS);
    check_keys("### `mailbox`", check::MAILBOX_KEYS);
    check_keys("### `directory`", check::DIRECTORY_KEYS);
    check_keys("### `database`", check::DATABASE_KEYS);
    check_keys("### `native`", check::NATIVE_KEYS);
    check_keys("### `class`", CLASS_KEYS);
    let profiles = section(WORKLOADS, "### `profile.NAME`");
    for key in profile::KEYS {
        assert!(profiles.contains(&format!("`{key}`")), "{key}");
    }
}

#[test]
fn verbs_and_their_keys_are_those_of_the_page() {
    let steps = section(WORKLOADS, "### Steps");
    let (of_all, of_verbs) = steps.split_once("Keys of single verbs:").expect("two tables");
    let keys: BTreeSet<&str> = rows(of_all).flat_map(|row| quoted(row[1])).filter(|key| *key != "source").collect();
    assert_eq!(keys, STEP_KEYS.iter().copied().collect());
    let mut described = BTreeSet::new();
    for row in rows(of_verbs).filter(|row| row[1].starts_with('`')) {
        for word in quoted(row[1]) {
            let verb = STEP_VERBS.iter().find(|(known, _)| *known == word).unwrap_or_else(|| panic!("{word}")).1;
            for key in verb.keys() {
                assert!(row[2].contains(&format!("`{key}`")), "{word}: {key}");
            }
            assert_eq!(row[2] == "none" || row[2].starts_with("none:"), verb.keys().is_empty(), "{word}");
            described.insert(word);
        }
    }
    assert_eq!(described, STEP_VERBS.iter().map(|(word, _)| *word).collect());
}

#[test]
fn tags_are_those_of_the_page() {
    let described: Vec<&str> =
        rows(section(WORKLOADS, "## Sources")).flat_map(|row| quoted(row[1]).collect::<Vec<_>>()).collect();
    let known: BTreeSet<&str> = TAGS.iter().map(|(tag, _)| *tag).filter(|tag| *tag != "assumed").collect();
    assert_eq!(described.into_iter().collect::<BTreeSet<_>>(), known);
}

#[test]
fn built_in_profile_is_that_of_the_page() {
    let described: Vec<_> = rows(section(WORKLOADS, "### `profile.NAME`")).filter(|row| row[1].is_empty()).collect();
    let percent = |millionths: u32| format!("{} %", f64::from(millionths) / 10_000.0);
    let attachment = |bytes: u64| if bytes == 0 { "–".to_owned() } else { format_integer(bytes) };
    let known = SizeProfile::server_load()
        .rows
        .into_iter()
        .map(|row| [format_integer(row.body_bytes), attachment(row.attachment_bytes), percent(row.share.millionths())]);
    assert_eq!(
        described.into_iter().map(|row| [row[2], row[3], row[4]].map(str::to_owned)).collect::<Vec<_>>(),
        known.collect::<Vec<_>>()
    );
}

/// Checks the weights of the table that derives them from R6Mail.
#[test]
fn weights_are_those_of_the_page() {
    let section = section(NOTESBENCH, "## Verbs and transactions");
    let mut sum = 0;
    for row in rows(section).filter(|row| row.len() == 8 && row[1].starts_with('`')) {
        let word = row[1].trim_matches('`');
        let verb = STEP_VERBS.iter().find(|(known, _)| *known == word).unwrap_or_else(|| panic!("{word}")).1;
        let numbers = [2, 3, 4].map(|cell| row[cell].parse::<u64>().expect("a number"));
        assert_eq!((numbers[0], numbers[0] * numbers[1]), (verb.transactions(), numbers[2]), "{word}");
        sum += numbers[2];
    }
    assert_eq!(sum, 120);
}

#[test]
fn example_of_the_page_is_valid_and_has_its_rates() {
    let section = section(WORKLOADS, "## A workload in twenty lines");
    let example = section.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    assert!(example.lines().count() <= 20, "{}", example.lines().count());
    let workload = valid(example, &[]);
    let hour = Rates::of_hour(&workload, &workload.classes[0]).expect("it has a timetable");
    let of = |verb| hour.by_verb[&verb];
    let actions = [Verb::Read, Verb::Reply, Verb::Move, Verb::Send].map(of);
    assert_eq!(actions, [24, 3, 6, 2].map(Fraction::from));
    assert_eq!((hour.sent, hour.received), (Fraction::from(5), Fraction::from(7)));
    assert!(workload.numbers.iter().all(|number| number.source.tags == ["assumed"]));
    let busy = valid(example, &["busy=8"]);
    assert_eq!(Rates::of_hour(&busy, &busy.classes[0]).map(|hour| hour.by_verb[&Verb::Read]), Some(Fraction::from(48)));
}

#[test]
fn example_for_any_mail_server_is_valid() {
    let section = section(WORKLOADS, "## Your own workload in twenty lines, against any mail server");
    let mut examples = section.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let example = examples.next().expect("a workload");
    assert!(example.lines().count() <= 20, "{}", example.lines().count());
    let workload = valid(example, &[]);
    let hour = Rates::of_hour(&workload, &workload.classes[0]).expect("it has a timetable");
    assert_eq!(workload.door, Door::Imap);
    assert_eq!([Verb::Read, Verb::Reply].map(|verb| hour.by_verb[&verb]), [36, 3].map(Fraction::from));
    let target: toml::Table = examples.next().expect("a target").parse().expect("TOML");
    assert!(["imap", "submission", "lmtp", "password_file", "certificate"].iter().all(|key| target.contains_key(*key)));
}
