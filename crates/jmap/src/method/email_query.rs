//! Email/query (RFC 8621 §4.4): lists of messages, or of threads by their first message.

use serde_json::{Map, Value};

use crate::arguments::Arguments;
use crate::context::Context;
use crate::error::MethodResult;
use crate::query::{EmailQuery, QueriedList, QueryArguments, Window};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let definition = QueryArguments::parse(&mut arguments)?;
    let window = Window::parse(&mut arguments)?;
    arguments.finish()?;
    let account = context.account(&account_id)?;
    let mut view = context.view(&account)?;
    let mut query = EmailQuery::parse(&definition, &view)?;
    let notes = query.run(&mut view, &*context.services.accounts)?;
    let id_at = |index: usize| view.table.row(*notes.get(index)?).map(|row| row.email_id.to_string());
    let find = |id: &str| query.place(&view, &notes, view.table.email(id)?.note);
    let state = view.email_state();
    let list = QueriedList { account_id: &account_id, state: &state, can_calculate_changes: true };
    window.answer(&list, notes.len(), find, id_at)
}
