//! FETCH responses of data that the folder's entry holds: flags, dates, sizes and mod-sequences.
//!
//! FETCH and STORE write them, and so do the reports of changes that other sessions made.

use mail::mailbox::{MailSnapshot, flags};
use notes::FolderEntry;

use super::{SelectedMailbox, Session};
use crate::codec::ResponseWriter;
use crate::codec::command::{FetchAttribute, Numbering};
use crate::error::Result;

/// A message as a FETCH response names it.
#[derive(Clone, Copy)]
pub struct NumberedEntry<'e> {
    /// The sequence number.
    pub number: u32,
    /// The entry in the folder.
    pub entry: &'e FolderEntry,
    /// How the command numbers messages.
    pub numbering: Numbering,
}

/// Writes a FETCH response with flags, unsolicited or after STORE. The UID is included if the command numbers by UID,
/// or if CONDSTORE or IMAP4rev2 is enabled.
pub fn write_flags(
    session: &mut Session,
    snapshot: &MailSnapshot<'_>,
    message: &NumberedEntry<'_>,
    out: &mut ResponseWriter,
) -> Result<()> {
    let NumberedEntry { number, entry, numbering } = *message;
    let condstore = session.enabled.condstore;
    let rev2 = session.enabled.rev2;
    let selected = session.selected()?;
    write_head(number, out);
    if condstore || rev2 || numbering == Numbering::Uid {
        write_of_entry(&FetchAttribute::Uid, (selected, snapshot, entry), out);
        out.space();
    }
    write_of_entry(&FetchAttribute::Flags, (selected, snapshot, entry), out);
    if condstore {
        out.space();
        write_of_entry(&FetchAttribute::ModSeq, (selected, snapshot, entry), out);
    }
    out.byte(b')').crlf();
    Ok(())
}

/// Writes a FETCH response with the mod-sequence and without flags, after a silent STORE (RFC 7162 §3.1.3).
pub fn write_modseq(number: u32, (snapshot, entry): (&MailSnapshot<'_>, &FolderEntry), out: &mut ResponseWriter) {
    let modseq = snapshot.client_modseq(entry.modseq);
    write_head(number, out);
    out.text("UID ").number(u64::from(entry.uid.0)).text(" MODSEQ (").number(modseq).text("))").crlf();
}

/// Writes `* n FETCH (`.
pub fn write_head(number: u32, out: &mut ResponseWriter) {
    out.untagged().number(u64::from(number)).text(" FETCH (");
}

/// Writes an attribute that the folder's entry holds. For [`FetchAttribute::Rfc822Size`], the caller has set the size
/// of a composed message ([`MailSnapshot::message_size`]).
pub fn write_of_entry(
    attribute: &FetchAttribute,
    (selected, snapshot, entry): (&SelectedMailbox, &MailSnapshot<'_>, &FolderEntry),
    out: &mut ResponseWriter,
) {
    match attribute {
        FetchAttribute::Flags => write_flag_list(selected, snapshot, entry, out),
        FetchAttribute::InternalDate => {
            out.text("INTERNALDATE ").date_time(entry.received.seconds());
        }
        FetchAttribute::ModSeq => {
            out.text("MODSEQ (").number(snapshot.client_modseq(entry.modseq)).byte(b')');
        }
        FetchAttribute::Rfc822Size => {
            out.text("RFC822.SIZE ").number(entry.size);
        }
        FetchAttribute::SaveDate => {
            out.text("SAVEDATE ").date_time(entry.saved.seconds());
        }
        FetchAttribute::Uid => {
            out.text("UID ").number(u64::from(entry.uid.0));
        }
        _ => {
            let _ = base::never!(true, "only attributes of the index entry are written here");
            out.nil();
        }
    }
}

fn write_flag_list(
    selected: &SelectedMailbox,
    snapshot: &MailSnapshot<'_>,
    entry: &FolderEntry,
    out: &mut ResponseWriter,
) {
    out.text("FLAGS (");
    let mut separate = false;
    let mut write = |name: &str| {
        if std::mem::replace(&mut separate, true) {
            out.space();
        }
        out.text(name);
    };
    flags::system_flag_names(entry.marks).for_each(&mut write);
    entry.keywords.iter().filter_map(|keyword| snapshot.keywords().name(*keyword)).for_each(&mut write);
    if selected.is_recent(entry.uid.0) {
        write("\\Recent");
    }
    out.byte(b')');
}
