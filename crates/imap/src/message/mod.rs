//! What clients see of a message: structures, sections, search, sort and threads. Pure functions over message data.

//! The functions arrive with the commits that follow.

pub mod attribute;
pub mod binary;
pub mod entry;
pub mod envelope;
pub mod fold;
pub mod search;
pub mod section;
pub mod structure;

#[cfg(test)]
mod memory;
