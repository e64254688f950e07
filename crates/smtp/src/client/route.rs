//! Lookup of the servers of a destination: mail exchangers and their addresses (RFC 5321 §5.1, RFC 7505).
//!
//! A domain without MX records is its own mail exchanger. A domain with a null MX accepts no mail. If this server is
//! among the mail exchangers, only those with a better preference are tried; if there are none, the message would
//! return to this server, which is a mail loop. Exchangers of equal preference are tried in random order, so that they
//! share the load.
//!
//! Special-purpose addresses, such as private ones, are left out unless the options permit them: users must not be able
//! to make this server connect to the machines of its own network. The resolved addresses are checked, and the
//! connection is made to these addresses, so a name server cannot answer differently later. A configured host is
//! exempt.

use std::net::{IpAddr, SocketAddr};

use base::special_addresses::is_permitted;
use base::{Random, address_literal};

use crate::client::connection::TransferError;
use crate::client::{ClientProtocol, NextHop, Security, SmtpClientOptions};
use crate::dns::{LookupError, MailExchanger, Resolver};
use crate::error::EnhancedStatus;
use crate::limits::{ADDRESSES_MAX, EXCHANGERS_MAX};

/// One address of a server, with the settings for its connection.
#[derive(Clone, Debug)]
pub struct ServerAddress {
    /// The server's name, for TLS and for reports.
    pub name: String,
    /// The socket address.
    pub address: SocketAddr,
    /// The security of the connection.
    pub security: Security,
    /// Login and password.
    pub login: Option<(String, String)>,
    /// The protocol.
    pub protocol: ClientProtocol,
}

/// Returns the addresses to try, best first. There is at least one.
pub(crate) async fn targets(
    route: &NextHop,
    options: &SmtpClientOptions,
    resolver: &Resolver,
    random: &dyn Random,
) -> Result<Vec<ServerAddress>, TransferError> {
    match route {
        NextHop::Host(host) => {
            let addresses = match host.name.parse::<IpAddr>() {
                Ok(address) => vec![address],
                Err(_) => resolver.addresses(&host.name).await.map_err(lookup_failure)?,
            };
            let target = |address| ServerAddress {
                name: host.name.clone(),
                address: SocketAddr::new(address, host.port),
                security: host.security.clone(),
                login: host.login.clone(),
                protocol: host.protocol,
            };
            Ok(addresses.into_iter().map(target).collect())
        }
        NextHop::Domain(domain) => match address_literal::parse(domain) {
            Some(address) if is_permitted(address, &options.special_networks) => {
                Ok(vec![exchanger_target(&address.to_string(), address, options)])
            }
            Some(_) => Err(special_destination()),
            None => domain_targets(domain, options, resolver, random).await,
        },
    }
}

/// Removes this server and all exchangers that are not better than it (RFC 5321 §5.1). Fails if none is left.
fn without_this_server(
    exchangers: Vec<MailExchanger>,
    options: &SmtpClientOptions,
) -> Result<Vec<MailExchanger>, TransferError> {
    let is_ours = |name: &str| {
        let own = std::iter::once(&options.hostname).chain(&options.own_names);
        own.into_iter().any(|own| own.trim_end_matches('.').eq_ignore_ascii_case(name))
    };
    let ours =
        exchangers.iter().filter(|exchanger| is_ours(&exchanger.name)).map(|exchanger| exchanger.preference).min();
    let Some(ours) = ours else { return Ok(exchangers) };
    let better: Vec<MailExchanger> = exchangers.into_iter().filter(|exchanger| exchanger.preference < ours).collect();
    if better.is_empty() {
        return Err(TransferError::permanent(
            EnhancedStatus(5, 4, 6),
            "mail loop: the mail exchanger of the domain is this server",
        ));
    }
    Ok(better)
}

/// Sorts exchangers by preference, in random order if it is equal. Exchangers beyond the limit are removed from the
/// end.
fn sort_by_preference(mut exchangers: Vec<MailExchanger>, random: &dyn Random) -> Vec<MailExchanger> {
    exchangers.sort_by_cached_key(|exchanger| (exchanger.preference, random.next_u64()));
    exchangers.truncate(EXCHANGERS_MAX);
    exchangers
}

