//! Identity/get (RFC 8621 §6.1): the names and addresses under which a person sends.

use serde_json::{Map, Value};

use super::get_call::GetCall;
use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::MethodResult;
use crate::identities::{IdentityList, to_json};

const PROPERTIES: [&str; 8] = ["id", "name", "email", "replyTo", "bcc", "textSignature", "htmlSignature", "mayDelete"];

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let call = GetCall::parse(context, &mut arguments)?;
    arguments.finish()?;
    call.check_properties(&PROPERTIES)?;
    let account = context.account(&call.account_id)?;
    let snapshot = account.file.snapshot()?;
    context.wait_for(snapshot.ticket());
    let list = IdentityList::load(context.services, context.caller, &account, &snapshot)?;
    let identities = list.effective();
    let wanted = call.wanted(context, || identities.iter().map(|identity| identity.id.clone()).collect())?;
    call.answer(context, &list.state(&snapshot), wanted, |id| {
        Ok(identities.iter().find(|identity| identity.id == id).map(|identity| Value::Object(to_json(identity))))
    })
}
