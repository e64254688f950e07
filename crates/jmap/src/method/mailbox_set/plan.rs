//! The order of changes and destructions, so that only the mailboxes after the call must be valid (RFC 8620 §5.3).
//!
//! A change may need the name or the role that another one gives up, and a destruction may need that children move
//! away. So what fails is tried again after the others, and changes that need each other, such as an exchange of two
//! names, are made together. Nothing is written here.

use base::ViewId;
use mail::mailbox::file::SPECIAL_USE_ITEM;
use mail::mailbox_list::{INBOX, SORT_ORDER_ITEM};
use serde_json::{Map, Value, json};

use super::call::Call;
use super::{MailboxSet, special_use};
use crate::context::Context;
use crate::error::SetError;
use crate::limits::PLAN_ROUNDS_MAX;
use crate::patch::Patch;

/// A function that returns `true` if a folder has messages, so that it cannot be destroyed.
pub(super) type HasEmails<'h> = dyn Fn(ViewId) -> Result<bool, SetError> + 'h;

/// A change that is still to be made.
struct PendingUpdate {
    id: String,
    view: ViewId,
    wanted: Map<String, Value>,
}

/// A destruction that is still to be made.
struct PendingDestroy {
    id: String,
    view: ViewId,
}

impl MailboxSet {
    /// Changes and destroys mailboxes in the tree, and records the outcomes and the edits of folders.
    pub(super) fn plan(&mut self, context: &Context<'_>, call: &Call, has_emails: &HasEmails<'_>) {
        let mut destroys = self.pending_destroys(context, call);
        let mut updates = self.pending_updates(context, call, &destroys);
        for _ in 0..PLAN_ROUNDS_MAX {
            let count = updates.len() + destroys.len();
            destroys = self.destroy_some(context, destroys, &updates, has_emails);
            updates = self.update_some(context, updates);
            if updates.len() + destroys.len() == count {
                break;
            }
        }
        let failed = self.update_together(context, updates);
        destroys = self.destroy_some(context, destroys, &[], has_emails);
        for update in failed {
            // The change may succeed after all, as others have been made.
            let result = self.update(context, &update);
            self.updated.push((update.id, result));
        }
        for PendingDestroy { id, view } in destroys {
            let result = self.destroy(view, has_emails);
            self.destroyed.push((id, result));
        }
        let renamed: Vec<(ViewId, String)> =
            self.tree.renamed().map(|(view, title)| (view, title.to_owned())).collect();
        for (view, title) in renamed {
            self.edits.set(view, notes::folder::TITLE_ITEM, Some(&title));
        }
    }

    /// Returns the identifier by which a client is told of a mailbox.
    fn real_id_of(&self, context: &Context<'_>, id: &str, view: Option<ViewId>) -> String {
        let known = view.and_then(|view| self.tree.id(view)).map(str::to_owned);
        known.or_else(|| context.resolve_id(id)).unwrap_or_else(|| id.to_owned())
    }

    fn pending_destroys(&mut self, context: &Context<'_>, call: &Call) -> Vec<PendingDestroy> {
        let mut pending: Vec<PendingDestroy> = Vec::new();
        for id in &call.set.destroy {
            let view = self.find(context, id);
            let id = self.real_id_of(context, id, view);
            match view {
                Some(view) if pending.iter().any(|known| known.view == view) => {}
                Some(view) => pending.push(PendingDestroy { id, view }),
                None => self.destroyed.push((id, Err(SetError::new("notFound")))),
            }
        }
        pending
    }

    fn pending_updates(
        &mut self,
        context: &Context<'_>,
        call: &Call,
        destroys: &[PendingDestroy],
    ) -> Vec<PendingUpdate> {
        let mut pending = Vec::new();
        for (id, patch) in &call.set.update {
            let view = self.find(context, id);
            let id = self.real_id_of(context, id, view);
            let wanted = view.ok_or_else(|| SetError::new("notFound")).and_then(|view| {
                match destroys.iter().any(|destroy| destroy.view == view) {
                    true => Err(SetError::new("willDestroy")),
                    false => Ok((view, self.wanted(view, patch)?)),
                }
            });
            match wanted {
                Ok((view, wanted)) => pending.push(PendingUpdate { id, view, wanted }),
                Err(error) => self.updated.push((id, Err(error))),
            }
        }
        pending
    }

    /// Returns the properties of a mailbox that a patch changes.
    fn wanted(&self, view: ViewId, patch: &Value) -> Result<Map<String, Value>, SetError> {
        let patch = patch.as_object().ok_or_else(|| SetError::described("invalidPatch", "a patch is an object"))?;
        let patch = Patch::parse(patch)?;
        let mut wanted = Map::new();
        for (tokens, value) in patch.entries() {
            let [name] = tokens.as_slice() else {
                return Err(SetError::described("invalidPatch", "the properties of a mailbox have no members to set"));
            };
            wanted.insert(name.clone(), value.clone());
        }
        // Any property may be set to the value that it has, so that a client can send the whole object.
        if let Some(present) = self.present.get(&view) {
            wanted.retain(|name, value| present.get(name) != Some(&*value));
        }
        Ok(wanted)
    }

