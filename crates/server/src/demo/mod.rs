//! The demo: a domain, people, a group, mail of many kinds and a discussion in a data folder, made on its first start.
//!
//! Ports are unprivileged and on loopback; a configuration file and `--set` still count. Passwords are drawn at random on the first
//! start, kept in `demo-passwords.txt` (mode 0600) and printed at every start. Mail goes through the real router, as if it had come in over SMTP.
//! The last step leaves a mark in the directory's settings, so a first start that was interrupted is repeated, and what is removed later stays
//! removed.

pub mod discussion;
pub mod letters;

use base::Random;
use directory::{DomainChange, NewUser};
use mail::router::{Envelope, Recipient};

use crate::admin::{Failure, domains, groups, people};
use crate::core::Core;
use crate::data::{DataError, read_limited, write_private};

/// The demo's mail domain.
pub const DOMAIN: &str = "demo.test";

/// What the demo puts below the configuration file.
pub const PRESET: [&str; 15] = [
    "server.name=localhost",
    "server.organization=Demo",
    "server.data=demo-data",
    "listen.smtp=127.0.0.1:1025",
    "listen.submission=127.0.0.1:1587",
    "listen.submission_tls=127.0.0.1:1465",
    "listen.imap=127.0.0.1:1143",
    "listen.imap_tls=127.0.0.1:1993",
    "listen.pop3=127.0.0.1:1110",
    "listen.pop3_tls=127.0.0.1:1995",
    "listen.native=127.0.0.1:1352",
    "native.database_makers=team@demo.test",
    "listen.lmtp=lmtp.sock",
    "listen.admin=127.0.0.1:8080",
    "router.outbound=false",
];

/// The subject of the settings that tell of the demo.
const MARK_SUBJECT: &str = "Demo";

/// The value that tells that everything was set up.
const MARK: &str = "SetUp";

/// Characters of passwords: none that look alike.
const ALPHABET: &[u8] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// Why the demo cannot be set up. For the operator.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The administration refuses.
    #[error(transparent)]
    Admin(#[from] Failure),
    /// Mail refuses.
    #[error(transparent)]
    Mail(#[from] mail::Error),
    /// The directory refuses.
    #[error(transparent)]
    Directory(#[from] directory::Error),
    /// Databases refuse.
    #[error(transparent)]
    Notes(#[from] notes::Error),
    /// The store refuses.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The passwords cannot be kept.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// Sets the demo up unless it is; gives the logins with their passwords.
pub fn set_up(core: &Core) -> Result<Vec<(String, String)>, DemoError> {
    let passwords = passwords(core)?;
    let settings = core.directory.settings(MARK_SUBJECT)?;
    if settings.is_some_and(|settings| settings.value(MARK).is_some()) {
        return Ok(passwords);
    }
    if core.directory.group(letters::GROUP)?.is_some() {
        // Set up by a program that left no mark.
        core.directory.settings_set(MARK_SUBJECT, MARK, Some("yes"))?;
        return Ok(passwords);
    }
    if !core.directory.domain_is_local(DOMAIN)? {
        domains::add(core, DOMAIN, None)?;
    }
    for ((address, name), (_, password)) in letters::PEOPLE.iter().zip(&passwords) {
        if core.directory.person(address)?.is_none() {
            let (first_name, last_name) = name.split_once(' ').unwrap_or(("", name));
            let new = NewUser {
                first_name: first_name.to_owned(),
                last_name: last_name.to_owned(),
                password: Some(password.clone().into_bytes()),
                ..NewUser::new(address)
            };
            people::add(core, &new)?;
        }
    }
    let postmaster =
        DomainChange { postmaster: Some(Some(letters::PEOPLE[0].0.to_owned())), ..DomainChange::default() };
    core.directory.domain_set(DOMAIN, &postmaster)?;
    post(core)?;
    let members = letters::PEOPLE.iter().map(|(address, _)| (*address).to_owned()).collect();
    groups::add(core, letters::GROUP, members)?;
    discussion::make(core)?;
    core.directory.settings_set(MARK_SUBJECT, MARK, Some("yes"))?;
    Ok(passwords)
}

/// Sends the letters. Those to the group go to its members, because the group is not there yet.
fn post(core: &Core) -> Result<(), DemoError> {
    let mut last = store::Ticket::NONE;
    for (number, letter) in (1..).zip(letters::letters(core.clock.now(), core.random.as_ref())) {
        let everybody = letters::PEOPLE.iter().map(|(address, _)| *address);
        let to_group = letter.to.contains(&letters::GROUP);
        let direct = letter.to.iter().copied().filter(|address| *address != letters::GROUP);
        let addresses = direct.chain(everybody.filter(|_| to_group));
        let envelope = Envelope {
            id: format!("demo-{number}"),
            reverse_path: letter.from.to_owned(),
            recipients: addresses.map(Recipient::new).collect(),
            ..Envelope::default()
        };
        last = last.max(core.router.accept(&envelope, &letter.raw)?.ticket);
    }
    Ok(core.store.durable(last).wait()?)
}

/// Reads the passwords, or draws them.
fn passwords(core: &Core) -> Result<Vec<(String, String)>, DataError> {
    let path = core.data.demo_passwords();
    if !path.exists() {
        let line = |(address, _): &(&str, &str)| format!("{address} {}\n", password(core.random.as_ref()));
        let text: String = letters::PEOPLE.iter().map(line).collect();
        write_private(&path, text.as_bytes())?;
    }
    let text = read_limited(&path, 64 << 10)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    Ok(text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(who, what)| (who.to_owned(), what.to_owned()))
        .collect())
}

fn password(random: &dyn Random) -> String {
    let letter = |_| char::from(ALPHABET.get(random.below(ALPHABET.len() as u64) as usize).copied().unwrap_or(b'x'));
    let groups: Vec<String> = (0..4).map(|_| (0..4).map(letter).collect()).collect();
    groups.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;

    #[test]
    fn what_was_removed_stays_removed() {
        let sample = Sample::new();
        let core = &sample.core;
        let logins = set_up(core).expect("a sound folder");
        let letters = || {
            let file = core.mail.open_as_server("mail/alice.nsf").expect("it is there");
            file.quota().expect("a look").notes
        };
        let before = letters();
        assert!(before > 0);
        core.directory.group_remove(letters::GROUP).expect("it is there");
        core.directory.user_remove("carol@demo.test").expect("she is there");
        assert_eq!(set_up(core).expect("a sound folder"), logins);
        assert_eq!(letters(), before);
        assert!(core.directory.person("carol@demo.test").expect("a look").is_none());
        assert!(core.directory.group(letters::GROUP).expect("a look").is_none());
    }

    #[test]
    fn a_demo_without_a_mark_is_known_by_its_group() {
        let sample = Sample::new();
        set_up(&sample.core).expect("a sound folder");
        sample.core.directory.settings_set(MARK_SUBJECT, MARK, None).expect("it is there");
        sample.core.directory.user_remove("carol@demo.test").expect("she is there");
        set_up(&sample.core).expect("a sound folder");
        assert!(sample.core.directory.person("carol@demo.test").expect("a look").is_none());
    }
}
