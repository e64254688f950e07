//! Reports changes to the client: EXPUNGE or VANISHED, EXISTS, RECENT, and flags by FETCH.
//!
//! Expunges are reported only where the client expects its sequence numbers to change (RFC 9051 §7.5.1), all other
//! changes at the end of every command. The order is significant: first the vanished messages, then the number of
//! messages, then flags, which use the sequence numbers that result from the previous reports. The flags of a message
//! are never reported before the message itself.
//!
//! A large number of expunges or of flags is reported in slices. The UIDs that remain are kept, and their flags are
//! read from the entries when they are reported. Changes of many transactions are also recorded in slices
//! ([`Session::catch_up`]), before a command begins or continues.

use base::{DbNumber, Uid};
use mail::mailbox::MailSnapshot;

use super::{Session, fetch_response, is_full, selected};
use crate::codec::command::Numbering;
use crate::codec::{ResponseStatus, ResponseWriter};
use crate::error::Result;
use crate::limits;

/// The updates that may be sent at the end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PermittedUpdates {
    /// No updates.
    None,
    /// All updates except expunges.
    WithoutExpunges,
    /// All updates.
    All,
}

/// Progress of sending updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReportProgress {
    /// All updates were sent.
    All,
    /// The slice was full before all updates were sent.
    Partial,
}

impl Session {
    /// Reports the changes that other sessions made since the last report, as far as `updates` allows.
    pub(crate) fn report(&mut self, updates: PermittedUpdates, out: &mut ResponseWriter) -> Result<ReportProgress> {
        if updates != PermittedUpdates::None && !self.catch_up()? {
            return Ok(ReportProgress::Partial);
        }
        if self.send_new_message_attributes(out)? == ReportProgress::Partial {
            return Ok(ReportProgress::Partial);
        }
        if updates == PermittedUpdates::None {
            return Ok(ReportProgress::All);
        }
        if self.account.is_some() && self.report_watched(out)? == ReportProgress::Partial {
            return Ok(ReportProgress::Partial);
        }
        if self.selected.is_none() {
            return Ok(ReportProgress::All);
        }
        let file = self.file()?;
        self.selected()?.skip_own_changes(file.database().modseq());
        if self.has_nothing_to_report() {
            return Ok(ReportProgress::All);
        }
        let snapshot = file.snapshot()?;
        self.wait_for(snapshot.ticket());
        match self.report_from_snapshot(&snapshot, updates, out)? {
            ReportProgress::All => self.send_new_message_attributes(out),
            ReportProgress::Partial => Ok(ReportProgress::Partial),
        }
    }

    /// Records the next changes in the selected mailbox if so many transactions were committed since the last report
    /// that this is done in slices. Returns `true` if nothing is left to do.
    pub(crate) fn catch_up(&mut self) -> Result<bool> {
        if self.selected.is_none() {
            return Ok(true);
        }
        let file = self.file()?;
        let modseq = file.database().modseq();
        let selected = self.selected()?;
        selected.skip_own_changes(modseq);
        if !selected.is_far_behind(modseq) {
            return Ok(true);
        }
        let snapshot = file.snapshot()?;
        self.wait_for(snapshot.ticket());
        self.selected()?.catch_up(&snapshot)
    }

    /// Reports the changes in a snapshot that the client does not know.
    pub(crate) fn report_from_snapshot(
        &mut self,
        snapshot: &MailSnapshot<'_>,
        updates: PermittedUpdates,
        out: &mut ResponseWriter,
    ) -> Result<ReportProgress> {
        self.record_changes(snapshot)?;
        let mut expunges = ReportProgress::All;
        if updates == PermittedUpdates::All {
            expunges = self.report_vanished(snapshot, out)?;
        }
        self.report_new_messages(snapshot, out)?;
        let flags = self.report_flags(snapshot, out)?;
        Ok(if expunges == ReportProgress::All { flags } else { ReportProgress::Partial })
    }

