//! The limits of this crate.

/// Maximum number of ancestors that a note keeps. Of versions that were cut off from each other for longer, one looks
/// like a conflict although it descends from the other.
pub const ANCESTORS_MAX: usize = 64;
