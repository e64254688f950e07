//! The native protocol in Rust: messages and stubs generated from the files in `proto/`, which are the public
//! specification.
//!
//! Little here is written by hand: [`details`], the small envelope for error details that gRPC uses everywhere,
//! [`decode_cost`], which determines from the bytes of a message how much memory it takes, [`codec`], which measures
//! replies in this way before it decodes them, and, with the feature `notes`, `view_design`, which converts view
//! designs. The server (`rpc`) and the client (`client`) share only this crate. The client does not use the feature, so
//! it builds without databases.

pub mod codec;
pub mod decode_cost;
pub mod details;
#[cfg(feature = "notes")]
pub mod view_design;

/// Version 1 of the protocol.
#[allow(
    missing_docs,
    clippy::pedantic,
    clippy::nursery,
    clippy::restriction,
    clippy::style,
    clippy::large_enum_variant,
    reason = "generated from the .proto files, which contain the documentation"
)]
pub mod v1 {
    tonic::include_proto!("doublet.v1");
}

/// The paths of all calls, such as `/doublet.v1.Notes/OpenNote`.
pub const METHODS: &[&str] = include!(concat!(env!("OUT_DIR"), "/methods.rs"));
