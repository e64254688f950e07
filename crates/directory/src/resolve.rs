//! From an address to those who get the mail.
//!
//! An address in a local domain is looked for in this order; the first find counts:
//!
//! 1. the address as it is written, as an address of a person or group;
//! 2. the same in the name of the domain that its domain is an alias of;
//! 3. both without the detail (`ann+lists` is `ann`);
//! 4. `postmaster`: whom the domain names for that;
//! 5. the domain's catch-all.
//!
//! A group stands for its members, a person who forwards stands for the address that mail is forwarded to; both may lead to
//! others in turn ([`crate::expansion`]), so neither groups nor forwarding can go in circles. Nobody gets mail twice.
//! Disabled people get none.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use base::NoteId;

use crate::address::{Address, AddressError};
use crate::directory::{Directory, Found};
use crate::domain::Domain;
use crate::error::{Error, Result};
use crate::expansion::{self, ExpandError, Expansion, Lookup, Member};
use crate::group::Group;
use crate::key::Key;
use crate::person::Person;
use crate::record::Record;

/// What an address stands for.
#[derive(Debug, Clone)]
pub enum Resolution {
    /// People and addresses that get the mail.
    Local(Recipients),
    /// An address in a domain that is not local, in its normal form.
    Remote(Address),
    /// The domain is local, but nobody has the address.
    Unknown,
    /// The account is disabled.
    Disabled,
    /// The text is not an address.
    Invalid(AddressError),
    /// The address leads to no one: an empty group, or forwarding in a circle.
    Nobody,
    /// The group cannot take mail: it is meant for other purposes, too large or nested too deep.
    NotForMail {
        /// The reason, for the peer.
        why: String,
    },
}

/// Those who get the mail for an address.
#[derive(Debug, Clone, Default)]
pub struct Recipients {
    /// People of this directory, each once.
    pub people: Vec<Arc<Person>>,
    /// Addresses elsewhere, each once.
    pub remote: Vec<Address>,
    /// Members of groups that stand for nobody.
    pub unknown: Vec<String>,
    /// The group, if the address is that of one.
    pub group: Option<Arc<Group>>,
    /// The detail of a sub-address (`lists` of `ann+lists`).
    pub detail: Option<String>,
}

/// Where an address leads at first.
enum Target {
    Record(Record),
    /// Another address: a catch-all or postmaster.
    Redirect(String),
}

impl Directory {
    /// Finds out who gets the mail for an address.
    pub fn resolve(&self, address: &str) -> Result<Resolution> {
        let address = match Address::parse(address) {
            Ok(address) => address,
            Err(why) => return Ok(Resolution::Invalid(why)),
        };
        let Some(domain) = self.domain(address.domain())? else { return Ok(Resolution::Remote(address)) };
        let (target, detail) = self.target(&address, &domain)?;
        let resolution = match target {
            None => return Ok(Resolution::Unknown),
            Some(Target::Record(Record::Person(person))) if person.disabled => return Ok(Resolution::Disabled),
            Some(Target::Record(Record::Person(person))) if person.forward.is_none() => {
                Ok(Recipients { people: vec![person], ..Recipients::default() })
            }
            Some(Target::Record(Record::Person(person))) => self.expand(&Node::Forward(person)),
            Some(Target::Record(Record::Group(group))) if !group.kind.takes_mail() => {
                return Ok(Resolution::NotForMail { why: format!("{} is not a mail group", group.name) });
            }
            Some(Target::Record(Record::Group(group))) => {
                let recipients = self.expand(&Node::Group(Arc::clone(&group)));
                recipients.map(|recipients| Recipients { group: Some(group), ..recipients })
            }
            Some(Target::Record(_)) => return Ok(Resolution::Unknown),
            Some(Target::Redirect(address)) => self.expand(&Node::Redirect(address)),
        };
        resolution_of(resolution, detail)
    }

    /// Finds the same where the name cache knows it, without reading from the store: addresses elsewhere, and people who keep their
    /// mail here.
    #[must_use]
    pub fn resolve_known(&self, address: &str) -> Option<Resolution> {
        let address = match Address::parse(address) {
            Ok(address) => address,
            Err(why) => return Some(Resolution::Invalid(why)),
        };
        let [domain, holder] = self.known([&Key::domain(address.domain()), &Key::address(&address)]);
        match (domain?, holder) {
            (Found::Nothing, _) => Some(Resolution::Remote(address)),
            (Found::Record(Record::Domain(_)), Some(Found::Record(Record::Person(person)))) if person.disabled => {
                Some(Resolution::Disabled)
            }
            (Found::Record(Record::Domain(_)), Some(Found::Record(Record::Person(person))))
                if person.forward.is_none() =>
            {
                Some(Resolution::Local(Recipients { people: vec![person], ..Recipients::default() }))
            }
            _ => None,
        }
    }

