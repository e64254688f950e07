//! The mailboxes of a mail file as LIST, LSUB and NOTIFY name them.

use std::collections::HashSet;

use mail::mailbox::{Folder, MailSnapshot};

use super::hierarchy::{Hierarchy, HierarchyEntry, ListEntry, ListForm};
use crate::codec::ResponseWriter;
use crate::codec::command::SpecialUseAttribute;
use crate::error::Result;

/// Loads the mailboxes and subscribed names that the client can see.
pub fn load_hierarchy(snapshot: &MailSnapshot<'_>) -> Result<Hierarchy> {
    Ok(hierarchy(&snapshot.folders()?, &snapshot.subscriptions()?))
}

/// Creates the tree of these mailboxes and subscribed names.
pub fn hierarchy(folders: &[Folder], subscriptions: &HashSet<String>) -> Hierarchy {
    let subscribed_only =
        |name: &String| HierarchyEntry { name: name.clone(), folder: None, subscribed: true, special_use: None };
    let mailbox = |folder: &Folder| HierarchyEntry {
        name: folder.name.clone(),
        folder: folder.selectable.then_some(folder.id),
        subscribed: subscriptions.contains(&folder.name),
        special_use: folder.special_use.and_then(|known| SpecialUseAttribute::from_name(known.name().as_bytes())),
    };
    // Of a subscribed name that a folder has, the entry of the folder counts, which is the later one.
    let names = subscriptions.iter().map(subscribed_only);
    Hierarchy::new(names.chain(folders.iter().map(mailbox)).collect())
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
