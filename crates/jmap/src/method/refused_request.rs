//! The error of a `/set` or `/send` for a message that submission has refused.

use mail::submission::{Refusal, RefusedRequest};
use serde_json::json;

use crate::context::Context;
use crate::error::SetError;

/// Returns the error. `kind_of` returns it for the refusals for which the method has a type of its own; the others are
/// the same for all methods. An error without a description gets the reply that SMTP would have.
pub(super) fn error_of(
    context: &Context<'_>,
    refused: &RefusedRequest,
    kind_of: impl FnOnce(&RefusedRequest) -> Option<SetError>,
) -> SetError {
    let RefusedRequest { recipient, refusal } = refused;
    let error = kind_of(refused).unwrap_or_else(|| match refusal {
        Refusal::TooLarge => {
            SetError::new("tooLarge").with("maxSize", json!(context.services.outbox.message_bytes_max()))
        }
        _ => SetError::new("serverFail"),
    });
    let reply = match recipient {
        Some(recipient) => refusal.reply_about(recipient),
        None => refusal.to_string(),
    };
    SetError { description: error.description.or(Some(reply)), ..error }
}
