//! Texts that must not appear in logs: passwords and tokens.

use std::fmt;

/// A password or token. Its `Debug` form does not show it. The memory is not overwritten when it is dropped.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// Creates a secret.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}
