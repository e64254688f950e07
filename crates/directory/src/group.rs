//! The group note as a value, and its conversion from and to items. Groups are expanded by [`crate::expansion`].

use base::{Name, NoteId};
use notes::Item;

use crate::address::Address;
use crate::cache::MemorySize;
use crate::error::{Error, Result};
use crate::items;
use crate::key::LookupKey;
use crate::limits::{LOGIN_BYTES_MAX, MEMBERS_PER_GROUP_MAX};
use crate::person::{check_count, check_name, check_text, push_address};

/// Form of group notes.
pub(crate) const FORM: &str = "Group";

/// The purpose of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum GroupKind {
    /// Mail and access control.
    #[default]
    MultiPurpose,
    /// Mail only.
    MailOnly,
    /// Access control only.
    AclOnly,
    /// People who may not log in.
    DenyList,
    /// Servers.
    ServersOnly,
}

impl GroupKind {
    /// All kinds, in the order of the numbers in the `GroupType` item.
    pub const ALL: [Self; 5] = [Self::MultiPurpose, Self::MailOnly, Self::AclOnly, Self::DenyList, Self::ServersOnly];

    /// Returns the name of the kind on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MultiPurpose => "multi-purpose",
            Self::MailOnly => "mail",
            Self::AclOnly => "acl",
            Self::DenyList => "deny-list",
            Self::ServersOnly => "servers",
        }
    }

    /// Returns the kind with the given name, or `None` if there is none. Ignores ASCII case.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    /// Returns `true` if mail can be sent to a group of this kind.
    #[must_use]
    pub const fn takes_mail(self) -> bool {
        matches!(self, Self::MultiPurpose | Self::MailOnly)
    }

    /// Returns `true` if a group of this kind may be listed in an ACL.
    #[must_use]
    pub const fn gives_access(self) -> bool {
        !matches!(self, Self::MailOnly | Self::DenyList)
    }

    fn number(self) -> String {
        Self::ALL.iter().position(|kind| *kind == self).unwrap_or(0).to_string()
    }

    fn from_number(number: &str) -> Self {
        number.parse().ok().and_then(|index: usize| Self::ALL.get(index).copied()).unwrap_or_default()
    }
}

/// A group.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Note ID of the group; zero before it is stored.
    pub note: NoteId,
    /// Name of the group.
    pub name: Name,
    /// Description of the group.
    pub description: String,
    /// Purpose of the group.
    pub kind: GroupKind,
    /// Mail addresses, the primary one first.
    pub addresses: Vec<Address>,
    /// Names and addresses of people, groups and servers, and remote addresses, as written.
    pub members: Vec<String>,
}

impl Group {
    /// Returns the primary address, or `None` if the group has no address.
    #[must_use]
    pub fn address(&self) -> Option<&Address> {
        self.addresses.first()
    }

    /// Returns kind and name, for messages.
    #[must_use]
    pub fn label(&self) -> String {
        match self.address() {
            Some(address) => format!("group {address}"),
            None => format!("group {}", self.name),
        }
    }

    pub(crate) fn read(note: NoteId, items: &[Item]) -> Option<Self> {
        let name = Name::new(items::text(items, items::LIST_NAME)?);
        let mut addresses = Vec::new();
        items::texts(items, items::INTERNET_ADDRESS).for_each(|text| push_address(&mut addresses, text));
        let members = items::texts(items, items::MEMBERS).take(MEMBERS_PER_GROUP_MAX).map(str::to_owned).collect();
        Some(Self {
            note,
            name,
            description: items::text(items, items::LIST_DESCRIPTION).unwrap_or_default().to_owned(),
            kind: items::text(items, items::GROUP_TYPE).map_or_else(GroupKind::default, GroupKind::from_number),
            addresses,
            members,
        })
    }

    pub(crate) fn write(&self, items: &mut Vec<Item>) {
        items::set_text(items, items::FORM, Some(FORM));
        items::set_text(items, items::TYPE, Some(FORM));
        items::set_names(items, items::LIST_NAME, &[self.name.canonical().to_owned()]);
        items::set_text(
            items,
            items::LIST_DESCRIPTION,
            Some(self.description.as_str()).filter(|text| !text.is_empty()),
        );
        items::set_text(items, items::GROUP_TYPE, Some(&self.kind.number()));
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        items::set_texts(items, items::INTERNET_ADDRESS, &addresses);
        items::set_names(items, items::MEMBERS, &self.members);
    }