    /// Reports the messages that vanished before a snapshot and the new messages in it, but no flags.
    pub(crate) fn report_messages(&mut self, snapshot: &MailSnapshot<'_>, out: &mut ResponseWriter) -> Result<()> {
        self.record_changes(snapshot)?;
        self.report_vanished(snapshot, out)?;
        self.report_new_messages(snapshot, out)
    }

    /// Enables CONDSTORE. If a mailbox is selected, reports the mod-sequence from which the client may start (RFC 7162
    /// §3.1).
    ///
    /// This is the mod-sequence of the last change in the mailbox, unless that change has not been reported to the
    /// client yet.
    pub(crate) fn enable_condstore(&mut self, snapshot: &MailSnapshot<'_>, out: &mut ResponseWriter) -> Result<()> {
        if std::mem::replace(&mut self.enabled.condstore, true) {
            return Ok(());
        }
        let Some(selected) = self.selected.as_deref() else { return Ok(()) };
        let status = snapshot.status(selected.folder).map_err(selected::selected_mailbox_error)?;
        let highest = status.highest_modseq.min(selected.client_modseq());
        let highest = snapshot.client_modseq(highest);
        out.untagged().text("OK [HIGHESTMODSEQ ").number(highest).text("] highest mod-sequence").crlf();
        Ok(())
    }

    /// Reports, if expunges are held back, the mod-sequence from which a client with QRESYNC must resynchronize. The
    /// mod-sequences that FETCH and STORE have sent may be later (erratum 1810 of RFC 5162).
    pub(crate) fn report_highest_modseq(&mut self, out: &mut ResponseWriter) {
        let Some(selected) = self.selected.as_deref_mut() else { return };
        let Some(modseq) = selected.finish_command().filter(|_| self.enabled.qresync) else { return };
        let Some(account) = &self.account else { return };
        let modseq = account.file.database().modseq_to_client(modseq);
        out.untagged().text("OK [HIGHESTMODSEQ ").number(modseq).text("] expunges are pending").crlf();
    }

    /// Records the changes up to a snapshot, and queues flag changes by other sessions for reporting.
    pub(crate) fn record_changes(&mut self, snapshot: &MailSnapshot<'_>) -> Result<()> {
        let selected = self.selected()?;
        if snapshot.modseq() <= selected.reported_modseq {
            return Ok(());
        }
        let changes =
            snapshot.changes(selected.folder, selected.reported_modseq).map_err(selected::selected_mailbox_error)?;
        selected.sequence_numbers.record_vanished(changes.vanished.ranges().flatten());
        selected.queue_changes(&changes.changed);
        selected.own.clear();
        selected.scanned_modseq = changes.modseq;
        selected.reported_modseq = changes.modseq;
        Ok(())
    }

    /// Reports vanished messages, until the slice is full.
    fn report_vanished(&mut self, snapshot: &MailSnapshot<'_>, out: &mut ResponseWriter) -> Result<ReportProgress> {
        let qresync = self.enabled.qresync;
        let selected = self.selected()?;
        if !selected.sequence_numbers.has_vanished() {
            return Ok(ReportProgress::All);
        }
        if qresync {
            out.untagged().text("VANISHED ").ranges(selected.sequence_numbers.take_vanished().ranges()).crlf();
            return Ok(ReportProgress::All);
        }
        let place = selected.folder_in(snapshot);
        selected.sequence_numbers.report_expunged(&place, limits::SLICE_EXPUNGES, |number| {
            out.untagged_number(u64::from(number), "EXPUNGE");
        })?;
        let is_complete = !selected.sequence_numbers.has_vanished();
        Ok(if is_complete { ReportProgress::All } else { ReportProgress::Partial })
    }

