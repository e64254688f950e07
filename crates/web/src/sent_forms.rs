//! The forms of the composer that were sent: a repetition of one sends nothing.
//!
//! A browser repeats a form if its answer was lost, or if a person presses the button twice. Each form has an
//! identifier. While a form is sent, and after it was, a repetition is recognized. A form that was refused can be sent
//! again. The forms are in memory and bounded; after a restart, the mail file shows what became of a form. The
//! `Message-ID` of the copy in the folder with sent messages is made from the identifier, and so is the UNID of a copy
//! that can be withdrawn ([`crate::outgoing::copy_unid`]). The deletion stub of that copy outlives the withdrawal.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base::Timestamp;
use base::sync::Mutex;
use store::Ticket;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::limits::SENT_FORMS_MAX;

/// The forms that were sent.
#[derive(Debug, Default)]
pub(crate) struct SentForms {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    by_key: HashMap<FormKey, KnownForm>,
    /// The forms that were sent, the oldest first.
    sent: VecDeque<FormKey>,
}

/// The account and the identifier of a form.
type FormKey = (String, String);

#[derive(Debug)]
enum KnownForm {
    /// It is being sent. The lock is held until then.
    Sending(Arc<AsyncMutex<()>>),
    Sent(SentForm),
}

/// A form that was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SentForm {
    /// The ticket of the transaction that has accepted the message.
    pub(crate) ticket: Ticket,
    /// The identifier of the message in the queue, and the time of its release, if it can be withdrawn until then.
    pub(crate) held: Option<(String, Timestamp)>,
    /// The digest of what was typed.
    pub(crate) content: blake3::Hash,
}

/// The beginning of a form.
pub(crate) enum FormState {
    /// It is sent for the first time. Dropping it without [`SendingForm::complete`] permits a repetition.
    New(SendingForm),
    /// It is being sent: the lock is free when that has ended.
    Sending(Arc<AsyncMutex<()>>),
    /// It was sent. The transaction that has accepted the message may not be durable yet.
    Sent(SentForm),
}

/// A form that is being sent.
pub(crate) struct SendingForm {
    forms: Arc<SentForms>,
    key: FormKey,
    content: blake3::Hash,
    _running: Option<OwnedMutexGuard<()>>,
}

impl SentForms {
    /// Begins to send a form of an account. `content` is the digest of what was typed.
    pub(crate) fn begin(self: &Arc<Self>, account: &str, form: &str, content: blake3::Hash) -> FormState {
        let key = (account.to_owned(), form.to_owned());
        let mut known = self.known.lock();
        match known.by_key.get(&key) {
            Some(KnownForm::Sending(running)) => FormState::Sending(Arc::clone(running)),
            Some(KnownForm::Sent(sent)) => FormState::Sent(sent.clone()),
            None => {
                let running = Arc::new(AsyncMutex::new(()));
                let guard = Arc::clone(&running).try_lock_owned().ok();
                known.by_key.insert(key.clone(), KnownForm::Sending(running));
                FormState::New(SendingForm { forms: Arc::clone(self), key, content, _running: guard })
            }
        }
    }

    /// Forgets the form whose message was withdrawn. From then on, its mail file shows what became of it.
    pub(crate) fn forget(&self, account: &str, id: &str) {
        let is_it =
            |form: &KnownForm| matches!(form, KnownForm::Sent(SentForm { held: Some((held, _)), .. }) if held == id);
        let mut known = self.known.lock();
        let Known { by_key, sent } = &mut *known;
        by_key.retain(|(of, _), form| of != account || !is_it(form));
        sent.retain(|key| by_key.contains_key(key));
    }
}

impl SendingForm {
    /// Records that the form was sent, and whether the message can be withdrawn. A repetition waits for the ticket
    /// before it is answered.
    pub(crate) fn complete(self, ticket: Ticket, held: Option<(String, Timestamp)>) {
        let sent = SentForm { ticket, held, content: self.content };
        let mut known = self.forms.known.lock();
        known.by_key.insert(self.key.clone(), KnownForm::Sent(sent));
        known.sent.push_back(self.key.clone());
        if known.sent.len() > SENT_FORMS_MAX
            && let Some(oldest) = known.sent.pop_front()
        {
            known.by_key.remove(&oldest);
        }
    }
}

impl Drop for SendingForm {
    fn drop(&mut self) {
        let mut known = self.forms.known.lock();
        if matches!(known.by_key.get(&self.key), Some(KnownForm::Sending(_))) {
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
    fn forms_are_sent_once_unless_they_were_refused() {
        let forms = Arc::new(SentForms::default());
        let FormState::New(sending) = forms.begin("ann", "1", content()) else { panic!("it is new") };
        let FormState::Sending(running) = forms.begin("ann", "1", content()) else { panic!("it is being sent") };
        assert!(running.try_lock().is_err(), "a repetition waits for the first request");
        assert!(matches!(forms.begin("bob", "1", content()), FormState::New(_)), "it is another account's");
        drop(sending);
        let FormState::New(sending) = forms.begin("ann", "1", content()) else { panic!("it was refused") };
        let held = Some(("q1".to_owned(), Timestamp(5)));
        sending.complete(Ticket::NONE, held.clone());
        let sent = SentForm { ticket: Ticket::NONE, held, content: content() };
        assert!(matches!(forms.begin("ann", "1", content()), FormState::Sent(known) if known == sent));
        forms.forget("bob", "q1");
        forms.forget("ann", "q2");
        assert!(matches!(forms.begin("ann", "1", content()), FormState::Sent(_)));
        forms.forget("ann", "q1");
        assert!(forms.known.lock().sent.is_empty());
        assert!(matches!(forms.begin("ann", "1", content()), FormState::New(_)));
    }

    #[test]
    fn memory_is_bounded() {
        let forms = Arc::new(SentForms::default());
        for number in 0..SENT_FORMS_MAX + 10 {
            if let FormState::New(sending) = forms.begin("ann", &number.to_string(), content()) {
                sending.complete(Ticket::NONE, None);
            }
        }
        assert_eq!(forms.known.lock().by_key.len(), SENT_FORMS_MAX);
    }
}
