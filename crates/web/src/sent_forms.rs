//! The forms of the composer that were sent: a repetition of one sends nothing.
//!
//! A browser repeats a form if its answer was lost, or if a person presses the button twice. Each form has an
//! identifier. While a form is sent, and after it was, a repetition is recognized. A form that was refused can be sent
//! again. The forms are in memory and bounded; after a restart, the copy in the folder with sent messages shows that a
//! form was sent, because its `Message-ID` is made from the identifier.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base::sync::Mutex;

use crate::limits::SENT_FORMS_MAX;

/// The forms that were sent.
#[derive(Debug, Default)]
pub(crate) struct SentForms {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    /// The forms of accounts; `true` if the form was sent, `false` while it is.
    by_key: HashMap<(String, String), bool>,
    /// The forms that were sent, the oldest first.
    sent: VecDeque<(String, String)>,
}

/// The beginning of a form.
pub(crate) enum FormState {
    /// It is sent for the first time. Dropping it without [`SendingForm::complete`] permits a repetition.
    New(SendingForm),
    /// It is being sent.
    Sending,
    /// It was sent.
    Sent,
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
            Some(true) => FormState::Sent,
            Some(false) => FormState::Sending,
            None => {
                known.by_key.insert(key.clone(), false);
                FormState::New(SendingForm { forms: Arc::clone(self), key })
            }
        }
    }
}

impl SendingForm {
    /// Records that the form was sent.
    pub(crate) fn complete(self) {
        let mut known = self.forms.known.lock();
        known.by_key.insert(self.key.clone(), true);
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
        if known.by_key.get(&self.key) == Some(&false) {
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
        sending.complete();
        assert!(matches!(forms.begin("ann", "1"), FormState::Sent));
    }

    #[test]
    fn memory_is_bounded() {
        let forms = Arc::new(SentForms::default());
        for number in 0..SENT_FORMS_MAX + 10 {
            if let FormState::New(sending) = forms.begin("ann", &number.to_string()) {
                sending.complete();
            }
        }
        assert_eq!(forms.known.lock().by_key.len(), SENT_FORMS_MAX);
    }
}
