//! `doublet tls show`: the certificate of a running server.

use instance::certificate::{CertificateError, CertificateFiles};
use serde_json::json;

use super::Answer;
use super::answer::timestamp_json;

/// Describes the certificate.
pub fn show(files: &CertificateFiles) -> Result<Answer, CertificateError> {
    let found = files.describe()?;
    Ok(Answer::record(vec![
        ("names", json!(found.names)),
        ("issuer", json!(found.issuer)),
        ("valid_from", timestamp_json(Some(found.not_before))),
        ("valid_until", timestamp_json(Some(found.not_after))),
        ("file", json!(files.chain_file().display().to_string())),
        ("self_signed", json!(files.is_self_signed())),
    ]))
}
