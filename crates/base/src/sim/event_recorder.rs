//! A recorder of the events that code reports to the log, for tests of what the log contains and of what it must not
//! contain.
//!
//! It records the events of one thread, of one target and of the modules of that crate. An event becomes a line: the
//! message, then ` name=value` for each field. Spans are ignored.

use std::fmt::{Debug, Write as _};
use std::sync::Arc;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::{self, DefaultGuard};
use tracing::{Dispatch, Event, Metadata, Subscriber};

use crate::sync::Mutex;

/// The form in which a field of an event is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldForm {
    /// Name and value.
    Full,
    /// The name only, for a value that differs each time.
    Name,
    /// Nothing, for a value that is the same in every event.
    Omitted,
}

/// A recorder of the events of one target.
#[derive(Clone, Debug)]
pub struct EventRecorder {
    target: &'static str,
    form: fn(&str) -> FieldForm,
    lines: Arc<Mutex<Vec<String>>>,
}

/// Ends the recording when it is dropped.
#[must_use]
pub struct Recording {
    _guard: DefaultGuard,
    _second: Dispatch,
}

impl EventRecorder {
    /// Creates a recorder for a target. `form` decides the form of each field by its name.
    #[must_use]
    pub fn new(target: &'static str, form: fn(&str) -> FieldForm) -> Self {
        Self { target, form, lines: Arc::default() }
    }

    /// Records the events of this thread until the result is dropped.
    ///
    /// While there is only one subscriber, `tracing` remembers for each event whether the first thread that meets it
    /// has a subscriber for it. That may be the thread of another test, which has none. A second subscriber prevents
    /// this.
    pub fn start(&self) -> Recording {
        let second = Dispatch::new(Self::new(self.target, self.form));
        Recording { _guard: subscriber::set_default(self.clone()), _second: second }
    }

    /// Returns the recorded lines and removes them.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock())
    }
}

/// Checks that none of the texts occurs in a recorded line.
pub fn assert_absent(lines: &[String], texts: &[&str]) {
    for text in texts {
        assert!(!lines.iter().any(|line| line.contains(*text)), "{text:?} occurs in {lines:#?}");
    }
}

impl Subscriber for EventRecorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let rest = metadata.target().strip_prefix(self.target);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line { form: self.form, message: String::new(), fields: String::new() };
        event.record(&mut line);
        self.lines.lock().push(line.message + &line.fields);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Line {
    form: fn(&str) -> FieldForm,
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let name = field.name();
        let written = match (self.form)(name) {
            _ if name == "message" => write!(self.message, "{value:?}"),
            FieldForm::Full => write!(self.fields, " {name}={value:?}"),
            FieldForm::Name => write!(self.fields, " {name}"),
            FieldForm::Omitted => Ok(()),
        };
        written.expect("a string can be written to");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_the_target_become_lines() {
        let form = |name: &str| match name {
            "time" => FieldForm::Name,
            "peer" => FieldForm::Omitted,
            _ => FieldForm::Full,
        };
        let recorder = EventRecorder::new("imap", form);
        let recording = recorder.start();
        tracing::debug!(target: "imap", tag = "a", time = 3, peer = 7, "command completed");
        tracing::error!(target: "imap::connection", "failed");
        tracing::error!(target: "imaps", "another target");
        assert_eq!(recorder.take(), [r#"command completed tag="a" time"#, "failed"]);
        drop(recording);
        tracing::error!(target: "imap", "not recorded");
        assert!(recorder.take().is_empty());
    }

    #[test]
    #[should_panic = "\"secret\" occurs in"]
    fn texts_that_must_be_absent_are_found() {
        assert_absent(&["a secret".to_owned()], &["password", "secret"]);
    }
}
