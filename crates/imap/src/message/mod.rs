//! What clients see of a message: structures, sections, search, sort and threads. Pure functions over message data.
//!
//! | module | what it holds |
//! |---|---|
//! | [`entry`] | what is asked of a message: the folder's entry, the message when it is opened |
//! | [`attribute`] | the attributes of FETCH, name and value |
//! | [`envelope`], [`structure`], [`section`], [`binary`] | what those attributes hold |
//! | [`search`] | SEARCH: a plan that opens no message when the entry settles it |
//! | [`sort`], [`thread`] | SORT and THREAD over records that are made of each message once |
//! | [`subject`] | subjects without `Re:`, comparable |
//!
//! Nothing here fails but for what the source of the bytes reports, nothing recurses on a message, and time is linear
//! in what is read.

pub mod attribute;
pub mod binary;
pub mod entry;
pub mod envelope;
pub mod search;
pub mod section;
pub mod sort;
pub mod structure;
pub mod subject;
pub mod thread;

mod fuzzing;
mod memory;

pub use attribute::{Outcome, octets, octets_name, write_attribute, write_entry_attribute};
pub use entry::{Entry, Stored};
pub use fuzzing::fuzz;
pub use search::{Needs, Plan};
pub use section::Octets;
pub use sort::Sorter;
pub use thread::{Forest, Threader};
