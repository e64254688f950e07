//! The addresses to which pushes are sent: only those that the operator has named.
//!
//! The address of a subscription comes from a client, so it must not make this server connect to machines of its own
//! network. Its host must be named by the operator, and every resolved address must be public or in a network that the
//! operator lists. Without encryption, only listed addresses are permitted. Pure.

use std::fmt;
use std::net::IpAddr;

use axum::http::Uri;
use base::networks::Networks;
use base::special_addresses::is_permitted;

use crate::limits::PUSH_URL_BYTES_MAX;

/// The hosts that the operator has named, and the networks besides public addresses.
#[derive(Clone, Debug, Default)]
pub struct PushPolicy {
    hosts: Vec<HostPattern>,
    special_networks: Networks,
}

/// A host that the operator has named.
#[derive(Clone, Debug, PartialEq, Eq)]
struct HostPattern {
    /// The name in lower case; of a wildcard, the part behind the asterisk, with its dot.
    name: String,
    is_wildcard: bool,
    /// The port; `None` for the usual one.
    port: Option<u16>,
}

/// The reason why nothing is sent to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It is not a URL of a form that the server uses.
    #[error("the address is not an absolute https URL without user and fragment")]
    Form,
    /// The operator has not named the host.
    #[error("this server sends pushes only to hosts that its key jmap.push_hosts names")]
    Host,
    /// It would not be encrypted.
    #[error("without encryption, pushes are sent only to addresses that the key jmap.push_networks lists")]
    Plain,
    /// The address is a private or reserved one.
    #[error("the host has only private or reserved addresses, and the key jmap.push_networks lists none of them")]
    Address,
}

/// Where a push is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushTarget {
    /// `true` for https.
    pub is_tls: bool,
    /// The host in lower case, without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Path and query.
    pub path: String,
    /// The host and the port, as the field `Host` has them.
    pub authority: String,
}

impl PushTarget {
    /// Returns the origin, for which this server identifies itself.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("{}://{}", if self.is_tls { "https" } else { "http" }, self.authority)
    }
}

impl HostPattern {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim().to_ascii_lowercase();
        let after_brackets = text.rfind(']').map_or(0, |end| end + 1);
        let (name, port) = match text[after_brackets..].rfind(':') {
            Some(at) => (&text[..after_brackets + at], Some(text[after_brackets + at + 1..].parse().ok()?)),
            None => (text.as_str(), None),
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let (name, is_wildcard) = match name.strip_prefix('*') {
            Some(rest) => (rest, true),
            None => (name, false),
        };
        let is_form = if is_wildcard { name.is_empty() || name.starts_with('.') } else { !name.is_empty() };
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:".contains(&byte));
        (is_form && is_name).then(|| Self { name: name.to_owned(), is_wildcard, port })
    }

    fn matches(&self, host: &str, port: u16, usual_port: u16) -> bool {
        let is_host = match self.is_wildcard {
            true => host.parse::<IpAddr>().is_err() && host.len() > self.name.len() && host.ends_with(&self.name),
            false => host == self.name,
        };
        is_host && port == self.port.unwrap_or(usual_port)
    }
}

/// A host that the operator has named in a wrong form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a host; write push.example.net, *.example.net or push.example.net:8443")]
pub struct InvalidHost(pub String);

impl PushPolicy {
    /// Creates the policy from hosts such as `push.example.net`, `*.example.net` and `push.example.net:8443`, and
    /// networks.
    pub fn new(hosts: &[String], special_networks: Networks) -> Result<Self, InvalidHost> {
        let parse = |text: &String| HostPattern::parse(text).ok_or_else(|| InvalidHost(text.clone()));
        Ok(Self { hosts: hosts.iter().map(parse).collect::<Result<_, _>>()?, special_networks })
    }

    /// Returns `true` if pushes are sent to nobody.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Checks the address of a subscription.
    pub fn target(&self, url: &str) -> Result<PushTarget, TargetError> {
        let is_text = url.len() <= PUSH_URL_BYTES_MAX && url.bytes().all(|byte| byte.is_ascii_graphic());
        let uri = url.parse::<Uri>().ok().filter(|_| is_text && !url.contains('#')).ok_or(TargetError::Form)?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(TargetError::Form),
        };
        let authority =
            uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or(TargetError::Form)?;
        let host = authority.host().trim_matches(['[', ']']).to_ascii_lowercase();
        let usual_port = if is_tls { 443 } else { 80 };
        // A port that is no number is not the usual one.
        let has_port = authority.as_str().len() > authority.host().len();
        let port = match authority.port_u16() {
            Some(port) => port,
            None if has_port => return Err(TargetError::Form),
            None => usual_port,
        };
        if host.is_empty() || host.ends_with('.') {
            return Err(TargetError::Form);
        }
        if !self.hosts.iter().any(|pattern| pattern.matches(&host, port, usual_port)) {
            return Err(TargetError::Host);
        }
        let shown = if host.contains(':') { format!("[{host}]") } else { host.clone() };
        let authority = if port == usual_port { shown } else { format!("{shown}:{port}") };
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        let target = PushTarget { is_tls, host, port, path, authority };
        match target.host.parse::<IpAddr>() {
            Ok(address) => self.check_address(&target, address)?,
            Err(_) if !is_tls => return Err(TargetError::Plain),
            Err(_) => {}
        }
        Ok(target)
    }

    /// Checks an address to which the host of a target was resolved.
    pub fn check_address(&self, target: &PushTarget, address: IpAddr) -> Result<(), TargetError> {
        if !is_permitted(address, &self.special_networks) {
            return Err(TargetError::Address);
        }
        if !target.is_tls && !self.special_networks.contains(address) {
            return Err(TargetError::Plain);
        }
        Ok(())
    }
}

