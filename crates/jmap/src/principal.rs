//! A principal (RFC 9670 §2): a person or a group of the directory.
//!
//! The `server` crate implements [`Principals`] over the directory; the tests implement it in memory. Nobody changes
//! principals over JMAP.

use serde_json::{Map, Value, json};

/// The kind of a principal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PrincipalKind {
    /// A person.
    Individual,
    /// A group.
    Group,
}

impl PrincipalKind {
    /// Returns the property `type`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Individual => "individual",
            Self::Group => "group",
        }
    }
}

/// A person or a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrincipalInfo {
    /// The identifier: an Id, which never changes.
    pub id: String,
    /// The kind.
    pub kind: PrincipalKind,
    /// The name.
    pub name: String,
    /// The description.
    pub description: Option<String>,
    /// The primary address.
    pub email: Option<String>,
}

impl PrincipalInfo {
    /// Returns the object. `accounts` are those of the caller that belong to the principal, as Account objects.
    #[must_use]
    pub fn to_json(&self, accounts: Map<String, Value>) -> Value {
        json!({
            "id": self.id,
            "type": self.kind.name(),
            "name": self.name,
            "description": self.description,
            "email": self.email,
            "timeZone": null,
            "capabilities": {},
            "accounts": if accounts.is_empty() { Value::Null } else { Value::Object(accounts) },
        })
    }
}

/// Access to the people and groups of the directory. All methods may block and are called on worker threads.
pub trait Principals: Send + Sync {
    /// Returns the state, which every change of a principal changes, except those of its accounts.
    fn state(&self) -> mail::Result<String>;

    /// Calls `each` for the people and groups, up to a bounded number of each, and besides for those with exactly one
    /// of these names or addresses, whose case does not count. No principal is passed twice.
    fn for_each(&self, exact: &[String], each: &mut dyn FnMut(&PrincipalInfo)) -> mail::Result<()>;

    /// Returns the principal with an identifier.
    fn find(&self, id: &str) -> mail::Result<Option<PrincipalInfo>>;
}
