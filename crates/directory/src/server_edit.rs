//! Registering and removing the servers of the domain.
//!
//! A registered server has a document with its address, and is a member of the group `LocalDomainServers`, to which the
//! access control lists of databases refer.

use std::sync::Arc;

use base::{Name, NoteId};
use notes::acl::LOCAL_DOMAIN_SERVERS;

use crate::directory::Directory;
use crate::error::{Error, Result};
use crate::group::{Group, GroupKind};
use crate::key::LookupKey;
use crate::person::Person;
use crate::record::Record;
use crate::settings::{IssuedCertificate, ServerDocument};
use crate::transaction::DirectoryTransaction;

/// The deny list of servers that were removed. Their certificates stay valid, but no server of the domain accepts them.
const TERMINATED_SERVERS: &str = "TerminatedServers";

impl Directory {
    /// Returns the server with a name, or `None` if it is not registered.
    pub fn server(&self, name: &Name) -> Result<Option<Arc<ServerDocument>>> {
        Ok(match self.find(&LookupKey::name(name.canonical()))? {
            Some(Record::Server(server)) => Some(server),
            _ => None,
        })
    }

    /// Returns `true` if this server is the one that creates the mail file of a person. A person without a mail server
    /// is at home on every server.
    #[must_use]
    pub fn is_home_of(&self, person: &Person) -> bool {
        person.mail_server.is_empty() || Name::new(&person.mail_server) == self.options().server
    }

    /// Registers servers with the addresses of their native protocol, or changes the addresses of registered ones.
    pub fn servers_register(&self, servers: &[(Name, Option<String>)]) -> Result<()> {
        let mut edit = self.edit()?;
        let group_key = LookupKey::name(LOCAL_DOMAIN_SERVERS);
        let mut group = match edit.find(&group_key)? {
            Some(Record::Group(group)) => group.as_ref().clone(),
            _ => new_group(LOCAL_DOMAIN_SERVERS, "The servers of this domain", GroupKind::ServersOnly),
        };
        for (name, address) in servers {
            let mut server = match edit.find(&LookupKey::name(name.canonical()))? {
                Some(Record::Server(server)) => server.as_ref().clone(),
                _ => ServerDocument::new(name.clone()),
            };
            if address.is_some() {
                server.address.clone_from(address);
            }
            save_server(&mut edit, server)?;
            if !group.has_member(name.canonical()) {
                group.members.push(name.canonical().to_owned());
            }
        }
        let names: Vec<&Name> = servers.iter().map(|(name, _)| name).collect();
        leave_group(&mut edit, TERMINATED_SERVERS, &names)?;
        edit.save(&Record::Group(Arc::new(group)))?;
        self.commit_durable(edit)
    }

    /// Records the certificate of a server. Servers refuse those before it. Returns [`Error::NotFound`] if the server
    /// is not registered.
    pub fn server_set_certificate(&self, name: &Name, certificate: IssuedCertificate) -> Result<()> {
        self.change_server(name, |server| server.certificate = Some(certificate))
    }

    /// Changes the document of a server. Returns [`Error::NotFound`] if it is not registered.
    pub fn change_server(&self, name: &Name, change: impl FnOnce(&mut ServerDocument)) -> Result<()> {
        let mut edit = self.edit()?;
        let Some(Record::Server(server)) = edit.find(&LookupKey::name(name.canonical()))? else {
            return Err(Error::not_found(format!("server {}", name.abbreviated())));
        };
        let mut server = server.as_ref().clone();
        change(&mut server);
        save_server(&mut edit, server)?;
        self.commit_durable(edit)
    }

    /// Removes a server and its membership in `LocalDomainServers`, and excludes it from the servers of the domain by
    /// the deny list `TerminatedServers`. Returns [`Error::NotFound`] if it is not registered.
    pub fn server_remove(&self, name: &Name) -> Result<()> {
        let mut edit = self.edit()?;
        let documents = documents_of(&mut edit, name)?;
        if documents.is_empty() {
            return Err(Error::not_found(format!("server {}", name.abbreviated())));
        }
        leave_group(&mut edit, LOCAL_DOMAIN_SERVERS, &[name])?;
        let mut denied = match edit.find(&LookupKey::name(TERMINATED_SERVERS))? {
            Some(Record::Group(group)) => group.as_ref().clone(),
            _ => new_group(TERMINATED_SERVERS, "Servers that were removed from this domain", GroupKind::DenyList),
        };
        if !denied.has_member(name.canonical()) {
            denied.members.push(name.canonical().to_owned());
        }
        edit.save(&Record::Group(Arc::new(denied)))?;
        documents.into_iter().try_for_each(|note| edit.remove(note))?;
        self.commit_durable(edit)
    }
}

/// Returns all records with a name. Two servers may have made documents of one name before they replicated.
fn records_named(edit: &mut DirectoryTransaction<'_>, name: &str) -> Result<Vec<Record>> {
    let mut found = Vec::new();
    for note in edit.notes_with_key(&LookupKey::name(name))? {
        found.extend(edit.record(note)?);
    }
    Ok(found)
}

/// Returns the documents of a server. Two servers may have made one each.
fn documents_of(edit: &mut DirectoryTransaction<'_>, name: &Name) -> Result<Vec<NoteId>> {
    let records = records_named(edit, name.canonical())?;
    Ok(records.iter().filter(|record| matches!(record, Record::Server(_))).map(Record::note).collect())
}

/// Saves the document of a server, which says what all documents of the server have said, and removes the others.
fn save_server(edit: &mut DirectoryTransaction<'_>, server: ServerDocument) -> Result<()> {
    let documents = documents_of(edit, &server.name)?;
    let saved = edit.save(&Record::Server(Arc::new(server)))?;
    documents.into_iter().filter(|note| *note != saved).try_for_each(|note| edit.remove(note))
}

/// Removes names from all groups with a name.
fn leave_group(edit: &mut DirectoryTransaction<'_>, group: &str, names: &[&Name]) -> Result<()> {
    let keys: Vec<LookupKey> = names.iter().map(|name| LookupKey::address_or_name(name.canonical())).collect();
    for record in records_named(edit, group)? {
        let Record::Group(group) = record else { continue };
        if !names.iter().any(|name| group.has_member(name.canonical())) {
            continue;
        }
        let mut group = group.as_ref().clone();
        group.members.retain(|member| !keys.contains(&LookupKey::address_or_name(member)));
        edit.save(&Record::Group(Arc::new(group)))?;
    }
    Ok(())
}

fn new_group(name: &str, description: &str, kind: GroupKind) -> Group {
    Group {
        note: NoteId(0),
        name: Name::new(name),
        description: description.to_owned(),
        kind,
        addresses: Vec::new(),
        members: Vec::new(),
    }
}
