//! Which figures of a stored report stand, by level.
//!
//! A reason concerns one level or, if it has no number of users, all of them. The rule of the state *overloaded* is no
//! reason against a figure. A report of a state that is worse, with no reason at all, has no figure that stands.

use super::model::{Remark, Report};
use super::verdict::{ENDED_RULE, State};

/// Returns why the figures of the level with so many users do not stand, or `None` if they do.
pub fn reason_against(report: &Report, users: u64) -> Option<&str> {
    let state = &report.state;
    if State::of_name(&state.name).is_some_and(|state| state <= State::Overloaded) {
        return None;
    }
    let is_against = |reason: &&Remark| reason.rule != ENDED_RULE;
    let concerns = |reason: &&Remark| reason.users.is_none_or(|of_level| of_level == users);
    match state.reasons.iter().filter(is_against).find(concerns) {
        Some(reason) => Some(&reason.text),
        None if state.reasons.iter().any(|reason| is_against(&reason)) => None,
        None => Some(&state.name),
    }
}
