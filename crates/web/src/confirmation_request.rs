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
    /// The address that it goes to.
    pub(crate) to: String,
    /// Whether the person should look twice.
    pub(crate) doubt: Doubt,
}

/// Why a confirmation may go to somebody else than the sender (RFC 8098 §2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// There is no reason.
    None,
    /// The message came from this address.
    OtherSender(String),
    /// The message does not show where it came from.
    UnknownSender,
}

/// Returns the confirmation that the page of a message offers.
pub(crate) fn offered(
    snapshot: &MailSnapshot<'_>,
    (folder, entry): (&Folder, &FolderEntry),
    header: &[u8],
) -> Option<OfferedConfirmation> {
    let request = request_of(snapshot, (folder, entry), header)?;
    let doubt = match &request.return_path {
        _ if request.matches_return_path() => Doubt::None,
        Some(path) if !path.is_empty() => Doubt::OtherSender(shown_text::on_one_line(path)),
        _ => Doubt::UnknownSender,
    };
    Some(OfferedConfirmation { to: shown_text::on_one_line(request.recipients.first()?), doubt })
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
