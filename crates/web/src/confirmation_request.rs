//! The request of a sender to be told that a message was displayed, as the page of the message shows it.
//!
//! A confirmation is offered if the request names one valid address and was not answered. If that is another address
//! than the one to which the message would be returned, the page says so (RFC 8098 §2.1). None is offered for messages
//! that the person has written, and in the folder with junk.

use mail::disposition_notification::{NOTIFIED_KEYWORD, NotificationRequest};
use mail::mailbox::{Folder, MailSnapshot, SpecialUse};
use notes::{FolderEntry, Marks};

use crate::shown_text;

/// A confirmation that the page of a message offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OfferedConfirmation {
    /// Why the person should look twice, if there is a reason.
    pub(crate) warning: Option<String>,
}

/// Returns the confirmation that the page of a message offers.
pub(crate) fn offered(
    snapshot: &MailSnapshot<'_>,
    (folder, entry): (&Folder, &FolderEntry),
    header: &[u8],
) -> Option<OfferedConfirmation> {
    let request = request_of(snapshot, (folder, entry), header)?;
    let to = request.recipients.first()?;
    let warning = match &request.return_path {
        _ if request.matches_return_path() => None,
        Some(path) if !path.is_empty() => {
            Some(format!("The confirmation goes to {to}, but the message came from {path}."))
        }
        _ => Some(format!("The confirmation goes to {to}. The message does not show that it came from there.")),
    };
    Some(OfferedConfirmation { warning: warning.map(|text| shown_text::on_one_line(&text)) })
}

/// Returns the request of a message if it may be answered and was not.
pub(crate) fn request_of(
    snapshot: &MailSnapshot<'_>,
    (folder, entry): (&Folder, &FolderEntry),
    header: &[u8],
) -> Option<NotificationRequest> {
    let is_own = matches!(folder.special_use, Some(SpecialUse::Drafts | SpecialUse::Sent));
    let is_junk = folder.special_use == Some(SpecialUse::Junk);
    let is_answered = snapshot.flags(entry).has_keyword(NOTIFIED_KEYWORD);
    if is_own || is_junk || is_answered || entry.marks.contains(Marks::DRAFT) {
        return None;
    }
    NotificationRequest::of_header(header).filter(|request| request.recipients.len() == 1)
}
