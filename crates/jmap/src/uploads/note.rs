//! The notes of uploads: the items of a description, and the description of a note.

use notes::{Item, ItemFlags, ItemValue, Note};
use store::Ticket;

use super::UploadOwner;
use super::index::UploadRecord;

/// Form of the notes.
const FORM: &str = "Upload";

/// Items of the notes.
const FORM_ITEM: &str = "Form";
const LOGIN_ITEM: &str = "Login";
const ACCOUNT_ITEM: &str = "Account";
const ID_ITEM: &str = "UploadId";
const ARRIVED_ITEM: &str = "Arrived";
const CONTENT_IS_NEW_ITEM: &str = "ContentIsNew";
const FILE_ITEM: &str = "$FILE";

/// The name of the attachment. Clients send no name with an upload.
const FILE_NAME: &str = "upload";

/// The value of [`CONTENT_IS_NEW_ITEM`] if uploads have brought the content.
const YES: &str = "1";

/// Returns the items of the note of an upload.
pub(super) fn items(record: &UploadRecord) -> Vec<Item> {
    let file = ItemValue::Object {
        file_name: FILE_NAME.to_owned(),
        media_type: record.media_type.clone(),
        length: record.size,
        blob: record.blob,
    };
    let mut items = vec![
        Item::text(FORM_ITEM, FORM),
        Item::text(LOGIN_ITEM, &*record.owner.login),
        Item::text(ACCOUNT_ITEM, &*record.owner.account),
        Item::text(ID_ITEM, &*record.id),
        Item::summary(ARRIVED_ITEM, ItemValue::Time(record.at)),
        Item { name: FILE_ITEM.to_owned(), flags: ItemFlags::SUMMARY, value: file },
    ];
    if record.is_content_new {
        items.push(Item::text(CONTENT_IS_NEW_ITEM, YES));
    }
    items
}

/// Reads a note. Returns `None` for others than those of uploads.
pub(super) fn read(note: &Note) -> Option<UploadRecord> {
    let text = |name: &str| note.text(name).map(str::to_owned);
    if note.text(FORM_ITEM) != Some(FORM) {
        return None;
    }
    let ItemValue::Object { media_type, length, blob, .. } = &note.item(FILE_ITEM)?.value else { return None };
    Some(UploadRecord {
        owner: UploadOwner { login: text(LOGIN_ITEM)?, account: text(ACCOUNT_ITEM)? },
        id: text(ID_ITEM)?,
        media_type: media_type.clone(),
        size: *length,
        at: note.item(ARRIVED_ITEM)?.value.time()?,
        note: note.header.note,
        blob: *blob,
        is_content_new: note.text(CONTENT_IS_NEW_ITEM) == Some(YES),
        // What is read at the start of the server is on the disk.
        ticket: Ticket::NONE,
    })
}
