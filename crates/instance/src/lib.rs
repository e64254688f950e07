//! The opened data folder of a server: store, databases, directory, mail, full text, signing and certificates.
//!
//! [`Instance`] opens everything and connects it. A running server works with it, and so does an administration
//! command when no server is running. This crate knows no protocol, so that an edit of one does not recompile
//! administration and command line.
//!
//! Only this crate, `server` and `cli` get the time and random bytes from the system ([`system`]).

pub mod certificate;
pub mod certifier;
pub mod data_folder;
pub mod full_text;
pub mod limits;
pub mod memory_plan;
pub mod pdf;
pub mod regular_file;
mod services;
pub mod signing;
pub mod system;
pub mod thread_counts;

pub use services::{
    Instance, InstanceError, StoreServices, authorize_server, blob_key_path, parse_blob_key, server_name, store_options,
};

// The unit tests use the data folder of the crate `sample`, which depends on this crate. They compile its source
// themselves, because a crate that is compiled for its tests is another crate than the one that `sample` links.
#[cfg(test)]
extern crate self as instance;
#[cfg(test)]
#[expect(dead_code, reason = "the tests of other crates use the rest")]
#[path = "../../sample/src/data_folder.rs"]
mod sample;
