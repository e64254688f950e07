//! The forms that were executed: a repetition of one changes nothing, and is answered as the first one.
//!
//! A browser repeats a form if its answer was lost, or if a person presses the button twice. While a form is executed,
//! and after it was, a repetition is recognized by its identifier. A form that was refused can be sent again. The forms
//! are in memory and bounded. What a restart must not forget is in the mail file: see [`crate::page::send`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base::Timestamp;
use base::sync::Mutex;
use store::Ticket;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

/// The result of a form of the composer that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SentForm {
    /// The ticket of the transaction that has accepted the message.
    pub(crate) ticket: Ticket,
    /// The identifier of the message in the queue, and the time of its release, if it can be withdrawn until then.
    pub(crate) held: Option<(String, Timestamp)>,
}

/// The forms of one kind that were executed, each with its result.
#[derive(Debug)]
pub(crate) struct CompletedForms<R> {
    /// Maximum number of completed forms.
    forms_max: usize,
    known: Mutex<Known<R>>,
}

#[derive(Debug)]
struct Known<R> {
    by_key: HashMap<FormKey, KnownForm<R>>,
    /// The forms that were completed, the oldest first.
    completed: VecDeque<FormKey>,
}

/// The account and the identifier of a form.
type FormKey = (String, String);

#[derive(Debug)]
enum KnownForm<R> {
    /// It is being executed. The lock is held until then.
    Running(Arc<AsyncMutex<()>>),
    /// It was executed. The hash is the digest of its content.
    Completed(R, blake3::Hash),
}

/// The beginning of a form.
pub(crate) enum FormState<R> {
    /// It is executed for the first time. Dropping it without [`RunningForm::complete`] permits a repetition.
    New(RunningForm<R>),
    /// It is being executed: the lock is free when that has ended.
    Running(Arc<AsyncMutex<()>>),
    /// It was executed. What it has changed may not be durable yet.
    Completed(R),
    /// A form with this identifier was executed, but with another content.
    Changed,
}

/// A form that is being executed.
pub(crate) struct RunningForm<R> {
    forms: Arc<CompletedForms<R>>,
    key: FormKey,
    content: blake3::Hash,
    _running: Option<OwnedMutexGuard<()>>,
}

impl<R: Clone> CompletedForms<R> {
    /// Creates a memory of at most `forms_max` forms.
    pub(crate) fn new(forms_max: usize) -> Arc<Self> {
        let known = Known { by_key: HashMap::new(), completed: VecDeque::new() };
        Arc::new(Self { forms_max, known: Mutex::new(known) })
    }

    /// Begins to execute a form of an account. `content` is the digest of what was typed or selected.
    pub(crate) fn begin(self: &Arc<Self>, account: &str, form: &str, content: blake3::Hash) -> FormState<R> {
        let key = (account.to_owned(), form.to_owned());
        let mut known = self.known.lock();
        match known.by_key.get(&key) {
            Some(KnownForm::Running(running)) => FormState::Running(Arc::clone(running)),
            Some(KnownForm::Completed(result, of)) if *of == content => FormState::Completed(result.clone()),
            Some(KnownForm::Completed(..)) => FormState::Changed,
            None => {
                let running = Arc::new(AsyncMutex::new(()));
                let guard = Arc::clone(&running).try_lock_owned().ok();
                known.by_key.insert(key.clone(), KnownForm::Running(running));
                FormState::New(RunningForm { forms: Arc::clone(self), key, content, _running: guard })
            }
        }
    }

    /// Forgets the completed forms of an account with a result that `is_it` accepts.
    pub(crate) fn forget(&self, account: &str, is_it: impl Fn(&R) -> bool) {
        let mut known = self.known.lock();
        let Known { by_key, completed } = &mut *known;
        by_key.retain(|(of, _), form| match form {
            KnownForm::Completed(result, _) => of != account || !is_it(result),
            KnownForm::Running(_) => true,
        });
        completed.retain(|key| by_key.contains_key(key));
    }
}

impl<R> RunningForm<R> {
    /// Records the result. If there are too many, the oldest one is dropped.
    pub(crate) fn complete(self, result: R) {
        let mut known = self.forms.known.lock();
        known.by_key.insert(self.key.clone(), KnownForm::Completed(result, self.content));
        known.completed.push_back(self.key.clone());
        if known.completed.len() > self.forms.forms_max
            && let Some(oldest) = known.completed.pop_front()
        {
            known.by_key.remove(&oldest);
        }
    }
}

impl<R> Drop for RunningForm<R> {
    fn drop(&mut self) {
        let mut known = self.forms.known.lock();
        if matches!(known.by_key.get(&self.key), Some(KnownForm::Running(_))) {
            known.by_key.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content() -> blake3::Hash {
        blake3::hash(b"typed")
    }

    #[test]
    fn forms_are_executed_once_unless_they_were_refused() {
        let forms = CompletedForms::new(10);
        let FormState::New(running) = forms.begin("ann", "1", content()) else { panic!("it is new") };
        let FormState::Running(lock) = forms.begin("ann", "1", content()) else { panic!("it is being executed") };
        assert!(lock.try_lock().is_err(), "a repetition waits for the first request");
        assert!(matches!(forms.begin("bob", "1", content()), FormState::New(_)), "it is another account's");
        drop(running);
        let FormState::New(running) = forms.begin("ann", "1", content()) else { panic!("it was refused") };
        running.complete("q1");
        assert!(matches!(forms.begin("ann", "1", content()), FormState::Completed("q1")));
        assert!(matches!(forms.begin("ann", "1", blake3::hash(b"other")), FormState::Changed));
        forms.forget("bob", |result| *result == "q1");
        forms.forget("ann", |result| *result == "q2");
        assert!(matches!(forms.begin("ann", "1", content()), FormState::Completed(_)));
        forms.forget("ann", |result| *result == "q1");
        assert!(forms.known.lock().completed.is_empty());
        assert!(matches!(forms.begin("ann", "1", content()), FormState::New(_)));
    }

    #[test]
    fn memory_is_bounded() {
        let forms = CompletedForms::new(10);
        for number in 0..20 {
            if let FormState::New(running) = forms.begin("ann", &number.to_string(), content()) {
                running.complete(number);
            }
        }
        assert_eq!(forms.known.lock().by_key.len(), 10);
    }
}
