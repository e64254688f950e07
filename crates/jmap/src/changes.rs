//! `/changes` (RFC 8620 §5.2): what was created, changed and destroyed between two states.
//!
//! The change log names the changed notes, and the table tells what they are and since when. Messages that left before
//! the table was built are found by their stubs: these tell the Email, but not its Thread. If an answer depends on
//! that, it is `cannotCalculateChanges`.

use std::collections::{BTreeSet, HashMap, HashSet};

use base::{Modseq, NoteId};
use notes::change_log::NoteChange;
use notes::{NoteClass, NoteFlags};
use serde_json::{Map, Value, json};

use crate::account::AccountView;
use crate::arguments::Arguments;
use crate::error::{MethodError, MethodResult};
use crate::limits::CHANGES_MAX;
use crate::state::{self, Part, State};

/// The arguments of a `/changes`.
#[derive(Clone, Debug)]
pub struct ChangesCall {
    /// The account.
    pub account_id: String,
    /// `sinceState`.
    pub since: String,
    /// `maxChanges`.
    pub max: usize,
}

impl ChangesCall {
    /// Reads the arguments.
    pub fn parse(mut arguments: Arguments) -> MethodResult<Self> {
        let account_id = arguments.account_id()?;
        let since = arguments.required_text("sinceState")?;
        let max = parse_max_changes(&mut arguments)?.unwrap_or(CHANGES_MAX).min(CHANGES_MAX);
        arguments.finish()?;
        Ok(Self { account_id, since, max })
    }
}

/// Takes the argument `maxChanges`, which is greater than 0.
pub fn parse_max_changes(arguments: &mut Arguments) -> MethodResult<Option<usize>> {
    match arguments.unsigned("maxChanges")? {
        Some(0) => Err(MethodError::invalid_arguments("maxChanges is 0")),
        max => Ok(max.map(|max| usize::try_from(max).unwrap_or(usize::MAX))),
    }
}

/// The arguments of a `/queryChanges`, without those that define the list (RFC 8620 §5.6).
#[derive(Clone, Debug)]
pub struct ListChangesCall {
    /// The account.
    pub account_id: String,
    /// `sinceQueryState`.
    pub since: String,
    /// `upToId`.
    pub up_to: Option<String>,
    max: Option<usize>,
    wants_total: bool,
}

/// How a list changed.
#[derive(Clone, Debug)]
pub struct ListChanges {
    /// Objects that the client removes from its list.
    pub removed: BTreeSet<String>,
    /// Objects that the client adds, with their places, in order.
    pub added: Vec<(usize, String)>,
    /// The number of objects in the list now.
    pub total: usize,
    /// The state of the list now.
    pub new_state: String,
}

impl ListChangesCall {
    /// Reads the arguments after those that define the list were taken.
    pub fn parse(mut arguments: Arguments) -> MethodResult<Self> {
        let call = Self {
            account_id: arguments.account_id()?,
            since: arguments.required_text("sinceQueryState")?,
            up_to: arguments.text("upToId")?,
            max: parse_max_changes(&mut arguments)?,
            wants_total: arguments.flag("calculateTotal")?,
        };
        arguments.finish()?;
        Ok(call)
    }

    /// Answers with the changes, or with `tooManyChanges`.
    pub fn answer(&self, changes: ListChanges) -> MethodResult<Map<String, Value>> {
        if self.max.is_some_and(|max| changes.removed.len() + changes.added.len() > max) {
            return Err(MethodError::new("tooManyChanges"));
        }
        let added = changes.added.into_iter().map(|(index, id)| json!({ "id": id, "index": index }));
        let mut reply = Map::new();
        reply.insert("accountId".to_owned(), json!(self.account_id));
        reply.insert("oldQueryState".to_owned(), json!(self.since));
        reply.insert("newQueryState".to_owned(), json!(changes.new_state));
        if self.wants_total {
            reply.insert("total".to_owned(), json!(changes.total));
        }
        reply.insert("removed".to_owned(), json!(changes.removed));
        reply.insert("added".to_owned(), added.collect());
        Ok(reply)
    }
}

/// The objects that changed between two states. An object is in one of the sets only.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSet {
    /// Objects that exist now and did not before.
    pub created: BTreeSet<String>,
    /// Objects that existed before and have changed.
    pub updated: BTreeSet<String>,
    /// Objects that existed before, and do not exist any more.
    pub destroyed: BTreeSet<String>,
}