    fn report_new_messages(&mut self, snapshot: &MailSnapshot<'_>, out: &mut ResponseWriter) -> Result<()> {
        let rev2 = self.enabled.rev2;
        let context = std::sync::Arc::clone(&self.context);
        let mailbox = self.mailbox_key()?;
        let selected = self.selected()?;
        if snapshot.modseq() <= selected.counted {
            return Ok(());
        }
        selected.counted = snapshot.modseq();
        let status = snapshot.status(selected.folder).map_err(selected::selected_mailbox_error)?;
        let known = selected.sequence_numbers.uid_next();
        let uid_next = status.uid_next.0;
        if uid_next <= known {
            return Ok(());
        }
        let before = selected.sequence_numbers.count();
        selected.sequence_numbers.extend_to(uid_next, status.messages);
        let unclaimed = if selected.is_writable() {
            context.recent.claim_below(mailbox, uid_next)
        } else {
            context.recent.first_unclaimed(mailbox, uid_next)
        };
        if !rev2 {
            selected.add_recent(unclaimed.max(known)..uid_next);
        }
        if selected.sequence_numbers.count() == before {
            // The new messages have already vanished again.
            return Ok(());
        }
        out.untagged_number(u64::from(selected.sequence_numbers.count()), "EXISTS");
        if !rev2 {
            out.untagged_number(u64::from(selected.count_recent(snapshot)?), "RECENT");
        }
        self.record_new_messages(known..=uid_next.saturating_sub(1));
        Ok(())
    }

    /// Reports flags that other sessions changed, until the slice is full.
    fn report_flags(&mut self, snapshot: &MailSnapshot<'_>, out: &mut ResponseWriter) -> Result<ReportProgress> {
        if !self.reports_flag_changes() {
            self.selected()?.unreported.clear();
        }
        if self.selected()?.unreported.is_empty() {
            return Ok(ReportProgress::All);
        }
        self.report_keywords(snapshot, out)?;
        // NOTIFY requires the UID (RFC 5465 §5.1).
        let numbering = if self.watch.is_some() { Numbering::Uid } else { Numbering::Sequence };
        for _ in 0..limits::SLICE_EXPUNGES {
            let selected = self.selected()?;
            let Some(uid) = selected.unreported.pop() else { break };
            let Some(entry) = snapshot.entry(selected.folder, Uid(uid))? else { continue };
            let number = selected.sequence_numbers.number_of(&selected.folder_in(snapshot), uid)?;
            fetch_response::write_flags(
                self,
                snapshot,
                &fetch_response::NumberedEntry { number, entry: &entry, numbering },
                out,
            )?;
            if is_full(out) {
                break;
            }
        }
        Ok(if self.selected()?.unreported.is_empty() { ReportProgress::All } else { ReportProgress::Partial })
    }

    /// Sends the flag lists again if there are keywords that have not been reported to the client.
    pub(crate) fn report_keywords(&mut self, snapshot: &MailSnapshot<'_>, out: &mut ResponseWriter) -> Result<()> {
        let count = snapshot.keywords().names().len();
        let selected = self.selected()?;
        if count > selected.keywords_reported {
            selected.keywords_reported = count;
            write_flag_lists(selected.is_writable(), snapshot, out);
        }
        Ok(())
    }

    /// Returns the key of the selected mailbox in the table of recent messages.
    pub(crate) fn mailbox_key(&mut self) -> Result<(DbNumber, base::ViewId)> {
        let database = self.file()?.database().number();
        Ok((database, self.selected()?.folder))
    }
}

/// Writes FLAGS and PERMANENTFLAGS.
pub(crate) fn write_flag_lists(writable: bool, snapshot: &MailSnapshot<'_>, out: &mut ResponseWriter) {
    const SYSTEM: &str = "\\Answered \\Flagged \\Deleted \\Seen \\Draft";
    let write_names = |out: &mut ResponseWriter| {
        for name in snapshot.keywords().names() {
            out.space().text(name);
        }
    };
    out.untagged().text("FLAGS (").text(SYSTEM);
    write_names(out);
    out.byte(b')').crlf();
    out.untagged().text(ResponseStatus::Ok.name()).text(" [PERMANENTFLAGS (");
    if writable {
        out.text(SYSTEM);
        write_names(out);
        out.text(" \\*");
    }
    out.text(")] permanent flags").crlf();
}
