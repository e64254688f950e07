//! The mailboxes of a mail file as LIST, LSUB and NOTIFY name them.

use mail::mailbox::MailSnapshot;

use super::hierarchy::{Hierarchy, ListEntry, ListForm, ListedMailbox};
use crate::codec::ResponseWriter;
use crate::codec::command::SpecialUseAttribute;
use crate::error::Result;

/// Collects the mailboxes and subscribed names that the client can see.
pub fn hierarchy(snapshot: &MailSnapshot<'_>) -> Result<Hierarchy> {
    let folders = snapshot.folders()?;
    let subscriptions = snapshot.subscriptions()?;
    let mut mailboxes: Vec<(String, ListedMailbox)> = Vec::with_capacity(folders.len() + subscriptions.len());
    let subscribed_only = ListedMailbox { subscribed: true, ..ListedMailbox::default() };
    mailboxes.extend(subscriptions.iter().map(|name| (name.clone(), subscribed_only.clone())));
    for folder in folders {
        let special_use = folder.special_use.and_then(|known| SpecialUseAttribute::from_name(known.name().as_bytes()));
        let exists = folder.selectable;
        let subscribed = subscriptions.contains(&folder.name);
        mailboxes.push((folder.name, ListedMailbox { exists, subscribed, special_use, ..ListedMailbox::default() }));
    }
    Ok(Hierarchy::from_mailboxes(mailboxes))
}

/// Writes the beginning of a LIST response, without its extended data and line end.
pub fn write_name(listed: &ListEntry<'_>, form: ListForm<'_>, out: &mut ResponseWriter) {
    out.untagged().text("LIST (");
    for (index, attribute) in listed.attributes(form).enumerate() {
        if index > 0 {
            out.space();
        }
        out.text(attribute);
    }
    out.text(") \"/\" ").mailbox(listed.name);
}
