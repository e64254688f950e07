//! Arguments of the verbs that concern mailboxes: SELECT to LSUB, STATUS, LIST and the quota commands.

use crate::codec::command::{
    CommandBody, ListCommand, ListReturns, ListSelection, Numbering, Qresync, QuotaLimit, SelectCommand, SelectMode,
    SpecialUseAttribute, StatusItem,
};
use crate::codec::error::SyntaxError;
use crate::codec::scanner::{Parsed, Scanner};
use crate::limits;

/// Parses `SELECT mailbox [(parameters)]`, and EXAMINE.
pub fn select(scanner: &mut Scanner<'_>, mode: SelectMode) -> Parsed<CommandBody> {
    scanner.space()?;
    let mailbox = scanner.mailbox()?;
    let mut select = SelectCommand { mailbox, mode, condstore: false, qresync: None };
    if !scanner.is_at_end() {
        scanner.space()?;
        scanner.list(limits::LIST_ITEMS_MAX, "parameters", |scanner| {
            if scanner.take_word("CONDSTORE") {
                select.condstore = true;
            } else if scanner.take_word("QRESYNC") {
                scanner.space()?;
                select.qresync = Some(qresync(scanner)?);
            } else {
                return Err(SyntaxError::Expected("CONDSTORE or QRESYNC"));
            }
            Ok(())
        })?;
    }
    Ok(CommandBody::Select(select))
}

fn qresync(scanner: &mut Scanner<'_>) -> Parsed<Qresync> {
    scanner.expect(b'(', "the QRESYNC parameters in parentheses")?;
    let uid_validity = scanner.number_not_zero()?;
    scanner.space()?;
    let modseq = scanner.number64()?;
    let mut qresync = Qresync { uid_validity, modseq, known_uids: None, sequence_match: None };
    if scanner.take(b' ') {
        if scanner.peek() != Some(b'(') {
            qresync.known_uids = Some(scanner.sequence_set()?);
        }
        if qresync.known_uids.is_none() || scanner.take(b' ') {
            scanner.expect(b'(', "sequence numbers and UIDs in parentheses")?;
            let numbers = scanner.sequence_set()?;
            scanner.space()?;
            qresync.sequence_match = Some((numbers, scanner.sequence_set()?));
            scanner.expect(b')', "a closing parenthesis")?;
        }
    }
    scanner.expect(b')', "a closing parenthesis")?;
    Ok(qresync)
}

/// Parses `CREATE mailbox [(USE (attributes))]`.
pub fn create(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    let mailbox = scanner.mailbox()?;
    let mut special_use = Vec::new();
    if !scanner.is_at_end() {
        scanner.space()?;
        scanner.list(limits::LIST_ITEMS_MAX, "parameters", |scanner| {
            if !scanner.take_word("USE") {
                return Err(SyntaxError::Expected("USE"));
            }
            scanner.space()?;
            special_use = scanner.list(limits::LIST_ITEMS_MAX, "attributes", |scanner| {
                SpecialUseAttribute::from_name(scanner.word()).ok_or(SyntaxError::UnknownSpecialUse)
            })?;
            Ok(())
        })?;
    }
    Ok(CommandBody::Create { mailbox, special_use })
}

/// Parses `DELETE mailbox`.
pub fn delete(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    Ok(CommandBody::Delete(scanner.mailbox()?))
}

/// Parses `RENAME mailbox mailbox`.
pub fn rename(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    let from = scanner.mailbox()?;
    scanner.space()?;
    Ok(CommandBody::Rename { from, to: scanner.mailbox()? })
}

/// Parses `SUBSCRIBE mailbox`.
pub fn subscribe(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    Ok(CommandBody::Subscribe(scanner.mailbox()?))
}

/// Parses `UNSUBSCRIBE mailbox`.
pub fn unsubscribe(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    Ok(CommandBody::Unsubscribe(scanner.mailbox()?))
}

/// Parses `LSUB reference pattern`.
pub fn lsub(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    let reference = scanner.mailbox()?;
    scanner.space()?;
    Ok(CommandBody::Lsub { reference, pattern: scanner.list_pattern()? })
}

