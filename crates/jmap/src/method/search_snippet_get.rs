//! SearchSnippet/get (RFC 8621 §5.1): excerpts of messages with the words of a filter marked.

use mail::mailbox::Message;
use mail::mime::{MimeSource, header};
use serde_json::{Map, Value, json};

use crate::arguments::Arguments;
use crate::context::Context;
use crate::email::{searchable_body_text, snippet};
use crate::error::MethodResult;
use crate::filter::Filter;
use crate::limits::SNIPPET_OCTETS_MAX;

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let filter = arguments.value("filter");
    let ids = arguments.texts("emailIds")?;
    arguments.finish()?;
    let ids = ids.ok_or_else(|| crate::error::MethodError::invalid_arguments("emailIds is missing"))?;
    context.check_get_count(ids.len())?;
    let account = context.account(&account_id)?;
    let view = context.view(&account)?;
    // This refuses the filters that Email/query refuses.
    Filter::of_messages(filter.as_ref(), view.table.mailboxes(), view.snapshot.keywords())?;
    let subject_words = Filter::words(filter.as_ref(), &["text", "subject"]);
    let body_words = Filter::words(filter.as_ref(), &["text", "body"]);
    let mut list = Vec::new();
    let mut not_found = Vec::new();
    for id in ids {
        let row = context.resolve_id(&id).and_then(|id| view.table.email(&id));
        let snippets = |message: &Message<'_>| {
            let subject = header::first(message.header(), "Subject").map(header::decode_value).unwrap_or_default();
            let text = || message.prepare_for_parts().and_then(|()| searchable_body_text(message));
            let body = (!body_words.is_empty()).then(text).transpose()?;
            let preview = body.and_then(|body| snippet(&body, &body_words, SNIPPET_OCTETS_MAX));
            Ok((snippet(&subject, &subject_words, usize::MAX), preview))
        };
        let found = row.map(|row| view.read_message(row, snippets)).transpose()?.flatten();
        let (Some(row), Some((subject, preview))) = (row, found) else {
            not_found.push(id);
            continue;
        };
        let object = json!({ "emailId": &*row.email_id, "subject": subject, "preview": preview });
        context.count_reply(&object)?;
        list.push(object);
    }
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(account_id));
    reply.insert("list".to_owned(), Value::Array(list));
    reply.insert("notFound".to_owned(), if not_found.is_empty() { Value::Null } else { json!(not_found) });
    Ok(reply)
}
