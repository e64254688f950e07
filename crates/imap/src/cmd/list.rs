//! LIST (RFC 9051 §6.3.9) with LIST-EXTENDED (RFC 5258), LIST-STATUS (RFC 5819) and SPECIAL-USE (RFC 6154).

use super::status;
use crate::codec::ResponseWriter;
use crate::codec::command::{ListCommand, ListSelection};
use crate::error::Result;
use crate::session::hierarchy::{ListEntry, ListForm, MailboxPattern};
use crate::session::list_response::{hierarchy, write_name};
use crate::session::{CommandOutcome, Session, TaggedReply};

/// Lists mailboxes.
pub fn list(session: &mut Session, list: &ListCommand, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    if !list.extended && matches!(list.patterns.as_slice(), [pattern] if pattern.is_empty()) {
        out.untagged_line("LIST (\\Noselect) \"/\" \"\"");
        return Ok(TaggedReply::completed().into());
    }
    let file = session.file()?;
    let snapshot = file.snapshot()?;
    session.wait_for(snapshot.ticket());
    let hierarchy = hierarchy(&snapshot)?;
    let patterns: Vec<MailboxPattern> =
        list.patterns.iter().map(|pattern| MailboxPattern::new(list.reference.as_str(), pattern)).collect();
    let form = ListForm {
        selection: list.selection,
        returns: &list.returns,
        knows_nonexistent: list.extended || session.enabled.rev2,
    };
    for listed in hierarchy.list(&patterns, list.selection) {
        write(&listed, form, out);
        if let Some(items) = list.returns.status.as_ref().filter(|_| listed.mailbox.exists) {
            status::write(session, &snapshot, (listed.name, items), out)?;
        }
    }
    Ok(TaggedReply::completed().into())
}

fn write(listed: &ListEntry<'_>, form: ListForm<'_>, out: &mut ResponseWriter) {
    write_name(listed, form, out);
    if listed.child_info {
        out.text(" (\"CHILDINFO\" (");
        let ListSelection { subscribed, special_use, .. } = form.selection;
        let names = [(subscribed, "\"SUBSCRIBED\""), (special_use, "\"SPECIAL-USE\"")];
        let mut names = names.iter().filter(|(wanted, _)| *wanted).map(|(_, name)| *name);
        out.text(names.next().unwrap_or_default());
        names.for_each(|name| {
            out.space().text(name);
        });
        out.text("))");
    }
    out.crlf();
}
