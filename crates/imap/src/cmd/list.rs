//! LIST (RFC 9051 §6.3.9) with LIST-EXTENDED (RFC 5258), LIST-STATUS (RFC 5819) and SPECIAL-USE (RFC 6154).
//!
//! The names are those of the snapshot with which the command began. They are matched and written in slices. The status
//! of a mailbox is that of the snapshot of its slice; a mailbox that was deleted or renamed since has none.

use base::Modseq;
use mail::mailbox::MailSnapshot;

use super::status::{StatusBudget, StatusResponse};
use crate::codec::ResponseWriter;
use crate::codec::command::{ListCommand, ListReturns, ListSelection, StatusItem};
use crate::error::{Error, Result};
use crate::session::hierarchy::{ListEntry, ListForm};
use crate::session::list_response::{load_hierarchy, write_name};
use crate::session::list_walk::{ListCriteria, ListWalk};
use crate::session::mailbox_pattern::MailboxPattern;
use crate::session::{CommandOutcome, Session, SlicedCommand, TaggedReply, is_full};

/// The reply to a LIST or LSUB whose patterns cost too much.
pub const TOO_MUCH_WORK: Error =
    Error::No("[LIMIT] matching these patterns takes too long, use fewer of them or fewer wildcards");

/// Begins a LIST.
pub fn list(session: &mut Session, list: ListCommand, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    if !list.extended && matches!(list.patterns.as_slice(), [pattern] if pattern.is_empty()) {
        out.untagged_line("LIST (\\Noselect) \"/\" \"\"");
        return Ok(TaggedReply::completed().into());
    }
    let file = session.file()?;
    let snapshot = file.snapshot()?;
    session.wait_for(snapshot.ticket());
    let reference = list.reference.as_str();
    let patterns = list.patterns.iter().map(|pattern| MailboxPattern::new(reference, pattern)).collect();
    let listed_design = snapshot.design_modseq()?;
    let statuses = list.returns.status.clone().map(|items| ListedStatuses { items, listed_design, pending: None });
    Ok(CommandOutcome::Job(Box::new(ListJob {
        walk: ListWalk::new(load_hierarchy(&snapshot)?, patterns, ListCriteria::List(list.selection)),
        selection: list.selection,
        returns: list.returns,
        knows_nonexistent: list.extended || session.enabled.rev2,
        statuses,
    })))
}

/// A LIST in progress.
struct ListJob {
    walk: ListWalk,
    selection: ListSelection,
    returns: ListReturns,
    knows_nonexistent: bool,
    statuses: Option<ListedStatuses>,
}

impl SlicedCommand for ListJob {
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        let Self { walk, selection, returns, knows_nonexistent, statuses } = self;
        let file = session.file()?;
        let snapshot = statuses.as_ref().map(|_| file.snapshot()).transpose()?;
        if let Some(snapshot) = &snapshot {
            session.wait_for(snapshot.ticket());
        }
        let form = ListForm { selection: *selection, returns, knows_nonexistent: *knows_nonexistent };
        let mut budget = StatusBudget::for_slice(session);
        walk.begin_slice();
        // Every slice visits a name, or reads an entry for the pending response.
        let mut is_first = true;
        loop {
            if let (Some(statuses), Some(snapshot)) = (statuses.as_mut(), &snapshot)
                && !statuses.write(session, snapshot, &mut budget, out)?
            {
                return Ok(None);
            }
            let is_over = is_full(out) || walk.is_slice_over() || budget.is_used_up();
            if is_over && !is_first {
                return Ok(None);
            }
            is_first = false;
            let visited = walk.visit(&mut |listed| {
                write(listed, form, out);
                if let Some(statuses) = statuses.as_mut() {
                    statuses.add(listed);
                }
            });
            if !visited.map_err(|_| TOO_MUCH_WORK)? {
                return Ok(Some(TaggedReply::completed()));
            }
        }
    }
}

/// The STATUS responses of the mailboxes that a LIST shows.
struct ListedStatuses {
    items: Vec<StatusItem>,
    /// The design mod-sequence of the snapshot whose names are listed.
    listed_design: Modseq,
    /// The response to the mailbox that was written last.
    pending: Option<StatusResponse>,
}

impl ListedStatuses {
    /// Adds the response of a mailbox that was written. Other names have none.
    fn add(&mut self, listed: &ListEntry<'_>) {
        self.pending = listed.mailbox.folder.map(|folder| StatusResponse::new(listed.name, folder));
    }

    /// Writes the pending response. Returns `false` if the budget is used up before all its items are known.
    fn write(
        &mut self,
        session: &Session,
        snapshot: &MailSnapshot<'_>,
        budget: &mut StatusBudget,
        out: &mut ResponseWriter,
    ) -> Result<bool> {
        let Some(mut pending) = self.pending.take() else { return Ok(true) };
        if snapshot.design_modseq()? != self.listed_design && !pending.is_current(snapshot)? {
            return Ok(true);
        }
        match pending.write((session, snapshot), &self.items, budget, out) {
            Ok(true) | Err(Error::Mail(mail::Error::NoMailbox(_))) => Ok(true),
            Ok(false) => {
                self.pending = Some(pending);
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }
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
