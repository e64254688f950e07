//! Quota/query (RFC 9425 §4.4): the list of quotas, which has at most one.

use serde_json::{Map, Value};

use super::quota_get::quota_of;
use crate::arguments::Arguments;
use crate::comparator::Comparator;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::filter_tree::FilterTree;
use crate::query::{QueriedList, Window};
use crate::quota::{LIMITED_TYPE, STORAGE};

/// Runs the method.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let filter = FilterTree::parse(arguments.value("filter").as_ref(), &QuotaTest::parse)?;
    // There is at most one quota, so that any order is the same.
    Comparator::parse_all(&mut arguments, &["name", "used"])?;
    let window = Window::parse(&mut arguments)?;
    arguments.finish()?;
    let account = context.account(&account_id)?;
    let quota = quota_of(context, &account)?;
    let mut count = 0;
    if let Some(object) = &quota.object
        && filter.evaluate(&mut |test| Ok::<_, MethodError>(test.is_met(object)))?
    {
        count = 1;
    }
    let find = |id: &str| (count == 1 && id == STORAGE).then_some(0);
    let list = QueriedList { account_id: &account_id, state: &quota.state, can_calculate_changes: false };
    window.answer(&list, count, find, |_| Some(STORAGE.to_owned()))
}

/// A property of a condition.
enum QuotaTest {
    /// The name has this part.
    Name(String),
    /// A property has this value.
    Is(&'static str, String),
    /// The quota applies to this type.
    Type(String),
}

impl QuotaTest {
    fn parse(name: &str, value: &Value) -> MethodResult<Option<Self>> {
        let wrong = || MethodError::invalid_arguments(format!("{name} is not a string"));
        let text = || value.as_str().map(str::to_owned).ok_or_else(wrong);
        Ok(Some(match name {
            "name" => Self::Name(text()?),
            "scope" => Self::Is("scope", text()?),
            "resourceType" => Self::Is("resourceType", text()?),
            "type" => Self::Type(text()?),
            _ => return Err(MethodError::described("unsupportedFilter", format!("there is no condition {name}"))),
        }))
    }

    fn is_met(&self, object: &Value) -> bool {
        match self {
            Self::Name(part) => object["name"].as_str().is_some_and(|name| name.contains(part.as_str())),
            Self::Is(property, value) => object[*property].as_str() == Some(value.as_str()),
            Self::Type(name) => name == LIMITED_TYPE,
        }
    }
}
