//! The beginning of a command in a mailbox that other sessions have changed very often since the last report.
//!
//! Commands read the changes since the last report when they begin. If many transactions were committed since, the
//! command waits until [`Session::resume`] has recorded their changes in slices.

use crate::codec::ResponseWriter;
use crate::codec::command::CommandBody;
use crate::error::Result;
use crate::session::{CommandOutcome, Session, SlicedCommand, TaggedReply, is_full};

/// Begins a command, at once or after the session has caught up.
pub fn start(session: &mut Session, body: CommandBody, out: &mut ResponseWriter) -> Result<CommandOutcome> {
    // These commands do not read the changes of the mailbox, or leave it.
    let is_independent =
        matches!(body, CommandBody::Idle | CommandBody::Logout | CommandBody::Select(_) | CommandBody::Unselect);
    if is_independent || session.catch_up()? {
        return super::start(session, body, out);
    }
    Ok(CommandOutcome::NextJob(Box::new(WaitingCommand { body: Some(body), job: None })))
}

/// A command that has not begun because the session catches up, or that has begun since.
struct WaitingCommand {
    /// Taken when the command begins.
    body: Option<CommandBody>,
    job: Option<Box<dyn SlicedCommand>>,
}

impl SlicedCommand for WaitingCommand {
    /// Begins the command. The session has caught up, because it makes no step before.
    fn step(&mut self, session: &mut Session, out: &mut ResponseWriter) -> Result<Option<TaggedReply>> {
        if let Some(body) = self.body.take() {
            match super::start(session, body, out)? {
                CommandOutcome::Reply(reply) => return Ok(Some(reply)),
                CommandOutcome::Job(job) => self.job = Some(job),
                CommandOutcome::NextJob(job) => {
                    self.job = Some(job);
                    return Ok(None);
                }
                CommandOutcome::Sasl(_) | CommandOutcome::Idle => {
                    let _ = base::never!(true, "neither a login nor IDLE waits for changes of a mailbox");
                }
            }
            if is_full(out) {
                return Ok(None);
            }
        }
        match &mut self.job {
            Some(job) => job.step(session, out),
            None => Ok(Some(TaggedReply::completed())),
        }
    }

    fn end_early(&mut self, session: &mut Session, out: &mut ResponseWriter) -> bool {
        self.job.as_mut().is_none_or(|job| job.end_early(session, out))
    }
}
