//! Adding, changing and removing local domains.
//!
//! A domain or an alias cannot be removed while a person or group has an address in it. The catch-all and postmaster
//! addresses must exist if they are local.

use std::sync::Arc;

use base::NoteId;

use crate::directory::Directory;
use crate::domain::{self, Domain};
use crate::error::{Error, Result};
use crate::key::LookupKey;
use crate::person_edit::parse_address;
use crate::record::Record;
use crate::settings::SettingsDocument;
use crate::transaction::DirectoryTransaction;

/// A local domain to be added.
#[derive(Debug, Clone, Default)]
pub struct NewDomain {
    /// Name of the domain.
    pub name: String,
    /// Names of equivalent domains.
    pub aliases: Vec<String>,
    /// Address that receives mail for unknown addresses of the domain.
    pub catch_all: Option<String>,
    /// Address that receives mail for `postmaster`.
    pub postmaster: Option<String>,
    /// Settings to set in the same transaction: subject, name, value. Existing values are not changed.
    pub settings: Vec<(String, String, String)>,
}

/// A change of a domain. Fields that are `None` or empty change nothing.
#[derive(Debug, Clone, Default)]
pub struct DomainChange {
    /// Aliases to add.
    pub aliases_add: Vec<String>,
    /// Aliases to remove.
    pub aliases_remove: Vec<String>,
    /// New address for mail to unknown addresses; `Some(None)` removes it.
    pub catch_all: Option<Option<String>>,
    /// New address for mail to `postmaster`; `Some(None)` removes it.
    pub postmaster: Option<Option<String>>,
}

impl Directory {
    /// Adds a local domain with its aliases.
    pub fn domain_add(&self, name: &str, aliases: &[String]) -> Result<Arc<Domain>> {
        self.domain_add_with(&NewDomain { name: name.to_owned(), aliases: aliases.to_vec(), ..NewDomain::default() })
    }

    /// Adds a local domain with its addresses and settings in one transaction.
    pub fn domain_add_with(&self, new: &NewDomain) -> Result<Arc<Domain>> {
        let name = domain::parse(&new.name)?;
        let mut edit = self.edit()?;
        let mut domain = Domain { note: NoteId(0), name, aliases: Vec::new(), catch_all: None, postmaster: None };
        add_aliases(&mut domain, &new.aliases)?;
        for (target, address) in [(&mut domain.catch_all, &new.catch_all), (&mut domain.postmaster, &new.postmaster)] {
            let Some(address) = address else { continue };
            require_address_exists(&edit, address)?;
            target.replace(address.clone());
        }
        // No address can exist yet in the domain that is being added.
        for address in domain.catch_all.iter().chain(&domain.postmaster) {
            let own = parse_address(address)?;
            if domain.names().any(|name| name == own.domain()) {
                return Err(Error::not_found(format!("address {own}")));
            }
        }
        domain.note = edit.save(&Record::Domain(Arc::new(domain.clone())))?;
        for settings in collect_settings(&mut edit, &new.settings)? {
            edit.save(&Record::Settings(Arc::new(settings)))?;
        }
        self.commit_durable(edit)?;
        Ok(Arc::new(domain))
    }

    /// Changes a local domain.
    pub fn domain_set(&self, name: &str, change: &DomainChange) -> Result<Arc<Domain>> {
        let mut edit = self.edit()?;
        let mut domain = find_domain(&mut edit, name)?;
        for alias in &change.aliases_remove {
            let alias = domain::parse(alias)?;
            if !domain.aliases.contains(&alias) {
                return Err(Error::not_found(format!("alias {alias} of {}", domain.label())));
            }
            require_unused(&mut edit, &alias)?;
            domain.aliases.retain(|known| *known != alias);
        }
        add_aliases(&mut domain, &change.aliases_add)?;
        for (target, new) in [(&mut domain.catch_all, &change.catch_all), (&mut domain.postmaster, &change.postmaster)]
        {
            let Some(new) = new else { continue };
            if let Some(address) = new {
                require_address_exists(&edit, address)?;
            }
            target.clone_from(new);
        }
        let domain = Arc::new(domain);
        edit.save(&Record::Domain(Arc::clone(&domain)))?;
        self.commit_durable(edit)?;
        Ok(domain)
    }

    /// Removes a local domain and returns it. Fails if an address in it is in use.
    pub fn domain_remove(&self, name: &str) -> Result<Arc<Domain>> {
        let mut edit = self.edit()?;
        let domain = find_domain(&mut edit, name)?;
        for name in domain.names() {
            require_unused(&mut edit, name)?;
        }
        edit.remove(domain.note)?;
        self.commit_durable(edit)?;
        Ok(Arc::new(domain))
    }
}

/// Returns the settings notes with the missing values added. Each subject occurs once, because an edit saves a note at
/// most once.
fn collect_settings(
    edit: &mut DirectoryTransaction<'_>,
    wanted: &[(String, String, String)],
) -> Result<Vec<SettingsDocument>> {
    let mut changed: Vec<SettingsDocument> = Vec::new();
    for (subject, name, value) in wanted {
        let known = changed.iter_mut().find(|settings| settings.subject == *subject);
        let settings = match known {
            Some(settings) => settings,
            None => {
                let stored = match edit.find(&LookupKey::settings(subject))? {
                    Some(Record::Settings(settings)) => settings.as_ref().clone(),
                    _ => SettingsDocument { note: NoteId(0), subject: subject.clone(), values: Vec::new() },
                };
                changed.push(stored);
                changed.last_mut().expect("an element was just pushed")
            }
        };
        if settings.value(name).is_none() {
            settings.set(name, Some(value));
        }
    }
    Ok(changed)
}

/// Returns the domain with the given main name. An alias is refused, because changes require the main name.
fn find_domain(edit: &mut DirectoryTransaction<'_>, name: &str) -> Result<Domain> {
    let wanted = domain::parse(name)?;
    match edit.find(&LookupKey::domain(&wanted))? {
        Some(Record::Domain(domain)) if domain.name == wanted => Ok(domain.as_ref().clone()),
        Some(Record::Domain(domain)) => {
            Err(Error::not_found(format!("domain {wanted} (it is only an alias of {})", domain.name)))
        }
        _ => Err(Error::not_found(format!("domain {wanted}"))),
    }
}

fn add_aliases(domain: &mut Domain, aliases: &[String]) -> Result<()> {
    for alias in aliases {
        let alias = domain::parse(alias)?;
        if !domain.names().any(|known| known == alias) {
            domain.aliases.push(alias);
        }
    }
    Ok(())
}

fn require_unused(edit: &mut DirectoryTransaction<'_>, domain: &str) -> Result<()> {
    let holders = edit.find_beginning(&LookupKey::addresses_of(domain))?;
    let Some(&first) = holders.first() else { return Ok(()) };
    let example = edit.record(first)?.map_or_else(|| format!("note {first}"), |record| record.label());
    Err(Error::DomainInUse { domain: domain.to_owned(), count: holders.len() as u64, example })
}

/// Returns an error if an address is in a local domain but does not exist.
fn require_address_exists(edit: &DirectoryTransaction<'_>, text: &str) -> Result<()> {
    let address = parse_address(text)?;
    let elsewhere = edit.is_free(&LookupKey::domain(address.domain()))?;
    if elsewhere || !edit.is_free(&LookupKey::address(&address))? {
        return Ok(());
    }
    Err(Error::not_found(format!("address {address}")))
}
