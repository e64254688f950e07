//! The Email object of a message of an account.

use mail::message_table::MessageRow;
use serde_json::Value;

use crate::account::AccountView;
use crate::email::{BodyOptions, EmailMetadata, EmailProperty, email_object, metadata_object};
use crate::error::MethodResult;
use crate::keyword;

/// Returns a message with some properties, or `None` if it is damaged or hidden.
pub fn object_of(
    view: &AccountView<'_>,
    row: &MessageRow,
    properties: &[EmailProperty],
    options: &BodyOptions,
) -> MethodResult<Option<Value>> {
    let metadata = metadata_of(view, row);
    if properties.iter().all(EmailProperty::is_metadata) {
        return Ok(Some(Value::Object(metadata_object(&metadata, properties))));
    }
    let object = view.read_message(row, |message| {
        if properties.iter().any(EmailProperty::needs_parts) {
            message.prepare_for_parts()?;
        }
        email_object(message, &metadata, properties, options)
    })?;
    Ok(object.map(Value::Object))
}

fn metadata_of(view: &AccountView<'_>, row: &MessageRow) -> EmailMetadata {
    let mailboxes = view.table.mailboxes();
    let ids = row.places.iter().filter_map(|place| mailboxes.by_view(*place)).map(|mailbox| mailbox.id.clone());
    EmailMetadata {
        id: Some(row.email_id.to_string()),
        blob_id: row.blob_id(),
        thread_id: Some(row.thread.to_string()),
        mailbox_ids: Some(ids.collect()),
        keywords: Some(keyword::names(row.marks, &row.keywords, view.snapshot.keywords())),
        size: row.size,
        received_at: Some(row.received),
    }
}
