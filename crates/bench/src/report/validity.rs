//! Which figures of a stored report stand, by level.
//!
//! A reason concerns one level or, if it has no number of users, all of them. The rule of the state *overloaded* is no
//! reason against a figure. A report of a state that is worse, with no reason at all, has no figure that stands.

use super::model::{Remark, Report};
use super::verdict::{ENDED_RULE, State};

/// Returns a sentence about each level whose figures do not stand.
pub fn describe(report: &Report) -> Vec<String> {
    let struck_out = |users: u64| {
        let reason = reason_against(report, users)?;
        Some(format!("The figures of {users} users are struck out: {reason}"))
    };
    report.phases.iter().filter_map(|phases| struck_out(phases.users)).collect()
}

/// Returns why the figures of the level with so many users do not stand, or `None` if they do.
pub fn reason_against(report: &Report, users: u64) -> Option<&str> {
    let state = &report.state;
    if State::of_name(&state.name).is_some_and(|state| state <= State::Overloaded) {
        return None;
    }
    let is_against = |reason: &&Remark| reason.rule != ENDED_RULE;
    let concerns = |reason: &&Remark| reason.users.is_none_or(|of_level| of_level == users);
    match state.reasons.iter().filter(is_against).find(concerns) {
        Some(reason) => Some(text_of_level(reason, users)),
        None if state.reasons.iter().any(|reason| is_against(&reason)) => None,
        None => Some(&state.name),
    }
}

/// Returns the text of a reason without the users, which the figures beside it have.
fn text_of_level(reason: &Remark, users: u64) -> &str {
    let prefix = format!("{users} users: ");
    reason.text.strip_prefix(&prefix).filter(|_| reason.users.is_some()).unwrap_or(&reason.text)
}
