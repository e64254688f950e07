//! The native protocol as Rust sees it: messages and stubs, made from the files in `proto/`, which are the public description.
//!
//! Little is written by hand here: [`details`], the small envelope of error details that gRPC uses everywhere, and [`shape`], which tells from a
//! message's bytes what memory it will take. The server (`rpc`) and the client (`client`) share this room and nothing else.

pub mod details;
pub mod shape;

/// Version 1 of the protocol.
#[allow(
    missing_docs,
    clippy::pedantic,
    clippy::nursery,
    clippy::restriction,
    clippy::style,
    clippy::large_enum_variant,
    reason = "made from the .proto files, which carry the documentation"
)]
pub mod v1 {
    tonic::include_proto!("doublet.v1");
}

/// The paths of all calls, such as `/doublet.v1.Notes/OpenNote`.
pub const METHODS: &[&str] = include!(concat!(env!("OUT_DIR"), "/methods.rs"));
