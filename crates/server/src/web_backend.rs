//! The services of the lite web mail: mail files, addresses and submission, over the directory and the mail layer.
//!
//! A mail file is opened as for the other protocols, with the identity that the check of the session has found. The
//! look-up of addresses reads people and groups in the order of the directory, at most [`ADDRESS_SCAN_MAX`] of each: it
//! finds everybody in directories of that size, and in larger ones the exact name or address of anybody.
//!
//! Not included: rights to see people. Everybody who may log in may look up addresses, as in Domino's directory.

use std::sync::Arc;

use directory::{Directory, Group, Person};
use http::Caller;
use instance::full_text::FullTextService;
use mail::mailbox::MailFile;
use mail::router::SentCopy;
use mail::submission::{AcceptedSubmission, NotifiedMessage, RefusedRequest, SubmissionRequest, SubmissionService};
use sasl::LoginError;
use search::FullTextIndex;
use store::Ticket;
use web::backend::{Account, AddressEntry, BackendError, EntryKind, WebBackend};

use crate::limits::{ADDRESS_SCAN_MAX, ADDRESS_SCAN_PAGE};
use crate::logins::Logins;

/// The services of the lite web mail.
pub struct ServerWebBackend {
    /// The directory.
    pub directory: Arc<Directory>,
    /// Opens mail files.
    pub logins: Arc<Logins>,
    /// Accepts messages.
    pub submissions: Arc<SubmissionService>,
    /// The full-text index.
    pub full_text: Arc<FullTextService>,
}

impl ServerWebBackend {
    fn person(&self, caller: &Caller) -> Result<Arc<Person>, BackendError> {
        let person = self.directory.person(caller.login()).map_err(|error| unavailable(&error))?;
        person.ok_or(BackendError::NoMailFile)
    }

    /// Calls `each` for the people, page by page, until it returns `false`.
    fn scan_people(&self, each: &mut dyn FnMut(&Person) -> bool) -> Result<(), BackendError> {
        let mut position = 0;
        while position < ADDRESS_SCAN_MAX {
            let page = self.directory.users(position, ADDRESS_SCAN_PAGE).map_err(|error| unavailable(&error))?;
            if page.entries.is_empty() || !page.entries.iter().all(|person| each(person)) {
                break;
            }
            position += page.entries.len() as u64;
        }
        Ok(())
    }

    /// Calls `each` for the groups, page by page, until it returns `false`.
    fn scan_groups(&self, each: &mut dyn FnMut(&Group) -> bool) -> Result<(), BackendError> {
        let mut position = 0;
        while position < ADDRESS_SCAN_MAX {
            let page = self.directory.groups(position, ADDRESS_SCAN_PAGE).map_err(|error| unavailable(&error))?;
            if page.entries.is_empty() || !page.entries.iter().all(|group| each(group)) {
                break;
            }
            position += page.entries.len() as u64;
        }
        Ok(())
    }
}

impl WebBackend for ServerWebBackend {
    fn account(&self, caller: &Caller) -> Result<Account, BackendError> {
        let person = self.person(caller)?;
        let addresses = person.addresses.iter().map(ToString::to_string).collect();
        Ok(Account { name: person.display_name(), addresses })
    }

    fn open(&self, caller: &Caller) -> Result<MailFile, BackendError> {
        self.logins.open_for(&caller.identity).map_err(|error| match error {
            LoginError::MailFileElsewhere => BackendError::MailFileElsewhere,
            LoginError::AccountDisabled | LoginError::InvalidCredentials => BackendError::NoMailFile,
            _ => BackendError::Unavailable,
        })
    }

    fn find_addresses(&self, _: &Caller, words: &str, limit: usize) -> Result<Vec<AddressEntry>, BackendError> {
        let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
        let has_words = |entry: &AddressEntry, others: &str| {
            let text = format!("{} {} {others}", entry.name, entry.address).to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        let mut found = Vec::new();
        self.scan_people(&mut |person| {
            let entry = entry_of_person(person).filter(|entry| has_words(entry, &person.short_names.join(" ")));
            found.extend(entry);
            found.len() < limit
        })?;
        self.scan_groups(&mut |group| {
            let is_open = found.len() < limit;
            found.extend(entry_of_group(group).filter(|entry| is_open && has_words(entry, "")));
            is_open
        })?;
        let typed = words.join(" ");
        if found.is_empty() {
            let person = self.directory.active_person(&typed).map_err(|error| unavailable(&error))?;
            found.extend(person.as_deref().and_then(entry_of_person));
        }
        Ok(found)
    }

    fn address_of(&self, _: &Caller, name: &str) -> Result<Option<String>, BackendError> {
        let person = self.directory.active_person(name).map_err(|error| unavailable(&error))?;
        if let Some(entry) = person.as_deref().and_then(entry_of_person) {
            return Ok(Some(entry.address));
        }
        let group = self.directory.group(name).map_err(|error| unavailable(&error))?;
        Ok(group.as_deref().and_then(entry_of_group).map(|entry| entry.address))
    }

    fn submit(
        &self,
        request: SubmissionRequest,
        copy: Option<(String, SentCopy)>,
    ) -> Result<AcceptedSubmission, RefusedRequest> {
        match copy {
            Some(copy) => self.submissions.submit_with_copy(request, copy),
            None => self.submissions.submit(request),
        }
    }

    fn submit_notification(
        &self,
        request: SubmissionRequest,
        about: NotifiedMessage,
    ) -> Result<Ticket, RefusedRequest> {
        self.submissions.submit_notification(request, about)
    }

    fn full_text(&self) -> search::Result<Option<Arc<FullTextIndex>>> {
        self.full_text.open_existing()
    }
}

fn entry_of_person(person: &Person) -> Option<AddressEntry> {
    let address = person.address().filter(|_| !person.disabled)?.to_string();
    Some(AddressEntry { name: person.display_name(), address, kind: EntryKind::Person })
}

fn entry_of_group(group: &Group) -> Option<AddressEntry> {
    let address = group.address().filter(|_| group.kind.takes_mail())?.to_string();
    Some(AddressEntry { name: group.name.abbreviated(), address, kind: EntryKind::Group })
}

fn unavailable(error: &directory::Error) -> BackendError {
    tracing::error!(target: "web", %error, "the directory cannot be read");
    BackendError::Unavailable
}
