//! The access levels of Domino. [`crate::Error`] names them too, so they depend on no other module.

use std::fmt;

/// Access level of an identity, in ascending order. Each level includes the ones before it, except that a `Reader` does
/// not create documents as a `Depositor` does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
#[repr(u8)]
pub enum AclLevel {
    /// No access.
    NoAccess = 0,
    /// The right to add documents, without seeing any.
    Depositor = 1,
    /// The right to read documents.
    Reader = 2,
    /// The right to create documents, and to change those that name the identity in an Authors item.
    Author = 3,
    /// The right to change all documents.
    Editor = 4,
    /// The right to change the design.
    Designer = 5,
    /// The right to change the ACL, and to delete the database.
    Manager = 6,
}

impl AclLevel {
    /// All levels, lowest first.
    pub const ALL: [Self; 7] =
        [Self::NoAccess, Self::Depositor, Self::Reader, Self::Author, Self::Editor, Self::Designer, Self::Manager];

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

impl fmt::Display for AclLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAccess => "No Access",
            Self::Depositor => "Depositor",
            Self::Reader => "Reader",
            Self::Author => "Author",
            Self::Editor => "Editor",
            Self::Designer => "Designer",
            Self::Manager => "Manager",
        })
    }
}
