//! Resolution of an address to the recipients of its mail.
//!
//! An address in a local domain is looked up in this order, and the first match is used:
//!
//! 1. the address as written, as an address of a person or group;
//! 2. if its domain is an alias, the same local part in the main domain;
//! 3. both without the detail (`ann+lists` is `ann`);
//! 4. for `postmaster`: the address that the domain names for it;
//! 5. the domain's catch-all.
//!
//! A group is replaced by its members, and a person who forwards by the forwarding address. Both may lead to further
//! groups and people ([`crate::expansion`]), so neither groups nor forwarding can loop. Each recipient gets the mail
//! once. Disabled people get none.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use base::NoteId;

use crate::address::{Address, AddressError};
use crate::directory::{CachedLookup, Directory};
use crate::domain::Domain;
use crate::error::{Error, Result};
use crate::expansion::{self, ExpandError, ExpandedMembers, Member, MemberResolver};
use crate::group::Group;
use crate::key::LookupKey;
use crate::person::Person;
use crate::record::Record;

/// The result of resolving an address.
#[derive(Debug, Clone)]
pub enum Resolution {
    /// People and remote addresses that get the mail.
    Local(ResolvedRecipients),
    /// An address in a domain that is not local, in normal form.
    Remote(Address),
    /// The domain is local, but the address does not exist.
    Unknown,
    /// The account is disabled.
    Disabled,
    /// The text is not an address.
    Invalid(AddressError),
    /// The address has no recipients: an empty group, or a forwarding loop.
    NoRecipients,
    /// The group cannot receive mail: it has another purpose, is too large or is nested too deep.
    NotForMail {
        /// The reason, for the peer.
        reason: String,
    },
}

/// The recipients of the mail for an address.
#[derive(Debug, Clone, Default)]
pub struct ResolvedRecipients {
    /// People in this directory, without duplicates.
    pub people: Vec<Arc<Person>>,
    /// Remote addresses, without duplicates.
    pub remote: Vec<Address>,
    /// Group members that do not exist.
    pub unknown: Vec<String>,
    /// The group, if the address is that of a group.
    pub group: Option<Arc<Group>>,
    /// The detail of a sub-address (`lists` of `ann+lists`).
    pub detail: Option<String>,
}

/// The first target of an address.
enum Target {
    Record(Record),
    /// Another address, from the catch-all or postmaster setting.
    Redirect(String),
}

impl Directory {
    /// Resolves an address to its recipients.
    pub fn resolve(&self, address: &str) -> Result<Resolution> {
        let address = match Address::parse(address) {
            Ok(address) => address,
            Err(reason) => return Ok(Resolution::Invalid(reason)),
        };
        let Some(domain) = self.domain(address.domain())? else { return Ok(Resolution::Remote(address)) };
        let (target, detail) = self.target(&address, &domain)?;
        let resolution = match target {
            None => return Ok(Resolution::Unknown),
            Some(Target::Record(Record::Person(person))) if person.disabled => return Ok(Resolution::Disabled),
            Some(Target::Record(Record::Person(person))) if person.forward.is_none() => {
                Ok(ResolvedRecipients { people: vec![person], ..ResolvedRecipients::default() })
            }
            Some(Target::Record(Record::Person(person))) => self.expand(&ExpansionNode::Forward(person)),
            Some(Target::Record(Record::Group(group))) if !group.kind.takes_mail() => {
                return Ok(Resolution::NotForMail { reason: format!("{} is not a mail group", group.name) });
            }
            Some(Target::Record(Record::Group(group))) => {
                let recipients = self.expand(&ExpansionNode::Group(Arc::clone(&group)));
                recipients.map(|recipients| ResolvedRecipients { group: Some(group), ..recipients })
            }
            Some(Target::Record(_)) => return Ok(Resolution::Unknown),
            Some(Target::Redirect(address)) => self.expand(&ExpansionNode::Redirect(address)),
        };
        resolution_of(resolution, detail)
    }

    /// Resolves an address from the name lookup cache, without reading from the store.
    ///
    /// Handles only remote addresses and people without forwarding. Returns `None` in all other cases, and if the cache
    /// lacks an entry.
    #[must_use]
    pub fn resolve_cached(&self, address: &str) -> Option<Resolution> {
        let address = match Address::parse(address) {
            Ok(address) => address,
            Err(reason) => return Some(Resolution::Invalid(reason)),
        };
        let [domain, holder] =
            self.cached_values([&LookupKey::domain(address.domain()), &LookupKey::address(&address)]);
        match (domain?, holder) {
            (CachedLookup::NotFound, _) => Some(Resolution::Remote(address)),
            (CachedLookup::Record(Record::Domain(_)), Some(CachedLookup::Record(Record::Person(person))))
                if person.disabled =>
            {
                Some(Resolution::Disabled)
            }
            (CachedLookup::Record(Record::Domain(_)), Some(CachedLookup::Record(Record::Person(person))))
                if person.forward.is_none() =>
            {
                Some(Resolution::Local(ResolvedRecipients { people: vec![person], ..ResolvedRecipients::default() }))
            }
            _ => None,
        }
    }

    /// Returns `true` if an address, with or without its detail, belongs to a person.
    pub fn owns_address(&self, person: &Person, address: &str) -> Result<bool> {
        let Ok(address) = Address::parse(address) else { return Ok(false) };
        for candidate in [Some(address.clone()), address.without_detail()].into_iter().flatten() {
            if let Some(Record::Person(holder)) = self.find_by_address(&candidate)? {
                return Ok(holder.note == person.note);
            }
        }
        Ok(false)
    }

