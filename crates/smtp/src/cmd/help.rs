//! HELP (RFC 5321 §4.1.1.8): lists the verbs, or returns the usage of one. The text is derived from the table of verbs.

use crate::cmd::{CommandContext, VERBS, find, is_supported};
use crate::codec::reply::{write, write_lines};
use crate::error::EnhancedStatus;
use crate::session::{NextAction, Session};

pub(crate) fn run(session: &mut Session, call: &mut CommandContext<'_>) -> NextAction {
    let role = session.rules.role;
    if call.arguments.is_empty() {
        let known: Vec<&str> = VERBS.iter().filter(|verb| is_supported(verb, role)).map(|verb| verb.name).collect();
        write_lines(call.out, 214, &["2.0.0 Commands:", &format!("2.0.0 {}", known.join(" "))]);
        return NextAction::Continue;
    }
    match find(call.arguments, role) {
        Some(verb) => {
            write(call.out, 214, EnhancedStatus(2, 0, 0), verb.usage);
            NextAction::Continue
        }
        None => session.refuse(call.out, 504, EnhancedStatus(5, 5, 4), "No such command"),
    }
}
