//! Client-visible views of a message: structures, sections, search, sort and threads. Pure functions over message data.
//!
//! | Module | Contents |
//! |---|---|
//! | [`entry`] | interfaces to a message: the folder's entry, and the opened message |
//! | [`attribute`] | the attributes of FETCH, name and value |
//! | [`envelope`], [`structure`], [`section`], [`binary`] | the values of those attributes |
//! | [`search`] | SEARCH: a plan that opens no message if the entry decides the match |
//! | [`sort`], [`thread`] | SORT and THREAD over records that are created once per message; both work in slices ([`sorted_runs`]) |
//!
//! The only errors are those that the source of the bytes reports. No function recurses on a message, and time is
//! linear in the data that is read.

pub mod attribute;
pub mod binary;
pub mod entry;
pub mod envelope;
pub mod search;
pub mod section;
pub mod sort;
pub mod sorted_runs;
pub mod structure;
pub mod thread;

mod fuzzing;
mod message_fixture;

pub use attribute::{AttributeOutcome, octets, write_attribute, write_entry_attribute, write_octets_name};
pub use binary::BinaryReader;
pub use entry::{EntryData, MessageSource};
pub use fuzzing::fuzz;
pub use search::{MessageMatch, RequiredData, SearchBudget, SearchPlan};
pub use section::Octets;
pub use sort::{MessageSorter, SortRecord};
pub use sorted_runs::SortedRuns;
pub use thread::{Forest, ThreadBuilder, Threader};
