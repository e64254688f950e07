//! Named limits of the `sasl` crate.
//!
//! The number of messages needs no limit: every mechanism ends after at most three responses. The lengths of login
//! names and passwords are limited by the directory.

/// Maximum length of a client's response before base64, in bytes.
pub const RESPONSE_BYTES_MAX: usize = 12 << 10;

/// Maximum length of a client's response in base64, in bytes, without the line end. A protocol may read shorter lines
/// only (RFC 4954 §4 and RFC 5034 §4 require 12,288 bytes).
pub const LINE_BYTES_MAX: usize = RESPONSE_BYTES_MAX.div_ceil(3) * 4;

/// Maximum length of a SCRAM message of the client, in bytes.
pub const SCRAM_MESSAGE_BYTES_MAX: usize = 4 << 10;

/// Length of a SCRAM proof, in bytes: that of a SHA-256 hash.
pub const SCRAM_PROOF_BYTES: usize = 32;

/// Length of the data of the channel binding `tls-exporter`, in bytes (RFC 9266 §2).
pub const TLS_EXPORTER_BYTES: usize = 32;
