//! One evaluation as functions see it: the document, the host, variables, budgets, and what was wished so far.

use base::Timestamp;

use crate::error::{FailureKind, Fault, Stop};
use crate::formula::Options;
use crate::host::{Document, Fact, Host};
use crate::limits::{EFFECTS_MAX, LIST_ELEMENTS_MAX, Limits, TEXT_BYTES_MAX};
use crate::outcome::{Change, Deletion, Effect};
use crate::text::Text;
use crate::time::Moment;
use crate::value::Value;

/// What a function gives.
pub type Done<'d> = Result<Value<'d>, Fault>;

/// The state of one evaluation, but for the machine's stack.
pub struct Run<'d> {
    /// Zone, locale and permissions.
    pub options: &'d Options,
    /// The document.
    pub document: &'d dyn Document,
    /// Everything else.
    pub host: &'d dyn Host,
    /// How many `@Eval` this evaluation is within.
    pub depth: usize,
    /// Whether the document shall go.
    pub deletion: Option<Deletion>,
    /// Fields wished changed.
    pub changes: Vec<Change>,
    /// Other effects wished.
    pub effects: Vec<Effect>,
    names: &'d [String],
    slots: Vec<Slot<'d>>,
    limits: Limits,
}

/// What is known of a name.
#[derive(Clone, Debug)]
enum Slot<'d> {
    /// Nobody asked.
    Unread,
    /// The document has no such item, or it was removed.
    Missing,
    /// The document's value, or the one that the field shall have.
    Item(Value<'d>),
    /// The value of `DEFAULT`; the document has none.
    StandIn(Value<'d>),
    /// A temporary.
    Temporary(Value<'d>),
}

impl<'d> Run<'d> {
    /// Begins an evaluation.
    #[must_use]
    pub fn new(
        names: &'d [String],
        options: &'d Options,
        document: &'d dyn Document,
        host: &'d dyn Host,
        limits: Limits,
    ) -> Self {
        let slots = vec![Slot::Unread; names.len()];
        let (changes, effects) = (Vec::new(), Vec::new());
        Self { options, document, host, depth: 0, deletion: None, changes, effects, names, slots, limits }
    }

    /// Takes steps from the budget.
    pub fn charge(&mut self, steps: usize) -> Result<(), Stop> {
        self.limits.steps = self.limits.steps.checked_sub(steps as u64).ok_or(Stop::Steps)?;
        Ok(())
    }

    /// Takes the steps of looking at every element of one list for every element of another.
    pub fn charge_product(&mut self, one: usize, other: usize) -> Result<(), Stop> {
        self.charge(one.saturating_mul(other))
    }

    /// Takes bytes from the budget.
    pub fn make(&mut self, bytes: usize) -> Result<(), Stop> {
        self.limits.bytes = self.limits.bytes.checked_sub(bytes as u64).ok_or(Stop::Memory)?;
        Ok(())
    }

    /// Checks the length of a list before it is made, and takes its bytes from the budget.
    pub fn make_list(&mut self, elements: usize) -> Result<(), Stop> {
        if elements > LIST_ELEMENTS_MAX {
            return Err(Stop::Memory);
        }
        self.make(elements * size_of::<Text<'_>>())
    }

    /// Checks the length of a text before it is made, and takes its bytes from the budget.
    pub fn make_text(&mut self, bytes: usize) -> Result<(), Stop> {
        if bytes > TEXT_BYTES_MAX {
            return Err(Stop::Memory);
        }
        self.make(bytes)
    }

    /// Gives what is left of the budgets.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Takes back budgets that were lent to another evaluation.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Gives the time of this evaluation.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.host.now()
    }

    /// Gives today's date.
    pub fn today(&self) -> Result<jiff::civil::Date, FailureKind> {
        Moment::at(self.now()).date(&self.options.zone).ok_or(FailureKind::Context)
    }

    /// Gives a text that the host knows.
    pub fn fact(&self, fact: Fact) -> Result<&'d str, FailureKind> {
        self.host.fact(fact).ok_or(FailureKind::Context)
    }

    /// Gives the value of a name: the temporary, or the item, or the empty text.
    pub fn load(&mut self, slot: usize) -> Value<'d> {
        if let Slot::Unread = self.slots[slot] {
            self.slots[slot] = self.read(slot);
        }
        match &self.slots[slot] {
            Slot::Item(value) | Slot::StandIn(value) | Slot::Temporary(value) => value.clone(),
            Slot::Unread | Slot::Missing => Value::EMPTY,
        }
    }

    /// Gives the value of a name and forgets it if it is a temporary.
    pub fn take(&mut self, slot: usize) -> Value<'d> {
        match std::mem::replace(&mut self.slots[slot], Slot::Unread) {
            Slot::Temporary(value) => value,
            other => {
                self.slots[slot] = other;
                self.load(slot)
            }
        }
    }

    fn read(&self, slot: usize) -> Slot<'d> {
        let item = self.document.item(Some(slot), &self.names[slot]);
        item.map_or(Slot::Missing, |value| Slot::Item(value.normalized()))
    }

    /// Tells whether there is an item, in the document or by `DEFAULT`; a temporary is none.
    pub fn is_available(&mut self, slot: usize) -> bool {
        if let Slot::Unread = self.slots[slot] {
            self.slots[slot] = self.read(slot);
        }
        match self.slots[slot] {
            Slot::Item(_) | Slot::StandIn(_) => true,
            Slot::Unread | Slot::Missing => false,
            Slot::Temporary(_) => self.field(&self.names[slot]).is_some(),
        }
    }

    /// Gives the value of a field, by its name: as it shall be, or as it is, or as `DEFAULT` says.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<Value<'d>> {
        if let Some(change) = self.changes.iter().rev().find(|change| change.name.eq_ignore_ascii_case(name)) {
            return change.value.clone();
        }
        let slot = self.slot(name);
        match slot.map(|slot| &self.slots[slot]) {
            Some(Slot::StandIn(value)) => Some(value.clone()),
            _ => self.document.item(slot, name).map(Value::normalized),
        }
    }

    /// Takes the steps of looking for a name that is computed.
    pub fn charge_search(&mut self) -> Result<(), Stop> {
        self.charge((self.changes.len() + self.names.len()) / 8)
    }

    /// Gives the slot of a name.
    #[must_use]
    pub fn slot(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| known.eq_ignore_ascii_case(name))
    }

    /// Gives a name a temporary value.
    pub fn store_temporary(&mut self, slot: usize, value: Value<'d>) {
        self.slots[slot] = Slot::Temporary(value);
    }

    /// Lists the temporaries among names, with their indexes there.
    pub fn temporaries(&mut self, names: &[String]) -> Result<Vec<(usize, Value<'d>)>, Stop> {
        self.charge_product(names.len(), self.names.len() / 8)?;
        let value = |name| match &self.slots[self.slot(name)?] {
            Slot::Temporary(value) => Some(value.clone()),
            _ => None,
        };
        Ok(names.iter().enumerate().filter_map(|(index, name)| Some((index, value(name)?))).collect())
    }

    /// Puts back what [`Run::take_slot`] took.
    pub fn restore(&mut self, slot: usize, taken: Taken<'d>) {
        self.slots[slot] = taken.0;
    }

    /// Takes the state of a slot, and leaves it unread.
    pub fn take_slot(&mut self, slot: usize) -> Taken<'d> {
        Taken(std::mem::replace(&mut self.slots[slot], Slot::Unread))
    }

    /// Gives a name a value if the document has no such item. Of several for one name the first holds.
    pub fn store_default(&mut self, slot: usize, value: Value<'d>) {
        if !self.is_available(slot) {
            self.slots[slot] = Slot::StandIn(value);
        }
    }

    /// Wishes a field changed, or removed.
    pub fn store_field(&mut self, name: &str, value: Option<Value<'d>>) -> Result<(), Stop> {
        self.charge_search()?;
        if let Some(slot) = self.slot(name) {
            self.slots[slot] = value.clone().map_or(Slot::Missing, Slot::Item);
        }
        let value = value.map(Value::into_owned);
        self.make(value.as_ref().map_or(0, Value::size_bytes))?;
        if let Some(change) = self.changes.iter_mut().find(|change| change.name.eq_ignore_ascii_case(name)) {
            change.value = value;
            return Ok(());
        }
        self.check_effects()?;
        self.changes.push(Change { name: name.to_owned(), value });
        Ok(())
    }

    /// Goes on with the changes of another evaluation of the same document.
    pub fn continue_changes(&mut self, changes: Vec<Change>) {
        for change in &changes {
            if let Some(slot) = self.slot(&change.name) {
                self.slots[slot] = change.value.clone().map_or(Slot::Missing, Slot::Item);
            }
        }
        self.changes = changes;
    }

    /// Wishes something else done.
    pub fn wish(&mut self, effect: Effect) -> Result<(), Stop> {
        self.check_effects()?;
        self.effects.push(effect);
        Ok(())
    }

    fn check_effects(&self) -> Result<(), Stop> {
        if self.changes.len() + self.effects.len() < EFFECTS_MAX { Ok(()) } else { Err(Stop::Effects) }
    }
}

/// The state of a slot that was put aside.
pub struct Taken<'d>(Slot<'d>);
