//! Identity/get (RFC 8621 §6.1): the names and addresses under which a person sends, from the directory.

use serde_json::{Map, Value, json};

use super::get_call::GetCall;
use crate::arguments::Arguments;
use crate::backend::IdentityInfo;
use crate::context::Context;
use crate::error::MethodResult;

const PROPERTIES: [&str; 8] = ["id", "name", "email", "replyTo", "bcc", "textSignature", "htmlSignature", "mayDelete"];

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = GetCall::parse(context, &mut arguments)?;
    arguments.finish()?;
    call.check_properties(&PROPERTIES)?;
    context.account(&call.account_id)?;
    let identities = context.services.accounts.identities(context.caller, &call.account_id)?;
    let state = state_of(&identities);
    let wanted = call.wanted(context, || identities.iter().map(|identity| identity.id.clone()).collect())?;
    call.answer(context, &state, wanted, |id| {
        Ok(identities.iter().find(|identity| identity.id == id).map(|identity| {
            json!({
                "id": identity.id,
                "name": identity.name,
                "email": identity.email,
                "replyTo": null,
                "bcc": null,
                "textSignature": "",
                "htmlSignature": "",
                "mayDelete": false,
            })
        }))
    })
}

/// Returns the state of the identities: a digest, because the directory changes them.
pub(super) fn state_of(identities: &[IdentityInfo]) -> String {
    let mut hasher = blake3::Hasher::new();
    for identity in identities {
        for text in [&identity.id, &identity.name, &identity.email] {
            hasher.update(text.as_bytes()).update(b"\0");
        }
    }
    hasher.finalize().to_hex()[..16].to_owned()
}
