//! The command line: pairs of `--name value`.
//!
//! Unknown names are not detected, because only our own scripts call this program.

use std::collections::HashMap;
use std::str::FromStr;

/// Result whose error ends the program with its text.
pub type Result<T> = std::result::Result<T, Error>;

/// An error that ends the program with its text.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// Values by name.
#[derive(Debug)]
pub struct Arguments {
    values: HashMap<String, String>,
}

impl Arguments {
    /// Parses pairs of `--name value`.
    pub fn parse(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut values = HashMap::new();
        while let Some(word) = words.next() {
            let name = word
                .strip_prefix("--")
                .ok_or_else(|| format!("unexpected argument {word:?}: options begin with --"))?;
            let value = words.next().ok_or_else(|| format!("--{name} needs a value"))?;
            values.insert(name.to_owned(), value);
        }
        Ok(Self { values })
    }

    /// Returns a required value.
    pub fn text(&self, name: &str) -> Result<&str> {
        self.values.get(name).map(String::as_str).ok_or_else(|| format!("--{name} is missing").into())
    }

    /// Returns a value, or the default if it is missing.
    pub fn get_or<T: FromStr>(&self, name: &str, otherwise: T) -> Result<T> {
        match self.values.get(name) {
            None => Ok(otherwise),
            Some(value) => value.parse().map_err(|_| format!("invalid value of --{name}: {value:?}").into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Result<Arguments> {
        Arguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn values_are_found_by_name() {
        let found = arguments("--clients 7 --address here").expect("two pairs");
        assert_eq!(found.get_or("clients", 50).ok(), Some(7));
        assert_eq!(found.get_or("rounds", 20).ok(), Some(20));
        assert_eq!(found.text("address").ok(), Some("here"));
        assert!(found.get_or::<u8>("address", 1).is_err() && found.text("user").is_err());
        assert!(arguments("clients 7").is_err() && arguments("--clients").is_err());
    }
    #[test]
    fn errors_name_the_option() {
        let error = |line: &str| arguments(line).expect_err("the line is refused").to_string();
        assert_eq!(error("--clients"), "--clients needs a value");
        assert_eq!(error("--clients 7 mix"), "unexpected argument \"mix\": options begin with --");
        let found = arguments("--clients many --seed -1 --seed 3").expect("pairs");
        let clients = found.get_or::<usize>("clients", 1).expect_err("no number").to_string();
        assert_eq!(clients, "invalid value of --clients: \"many\"");
        assert_eq!(found.text("address").expect_err("it is not there").to_string(), "--address is missing");
        assert_eq!(found.get_or::<u64>("seed", 1).ok(), Some(3), "the last value counts");
    }
}