async fn domain_targets(
    domain: &str,
    options: &SmtpClientOptions,
    resolver: &Resolver,
    random: &dyn Random,
) -> Result<Vec<ServerAddress>, TransferError> {
    let exchangers = match resolver.exchangers(domain).await {
        Ok(exchangers) => sort_by_preference(without_this_server(exchangers, options)?, random),
        Err(LookupError::NoRecords) => vec![MailExchanger { preference: 0, name: domain.to_owned() }],
        Err(error) => return Err(lookup_failure(error)),
    };
    if exchangers.iter().all(|exchanger| exchanger.name.is_empty()) {
        return Err(TransferError::permanent(EnhancedStatus(5, 1, 10), "the domain accepts no mail (null MX)"));
    }
    let mut targets = Vec::new();
    let mut failure = None;
    let mut has_special = false;
    for exchanger in exchangers.iter().filter(|exchanger| !exchanger.name.is_empty()) {
        match resolver.addresses(&exchanger.name).await {
            Ok(mut addresses) => {
                let found = addresses.len();
                addresses.retain(|address| is_permitted(*address, &options.special_networks));
                has_special |= addresses.len() < found;
                targets
                    .extend(addresses.into_iter().map(|address| exchanger_target(&exchanger.name, address, options)));
            }
            // One exchanger with a temporary failure makes the failure of the domain temporary.
            Err(error @ LookupError::Temporary(_)) => failure = Some(error),
            Err(error) => {
                failure.get_or_insert(error);
            }
        }
        if targets.len() >= ADDRESSES_MAX {
            break;
        }
    }
    if !targets.is_empty() {
        return Ok(targets);
    }
    Err(match failure {
        Some(error @ LookupError::Temporary(_)) => lookup_failure(error),
        _ if has_special => special_destination(),
        _ => TransferError::permanent(EnhancedStatus(5, 4, 4), "none of the domain's mail exchangers has an address"),
    })
}

fn exchanger_target(name: &str, address: IpAddr, options: &SmtpClientOptions) -> ServerAddress {
    ServerAddress {
        name: name.to_owned(),
        address: SocketAddr::new(address, options.port),
        security: options.security.clone(),
        login: None,
        protocol: ClientProtocol::Smtp,
    }
}

/// Returns the failure of a destination that has only special-purpose addresses.
fn special_destination() -> TransferError {
    TransferError::permanent(
        EnhancedStatus(5, 4, 4),
        "the destination has only private or reserved addresses, to which this server does not send mail",
    )
}

fn lookup_failure(error: LookupError) -> TransferError {
    match error {
        LookupError::NoSuchDomain => TransferError::permanent(EnhancedStatus(5, 1, 2), "there is no such domain"),
        LookupError::NoRecords => TransferError::permanent(EnhancedStatus(5, 4, 4), "the domain has no mail server"),
        LookupError::Temporary(reason) => {
            TransferError::temporary(EnhancedStatus(4, 4, 3), format!("name resolution failed: {reason}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(own: &[&str], exchangers: &[(u16, &str)], left: Option<&[&str]>) {
        let mut options = SmtpClientOptions::new("mx.own.example");
        options.own_names = own.iter().map(|name| (*name).to_owned()).collect();
        let exchangers = exchangers
            .iter()
            .map(|(preference, name)| MailExchanger { preference: *preference, name: (*name).to_owned() });
        let found = without_this_server(exchangers.collect(), &options).ok();
        let found: Option<Vec<String>> = found.map(|found| found.into_iter().map(|exchanger| exchanger.name).collect());
        assert_eq!(found, left.map(|left| left.iter().map(|name| (*name).to_owned()).collect()));
    }

    #[test]
    fn exchangers_at_or_after_this_server_are_omitted() {
        check(&[], &[(10, "a.example"), (20, "b.example")], Some(&["a.example", "b.example"]));
        check(&[], &[(10, "a.example"), (20, "MX.own.example"), (30, "b.example")], Some(&["a.example"]));
        check(&["b.example."], &[(10, "a.example"), (20, "b.example")], Some(&["a.example"]));
        check(&[], &[(10, "mx.own.example"), (10, "a.example")], None);
    }

    #[test]
    fn exchangers_of_equal_preference_are_shuffled() {
        let random = base::sim::SeededRandom::new(1);
        let exchanger = |(preference, name): (u16, &str)| MailExchanger { preference, name: name.to_owned() };
        let mut firsts = std::collections::BTreeMap::<String, usize>::new();
        for _ in 0..300 {
            let given = [(20, "d"), (10, "a"), (10, "b"), (10, "c"), (5, "z")].map(exchanger).to_vec();
            let ordered = sort_by_preference(given, &random);
            assert_eq!((ordered[0].name.as_str(), ordered[4].name.as_str()), ("z", "d"));
            *firsts.entry(ordered[1].name.clone()).or_default() += 1;
        }
        assert!(["a", "b", "c"].iter().all(|name| firsts[*name] > 60), "{firsts:?}");
        let many = (0..1_000).map(|_| exchanger((1, "a"))).collect();
        assert_eq!(sort_by_preference(many, &random).len(), EXCHANGERS_MAX);
    }
}
