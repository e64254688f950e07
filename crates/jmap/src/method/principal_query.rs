//! Principal/query (RFC 9670 §2.4) and /queryChanges (§2.5): lists of people and groups, for address completion.
//!
//! The directory keeps no history, so changes are known only as long as there are none.

use std::cmp::Ordering;

use mail::casemap::{Collation, fold};
use serde_json::{Map, Value};

use crate::arguments::Arguments;
use crate::changes::{ListChanges, ListChangesCall};
use crate::comparator::Comparator;
use crate::context::Context;
use crate::error::{MethodError, MethodResult};
use crate::filter_tree::FilterTree;
use crate::owned_accounts::{OwnedAccounts, PrincipalTest, open_account};
use crate::principal::PrincipalInfo;
use crate::query::{QueriedList, Window};

/// Runs `/query`.
pub(super) fn run(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let account_id = arguments.account_id()?;
    let query = PrincipalQuery::parse(&mut arguments)?;
    let window = Window::parse(&mut arguments)?;
    arguments.finish()?;
    open_account(context, &account_id)?;
    let accounts = OwnedAccounts::load(context.services, context.caller)?;
    let state = accounts.principals_state(context.services, context.caller)?;
    let found = query.list(context, &accounts)?;
    let find = |id: &str| found.iter().position(|info| info.id == id);
    let list = QueriedList { account_id: &account_id, state: &state, can_calculate_changes: false };
    window.answer(&list, found.len(), find, |index| found.get(index).map(|info| info.id.clone()))
}

/// Runs `/queryChanges`.
pub(super) fn run_changes(context: &mut Context<'_>, mut arguments: Arguments) -> MethodResult<Map<String, Value>> {
    let query = PrincipalQuery::parse(&mut arguments)?;
    let call = ListChangesCall::parse(arguments)?;
    open_account(context, &call.account_id)?;
    let accounts = OwnedAccounts::load(context.services, context.caller)?;
    let state = accounts.principals_state(context.services, context.caller)?;
    if call.since != state {
        return Err(MethodError::new("cannotCalculateChanges"));
    }
    let total = query.list(context, &accounts)?.len();
    call.answer(ListChanges { removed: [].into(), added: Vec::new(), total, new_state: state })
}

/// A list of principals.
struct PrincipalQuery {
    filter: FilterTree<PrincipalTest>,
    sort: Vec<Comparator>,
}

impl PrincipalQuery {
    fn parse(arguments: &mut Arguments) -> MethodResult<Self> {
        let filter = FilterTree::parse(arguments.value("filter").as_ref(), &PrincipalTest::parse)?;
        let sort = Comparator::parse_all(arguments, &["id", "name", "email", "type"])?;
        Ok(Self { filter, sort })
    }

    fn list(&self, context: &Context<'_>, accounts: &OwnedAccounts) -> MethodResult<Vec<PrincipalInfo>> {
        let mut found = Vec::new();
        context.services.principals.for_each(&self.texts(), &mut |info| {
            let met = self.filter.evaluate(&mut |test| Ok::<_, MethodError>(test.is_met(info, accounts)));
            if met.unwrap_or(false) {
                found.push(info.clone());
            }
        })?;
        found.sort_by_cached_key(|info| (fold(&info.name), info.id.clone()));
        found.sort_by(|a, b| {
            Comparator::compare(&self.sort, |property, collation| compare((property, collation), a, b))
        });
        Ok(found)
    }

    /// Returns the texts that may be whole names or addresses.
    fn texts(&self) -> Vec<String> {
        let texts = std::cell::RefCell::new(Vec::new());
        self.filter.any_test(&|test| {
            if let PrincipalTest::Email(text) | PrincipalTest::Name(text) | PrincipalTest::Text(text) = test {
                texts.borrow_mut().push(text.clone());
            }
            false
        });
        texts.into_inner()
    }
}

fn compare((property, collation): (&str, Collation), a: &PrincipalInfo, b: &PrincipalInfo) -> Ordering {
    match property {
        "name" => collation.fold(&a.name).cmp(&collation.fold(&b.name)),
        "email" => a.email.cmp(&b.email),
        "type" => a.kind.name().cmp(b.kind.name()),
        _ => a.id.cmp(&b.id),
    }
}
