//! The number of an on-disk structure. [`crate::Error`] and the catalog name it too, so it depends on no other module.

/// The version of the record formats of a database.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct OdsVersion(pub u16);

impl OdsVersion {
    /// The oldest version that this program reads: that of databases created before version numbers existed.
    pub const OLDEST: Self = Self(1);
    /// The first version whose notes have revisions, and whose settings have UNIDs that replicas know.
    pub const WITH_REVISIONS: Self = Self(3);
    /// The version that this program writes.
    pub const CURRENT: Self = Self(3);
}

impl std::fmt::Display for OdsVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}
