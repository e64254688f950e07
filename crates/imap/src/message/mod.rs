//! What clients see of a message: structures, sections, search, sort and threads. Pure functions over message data.
//!
//! The functions arrive with the commits that follow.
