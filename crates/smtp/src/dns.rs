//! Name resolution for SPF, DKIM, DMARC and for the transfer to other servers, based on the hickory version that
//! `mail-auth` provides.
//!
//! Code that needs a resolver takes it as a parameter. `server` creates it from the machine's settings or from the
//! configuration; the tests create one that queries their own zone over loopback. The resolver caches replies for their
//! time to live.
//!
//! A lookup has one of four results, which mail handles differently: records; a name without such records or no such
//! name (both permanent); no usable reply (temporary).

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use mail_auth::MessageAuthenticator;
use mail_auth::hickory_resolver::config::{
    NameServerConfig, ProtocolConfig, ResolveHosts, ResolverConfig, ResolverOpts,
};
use mail_auth::hickory_resolver::proto::op::ResponseCode;
use mail_auth::hickory_resolver::proto::{ProtoError, ProtoErrorKind};
use mail_auth::hickory_resolver::system_conf::read_system_conf;

use crate::error::{Error, Result};
use crate::limits::{ADDRESSES_MAX, NAME_SERVERS_ASKED_MAX};

/// The reason why a lookup has no result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LookupError {
    /// The name does not exist.
    #[error("no such domain")]
    NoSuchDomain,
    /// The name has no records of this type.
    #[error("no such records")]
    NoRecords,
    /// There was no usable reply. The lookup may be retried.
    #[error("{0}")]
    Temporary(String),
}

/// A mail exchanger of a domain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MailExchanger {
    /// The preference. Lower values are better.
    pub preference: u16,
    /// The host's name without its trailing dot, empty for the null MX (RFC 7505).
    pub name: String,
}

/// Queries name servers.
#[derive(Clone)]
pub struct Resolver {
    authenticator: MessageAuthenticator,
}

impl Resolver {
    /// Creates a resolver that uses the name servers in this machine's settings.
    pub fn system() -> Result<Self> {
        let (config, options) = read_system_conf().map_err(|error| Error::Resolver(error.to_string()))?;
        Self::new(config, options)
    }

    /// Creates a resolver that uses the given name servers, over UDP, and over TCP for replies that do not fit.
    pub fn with_servers(servers: &[SocketAddr]) -> Result<Self> {
        let mut config = ResolverConfig::from_parts(None, Vec::new(), Vec::new());
        for server in servers {
            config.add_name_server(NameServerConfig::new(*server, ProtocolConfig::Udp));
            config.add_name_server(NameServerConfig::new(*server, ProtocolConfig::Tcp));
        }
        let mut options = ResolverOpts::default();
        options.use_hosts_file = ResolveHosts::Never;
        options.timeout = Duration::from_secs(5);
        Self::new(config, options)
    }

    /// Returns the mail exchangers of a domain, best first. Those of equal preference are sorted by name.
    pub async fn exchangers(&self, domain: &str) -> std::result::Result<Vec<MailExchanger>, LookupError> {
        let found = self.authenticator.resolver().mx_lookup(absolute_name(domain)?).await.map_err(lookup_error)?;
        let mut exchangers: Vec<MailExchanger> = found
            .iter()
            .map(|record| MailExchanger {
                preference: record.preference(),
                name: record.exchange().to_lowercase().to_ascii().trim_end_matches('.').to_owned(),
            })
            .collect();
        exchangers.sort_by(|a, b| a.preference.cmp(&b.preference).then_with(|| a.name.cmp(&b.name)));
        if exchangers.is_empty() { Err(LookupError::NoRecords) } else { Ok(exchangers) }
    }

    /// Returns the addresses of a host, IPv6 first.
    pub async fn addresses(&self, host: &str) -> std::result::Result<Vec<IpAddr>, LookupError> {
        let name = absolute_name(host)?;
        let resolver = self.authenticator.resolver();
        let (six, four) = tokio::join!(resolver.ipv6_lookup(name.as_str()), resolver.ipv4_lookup(name.as_str()));
        let six =
            six.map(|found| found.iter().map(|record| IpAddr::V6(record.0)).collect::<Vec<_>>()).map_err(lookup_error);
        let four =
            four.map(|found| found.iter().map(|record| IpAddr::V4(record.0)).collect::<Vec<_>>()).map_err(lookup_error);
        let mut addresses = match (six, four) {
            (Ok(six), Ok(four)) => [six, four].concat(),
            (Ok(found), Err(_)) | (Err(_), Ok(found)) => found,
            // A host has no addresses only if both lookups say so.
            (Err(LookupError::Temporary(reason)), Err(_)) | (Err(_), Err(LookupError::Temporary(reason))) => {
                return Err(LookupError::Temporary(reason));
            }
            (Err(error), Err(_)) => return Err(error),
        };
        addresses.truncate(ADDRESSES_MAX);
        if addresses.is_empty() { Err(LookupError::NoRecords) } else { Ok(addresses) }
    }

    /// Returns the TXT records of a name.
    pub(crate) async fn texts(&self, name: &str) -> std::result::Result<Vec<String>, LookupError> {
        let found = self.authenticator.resolver().txt_lookup(absolute_name(name)?).await.map_err(lookup_error)?;
        Ok(found.iter().map(ToString::to_string).collect())
    }

    pub(crate) fn authenticator(&self) -> &MessageAuthenticator {
        &self.authenticator
    }

    fn new(config: ResolverConfig, mut options: ResolverOpts) -> Result<Self> {
        options.num_concurrent_reqs = NAME_SERVERS_ASKED_MAX;
        let authenticator =
            MessageAuthenticator::new(config, options).map_err(|error| Error::Resolver(error.to_string()))?;
        Ok(Self { authenticator })
    }
}

/// Returns a name in ASCII with a trailing dot, so that no search list applies.
fn absolute_name(name: &str) -> std::result::Result<String, LookupError> {
    let ascii = ascii_domain(name).ok_or(LookupError::NoSuchDomain)?;
    Ok(format!("{}.", ascii.trim_end_matches('.')))
}

/// Returns the ASCII form of an internationalized domain. ASCII names are returned unchanged.
pub(crate) fn ascii_domain(name: &str) -> Option<String> {
    if name.is_ascii() { Some(name.to_owned()) } else { idna::domain_to_ascii(name).ok() }
}

/// Returns `true` if a response code states that the name or record does not exist.
///
/// Hickory, and therefore `mail-auth`, also reports failed lookups (SERVFAIL, REFUSED) as "no records found". Only the
/// response code distinguishes them.
pub(crate) fn is_negative(code: ResponseCode) -> bool {
    matches!(code, ResponseCode::NXDomain | ResponseCode::NoError)
}

fn lookup_error(error: ProtoError) -> LookupError {
    match error.kind() {
        ProtoErrorKind::NoRecordsFound(none) => match none.response_code {
            ResponseCode::NXDomain => LookupError::NoSuchDomain,
            code if is_negative(code) => LookupError::NoRecords,
            code => LookupError::Temporary(format!("the name server answered {code}")),
        },
        _ => LookupError::Temporary(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_absolute_and_ascii() {
        assert_eq!(absolute_name("b.example").as_deref(), Ok("b.example."));
        assert_eq!(absolute_name("b.example.").as_deref(), Ok("b.example."));
        assert_eq!(absolute_name("müller.example").as_deref(), Ok("xn--mller-kva.example."));
    }
}