    /// Tells whether an address, or its part before the detail, is one of this person's own.
    pub fn owns_address(&self, person: &Person, address: &str) -> Result<bool> {
        let Ok(address) = Address::parse(address) else { return Ok(false) };
        for candidate in [Some(address.clone()), address.without_detail()].into_iter().flatten() {
            if let Some(Record::Person(holder)) = self.at_address(&candidate)? {
                return Ok(holder.note == person.note);
            }
        }
        Ok(false)
    }

    /// Tells whether a member of a group stands for nobody here and for no address elsewhere.
    pub(crate) fn is_unknown(&self, member: &str) -> Result<bool> {
        Ok(matches!(MailMembers(self).member(member)?, Member::Unknown))
    }

    fn target(&self, address: &Address, domain: &Domain) -> Result<(Option<Target>, Option<String>)> {
        if let Some(found) = self.at_address(address)? {
            return Ok((Some(Target::Record(found)), None));
        }
        let detail = address.detail().map(str::to_owned);
        if let Some(mailbox) = address.without_detail()
            && let Some(found) = self.at_address(&mailbox)?
        {
            return Ok((Some(Target::Record(found)), detail));
        }
        let postmaster = domain.postmaster.as_ref().filter(|_| address.local().eq_ignore_ascii_case("postmaster"));
        let redirect = postmaster.or(domain.catch_all.as_ref());
        Ok((redirect.map(|address| Target::Redirect(address.clone())), None))
    }

    fn expand(&self, start: &Node) -> Result<Recipients, ExpandError<Error>> {
        let found = expansion::expand(&MailMembers(self), start, self.options().expansion)?;
        Ok(recipients_of(found))
    }
}

fn resolution_of(recipients: Result<Recipients, ExpandError<Error>>, detail: Option<String>) -> Result<Resolution> {
    match recipients {
        Ok(recipients) if recipients.people.is_empty() && recipients.remote.is_empty() => Ok(Resolution::Nobody),
        Ok(recipients) => Ok(Resolution::Local(Recipients { detail, ..recipients })),
        Err(ExpandError::Lookup(error)) => Err(error),
        Err(ExpandError::TooDeep { group }) => {
            Ok(Resolution::NotForMail { why: format!("groups are nested too deep at {group}") })
        }
        Err(ExpandError::TooMany) => Ok(Resolution::NotForMail { why: "the group has too many members".to_owned() }),
    }
}

fn recipients_of(found: Expansion<Holder>) -> Recipients {
    let people = found.people.into_iter().map(|holder| holder.0).filter(|person| !person.disabled);
    Recipients {
        people: people.collect(),
        remote: found.remote.iter().filter_map(|address| Address::parse(address).ok()).collect(),
        unknown: found.unknown,
        group: None,
        detail: None,
    }
}

/// A person, compared by note.
#[derive(Clone)]
struct Holder(Arc<Person>);

impl PartialEq for Holder {
    fn eq(&self, other: &Self) -> bool {
        self.0.note == other.0.note
    }
}

impl Eq for Holder {}

impl Hash for Holder {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.note.hash(state);
    }
}

/// Whatever stands for others.
#[derive(Clone)]
enum Node {
    Group(Arc<Group>),
    /// A person who forwards.
    Forward(Arc<Person>),
    /// A catch-all or postmaster.
    Redirect(String),
}

impl Node {
    fn id(&self) -> (NoteId, &str) {
        match self {
            Self::Group(group) => (group.note, ""),
            Self::Forward(person) => (person.note, ""),
            Self::Redirect(address) => (NoteId(0), address),
        }
    }
}

impl PartialEq for Node {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Node {}

impl Hash for Node {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

/// What members of mail groups stand for.
struct MailMembers<'d>(&'d Directory);

impl Lookup for MailMembers<'_> {
    type Person = Holder;
    type Group = Node;
    type Error = Error;

    fn member(&self, name: &str) -> Result<Member<Holder, Node>> {
        let found = match Address::parse(name.trim()) {
            Ok(address) if !self.0.domain_is_local(address.domain())? => {
                return Ok(Member::Remote(normal_form(&address)));
            }
            Ok(address) => match (self.0.at_address(&address)?, address.without_detail()) {
                (None, Some(mailbox)) => self.0.at_address(&mailbox)?,
                (found, _) => found,
            },
            Err(_) => self.0.find(&Key::name(name))?,
        };
        Ok(match found {
            Some(Record::Person(person)) if person.forward.is_some() && !person.disabled => {
                Member::Group(Node::Forward(person))
            }
            Some(Record::Person(person)) => Member::Person(Holder(person)),
            Some(Record::Group(group)) => Member::Group(Node::Group(group)),
            _ => Member::Unknown,
        })
    }

    fn members(&self, group: &Node) -> Result<Vec<String>> {
        Ok(match group {
            Node::Group(group) => group.members.clone(),
            Node::Forward(person) => person.forward.iter().cloned().collect(),
            Node::Redirect(address) => vec![address.clone()],
        })
    }
}

/// Gives an address elsewhere as it is sent to. Two that differ in the case of the local part count as two, because only
/// their own server knows better.
fn normal_form(address: &Address) -> String {
    address.to_string()
}
