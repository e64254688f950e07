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
        let name = domain::parse(name)?;
        let mut edit = self.edit()?;
        let mut domain = Domain { note: NoteId(0), name, aliases: Vec::new(), catch_all: None, postmaster: None };
        add_aliases(&mut domain, aliases)?;
        domain.note = edit.save(&Record::Domain(Arc::new(domain.clone())))?;
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