    /// Returns `true` if a group member is neither a known name or address nor a remote address.
    pub(crate) fn is_unknown(&self, member: &str) -> Result<bool> {
        Ok(matches!(MailMemberResolver(self).member(member)?, Member::Unknown))
    }

    fn target(&self, address: &Address, domain: &Domain) -> Result<(Option<Target>, Option<String>)> {
        if let Some(found) = self.find_by_address(address)? {
            return Ok((Some(Target::Record(found)), None));
        }
        let detail = address.detail().map(str::to_owned);
        if let Some(mailbox) = address.without_detail()
            && let Some(found) = self.find_by_address(&mailbox)?
        {
            return Ok((Some(Target::Record(found)), detail));
        }
        let postmaster = domain.postmaster.as_ref().filter(|_| address.local().eq_ignore_ascii_case("postmaster"));
        let redirect = postmaster.or(domain.catch_all.as_ref());
        Ok((redirect.map(|address| Target::Redirect(address.clone())), None))
    }

    fn expand(&self, start: &ExpansionNode) -> Result<ResolvedRecipients, ExpandError<Error>> {
        let found = expansion::expand(&MailMemberResolver(self), start, self.options().expansion)?;
        Ok(recipients_of(found))
    }
}

fn resolution_of(
    recipients: Result<ResolvedRecipients, ExpandError<Error>>,
    detail: Option<String>,
) -> Result<Resolution> {
    match recipients {
        Ok(recipients) if recipients.people.is_empty() && recipients.remote.is_empty() => Ok(Resolution::NoRecipients),
        Ok(recipients) => Ok(Resolution::Local(ResolvedRecipients { detail, ..recipients })),
        Err(ExpandError::Lookup(error)) => Err(error),
        Err(ExpandError::TooDeep { group }) => {
            Ok(Resolution::NotForMail { reason: format!("group {group} is nested too deeply") })
        }
        Err(ExpandError::TooMany) => Ok(Resolution::NotForMail { reason: "the group has too many members".to_owned() }),
    }
}

fn recipients_of(found: ExpandedMembers<PersonById>) -> ResolvedRecipients {
    let people = found.people.into_iter().map(|holder| holder.0).filter(|person| !person.disabled);
    ResolvedRecipients {
        people: people.collect(),
        remote: found.remote.iter().filter_map(|address| Address::parse(address).ok()).collect(),
        unknown: found.unknown,
        group: None,
        detail: None,
    }
}

/// A person, compared by note ID.
#[derive(Clone)]
struct PersonById(Arc<Person>);

impl PartialEq for PersonById {
    fn eq(&self, other: &Self) -> bool {
        self.0.note == other.0.note
    }
}

impl Eq for PersonById {}

impl Hash for PersonById {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.note.hash(state);
    }
}

/// An object that expands to others.
#[derive(Clone)]
enum ExpansionNode {
    Group(Arc<Group>),
    /// A person who forwards.
    Forward(Arc<Person>),
    /// The target of a catch-all or postmaster setting.
    Redirect(String),
}

impl ExpansionNode {
    fn id(&self) -> (NoteId, &str) {
        match self {
            Self::Group(group) => (group.note, ""),
            Self::Forward(person) => (person.note, ""),
            Self::Redirect(address) => (NoteId(0), address),
        }
    }
}

impl PartialEq for ExpansionNode {
    fn eq(&self, other: &Self) -> bool {
        self.id() == other.id()
    }
}

impl Eq for ExpansionNode {}

impl Hash for ExpansionNode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

/// Resolves the members of mail groups.
struct MailMemberResolver<'d>(&'d Directory);

impl MemberResolver for MailMemberResolver<'_> {
    type Person = PersonById;
    type Group = ExpansionNode;
    type Error = Error;

    fn member(&self, name: &str) -> Result<Member<PersonById, ExpansionNode>> {
        let found = match Address::parse(name.trim()) {
            Ok(address) if !self.0.domain_is_local(address.domain())? => {
                return Ok(Member::Remote(normal_form(&address)));
            }
            Ok(address) => match (self.0.find_by_address(&address)?, address.without_detail()) {
                (None, Some(mailbox)) => self.0.find_by_address(&mailbox)?,
                (found, _) => found,
            },
            Err(_) => self.0.find(&LookupKey::name(name))?,
        };
        Ok(match found {
            Some(Record::Person(person)) if person.forward.is_some() && !person.disabled => {
                Member::Group(ExpansionNode::Forward(person))
            }
            Some(Record::Person(person)) => Member::Person(PersonById(person)),
            Some(Record::Group(group)) => Member::Group(ExpansionNode::Group(group)),
            _ => Member::Unknown,
        })
    }

    fn members(&self, group: &ExpansionNode) -> Result<Vec<String>> {
        Ok(match group {
            ExpansionNode::Group(group) => group.members.clone(),
            ExpansionNode::Forward(person) => person.forward.iter().cloned().collect(),
            ExpansionNode::Redirect(address) => vec![address.clone()],
        })
    }
}

/// Returns the normal form of a remote address, to which mail is sent. Addresses whose local parts differ in case are
/// distinct, because only their own server knows whether they are equal.
fn normal_form(address: &Address) -> String {
    address.to_string()
}
