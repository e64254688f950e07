//! Hierarchical names in the notation of Domino: `CN=Ann Smith/OU=Sales/O=Acme`.
//!
//! A name is stored in canonical form and displayed in abbreviated form (`Ann Smith/Sales/Acme`). Comparison ignores
//! case. Names without a hierarchy (`LocalDomainServers`, an Internet address) are stored unchanged.
//!
//! Abbreviated names are expanded by position: the first component is the common name, the last the organization, and
//! those between are organizational units. A country cannot be distinguished from an organization by position, so a
//! name with a country must be given in canonical form.

use std::fmt;
use std::hash::{Hash, Hasher};

/// A canonical name. Names that differ only in case are equal.
#[derive(Clone, Default)]
pub struct Name {
    canonical: String,
}

impl Name {
    /// Creates a name from its canonical or its abbreviated form. Surrounding white space is removed.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let text = text.trim();
        let parts: Vec<&str> = text.split('/').map(str::trim).filter(|part| !part.is_empty()).collect();
        if parts.len() < 2 || parts.iter().any(|part| part.contains('@')) {
            return Self { canonical: text.to_owned() };
        }
        let last = parts.len() - 1;
        let canonical = parts.iter().enumerate().map(|(index, part)| match index {
            _ if has_attribute(part) || *part == "*" => (*part).to_owned(),
            0 => format!("CN={part}"),
            _ if index == last => format!("O={part}"),
            _ => format!("OU={part}"),
        });
        Self { canonical: canonical.collect::<Vec<_>>().join("/") }
    }

    /// Returns the canonical form.
    #[must_use]
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// Returns the form without attribute types, in which names are displayed.
    #[must_use]
    pub fn abbreviated(&self) -> String {
        let plain = |part| strip_attribute(part).unwrap_or(part);
        self.canonical.split('/').map(plain).collect::<Vec<_>>().join("/")
    }

    /// Returns the common name, or the whole name if it has no hierarchy.
    #[must_use]
    pub fn common(&self) -> &str {
        let first = self.canonical.split('/').next().unwrap_or_default();
        strip_attribute(first).unwrap_or(first)
    }

    /// Returns `true` if the name is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.canonical.is_empty()
    }

    /// Returns `true` if this pattern covers `name`. A pattern is `*/OU=Sales/O=Acme`, `*@acme.test`, `*`, or a plain
    /// name.
    ///
    /// A star stands for whole components of a name: `*Acme` covers no name, because it would also cover `BigAcme`.
    #[must_use]
    pub fn matches(&self, name: &Self) -> bool {
        let Some(suffix) = self.canonical.strip_prefix('*') else {
            return self == name;
        };
        if !suffix.is_empty() && !suffix.starts_with(['/', '@']) {
            return false;
        }
        let candidate = name.canonical.to_lowercase();
        candidate.ends_with(&suffix.to_lowercase()) && candidate.len() > suffix.len()
    }
}

fn has_attribute(part: &str) -> bool {
    strip_attribute(part).is_some()
}

fn strip_attribute(part: &str) -> Option<&str> {
    let (attribute, value) = part.split_once('=')?;
    ["CN", "OU", "O", "C"].iter().any(|known| attribute.trim().eq_ignore_ascii_case(known)).then(|| value.trim())
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.canonical == other.canonical || self.canonical.to_lowercase() == other.canonical.to_lowercase()
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.canonical.to_lowercase().hash(state);
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.abbreviated())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Name({})", self.canonical)
    }
}

impl From<&str> for Name {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, canonical: &str, abbreviated: &str, common: &str) {
        let name = Name::new(text);
        assert_eq!(name.canonical(), canonical);
        assert_eq!(name.abbreviated(), abbreviated);
        assert_eq!(name.common(), common);
    }

    #[test]
    fn names_are_canonicalized_by_position() {
        check("Ann Smith/Sales/Acme", "CN=Ann Smith/OU=Sales/O=Acme", "Ann Smith/Sales/Acme", "Ann Smith");
        check("CN=Ann Smith/O=Acme", "CN=Ann Smith/O=Acme", "Ann Smith/Acme", "Ann Smith");
        check("LocalDomainServers", "LocalDomainServers", "LocalDomainServers", "LocalDomainServers");
        check(" ann@acme.test ", "ann@acme.test", "ann@acme.test", "ann@acme.test");
    }

    #[test]
    fn comparison_ignores_case() {
        assert_eq!(Name::new("ANN SMITH/Acme"), Name::new("ann smith/ACME"));
        assert_ne!(Name::new("Ann/Acme"), Name::new("Bob/Acme"));
    }

    #[test]
    fn wildcard_matches_names_below_it() {
        let pattern = Name::new("*/Sales/Acme");
        assert!(pattern.matches(&Name::new("Ann Smith/Sales/Acme")));
        assert!(!pattern.matches(&Name::new("Ann Smith/Research/Acme")));
        assert!(!pattern.matches(&Name::new("Sales/Acme")));
        assert!(Name::new("*@acme.test").matches(&Name::new("ann@acme.test")));
        assert!(Name::new("*").matches(&Name::new("Ann")));
        assert!(!Name::new("*Acme").matches(&Name::new("Ann/BigAcme")));
    }
}
