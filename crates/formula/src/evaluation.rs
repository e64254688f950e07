//! The state of one evaluation as functions see it: the document, the host, variables, budgets, and the effects
//! requested so far.

use base::Timestamp;

use crate::error::{BudgetExceeded, ErrorValueKind, EvaluationError};
use crate::host::{Document, Host, HostText};
use crate::limits::{EFFECTS_MAX, LIST_ELEMENTS_MAX, Limits, TEXT_BYTES_MAX, TIME_CHECK_STEPS};
use crate::options::FormulaOptions;
use crate::outcome::{DeletionRequest, FieldChange, SideEffect};
use crate::text::Text;
use crate::time::Moment;
use crate::value::Value;

/// The result of a function.
pub type FunctionResult<'d> = Result<Value<'d>, EvaluationError>;

/// The state of one evaluation, except for the machine's stack.
pub struct Evaluation<'d> {
    /// Time zone, locale and permissions.
    pub options: &'d FormulaOptions,
    /// The document.
    pub document: &'d dyn Document,
    /// The host.
    pub host: &'d dyn Host,
    /// Number of `@Eval` calls that enclose this evaluation.
    pub depth: usize,
    /// The requested deletion of the document, if any.
    pub deletion: Option<DeletionRequest>,
    /// Requested changes of fields.
    pub changes: Vec<FieldChange>,
    /// Other requested effects.
    pub effects: Vec<SideEffect>,
    names: &'d [String],
    slots: Vec<Slot<'d>>,
    /// The remaining budgets.
    limits: Limits,
    /// The number of remaining steps below which the time is checked: a multiple of [`TIME_CHECK_STEPS`], so that
    /// evaluations that share a budget also share the interval of the checks.
    time_check_below: u64,
}

