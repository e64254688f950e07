//! Resolution of recipients: the directory's answer about an address, kept until the message is accepted.
//!
//! An address is looked up when the recipient is named, and the answer goes with the message to the router. An answer
//! is valid for one generation of the directory. If the directory has changed when the message is accepted, the address
//! is looked up again, so a message is never delivered by an outdated answer.

use std::sync::Arc;

use directory::{Directory, Person, Resolution};

use crate::error::{Error, Result};
use crate::limits::{GROUP_TARGETS_PER_MESSAGE_MAX, KEPT_TARGETS_MAX};
use crate::router::{AddressResolver, DeliveryTarget, LocalMailbox};
use crate::submission::Refusal;

/// Generation of answers that hold for each generation of the directory.
const ANY_GENERATION: u64 = u64::MAX;

/// The directory's answer about an address that can receive mail.
#[derive(Clone, Debug)]
pub struct ResolvedAddress {
    targets: Arc<[DeliveryTarget]>,
    is_local: bool,
    generation: u64,
}

impl ResolvedAddress {
    /// Creates the answer for an address of a local domain.
    #[must_use]
    pub fn local(targets: Vec<DeliveryTarget>, generation: u64) -> Self {
        Self { targets: targets.into(), is_local: true, generation }
    }

    /// Creates the answer for an address of a domain that is not local.
    #[must_use]
    pub fn remote(address: String, generation: u64) -> Self {
        Self { targets: [DeliveryTarget::Remote(address)].into(), is_local: false, generation }
    }

    /// Creates the answer for a recipient who does not exist, whatever the directory says about the address.
    pub(crate) fn undeliverable(address: &str) -> Self {
        let target = DeliveryTarget::Undeliverable(Refusal::UnknownRecipient.reply_about(address));
        Self { targets: [target].into(), is_local: true, generation: ANY_GENERATION }
    }

    /// Returns `true` if the domain of the address is local. Its targets may nevertheless be remote.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.is_local
    }

    /// Returns the mailboxes and remote addresses that receive the mail.
    #[must_use]
    pub fn targets(&self) -> &Arc<[DeliveryTarget]> {
        &self.targets
    }

    /// Returns the number of targets if the address stands for several, or 0.
    #[must_use]
    pub fn group_targets(&self) -> usize {
        Some(self.targets.len()).filter(|count| *count > 1).unwrap_or(0)
    }

    /// Returns `true` if the answer was read from this generation of the directory.
    pub(crate) fn is_from_generation(&self, generation: u64) -> bool {
        self.generation == generation || self.generation == ANY_GENERATION
    }
}

/// The answers about the recipients of one message, in the order of the recipients.
///
/// Together they hold at most [`KEPT_TARGETS_MAX`] targets. An answer beyond that is dropped.
#[derive(Clone, Debug, Default)]
pub struct ResolvedAddresses {
    answers: Vec<Option<ResolvedAddress>>,
    targets: usize,
    /// Number of targets of groups in all answers, whether they were kept or not.
    group_targets: usize,
}

impl ResolvedAddresses {
    /// Returns `true` if the message may have this recipient as well: together, the groups among its recipients have at
    /// most [`GROUP_TARGETS_PER_MESSAGE_MAX`] targets.
    #[must_use]
    pub fn has_capacity_for(&self, answer: &ResolvedAddress) -> bool {
        self.group_targets.saturating_add(answer.group_targets()) <= GROUP_TARGETS_PER_MESSAGE_MAX
    }

    /// Appends the answer about the next recipient.
    pub fn push(&mut self, answer: ResolvedAddress) {
        self.group_targets = self.group_targets.saturating_add(answer.group_targets());
        let targets = self.targets.saturating_add(answer.targets.len());
        let is_kept = targets <= KEPT_TARGETS_MAX;
        if is_kept {
            self.targets = targets;
        }
        self.answers.push(is_kept.then_some(answer));
    }

    /// Appends the next recipient, whose address is looked up when the message is accepted.
    pub(crate) fn push_unknown(&mut self) {
        self.answers.push(None);
    }

    /// Returns the answer about a recipient, or `None` if it was not kept.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&ResolvedAddress> {
        self.answers.get(index)?.as_ref()
    }
}

/// Resolves addresses for the router from the directory.
pub struct DirectoryResolver {
    directory: Arc<Directory>,
}

impl DirectoryResolver {
    /// Creates an address resolver on a directory.
    #[must_use]
    pub fn new(directory: Arc<Directory>) -> Self {
        Self { directory }
    }
}

impl AddressResolver for DirectoryResolver {
    fn targets(&self, address: &str) -> Result<Vec<DeliveryTarget>> {
        let generation = self.directory.generation();
        let resolution = self.directory.resolve(address).map_err(into_mail_error)?;
        Ok(match to_resolved_address(&self.directory, resolution, address, generation) {
            Ok(resolved) => resolved.targets.to_vec(),
            Err(refusal) => vec![DeliveryTarget::Undeliverable(refusal.reply_about(address))],
        })
    }
}

/// Converts a resolution to an answer. `generation` must have been read before the resolution.
pub(crate) fn to_resolved_address(
    directory: &Directory,
    resolution: Resolution,
    address: &str,
    generation: u64,
) -> std::result::Result<ResolvedAddress, Refusal> {
    match resolution {
        Resolution::Local(recipients) => {
            let people = recipients.people.iter().map(|person| local_target(directory, person, address));
            let remote = recipients.remote.iter().map(|address| DeliveryTarget::Remote(address.to_string()));
            Ok(ResolvedAddress::local(people.chain(remote).collect(), generation))
        }
        Resolution::Remote(address) => Ok(ResolvedAddress::remote(address.to_string(), generation)),
        Resolution::Unknown => Err(Refusal::UnknownRecipient),
        Resolution::Disabled => Err(Refusal::RecipientDisabled),
        Resolution::Invalid(reason) => Err(Refusal::InvalidRecipient(reason)),
        Resolution::NoRecipients => Err(Refusal::NotForMail("This address has no recipients".to_owned())),
        Resolution::NotForMail { reason } => Err(Refusal::NotForMail(reason)),
    }
}

fn local_target(directory: &Directory, person: &Person, address: &str) -> DeliveryTarget {
    if person.mail_file.is_empty() {
        return DeliveryTarget::Undeliverable(format!("550 5.2.0 the user has no mailbox here: {address}"));
    }
    DeliveryTarget::Local(LocalMailbox {
        mail_file: person.mail_file.clone(),
        title: person.display_name(),
        owner: person.name.clone(),
        quota_bytes: person.quota_bytes,
        other_server: (!directory.is_home_of(person)).then(|| person.mail_server.clone()),
    })
}

/// Converts a directory error into a mail error.
fn into_mail_error(error: directory::Error) -> Error {
    match error {
        directory::Error::Notes(error) => Error::Notes(error),
        other => Error::Notes(notes::Error::invalid("directory", other.to_string())),
    }
}