impl fmt::Display for PushTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The path is a secret: a program that knows it can send pushes.
        f.write_str(&self.authority)
    }
}

#[cfg(test)]
mod tests {
    use base::networks::Network;

    use super::*;

    fn policy(hosts: &[&str]) -> PushPolicy {
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let networks = Networks::from_iter([Network::v4([10, 1, 0, 0], 16)]);
        PushPolicy::new(&hosts, networks).expect("the hosts are valid")
    }

    fn check(url: &str, expected: Result<&str, TargetError>) {
        let policy = policy(&[
            "push.test",
            "*.wild.test",
            "port.test:8443",
            "10.1.2.3",
            "10.2.2.3",
            "127.0.0.1",
            "8.8.8.8",
            "[::1]",
            "[::ffff:10.2.2.3]",
            "localhost",
            "169.254.169.254",
        ]);
        let found = policy.target(url).map(|target| format!("{}{}", target.origin(), target.path));
        assert_eq!(found, expected.map(str::to_owned), "{url}");
    }

    #[test]
    fn only_hosts_that_are_named_are_permitted() {
        use TargetError::{Address, Form, Host, Plain};
        check("https://push.test/a?b=c", Ok("https://push.test/a?b=c"));
        check("https://PUSH.test:443/a", Ok("https://push.test/a"));
        check("https://push.test", Ok("https://push.test/"));
        check("https://a.wild.test/a", Ok("https://a.wild.test/a"));
        check("https://a.b.wild.test/a", Ok("https://a.b.wild.test/a"));
        check("https://port.test:8443/a", Ok("https://port.test:8443/a"));
        check("https://10.1.2.3/a", Ok("https://10.1.2.3/a"));
        check("http://10.1.2.3/a", Ok("http://10.1.2.3/a"));
        check("https://8.8.8.8/a", Ok("https://8.8.8.8/a"));
        for url in [
            "https://evil.test/a",
            "https://wild.test/a",
            "https://awild.test/a",
            "https://push.test.evil.test/a",
            "https://push.test:8443/a",
            "https://push.test:22/a",
            "https://port.test/a",
            "https://10.1.2.4/a",
            "https://2130706433/a",
            "https://0x7f000001/a",
            "https://127.1/a",
        ] {
            check(url, Err(Host));
        }
        for url in ["https://10.2.2.3/", "https://127.0.0.1/", "https://[::1]/", "https://169.254.169.254/latest"] {
            check(url, Err(Address));
        }
        check("https://[::ffff:10.2.2.3]/", Err(Address));
        check("http://8.8.8.8/", Err(Plain));
        check("http://push.test/", Err(Plain));
        check("http://localhost/", Err(Plain));
        for url in [
            "",
            "/a",
            "push.test/a",
            "ftp://push.test/",
            "file:///etc/passwd",
            "gopher://push.test/",
            "https://user@push.test/",
            "https://push.test@evil.test/",
            "https://push.test:443@evil.test/",
            "https://push.test#@evil.test/",
            "https://push.test/a#b",
            "https://push.test./a",
            "https://push.test:/a",
            "https://push.test:99999/a",
            "https://push.test/a b",
            "https://push.test/\r\nx: y",
            "https://push.test\\@evil.test/",
            "https://pu\u{17f}h.test/",
        ] {
            check(url, Err(Form));
        }
        check(&format!("https://push.test/{}", "x".repeat(PUSH_URL_BYTES_MAX)), Err(Form));
    }

    #[test]
    fn resolved_addresses_are_checked() {
        let policy = policy(&["push.test", "10.1.2.3"]);
        let named = policy.target("https://push.test/").expect("it is named");
        let check = |address: &str, expected: Result<(), TargetError>| {
            let address = address.parse().expect("an address");
            assert_eq!(policy.check_address(&named, address), expected, "{address}");
        };
        for public in ["8.8.8.8", "10.1.9.9", "2606:4700::1111"] {
            check(public, Ok(()));
        }
        for special in
            ["127.0.0.1", "10.2.0.1", "192.168.1.1", "169.254.169.254", "0.0.0.0", "::1", "fe80::1", "fd00::1"]
        {
            check(special, Err(TargetError::Address));
        }
        for hidden in ["::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"] {
            check(hidden, Err(TargetError::Address));
        }
        let plain = policy.target("http://10.1.2.3/").expect("it is listed");
        assert_eq!(policy.check_address(&plain, "8.8.8.8".parse().expect("one")), Err(TargetError::Plain));
    }

    #[test]
    fn by_default_nobody_is_permitted() {
        let policy = PushPolicy::default();
        assert!(policy.is_empty());
        assert_eq!(policy.target("https://push.test/"), Err(TargetError::Host));
        for wrong in ["", "*x.test", "a b", "https://push.test", "push.test:x", "push.test/"] {
            assert!(PushPolicy::new(&[wrong.to_owned()], Networks::default()).is_err(), "{wrong}");
        }
        let all = PushPolicy::new(&["*".to_owned()], Networks::default()).expect("it is valid");
        assert!(all.target("https://push.test/").is_ok());
        assert_eq!(all.target("https://8.8.8.8/"), Err(TargetError::Host), "an address must be named");
    }
}
