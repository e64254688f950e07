//! Filters (RFC 8620 §5.5): the operators AND, OR and NOT over conditions, which each type defines itself.
//!
//! A condition is an object whose members must all match. Depth and number of conditions are bounded, so a filter is
//! evaluated without further checks. Pure.

use serde_json::Value;

use crate::error::{MethodError, MethodResult};
use crate::limits::{FILTER_CONDITIONS_MAX, FILTER_DEPTH_MAX};

/// A filter in executable form, over tests of one type.
#[derive(Clone, Debug)]
pub enum FilterTree<T> {
    /// All of these match.
    All(Vec<FilterTree<T>>),
    /// One of these matches.
    Any(Vec<FilterTree<T>>),
    /// None of these matches.
    None(Vec<FilterTree<T>>),
    /// One property of a condition.
    Test(T),
}

/// Parses a property of a condition: its name and its value. Returns `None` if it restricts nothing.
pub type TestParser<'p, T> = dyn Fn(&str, &Value) -> MethodResult<Option<T>> + 'p;

impl<T> FilterTree<T> {
    /// Parses the argument `filter`. Everything matches if it is absent.
    pub fn parse(filter: Option<&Value>, test: &TestParser<'_, T>) -> MethodResult<Self> {
        let mut parser = Parser { test, conditions_left: FILTER_CONDITIONS_MAX };
        filter.map_or(Ok(Self::All(Vec::new())), |filter| parser.filter(filter, 0))
    }

    /// Returns `true` if the filter matches. `decide` evaluates a test.
    pub fn evaluate<E>(&self, decide: &mut dyn FnMut(&T) -> Result<bool, E>) -> Result<bool, E> {
        match self {
            Self::All(parts) => {
                for part in parts {
                    if !part.evaluate(decide)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Any(parts) | Self::None(parts) => {
                let mut is_found = false;
                for part in parts {
                    is_found = part.evaluate(decide)?;
                    if is_found {
                        break;
                    }
                }
                Ok(is_found != matches!(self, Self::None(_)))
            }
            Self::Test(test) => decide(test),
        }
    }

    /// Returns `true` if a test anywhere in the filter has a property.
    pub fn any_test(&self, is_right: &dyn Fn(&T) -> bool) -> bool {
        match self {
            Self::All(parts) | Self::Any(parts) | Self::None(parts) => parts.iter().any(|part| part.any_test(is_right)),
            Self::Test(test) => is_right(test),
        }
    }

    /// Calls `each` for all tests, until it fails.
    pub fn try_for_each<E>(&mut self, each: &mut dyn FnMut(&mut T) -> Result<(), E>) -> Result<(), E> {
        match self {
            Self::All(parts) | Self::Any(parts) | Self::None(parts) => {
                parts.iter_mut().try_for_each(|part| part.try_for_each(each))
            }
            Self::Test(test) => each(test),
        }
    }

    /// Sorts the parts of all operators, so that expensive ones are evaluated last.
    pub fn sort_by_cost(&mut self, is_expensive: &dyn Fn(&T) -> bool) {
        if let Self::All(parts) | Self::Any(parts) | Self::None(parts) = self {
            parts.iter_mut().for_each(|part| part.sort_by_cost(is_expensive));
            parts.sort_by_key(|part| part.any_test(is_expensive));
        }
    }
}

struct Parser<'p, T> {
    test: &'p TestParser<'p, T>,
    conditions_left: usize,
}

impl<T> Parser<'_, T> {
    fn filter(&mut self, value: &Value, depth: usize) -> MethodResult<FilterTree<T>> {
        let Some(left) = self.conditions_left.checked_sub(1).filter(|_| depth <= FILTER_DEPTH_MAX) else {
            return Err(MethodError::described("unsupportedFilter", "the filter has too many conditions"));
        };
        self.conditions_left = left;
        let invalid = |reason: &str| MethodError::invalid_arguments(reason);
        let members = value.as_object().ok_or_else(|| invalid("a filter is not an object"))?;
        let Some(operator) = members.get("operator") else {
            let mut tests = Vec::with_capacity(members.len());
            for (name, value) in members {
                tests.extend((self.test)(name, value)?.map(FilterTree::Test));
            }
            return Ok(FilterTree::All(tests));
        };
        if let Some(name) = members.keys().find(|name| !["operator", "conditions"].contains(&name.as_str())) {
            return Err(invalid(&format!("an operator has no property {name}")));
        }
        let conditions = members.get("conditions").and_then(Value::as_array);
        let conditions = conditions.ok_or_else(|| invalid("an operator needs conditions"))?;
        let parts = conditions.iter().map(|part| self.filter(part, depth + 1)).collect::<MethodResult<Vec<_>>>()?;
        match operator.as_str() {
            Some("AND") => Ok(FilterTree::All(parts)),
            Some("OR") => Ok(FilterTree::Any(parts)),
            Some("NOT") => Ok(FilterTree::None(parts)),
            _ => Err(invalid("an operator is AND, OR or NOT")),
        }
    }
}
