//! The demo: a domain, people, a group, mail of many kinds and a discussion database, created in a data folder on the
//! first start.
//!
//! All ports are unprivileged and on loopback; a configuration file and `--set` still take precedence. Passwords are
//! generated on the first start, stored in `demo-passwords.txt` (mode 0600) and printed on every start. Mail passes
//! through the real router, as if it had arrived over SMTP. The last step writes a mark into the directory's settings.
//! Therefore an interrupted first start is repeated, and an object that is removed later is not created again.

pub mod discussion;
pub mod messages;

use admin::{AdminError, domains, groups, people};
use base::Random;
use design::error::DesignError;
use directory::{DomainChange, NewUser};
use instance::Instance;
use instance::data_folder::{DataError, read_limited, write_private};
use mail::router::{Envelope, Recipient};

/// The demo's mail domain.
pub const DOMAIN: &str = "demo.test";

/// The demo's preset, which the configuration file overrides.
pub const PRESET: [&str; 17] = [
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
    "listen.http=127.0.0.1:8000",
    "listen.https=127.0.0.1:8443",
    "native.database_creators=team@demo.test",
    "listen.lmtp=lmtp.sock",
    "listen.admin=127.0.0.1:8080",
    "router.outbound=false",
];

/// The subject of the directory's settings that hold the demo's mark.
const MARK_SUBJECT: &str = "Demo";

/// The name of the setting that marks a complete setup.
const SET_UP_MARK: &str = "SetUp";

/// Characters of passwords, without those that look alike.
const ALPHABET: &[u8] = b"abcdefghijkmnpqrstuvwxyz23456789";

/// The error returned if the demo cannot be set up. For the operator.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// A template cannot be applied.
    #[error(transparent)]
    Design(#[from] DesignError),
    /// An administration command failed.
    #[error(transparent)]
    Admin(#[from] AdminError),
    /// An operation on mail failed.
    #[error(transparent)]
    Mail(#[from] mail::Error),
    /// An operation on the directory failed.
    #[error(transparent)]
    Directory(#[from] directory::Error),
    /// An operation on a database failed.
    #[error(transparent)]
    Notes(#[from] notes::Error),
    /// An operation on the store failed.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// The file with the passwords cannot be read or written.
    #[error(transparent)]
    Data(#[from] DataError),
}

/// Sets up the demo unless this was done before. Returns the logins and their passwords.
pub fn set_up(instance: &Instance) -> Result<Vec<(String, String)>, DemoError> {
    let passwords = read_passwords(instance)?;
    let settings = instance.directory.settings(MARK_SUBJECT)?;
    if settings.is_some_and(|settings| settings.value(SET_UP_MARK).is_some()) {
        return Ok(passwords);
    }
    if instance.directory.group(messages::GROUP)?.is_some() {
        // An earlier version of the program set up the demo without leaving a mark.
        instance.directory.settings_set(MARK_SUBJECT, SET_UP_MARK, Some("yes"))?;
        return Ok(passwords);
    }
    if !instance.directory.domain_is_local(DOMAIN)? {
        domains::add(instance, DOMAIN, None)?;
    }
    for ((address, name), (_, password)) in messages::PEOPLE.iter().zip(&passwords) {
        if instance.directory.person(address)?.is_none() {
            let (first_name, last_name) = name.split_once(' ').unwrap_or(("", name));
            let new = NewUser {
                first_name: first_name.to_owned(),
                last_name: last_name.to_owned(),
                password: Some(password.clone().into_bytes()),
                ..NewUser::new(address)
            };
            people::add(instance, &new)?;
        }
    }
    let postmaster =
        DomainChange { postmaster: Some(Some(messages::PEOPLE[0].0.to_owned())), ..DomainChange::default() };
    instance.directory.domain_set(DOMAIN, &postmaster)?;
    submit_messages(instance)?;
    let members = messages::PEOPLE.iter().map(|(address, _)| (*address).to_owned()).collect();
    groups::add(instance, messages::GROUP, members)?;
    discussion::create(instance)?;
    instance.directory.settings_set(MARK_SUBJECT, SET_UP_MARK, Some("yes"))?;
    Ok(passwords)
}

/// Sends the messages. A message to the group is sent to its members, because the group does not exist yet.
fn submit_messages(instance: &Instance) -> Result<(), DemoError> {
    let mut last = store::Ticket::NONE;
    for (number, message) in (1..).zip(messages::demo_messages(instance.clock.now(), instance.random.as_ref())) {
        let everybody = messages::PEOPLE.iter().map(|(address, _)| *address);
        let to_group = message.to.contains(&messages::GROUP);
        let direct = message.to.iter().copied().filter(|address| *address != messages::GROUP);
        let addresses = direct.chain(everybody.filter(|_| to_group));
        let envelope = Envelope {
            id: format!("demo-{number}"),
            reverse_path: message.from.to_owned(),
            recipients: addresses.map(Recipient::new).collect(),
            ..Envelope::default()
        };
        last = last.max(instance.router.accept(&envelope, &message.raw)?.ticket);
    }
    Ok(instance.store.durable(last).wait()?)
}

/// Reads the passwords. Generates them first if the file does not exist.
fn read_passwords(instance: &Instance) -> Result<Vec<(String, String)>, DataError> {
    let path = instance.data.demo_passwords_file();
    if !path.exists() {
        let line = |(address, _): &(&str, &str)| format!("{address} {}\n", generate_password(instance.random.as_ref()));
        let text: String = messages::PEOPLE.iter().map(line).collect();
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

fn generate_password(random: &dyn Random) -> String {
    let letter = |_| char::from(ALPHABET.get(random.below(ALPHABET.len() as u64) as usize).copied().unwrap_or(b'x'));
    let groups: Vec<String> = (0..4).map(|_| (0..4).map(letter).collect()).collect();
    groups.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sample::Sample;

    #[test]
    fn removed_users_and_groups_are_not_recreated() {
        let sample = Sample::new();
        let instance = &sample.instance;
        let logins = set_up(instance).expect("a sound folder");
        let message_count = || {
            let file = instance.mail.open_as_server("mail/alice.nsf").expect("the mail file exists");
            file.quota().expect("the mail file can be read").notes
        };
        let before = message_count();
        assert!(before > 0);
        instance.directory.group_remove(messages::GROUP).expect("the group exists");
        instance.directory.user_remove("carol@demo.test").expect("the user exists");
        assert_eq!(set_up(instance).expect("a sound folder"), logins);
        assert_eq!(message_count(), before);
        assert!(instance.directory.person("carol@demo.test").expect("a lookup").is_none());
        assert!(instance.directory.group(messages::GROUP).expect("a lookup").is_none());
    }

    #[test]
    fn demo_without_a_mark_is_recognized_by_its_group() {
        let sample = Sample::new();
        set_up(&sample.instance).expect("a sound folder");
        sample.instance.directory.settings_set(MARK_SUBJECT, SET_UP_MARK, None).expect("the settings can be written");
        sample.instance.directory.user_remove("carol@demo.test").expect("the user exists");
        set_up(&sample.instance).expect("a sound folder");
        assert!(sample.instance.directory.person("carol@demo.test").expect("a lookup").is_none());
    }
}
