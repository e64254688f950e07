//! Adding, changing and removing local domains.
//!
//! A domain, or an alias of one, cannot go while somebody has an address in it. Who gets unclaimed mail must exist, if it is
//! somebody here.

use std::sync::Arc;

use base::NoteId;

use crate::directory::Directory;
use crate::domain::{self, Domain};
use crate::edit::Edit;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::people::parse_address;
use crate::record::Record;
use crate::settings::Settings;

/// A local domain to be added.
#[derive(Debug, Clone, Default)]
pub struct NewDomain {
    /// The name.
    pub name: String,
    /// Other names whose addresses mean the same.
    pub aliases: Vec<String>,
    /// Who gets mail for addresses that nobody has.
    pub catch_all: Option<String>,
    /// Who gets mail for `postmaster`.
    pub postmaster: Option<String>,
    /// Settings to be set in the same step: subject, name, value. What is set already stays.
    pub settings: Vec<(String, String, String)>,
}

/// What to change about a domain; what is `None` or empty stays.
#[derive(Debug, Clone, Default)]
pub struct DomainChange {
    /// Other names to add.
    pub aliases_add: Vec<String>,
    /// Other names to take away.
    pub aliases_remove: Vec<String>,
    /// Who gets mail for addresses that nobody has; `Some(None)` is nobody.
    pub catch_all: Option<Option<String>>,
    /// Who gets mail for `postmaster`; `Some(None)` is nobody.
    pub postmaster: Option<Option<String>>,
}

impl Directory {
    /// Adds a local domain with its aliases.
    pub fn domain_add(&self, name: &str, aliases: &[String]) -> Result<Arc<Domain>> {
        self.domain_add_with(&NewDomain { name: name.to_owned(), aliases: aliases.to_vec(), ..NewDomain::default() })
    }

    /// Adds a local domain with everything that belongs to it, or nothing.
    pub fn domain_add_with(&self, new: &NewDomain) -> Result<Arc<Domain>> {
        let name = domain::parse(&new.name)?;
        let mut edit = self.edit()?;
        let mut domain = Domain { note: NoteId(0), name, aliases: Vec::new(), catch_all: None, postmaster: None };
        add_aliases(&mut domain, &new.aliases)?;
        for (target, address) in [(&mut domain.catch_all, &new.catch_all), (&mut domain.postmaster, &new.postmaster)] {
            let Some(address) = address else { continue };
            require_known(&edit, address)?;
            target.replace(address.clone());
        }
        // Nobody can have an address in a domain that is only coming.
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
        self.finish(edit)?;
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
                require_known(&edit, address)?;
            }
            target.clone_from(new);
        }
        let domain = Arc::new(domain);
        edit.save(&Record::Domain(Arc::clone(&domain)))?;
        self.finish(edit)?;
        Ok(domain)
    }

    /// Removes a local domain in which nobody has an address; gives what was removed.
    pub fn domain_remove(&self, name: &str) -> Result<Arc<Domain>> {
        let mut edit = self.edit()?;
        let domain = find_domain(&mut edit, name)?;
        for name in domain.names() {
            require_unused(&mut edit, name)?;
        }
        edit.remove(domain.note)?;
        self.finish(edit)?;
        Ok(Arc::new(domain))
    }
}

/// Gives the settings notes with the values that they lack; each subject once, because an edit saves a note once.
fn collect_settings(edit: &mut Edit<'_>, wanted: &[(String, String, String)]) -> Result<Vec<Settings>> {
    let mut changed: Vec<Settings> = Vec::new();
    for (subject, name, value) in wanted {
        let known = changed.iter_mut().find(|settings| settings.subject == *subject);
        let settings = match known {
            Some(settings) => settings,
            None => {
                let stored = match edit.find(&Key::settings(subject))? {
                    Some(Record::Settings(settings)) => settings.as_ref().clone(),
                    _ => Settings { note: NoteId(0), subject: subject.clone(), values: Vec::new() },
                };
                changed.push(stored);
                changed.last_mut().expect("it was pushed")
            }
        };
        if settings.value(name).is_none() {
            settings.set(name, Some(value));
        }
    }
    Ok(changed)
}

/// Finds a domain by its own name; an alias is not enough for changing it.
fn find_domain(edit: &mut Edit<'_>, name: &str) -> Result<Domain> {
    let wanted = domain::parse(name)?;
    match edit.find(&Key::domain(&wanted))? {
        Some(Record::Domain(domain)) if domain.name == wanted => Ok(domain.as_ref().clone()),
        Some(Record::Domain(domain)) => {
            Err(Error::not_found(format!("domain {wanted} is an alias of {}; a domain of that name", domain.name)))
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

fn require_unused(edit: &mut Edit<'_>, domain: &str) -> Result<()> {
    let holders = edit.find_beginning(&Key::addresses_of(domain))?;
    let Some(&first) = holders.first() else { return Ok(()) };
    let example = edit.record(first)?.map_or_else(|| format!("note {first}"), |record| record.label());
    Err(Error::DomainInUse { domain: domain.to_owned(), count: holders.len() as u64, example })
}

/// Fails when an address is local and nobody has it.
fn require_known(edit: &Edit<'_>, text: &str) -> Result<()> {
    let address = parse_address(text)?;
    let elsewhere = edit.is_free(&Key::domain(address.domain()))?;
    if elsewhere || !edit.is_free(&Key::address(&address))? {
        return Ok(());
    }
    Err(Error::not_found(format!("address {address}")))
}