/// Returns the answer of a `/changes` without changes.
#[must_use]
pub fn none(call: &ChangesCall, state: &str) -> Map<String, Value> {
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(call.account_id));
    reply.insert("oldState".to_owned(), json!(call.since));
    reply.insert("newState".to_owned(), json!(state));
    reply.insert("hasMoreChanges".to_owned(), json!(false));
    for name in ["created", "updated", "destroyed"] {
        reply.insert(name.to_owned(), json!([]));
    }
    reply
}

/// Answers a `/changes`. `find` returns the changes between two states; `current` is the state now.
pub fn answer(
    call: &ChangesCall,
    view: &AccountView<'_>,
    current: Modseq,
    find: impl FnOnce(&AccountView<'_>, Modseq, Modseq) -> MethodResult<ChangeSet>,
) -> MethodResult<Map<String, Value>> {
    let since = State::parse(&call.since, &view.snapshot)?;
    let until = since.part.as_ref().map_or(current, |part| part.until);
    let set = if since.known >= until { ChangeSet::default() } else { find(view, since.known, until)? };
    let after = since.part.as_ref().map_or("", |part| part.after.as_str());
    let mut all: Vec<&String> = set.created.iter().chain(&set.updated).chain(&set.destroyed).collect();
    all.retain(|id| id.as_str() > after);
    all.sort_unstable();
    let page = &all[..all.len().min(call.max)];
    let is_last = page.len() == all.len();
    let new_state = match page.last() {
        Some(last) if !is_last => {
            let part = Part { until, after: (*last).clone() };
            State { known: since.known, part: Some(part) }.format(&view.snapshot)
        }
        // A client may know a state that is later than the last change of the type.
        _ => state::format(until.max(since.known), &view.snapshot),
    };
    let shown: HashSet<&String> = page.iter().copied().collect();
    let list = |ids: &BTreeSet<String>| json!(ids.iter().filter(|id| shown.contains(id)).collect::<Vec<_>>());
    let mut reply = Map::new();
    reply.insert("accountId".to_owned(), json!(call.account_id));
    reply.insert("oldState".to_owned(), json!(call.since));
    reply.insert("newState".to_owned(), json!(new_state));
    reply.insert("hasMoreChanges".to_owned(), json!(!is_last || until < current));
    reply.insert("created".to_owned(), list(&set.created));
    reply.insert("updated".to_owned(), list(&set.updated));
    reply.insert("destroyed".to_owned(), list(&set.destroyed));
    Ok(reply)
}

/// The messages that changed between two states.
#[derive(Clone, Debug, Default)]
pub struct EmailChanges {
    /// Messages of the table that were created or changed.
    pub changed: Vec<NoteId>,
    /// Messages that existed before and left. Those that are back in the table are among them.
    pub gone: BTreeSet<String>,
    /// Threads of messages that left, including those that came after the first state.
    pub gone_threads: BTreeSet<String>,
    /// `true` if a message left whose thread is unknown.
    pub has_unknown_threads: bool,
}

impl EmailChanges {
    /// Finds the changes after `since` and up to `until`.
    pub fn find(view: &AccountView<'_>, since: Modseq, until: Modseq) -> MethodResult<Self> {
        let mut notes = Vec::new();
        view.snapshot.reading().changes(since, &mut |entry| {
            if !matches!(entry.change, NoteChange::Left { .. }) {
                notes.push(entry.note);
            }
            Ok(())
        })?;
        let mut changes = Self::default();
        let needs_stubs = since < view.table.departures_since();
        for note in notes {
            match view.table.row(note) {
                Some(row) if row.created <= until => changes.changed.push(note),
                Some(_) => {}
                None if needs_stubs => changes.add_stub(view, note)?,
                None => {}
            }
        }
        for departure in view.table.departures(since).filter(|departure| departure.modseq <= until) {
            changes.gone_threads.insert(departure.thread.to_string());
            if departure.created <= since {
                changes.gone.insert(departure.email_id.to_string());
            }
        }
        Ok(changes)
    }

    /// Adds a message that is not in the table and may have left before it was built.
    fn add_stub(&mut self, view: &AccountView<'_>, note: NoteId) -> MethodResult<()> {
        let Some(header) = view.snapshot.reading().header(note)? else { return Ok(()) };
        if header.class != NoteClass::DOCUMENT {
            return Ok(());
        }
        if header.flags.contains(NoteFlags::COMPOSED) {
            return Err(MethodError::new("cannotCalculateChanges"));
        }
        let id = format!("M{}", header.unid);
        let known = view.table.departures(Modseq(0)).any(|departure| *departure.email_id == *id);
        self.has_unknown_threads |= !known;
        self.gone.insert(id);
        Ok(())
    }
}

/// Finds the changes of Email.
pub fn emails(view: &AccountView<'_>, since: Modseq, until: Modseq) -> MethodResult<ChangeSet> {
    let changes = EmailChanges::find(view, since, until)?;
    let mut set = ChangeSet { destroyed: changes.gone, ..ChangeSet::default() };
    for row in changes.changed.iter().filter_map(|note| view.table.row(*note)) {
        let id = row.email_id.to_string();
        let was_known = set.destroyed.remove(&id) || row.created <= since;
        if was_known {
            set.updated.insert(id)
        } else {
            set.created.insert(id)
        };
    }
    Ok(set)
}

/// Finds the changes of Thread: messages that came and left.
pub fn threads(view: &AccountView<'_>, since: Modseq, until: Modseq) -> MethodResult<ChangeSet> {
    let changes = EmailChanges::find(view, since, until)?;
    if changes.has_unknown_threads {
        return Err(MethodError::new("cannotCalculateChanges"));
    }
    let mut affected = changes.gone_threads;
    let rows = changes.changed.iter().filter_map(|note| view.table.row(*note));
    affected.extend(rows.filter(|row| row.created > since).map(|row| row.thread.to_string()));
    let mut existed: HashMap<&str, bool> = HashMap::new();
    for departure in view.table.departures(since).filter(|departure| departure.created <= since) {
        existed.insert(&departure.thread, true);
    }
    let mut set = ChangeSet::default();
    for id in affected {
        let was_known = existed.contains_key(id.as_str()) || view.table.thread(&id).any(|row| row.created <= since);
        let exists = view.table.thread(&id).any(|row| row.created <= until);
        match (was_known, exists) {
            (true, true) => set.updated.insert(id),
            (false, true) => set.created.insert(id),
            (true, false) => set.destroyed.insert(id),
            (false, false) => false,
        };
    }
    Ok(set)
}

/// Finds the changes of Mailbox. The flag is `true` if nothing but counts has changed in those that are updated.
pub fn mailboxes(view: &AccountView<'_>, since: Modseq, until: Modseq) -> MethodResult<(ChangeSet, bool)> {
    let list = view.table.mailboxes();
    if since < list.since() && was_mailbox_deleted(view, since)? {
        return Err(MethodError::new("cannotCalculateChanges"));
    }
    let mut set = ChangeSet::default();
    let mut is_counts_only = true;
    for mailbox in list.all() {
        if mailbox.created_after(until) == Some(true) {
            continue;
        }
        let is_changed = list.changed(mailbox.view) > since;
        let is_counted = view.table.count_modseq(mailbox.view) > since;
        match mailbox.created_after(since) {
            Some(true) => {
                set.created.insert(mailbox.id.clone());
            }
            Some(false) if is_changed || is_counted => {
                is_counts_only &= !is_changed;
                set.updated.insert(mailbox.id.clone());
            }
            Some(false) => {}
            None => return Err(MethodError::new("cannotCalculateChanges")),
        }
    }
    set.destroyed.extend(list.gone_after(since).map(str::to_owned));
    Ok((set, is_counts_only))
}

/// Returns `true` if the change log has a deleted design note after a change.
pub fn was_mailbox_deleted(view: &AccountView<'_>, since: Modseq) -> MethodResult<bool> {
    let mut notes = Vec::new();
    view.snapshot.reading().changes(since, &mut |entry| {
        if matches!(entry.change, NoteChange::Deleted { .. }) {
            notes.push(entry.note);
        }
        Ok(())
    })?;
    for note in notes {
        if view.snapshot.reading().header(note)?.is_some_and(|header| header.class == NoteClass::VIEW) {
            return Ok(true);
        }
    }
    Ok(false)
}
