//! A configuration that is written in the form in which it is shown reads back with the same values.

use std::fmt::Write;

use config::{Config, ConfigKey, KEYS, SECTIONS, reference};
use proptest::prelude::*;

use crate::fixture::load_text;

/// Beginnings of the names of keys that random values do not suit: they depend on other keys or on a grammar.
const DEPENDENT_KEYS: &[&str] = &[
    "tls.",
    "limits.message_",
    "router.retry_",
    "router.smart_host_user",
    "log.filter",
    "blobs.codec",
    "server.name",
    "server.domain",
    "server.memory",
];

fn number_text(key: &ConfigKey, number: u64) -> String {
    let number_within = |parse: &dyn Fn(&str) -> u64| match key.range {
        [low, high] => parse(low) + number % (parse(high) - parse(low) + 1),
        _ => number,
    };
    match key.kind {
        "number" | "number or auto" => number_within(&|text| text.parse().expect("a bound")).to_string(),
        "size" | "size or auto" => {
            number_within(&|text| config::units::ByteSize::parse(text).expect("a bound").0).to_string()
        }
        "duration" => {
            let milliseconds = |text: &str| config::units::ConfigDuration::parse(text).expect("a bound").0.as_millis();
            format!("{}ms", number_within(&|text| u64::try_from(milliseconds(text)).expect("a short bound")))
        }
        other => panic!("{other} is not a kind of numbers"),
    }
}

/// Returns a valid value for a key, which the number chooses.
fn value_text(key: &ConfigKey, number: u64) -> String {
    match key.kind {
        "true or false" => ["true", "false", "on", "no"][(number % 4) as usize].to_owned(),
        "text" | "path" => format!("some text/{number}"),
        "path or off" => ["off", "socket", "/run/doublet"][(number % 3) as usize].to_owned(),
        "host, host:port or [address]:port" => format!("[2001:db8::{:x}]:{}", number % 99, number % 9_999 + 1),
        "address, list of addresses or off" => ["off", "*:0", "localhost:0, [::1]:0"][(number % 3) as usize].to_owned(),
        "network or list of networks" => ["", "10.0.0.0/8", "192.0.2.1, ::/0"][(number % 3) as usize].to_owned(),
        words if words.starts_with("one of ") => {
            let words: Vec<&str> = words.split('`').skip(1).step_by(2).collect();
            words[number as usize % words.len()].to_owned()
        }
        _ => number_text(key, number),
    }
}

/// Writes a file with the given values.
fn file_text<'a>(values: impl Iterator<Item = (&'a str, String)>) -> String {
    values.fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name} = '{value}'");
        text
    })
}

fn effective_values(config: &Config) -> Vec<(&'static str, String)> {
    config.effective().into_iter().map(|effective| (effective.name, effective.value)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn random_values_round_trip(numbers in prop::collection::vec(any::<u64>(), KEYS.len())) {
        let independent = |key: &&ConfigKey| !DEPENDENT_KEYS.iter().any(|name| key.name.starts_with(name));
        let chosen = KEYS.iter().filter(independent).zip(numbers).map(|(key, number)| (key.name, value_text(key, number)));
        let first = load_text(&file_text(chosen)).expect("every value is valid");
        let second = load_text(&file_text(effective_values(&first).into_iter())).expect("what is shown is valid");
        prop_assert_eq!(effective_values(&first), effective_values(&second));
        prop_assert!(second.sources.len() == KEYS.len(), "every key is set");
    }

    #[test]
    fn random_texts_are_refused_or_read(text in "[\\[\\]a-z.=\"'#{}, \n0-9-]{0,64}") {
        if let Err(error) = load_text(&text) {
            prop_assert!(!error.problems.is_empty());
        }
    }
}

#[test]
fn terminal_list_has_every_key_with_default_and_bounds() {
    let text = reference::terminal_text();
    for section in SECTIONS {
        assert_eq!(text.matches(&format!("[{}]  ", section.name)).count(), 1, "{}", section.name);
    }
    for key in KEYS {
        let start = format!("  {} = {:?}  ({}", key.name, key.default, key.kind);
        let line = text.lines().find(|line| line.starts_with(&start)).expect(key.name);
        let bounds = match key.range {
            [low, high] => format!(", {low} to {high})"),
            _ => ")".to_owned(),
        };
        assert_eq!(line, format!("{start}{bounds}"));
    }
}