/// Parses `LIST [(selection)] reference pattern|(patterns) [RETURN (options)]`.
pub fn list(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    let mut extended = false;
    let mut selection = ListSelection::default();
    if scanner.peek() == Some(b'(') {
        extended = true;
        scanner.list(limits::LIST_ITEMS_MAX, "options", |scanner| list_selection(scanner, &mut selection))?;
        scanner.space()?;
        if selection.recursive_match && !(selection.subscribed || selection.special_use) {
            return Err(SyntaxError::Expected("SUBSCRIBED or SPECIAL-USE with RECURSIVEMATCH"));
        }
    }
    let reference = scanner.mailbox()?;
    scanner.space()?;
    let patterns = if scanner.peek() == Some(b'(') {
        extended = true;
        scanner.list(limits::LIST_PATTERNS_MAX, "patterns", Scanner::list_pattern)?
    } else {
        vec![scanner.list_pattern()?]
    };
    if patterns.is_empty() {
        return Err(SyntaxError::Expected("a mailbox pattern"));
    }
    let patterns = patterns.into_iter().flatten().collect();
    let mut returns = ListReturns::default();
    if !scanner.is_at_end() {
        extended = true;
        scanner.space()?;
        if !scanner.take_word("RETURN") {
            return Err(SyntaxError::Expected("RETURN"));
        }
        scanner.space()?;
        scanner.list(limits::LIST_ITEMS_MAX, "options", |scanner| list_return(scanner, &mut returns))?;
    }
    Ok(CommandBody::List(ListCommand { selection, reference, patterns, returns, extended }))
}

fn list_selection(scanner: &mut Scanner<'_>, selection: &mut ListSelection) -> Parsed<()> {
    match scanner.word().to_ascii_uppercase().as_slice() {
        b"SUBSCRIBED" => selection.subscribed = true,
        b"REMOTE" => selection.remote = true,
        b"RECURSIVEMATCH" => selection.recursive_match = true,
        b"SPECIAL-USE" => selection.special_use = true,
        _ => return Err(SyntaxError::Expected("a selection option")),
    }
    Ok(())
}

fn list_return(scanner: &mut Scanner<'_>, returns: &mut ListReturns) -> Parsed<()> {
    match scanner.word().to_ascii_uppercase().as_slice() {
        b"SUBSCRIBED" => returns.subscribed = true,
        b"CHILDREN" => returns.children = true,
        b"SPECIAL-USE" => returns.special_use = true,
        b"STATUS" => {
            scanner.space()?;
            returns.status = Some(status_items(scanner)?);
        }
        _ => return Err(SyntaxError::Expected("a return option")),
    }
    Ok(())
}

/// Parses `STATUS mailbox (items)`.
pub fn status(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    let mailbox = scanner.mailbox()?;
    scanner.space()?;
    Ok(CommandBody::Status { mailbox, items: status_items(scanner)? })
}

fn status_items(scanner: &mut Scanner<'_>) -> Parsed<Vec<StatusItem>> {
    let items = scanner.list(limits::LIST_ITEMS_MAX, "status items", status_item)?;
    if items.is_empty() { Err(SyntaxError::Expected("a status item")) } else { Ok(items) }
}

fn status_item(scanner: &mut Scanner<'_>) -> Parsed<StatusItem> {
    Ok(match scanner.word().to_ascii_uppercase().as_slice() {
        b"MESSAGES" => StatusItem::Messages,
        b"RECENT" => StatusItem::Recent,
        b"UIDNEXT" => StatusItem::UidNext,
        b"UIDVALIDITY" => StatusItem::UidValidity,
        b"UNSEEN" => StatusItem::Unseen,
        b"DELETED" => StatusItem::Deleted,
        b"DELETED-STORAGE" => StatusItem::DeletedStorage,
        b"SIZE" => StatusItem::Size,
        b"HIGHESTMODSEQ" => StatusItem::HighestModSeq,
        b"APPENDLIMIT" => StatusItem::AppendLimit,
        b"MAILBOXID" => StatusItem::MailboxId,
        _ => return Err(SyntaxError::Expected("a status item")),
    })
}

/// Parses `GETQUOTA root`.
pub fn get_quota(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    Ok(CommandBody::GetQuota(scanner.astring_text()?))
}

/// Parses `GETQUOTAROOT mailbox`.
pub fn get_quota_root(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    Ok(CommandBody::GetQuotaRoot(scanner.mailbox()?))
}

/// Parses `SETQUOTA root (resource limit ...)`.
pub fn set_quota(scanner: &mut Scanner<'_>, _: Numbering) -> Parsed<CommandBody> {
    scanner.space()?;
    let root = scanner.astring_text()?;
    scanner.space()?;
    let limits = scanner.list(limits::LIST_ITEMS_MAX, "resources", |scanner| {
        let resource = scanner.atom("a resource")?.to_ascii_uppercase();
        scanner.space()?;
        Ok(QuotaLimit { resource, limit: scanner.number64()? })
    })?;
    Ok(CommandBody::SetQuota { root, limits })
}