/// The state of a name.
#[derive(Clone, Debug)]
enum Slot<'d> {
    /// The name was not read yet.
    Unread,
    /// The document has no such item, or the item was removed.
    Missing,
    /// The document's value, or the requested new value of the field.
    Item(Value<'d>),
    /// The value of `DEFAULT`. The document has no such item.
    Default(Value<'d>),
    /// A temporary.
    Temporary(Value<'d>),
}

impl<'d> Evaluation<'d> {
    /// Creates the state of a new evaluation.
    #[must_use]
    pub fn new(
        names: &'d [String],
        options: &'d FormulaOptions,
        document: &'d dyn Document,
        host: &'d dyn Host,
        limits: Limits,
    ) -> Self {
        let slots = vec![Slot::Unread; names.len()];
        let changes = Vec::new();
        let effects = Vec::new();
        let time_check_below = limits.steps / TIME_CHECK_STEPS * TIME_CHECK_STEPS;
        Self {
            options,
            document,
            host,
            depth: 0,
            deletion: None,
            changes,
            effects,
            names,
            slots,
            limits,
            time_check_below,
        }
    }

    /// Charges steps to the budget. If they exceed it, nothing is left of it.
    pub fn charge(&mut self, steps: usize) -> Result<(), BudgetExceeded> {
        let left = self.limits.steps.checked_sub(steps as u64);
        self.limits.steps = left.unwrap_or(0);
        if left.is_none() {
            return Err(BudgetExceeded::Steps);
        }
        if self.limits.steps < self.time_check_below { self.check_time() } else { Ok(()) }
    }

    /// Fails if the host's time is over.
    fn check_time(&mut self) -> Result<(), BudgetExceeded> {
        self.time_check_below = self.limits.steps / TIME_CHECK_STEPS * TIME_CHECK_STEPS;
        if self.host.is_out_of_time() { Err(BudgetExceeded::Time) } else { Ok(()) }
    }

    /// Subtracts steps from the budget without failing. If they exceed it, the next charge fails.
    pub fn subtract_steps(&mut self, steps: usize) {
        self.limits.steps = self.limits.steps.saturating_sub(steps as u64);
    }

    /// Charges the steps of visiting every combination of the elements of two lists.
    pub fn charge_product(&mut self, one: usize, other: usize) -> Result<(), BudgetExceeded> {
        self.charge(one.saturating_mul(other))
    }

    /// Charges bytes to the budget. If they exceed it, nothing is left of it.
    pub fn charge_bytes(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        let left = self.limits.bytes.checked_sub(bytes as u64);
        self.limits.bytes = left.unwrap_or(0);
        if left.is_some() { Ok(()) } else { Err(BudgetExceeded::Memory) }
    }

    /// Checks the length of a list that is about to be created, and charges its bytes.
    pub fn charge_list(&mut self, elements: usize) -> Result<(), BudgetExceeded> {
        if elements > LIST_ELEMENTS_MAX {
            return Err(BudgetExceeded::Memory);
        }
        self.charge_bytes(elements * size_of::<Text<'_>>())
    }

    /// Checks the length of a text that is about to be created, and charges its bytes and the steps of writing them.
    pub fn charge_text(&mut self, bytes: usize) -> Result<(), BudgetExceeded> {
        if bytes > TEXT_BYTES_MAX {
            return Err(BudgetExceeded::Memory);
        }
        self.charge_bytes(bytes)?;
        self.charge(bytes / 64)
    }

    /// Returns the remaining budgets.
    #[must_use]
    pub fn remaining(&self) -> Limits {
        self.limits
    }

    /// Replaces the budgets by those that another evaluation has left.
    pub fn set_remaining(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Returns the time of this evaluation.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.host.now()
    }

    /// Returns the current date.
    pub fn today(&self) -> Result<jiff::civil::Date, ErrorValueKind> {
        Moment::at(self.now()).date(&self.options.zone).ok_or(ErrorValueKind::Context)
    }

    /// Returns a text of the host. Fails with [`ErrorValueKind::Context`] if the host does not provide it.
    pub fn host_text(&self, kind: HostText) -> Result<&'d str, ErrorValueKind> {
        self.host.text(kind).ok_or(ErrorValueKind::Context)
    }

    /// Returns the value of a name: the temporary, the item, or the empty text.
    pub fn load(&mut self, slot: usize) -> Value<'d> {
        if let Slot::Unread = self.slots[slot] {
            self.slots[slot] = self.read(slot);
        }
        match &self.slots[slot] {
            Slot::Item(value) | Slot::Default(value) | Slot::Temporary(value) => value.clone(),
            Slot::Unread | Slot::Missing => Value::EMPTY,
        }
    }

    /// Returns the value of a name. A temporary is moved out of its slot.
    pub fn take(&mut self, slot: usize) -> Value<'d> {
        match std::mem::replace(&mut self.slots[slot], Slot::Unread) {
            Slot::Temporary(value) => value,
            other => {
                self.slots[slot] = other;
                self.load(slot)
            }
        }
    }

    fn read(&mut self, slot: usize) -> Slot<'d> {
        let document = self.document;
        let item = document.item(Some(slot), &self.names[slot]);
        let elements = item.as_ref().map_or(0, |value| value.cost_steps(0));
        self.subtract_steps(document.search_steps() + elements);
        item.map_or(Slot::Missing, |value| Slot::Item(value.normalized()))
    }

    /// Returns `true` if the item exists in the document or through `DEFAULT`. A temporary does not count.
    pub fn is_available(&mut self, slot: usize) -> bool {
        if let Slot::Unread = self.slots[slot] {
            self.slots[slot] = self.read(slot);
        }
        match self.slots[slot] {
            Slot::Item(_) | Slot::Default(_) => true,
            Slot::Unread | Slot::Missing => false,
            Slot::Temporary(_) => self.field(&self.names[slot]).is_some(),
        }
    }

    /// Returns the value of a field by name: the requested value, the document's value, or the value of `DEFAULT`.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Value<'d>> {
        if let Some(change) = self.changes.iter().rev().find(|change| change.name.eq_ignore_ascii_case(name)) {
            return change.value.clone();
        }
        let slot = self.slot(name);
        match slot.map(|slot| &self.slots[slot]) {
            Some(Slot::Default(value)) => Some(value.clone()),
            _ => self.document.item(slot, name).map(Value::normalized),
        }
    }

    /// Charges the steps of searching for a computed name.
    pub fn charge_search(&mut self) -> Result<(), BudgetExceeded> {
        self.charge((self.changes.len() + self.names.len()) / 8 + self.document.search_steps())
    }

    /// Returns the slot of a name.
    #[must_use]
    pub fn slot(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known.eq_ignore_ascii_case(name))
    }

    /// Assigns a temporary value to a name.
    pub fn store_temporary(&mut self, slot: usize, value: Value<'d>) {
        self.slots[slot] = Slot::Temporary(value);
    }

    /// Returns those of the given names that are temporaries, as pairs of their index in `names` and their value.
    pub fn temporaries(&mut self, names: &[String]) -> Result<Vec<(usize, Value<'d>)>, BudgetExceeded> {
        self.charge_product(names.len(), self.names.len() / 8)?;
        let value = |name| match &self.slots[self.slot(name)?] {
            Slot::Temporary(value) => Some(value.clone()),
            _ => None,
        };
        Ok(names.iter().enumerate().filter_map(|(index, name)| Some((index, value(name)?))).collect())
    }

    /// Restores the state of a slot that [`Evaluation::take_slot`] returned.
    pub fn restore(&mut self, slot: usize, taken: SavedSlot<'d>) {
        self.slots[slot] = taken.0;
    }

    /// Returns the state of a slot and resets the slot to unread.
    pub fn take_slot(&mut self, slot: usize) -> SavedSlot<'d> {
        SavedSlot(std::mem::replace(&mut self.slots[slot], Slot::Unread))
    }

    /// Assigns a default value to a name if the document has no such item. The first default for a name takes
    /// precedence.
    pub fn store_default(&mut self, slot: usize, value: Value<'d>) {
        if !self.is_available(slot) {
            self.slots[slot] = Slot::Default(value);
        }
    }

    /// Requests a field to be changed, or to be removed if `value` is `None`.
    pub fn store_field(&mut self, name: &str, value: Option<Value<'d>>) -> Result<(), BudgetExceeded> {
        self.charge_search()?;
        if let Some(slot) = self.slot(name) {
            self.slots[slot] = value.clone().map_or(Slot::Missing, Slot::Item);
        }
        let value = value.map(Value::into_owned);
        self.charge_bytes(value.as_ref().map_or(0, Value::size_bytes))?;
        if let Some(change) = self.changes.iter_mut().find(|change| change.name.eq_ignore_ascii_case(name)) {
            change.value = value;
            return Ok(());
        }
        self.check_effects()?;
        self.changes.push(FieldChange { name: name.to_owned(), value });
        Ok(())
    }

    /// Adopts the requested changes of another evaluation of the same document.
    pub fn adopt_changes(&mut self, changes: Vec<FieldChange>) {
        for change in &changes {
            if let Some(slot) = self.slot(&change.name) {
                self.slots[slot] = change.value.clone().map_or(Slot::Missing, Slot::Item);
            }
        }
        self.changes = changes;
    }

    /// Requests another effect.
    pub fn request_effect(&mut self, effect: SideEffect) -> Result<(), BudgetExceeded> {
        self.check_effects()?;
        self.effects.push(effect);
        Ok(())
    }

    fn check_effects(&self) -> Result<(), BudgetExceeded> {
        if self.changes.len() + self.effects.len() < EFFECTS_MAX { Ok(()) } else { Err(BudgetExceeded::Effects) }
    }
}

/// The saved state of a slot.
pub struct SavedSlot<'d>(Slot<'d>);