    /// Checks the group before it is written.
    pub(crate) fn check(&self) -> Result<()> {
        check_name(self.name.canonical())?;
        check_text(&self.description)?;
        check_count("addresses of a group", self.addresses.len())?;
        if self.members.len() > MEMBERS_PER_GROUP_MAX {
            return Err(Error::Limit { quantity: "members of a group", max: MEMBERS_PER_GROUP_MAX });
        }
        self.members.iter().try_for_each(|member| check_member(member))
    }

    /// Returns the keys that no other note may have.
    pub(crate) fn unique_keys(&self) -> Vec<LookupKey> {
        std::iter::once(LookupKey::name(self.name.canonical()))
            .chain(self.addresses.iter().map(LookupKey::address))
            .collect()
    }

    /// Returns the keys by which the group is found from its members.
    pub(crate) fn member_keys(&self) -> Vec<LookupKey> {
        self.members.iter().map(|member| LookupKey::membership(&LookupKey::address_or_name(member))).collect()
    }

    /// Returns `true` if the group lists the member. Compares by [`LookupKey`].
    pub(crate) fn has_member(&self, member: &str) -> bool {
        let key = LookupKey::address_or_name(member);
        self.members.iter().any(|known| LookupKey::address_or_name(known) == key)
    }

    /// Returns the text by which lists of groups are sorted: the primary address, or the abbreviated name.
    pub(crate) fn sort_text(&self) -> String {
        self.address().map_or_else(|| self.name.abbreviated(), ToString::to_string)
    }
}

impl MemorySize for Group {
    fn bytes(&self) -> usize {
        let members = self.members.iter().map(|member| member.len() + size_of::<String>());
        let addresses = self.addresses.iter().map(|a| a.local().len() + a.domain().len() + size_of::<Address>());
        size_of::<Self>()
            + self.name.canonical().len()
            + self.description.len()
            + members.sum::<usize>()
            + addresses.sum::<usize>()
    }
}

/// Checks a member: a name, an address, or a wildcard such as `*/Sales/Acme`.
fn check_member(member: &str) -> Result<()> {
    if member.contains('@') {
        return Address::parse(member).map(drop).map_err(|reason| Error::address(member, reason));
    }
    if member.trim().is_empty() || member.len() > LOGIN_BYTES_MAX || member.chars().any(char::is_control) {
        return Err(Error::name(member, "a member must be a name, an address or a wildcard such as */Sales/Acme"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sales() -> Group {
        Group {
            note: NoteId(3),
            name: Name::new("Sales"),
            description: "who sells".to_owned(),
            kind: GroupKind::MailOnly,
            addresses: vec!["sales@acme.test".parse().expect("valid")],
            members: ["Ann Smith/Acme", "bob@acme.test", "*/West/Acme"].map(str::to_owned).to_vec(),
        }
    }

    #[test]
    fn a_group_reads_back_from_its_items() {
        let mut items = vec![Item::text("Owner", "kept")];
        for kind in GroupKind::ALL {
            let group = Group { kind, ..sales() };
            group.write(&mut items);
            assert_eq!(Group::read(NoteId(3), &items), Some(group));
            assert_eq!(GroupKind::from_name(kind.name()), Some(kind));
        }
        assert_eq!(items::text(&items, "Owner"), Some("kept"));
    }

    #[test]
    fn an_unknown_kind_is_multi_purpose() {
        let items = [Item::text(items::LIST_NAME, "x"), Item::text(items::GROUP_TYPE, "99")];
        assert_eq!(Group::read(NoteId(1), &items).map(|group| group.kind), Some(GroupKind::MultiPurpose));
    }

    #[test]
    fn group_kind_determines_mail_and_access() {
        let mail_and_access = GroupKind::ALL.map(|kind| (kind.takes_mail(), kind.gives_access()));
        assert_eq!(mail_and_access, [(true, true), (true, false), (false, true), (false, false), (false, true)]);
    }

    #[test]
    fn members_are_compared_like_keys() {
        assert!(sales().has_member("cn=ann smith/o=acme") && sales().has_member("BOB@acme.test"));
        assert!(!sales().has_member("carl"));
    }

    #[test]
    fn invalid_members_are_refused() {
        for member in ["", " ", "a@", "a\nb"] {
            let group = Group { members: vec![member.to_owned()], ..sales() };
            assert!(group.check().is_err(), "{member:?}");
        }
        assert!(sales().check().is_ok());
        let crowded = Group { members: vec!["x".to_owned(); MEMBERS_PER_GROUP_MAX + 1], ..sales() };
        assert!(crowded.check().is_err());
    }
}
