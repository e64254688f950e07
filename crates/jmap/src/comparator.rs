//! The argument `sort` of a `/query` (RFC 8620 §5.5), for types whose orders are properties without further members.
//!
//! Email has orders with keywords and collations of its own ([`crate::sort`]).

use std::cmp::Ordering;

use mail::casemap::Collation;
use serde_json::Value;

use crate::arguments::Arguments;
use crate::error::{MethodError, MethodResult};
use crate::limits::COMPARATORS_MAX;

/// The order of a list by one property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Comparator {
    property: String,
    is_ascending: bool,
    collation: Collation,
}

impl Comparator {
    /// Takes the argument `sort`. Returns `unsupportedSort` if the type cannot be sorted by a property.
    pub fn parse_all(arguments: &mut Arguments, properties: &[&str]) -> MethodResult<Vec<Self>> {
        let sort = arguments.list("sort")?.unwrap_or_default();
        if sort.len() > COMPARATORS_MAX {
            return Err(MethodError::described("unsupportedSort", "there are too many comparators"));
        }
        sort.iter().map(|value| Self::parse(value, properties)).collect()
    }

    fn parse(value: &Value, properties: &[&str]) -> MethodResult<Self> {
        let invalid = || MethodError::invalid_arguments("a comparator is not valid");
        let property = value.get("property").and_then(Value::as_str).ok_or_else(invalid)?;
        if !properties.contains(&property) {
            return Err(MethodError::described("unsupportedSort", format!("there is no order by {property}")));
        }
        let is_ascending = match value.get("isAscending") {
            None | Some(Value::Null) => true,
            Some(value) => value.as_bool().ok_or_else(invalid)?,
        };
        let collation = parse_collation(value.get("collation"))?;
        Ok(Self { property: property.to_owned(), is_ascending, collation })
    }

    /// Compares two objects by some comparators. `by_property` compares them by a property and a collation, in
    /// ascending order.
    pub fn compare(comparators: &[Self], by_property: impl Fn(&str, Collation) -> Ordering) -> Ordering {
        let mut orders = comparators.iter().map(|comparator| {
            let order = by_property(&comparator.property, comparator.collation);
            if comparator.is_ascending { order } else { order.reverse() }
        });
        orders.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

/// Parses the property `collation` of a comparator.
pub fn parse_collation(value: Option<&Value>) -> MethodResult<Collation> {
    match value {
        None | Some(Value::Null) => Ok(Collation::Unicode),
        Some(Value::String(name)) if name == "i;unicode-casemap" => Ok(Collation::Unicode),
        Some(Value::String(name)) if name == "i;ascii-casemap" => Ok(Collation::Ascii),
        Some(Value::String(_)) => Err(MethodError::described("unsupportedSort", "unknown collation")),
        Some(_) => Err(MethodError::invalid_arguments("a comparator is not valid")),
    }
}
