//! The address of a request: its path and its parameters.

use std::borrow::Cow;

use axum::http::Uri;
use percent_encoding::percent_decode_str;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// The path and the parameters of a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Target {
    /// The parts of the path, decoded. A `/` within a part was sent as `%2F`.
    pub(crate) path: Vec<String>,
    parameters: Vec<(String, String)>,
}

impl Target {
    /// Parses an address.
    pub(crate) fn parse(uri: &Uri) -> Result<Self> {
        let invalid = || Error::BadRequest("the address is not valid UTF-8".to_owned());
        let decode = |part: &str| percent_decode_str(part).decode_utf8().map(Cow::into_owned).map_err(|_| invalid());
        let path: Result<Vec<String>> = uri.path().trim_matches('/').split('/').map(decode).collect();
        let path = path?.into_iter().filter(|part| !part.is_empty()).collect();
        let query = uri.query().unwrap_or_default().as_bytes();
        let parameters = form_urlencoded::parse(query).map(|(name, value)| (name.into_owned(), value.into_owned()));
        Ok(Self { path, parameters: parameters.collect() })
    }

    /// Returns the text of a parameter.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.parameters.iter().rfind(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Returns the text of a parameter that may be a JSON string.
    pub(crate) fn plain_text(&self, name: &str) -> Option<String> {
        let text = self.text(name)?;
        Some(serde_json::from_str(text).unwrap_or_else(|_| text.to_owned()))
    }

    /// Returns `true` if a switch is on.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| value == "true")
    }

    /// Returns the value of a parameter that is JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let parsed = serde_json::from_str(text).map(Some);
        parsed.map_err(|_| Error::BadRequest(format!("the parameter {name} has an invalid value")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_split_before_they_are_decoded() {
        let target = |text: &str| Target::parse(&text.parse().expect("a URI")).expect("a target");
        let found = target("/talk%2Fmain.nsf/_design/a%20b?rev=1-x&open_revs=%5B%22a%22%5D&revs=true&revs=false");
        assert_eq!(found.path, ["talk/main.nsf", "_design", "a b"]);
        assert_eq!((found.text("rev"), found.is_on("revs"), found.is_on("x")), (Some("1-x"), false, false));
        assert_eq!(found.json::<Vec<String>>("open_revs").expect("a list"), Some(vec!["a".to_owned()]));
        assert!(found.json::<u64>("rev").is_err());
        assert_eq!(target("/").path, Vec::<String>::new());
        assert!(Target::parse(&"/%ff".parse().expect("a URI")).is_err());
    }
}
