//! `doublet domain`: the domains whose mail is delivered here.

use std::sync::Arc;

use directory::{Domain, DomainChange, NewDomain};
use instance::Instance;
use serde_json::json;

use super::answer::record;
use super::request::DomainRequest;
use super::{AdminError, AdminResult, Answer};
use crate::directory_entries::all_entries;

pub(super) fn execute(instance: &Instance, request: DomainRequest) -> AdminResult {
    match request {
        DomainRequest::Add { domain, alias_of: Some(target), catch_all: _ } => {
            find(instance, &target)?;
            let change = DomainChange { aliases_add: vec![domain.clone()], ..DomainChange::default() };
            instance.directory.domain_set(&target, &change)?;
            Ok(Answer::message(format!("{domain} is now an alias of {target}.")))
        }
        DomainRequest::Add { domain, alias_of: None, catch_all } => add(instance, &domain, catch_all),
        DomainRequest::List => list(instance),
        DomainRequest::Show { domain } => show(instance, &domain),
        DomainRequest::Set { domain, catch_all, postmaster } => {
            if catch_all.is_none() && postmaster.is_none() {
                return Err(AdminError::nothing_to_change("domain set"));
            }
            find(instance, &domain)?;
            let change = DomainChange {
                catch_all: catch_all.map(non_empty),
                postmaster: postmaster.map(non_empty),
                ..DomainChange::default()
            };
            instance.directory.domain_set(&domain, &change)?;
            Ok(Answer::message(format!("domain {domain} was changed.")))
        }
        DomainRequest::Remove { domain } => remove(instance, &domain),
    }
}

/// Adds a domain together with its DKIM signing keys, or changes nothing if either fails.
pub fn add(instance: &Instance, name: &str, catch_all: Option<String>) -> AdminResult {
    if instance.directory.domain_is_local(name)? {
        return Err(AdminError::Refused(format!(
            "{name} is already a domain of this server; `doublet domain show {name}` shows it"
        )));
    }
    let settings = instance.signing.create_keys(name, instance.random.as_ref())?;
    let new = NewDomain { name: name.to_owned(), catch_all, settings, ..NewDomain::default() };
    let domain = instance.directory.domain_add_with(&new)?;
    instance.signing.remove_cached_signer(&domain.name);
    Ok(Answer::message(format!(
        "{} was added; `doublet domain show {name}` prints the DNS records it should have.",
        domain.label()
    ))
    .with_message(format!(
        "postmaster@{name} has no recipient yet: `doublet domain set {name} --postmaster ADDRESS` sets one."
    )))
}

fn list(instance: &Instance) -> AdminResult {
    let row = |domain: &Arc<Domain>| {
        record(vec![
            ("domain", json!(domain.name)),
            ("aliases", json!(domain.aliases)),
            ("catch_all", json!(domain.catch_all)),
            ("postmaster", json!(domain.postmaster)),
        ])
    };
    let domains = all_entries(&|position, limit| instance.directory.domains(position, limit))?;
    Ok(Answer::list(domains.iter().map(row).collect()))
}

fn show(instance: &Instance, name: &str) -> AdminResult {
    let domain = find(instance, name)?;
    let host = &instance.hostname;
    let own = &domain.name;
    let mut records = vec![format!("{own}. IN MX 10 {host}.")];
    records.extend(instance.signing.dns_records(own, host)?);
    records.push(format!("_imaps._tcp.{own}. IN SRV 0 1 993 {host}."));
    records.push(format!("_submissions._tcp.{own}. IN SRV 0 1 465 {host}."));
    records.push(format!("_jmap._tcp.{own}. IN SRV 0 1 443 {host}."));
    Ok(Answer::record(vec![
        ("domain", json!(domain.name)),
        ("aliases", json!(domain.aliases)),
        ("catch_all", json!(domain.catch_all)),
        ("postmaster", json!(domain.postmaster)),
        ("dns_records", json!(records)),
    ]))
}

fn remove(instance: &Instance, name: &str) -> AdminResult {
    let domain = find(instance, name)?;
    if domain.name.eq_ignore_ascii_case(name) {
        instance.directory.domain_remove(name)?;
        return Ok(Answer::message(format!("domain {name} was removed.")));
    }
    let change = DomainChange { aliases_remove: vec![name.to_owned()], ..DomainChange::default() };
    instance.directory.domain_set(&domain.name, &change)?;
    Ok(Answer::message(format!("{name} is no longer an alias of {}.", domain.name)))
}

fn find(instance: &Instance, name: &str) -> Result<Arc<Domain>, AdminError> {
    instance.directory.domain(name)?.ok_or_else(|| AdminError::no_such("domain", name))
}

fn non_empty(text: String) -> Option<String> {
    (text != "none").then_some(text)
}