    /// Deletes the mailboxes that can be destroyed, children before their parents. Returns the others.
    fn destroy_some(
        &mut self,
        context: &Context<'_>,
        mut pending: Vec<PendingDestroy>,
        updates: &[PendingUpdate],
        has_emails: &HasEmails<'_>,
    ) -> Vec<PendingDestroy> {
        let depth = |view: ViewId| self.tree.title(view).map_or(0, |title| title.matches('/').count());
        pending.sort_by_cached_key(|destroy| std::cmp::Reverse(depth(destroy.view)));
        let parents = updates.iter().filter_map(|update| update.wanted.get("parentId")?.as_str());
        let parents: Vec<ViewId> = parents.filter_map(|id| self.find(context, id)).collect();
        let mut left = Vec::new();
        for destroy in pending {
            if !parents.contains(&destroy.view) && self.destroy(destroy.view, has_emails).is_ok() {
                self.destroyed.push((destroy.id, Ok(destroy.view)));
            } else {
                left.push(destroy);
            }
        }
        left
    }

    fn destroy(&mut self, view: ViewId, has_emails: &HasEmails<'_>) -> Result<ViewId, SetError> {
        self.tree.check_may_destroy(view)?;
        if has_emails(view)? {
            return Err(SetError::new("mailboxHasEmail"));
        }
        self.tree.remove(view);
        self.edits.remove(view);
        Ok(view)
    }

    /// Makes the changes that can be made one after the other. Returns the others.
    fn update_some(&mut self, context: &Context<'_>, pending: Vec<PendingUpdate>) -> Vec<PendingUpdate> {
        let mut left = Vec::new();
        for update in pending {
            match self.update(context, &update) {
                Ok(outcome) => self.updated.push((update.id, Ok(outcome))),
                Err(_) => left.push(update),
            }
        }
        left
    }

    /// Makes changes together that are valid only together. Returns those that are not.
    fn update_together(&mut self, context: &Context<'_>, pending: Vec<PendingUpdate>) -> Vec<PendingUpdate> {
        let mut failed = Vec::new();
        let mut pending = pending;
        for _ in 0..PLAN_ROUNDS_MAX {
            if pending.len() < 2 {
                break;
            }
            let before = (self.tree.clone(), self.edits.clone());
            let (outcomes, refused) = self.try_together(context, &pending);
            let conflicts = self.tree.conflicts();
            let is_wrong = |update: &PendingUpdate| refused.contains(&update.view) || conflicts.contains(&update.view);
            if refused.is_empty() && conflicts.is_empty() {
                self.updated.extend(outcomes);
                return failed;
            }
            (self.tree, self.edits) = before;
            let (wrong, rest): (Vec<_>, Vec<_>) = pending.into_iter().partition(is_wrong);
            pending = rest;
            let is_stuck = wrong.is_empty();
            failed.extend(wrong);
            if is_stuck {
                break;
            }
        }
        failed.extend(pending);
        failed
    }

    /// Makes changes without regard to conflicts between mailboxes. Returns the outcomes, and the mailboxes whose
    /// changes are not valid for another reason.
    fn try_together(
        &mut self,
        context: &Context<'_>,
        pending: &[PendingUpdate],
    ) -> (Vec<(String, super::Updated)>, Vec<ViewId>) {
        self.tree.set_allows_conflicts(true);
        let mut outcomes = Vec::new();
        let mut refused = Vec::new();
        let mut checked = Vec::new();
        for update in pending {
            match self.checked_change(context, update.view, &update.wanted) {
                Ok(change) => checked.push((update, change)),
                Err(_) => refused.push(update.view),
            }
        }
        // No mailbox has the old name of another one while it gets its new name.
        for (update, change) in &checked {
            let is_moved = update.wanted.contains_key("name") || update.wanted.contains_key("parentId");
            if is_moved && self.tree.title(update.view) != Some(INBOX) {
                self.tree.detach(change.view);
            }
        }
        for (update, change) in checked {
            match self.apply(&update.wanted, change) {
                Ok(outcome) => outcomes.push((update.id.clone(), Ok(outcome))),
                Err(_) => refused.push(update.view),
            }
        }
        self.tree.set_allows_conflicts(false);
        (outcomes, refused)
    }

    fn update(&mut self, context: &Context<'_>, update: &PendingUpdate) -> super::Updated {
        let change = self.checked_change(context, update.view, &update.wanted)?;
        self.apply(&update.wanted, change)
    }

    /// Makes a checked change, and returns what the client is told of it.
    fn apply(&mut self, wanted: &Map<String, Value>, change: super::MailboxChange) -> super::Updated {
        let view = change.view;
        self.update_place(view, change.parent, &change.name)?;
        if let Some(role) = change.role {
            self.edits.set(view, SPECIAL_USE_ITEM, role.map(special_use));
            self.tree.set_role(view, role);
        }
        if let Some(order) = change.sort_order {
            self.edits.set(view, SORT_ORDER_ITEM, Some(&order.to_string()));
        }
        if let Some(is_subscribed) = change.is_subscribed {
            self.tree.set_subscribed(view, is_subscribed);
        }
        // The name is stored in normalization form C.
        let is_other_name = wanted.get("name").is_some_and(|name| name.as_str() != Some(change.name.as_str()));
        Ok((view, if is_other_name { json!({ "name": change.name }) } else { Value::Null }))
    }
}
