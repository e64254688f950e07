//! The forms of the composer that were sent: a repetition of one sends nothing.
//!
//! A browser repeats a form if its answer was lost, or if a person presses the button twice. Each form has an
//! identifier. While a form is sent, and after it was, a repetition is recognized. A form that was refused can be sent
//! again. The forms are in memory and bounded; after a restart, the copy in the folder with sent messages shows that a
//! form was sent, because its `Message-ID` is made from the identifier.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base::sync::Mutex;
use store::Ticket;

use crate::limits::SENT_FORMS_MAX;

/// The forms that were sent.
#[derive(Debug, Default)]
pub(crate) struct SentForms {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The forms of accounts, with the ticket of the transaction that has accepted the message; `None` while a form is
    /// sent.
    by_key: HashMap<(String, String), Option<Ticket>>,
    /// The forms that were sent, the oldest first.
    sent: VecDeque<(String, String)>,
}

/// The beginning of a form.
pub(crate) enum FormState {
    /// It is sent for the first time. Dropping it without [`SendingForm::complete`] permits a repetition.
    New(SendingForm),
    /// It is being sent.
    Sending,
    /// It was sent. The transaction that has accepted the message may not be durable yet.
    Sent(Ticket),
}

/// A form that is being sent.
pub(crate) struct SendingForm {
    forms: Arc<SentForms>,
    key: (String, String),
}

impl SentForms {
    /// Begins to send a form of an account.
    pub(crate) fn begin(self: &Arc<Self>, account: &str, form: &str) -> FormState {
        let key = (account.to_owned(), form.to_owned());
        let mut known = self.known.lock();
        match known.by_key.get(&key) {
            Some(Some(ticket)) => FormState::Sent(*ticket),
            Some(None) => FormState::Sending,
            None => {
                known.by_key.insert(key.clone(), None);
                FormState::New(SendingForm { forms: Arc::clone(self), key })
            }
        }
    }
}

impl SendingForm {
    /// Records that the form was sent. A repetition waits for the ticket before it is answered.
    pub(crate) fn complete(self, ticket: Ticket) {
        let mut known = self.forms.known.lock();
        known.by_key.insert(self.key.clone(), Some(ticket));
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
        if known.by_key.get(&self.key) == Some(&None) {
            known.by_key.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_sent_once_unless_they_were_refused() {
        let forms = Arc::new(SentForms::default());
        let FormState::New(sending) = forms.begin("ann", "1") else { panic!("it is new") };
        assert!(matches!(forms.begin("ann", "1"), FormState::Sending));
        assert!(matches!(forms.begin("bob", "1"), FormState::New(_)), "it is another account's");
        drop(sending);
        let FormState::New(sending) = forms.begin("ann", "1") else { panic!("it was refused") };
        sending.complete(Ticket::NONE);
        assert!(matches!(forms.begin("ann", "1"), FormState::Sent(ticket) if ticket == Ticket::NONE));
    }

    #[test]
    fn memory_is_bounded() {
        let forms = Arc::new(SentForms::default());
        for number in 0..SENT_FORMS_MAX + 10 {
            if let FormState::New(sending) = forms.begin("ann", &number.to_string()) {
                sending.complete(Ticket::NONE);
            }
        }
        assert_eq!(forms.known.lock().by_key.len(), SENT_FORMS_MAX);
    }
}
