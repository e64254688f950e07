//! Address resolution for the router: translates the directory's answers into the router's [`Target`]s.

use std::sync::Arc;

use directory::{Directory, Person, Resolution};
use mail::router::{AddressResolver, LocalMailbox, Target};

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
    fn targets(&self, address: &str) -> mail::Result<Vec<Target>> {
        let undeliverable = |reply: &str| vec![Target::Undeliverable(format!("{reply}: {address}"))];
        let found = self.directory.resolve(address).map_err(into_mail_error)?;
        Ok(match found {
            Resolution::Local(recipients) => {
                let people = recipients.people.iter().map(|person| local_target(person, address));
                people.chain(recipients.remote.iter().map(|address| Target::Remote(address.to_string()))).collect()
            }
            Resolution::Remote(address) => vec![Target::Remote(address.to_string())],
            Resolution::Unknown => undeliverable("550 5.1.1 no such user here"),
            Resolution::Disabled => undeliverable("550 5.2.1 the mailbox is disabled"),
            Resolution::Invalid(why) => undeliverable(&format!("553 5.1.3 {why}")),
            Resolution::NoRecipients => undeliverable("550 5.2.4 this address has no recipients"),
            Resolution::NotForMail { why } => undeliverable(&format!("550 5.2.4 {why}")),
        })
    }
}

/// Returns the mailbox of a person in the form the router expects.
#[must_use]
pub fn mailbox_of(person: &Person) -> LocalMailbox {
    LocalMailbox {
        mail_file: person.mail_file.clone(),
        title: person.display_name(),
        owner: person.name.clone(),
        quota_bytes: person.quota_bytes,
    }
}

/// Converts a directory error into a mail error.
#[must_use]
pub fn into_mail_error(error: directory::Error) -> mail::Error {
    match error {
        directory::Error::Notes(error) => mail::Error::Notes(error),
        other => mail::Error::Notes(notes::Error::invalid("directory", other.to_string())),
    }
}

fn local_target(person: &Person, address: &str) -> Target {
    if person.mail_file.is_empty() {
        return Target::Undeliverable(format!("550 5.2.0 the user has no mailbox here: {address}"));
    }
    Target::Local(mailbox_of(person))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    fn check(sample: &Sample, address: &str, expected: &[&str]) {
        let addressing = DirectoryResolver::new(Arc::clone(&sample.core.directory));
        let shown = |target: &Target| match target {
            Target::Local(mailbox) => mailbox.mail_file.clone(),
            Target::Remote(address) => address.clone(),
            Target::Undeliverable(reply) => reply.clone(),
        };
        let targets = addressing.targets(address).expect("the directory answers");
        assert_eq!(targets.iter().map(shown).collect::<Vec<_>>(), expected, "{address}");
    }

    #[test]
    fn addresses_stand_for_mailboxes_people_elsewhere_or_nothing() {
        let sample = Sample::new();
        check(&sample, "ann@acme.test", &["mail/ann.nsf"]);
        check(&sample, "ANN+lists@Acme.Test", &["mail/ann.nsf"]);
        check(&sample, "team@acme.test", &["mail/ann.nsf", "mail/bob.nsf", "dora@elsewhere.test"]);
        check(&sample, "dora@elsewhere.test", &["dora@elsewhere.test"]);
        check(&sample, "nobody@acme.test", &["550 5.1.1 no such user here: nobody@acme.test"]);
        check(&sample, "eve@acme.test", &["550 5.2.1 the mailbox is disabled: eve@acme.test"]);
        let empty = directory::NewGroup { addresses: vec!["empty@acme.test".to_owned()], ..Default::default() };
        sample.core.directory.group_add(&empty).expect("it is free");
        check(&sample, "empty@acme.test", &["550 5.2.4 this address has no recipients: empty@acme.test"]);
    }

    #[test]
    fn quotas_and_owners_go_with_the_mailbox() {
        let sample = Sample::new();
        let bob = sample.core.directory.person("bob@acme.test").expect("a look").expect("he is there");
        let mailbox = mailbox_of(&bob);
        assert_eq!((mailbox.quota_bytes, mailbox.owner), (Some(1 << 20), bob.name.clone()));
    }
}
