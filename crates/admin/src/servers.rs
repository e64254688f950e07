//! `doublet server`: the servers of the domain and their certificates.

use std::net::Ipv6Addr;
use std::sync::Arc;

use base::{Name, Timestamp};
use directory::ServerDocument;
use instance::Instance;
use instance::certificate::{CertificateDescription, CertificateFiles};
use instance::certifier::{Certifier, ServerFile};
use instance::data_folder::write_private;
use instance::limits::CERTIFICATE_RENEWAL_TIME;
use notes::acl::LOCAL_DOMAIN_SERVERS;
use serde_json::json;

use super::answer::{record, timestamp_json};
use super::request::{NONE, ServerRequest, ServerUpdate};
use super::{AdminError, AdminResult, Answer};
use crate::acl::change_acl;
use crate::directory_entries::all_entries;

/// Default port of the native protocol. Domino uses the same port.
const PORT: u16 = 1_352;

pub(super) fn execute(instance: &Instance, request: &ServerRequest) -> AdminResult {
    match request {
        ServerRequest::Register { host, address, output, own_address } => {
            let address = address.as_deref();
            register(instance, &Registration { host, address, output, own_address: own_address.as_deref() })
        }
        ServerRequest::Join(_) => Err(AdminError::Refused(
            "this data folder is in use; stop the server, and join before its first start".to_owned(),
        )),
        ServerRequest::Renew { .. } => Err(AdminError::Refused(
            "no server runs on this data folder; start it (`doublet serve`), because it asks the first server of the \
             domain over the network"
                .to_owned(),
        )),
        ServerRequest::List => list(instance),
        ServerRequest::Show { name } => show(instance, name.as_deref()),
        ServerRequest::Set(update) => set(instance, update),
        ServerRequest::Remove { name, force } => remove(instance, name, *force),
        ServerRequest::Readmit { name, address } => readmit(instance, name, address.as_deref()),
    }
}

/// The parameters of a registration.
struct Registration<'r> {
    host: &'r str,
    address: Option<&'r str>,
    output: &'r std::path::Path,
    own_address: Option<&'r str>,
}

fn register(instance: &Instance, registration: &Registration<'_>) -> AdminResult {
    let organization = &instance.config.server.organization;
    let host = registered_host(registration.host, organization)?;
    if host_of(&with_port(&host)?) != host {
        return Err(AdminError::Refused(format!("{host} is not a host name; --address takes a port")));
    }
    let name = Name::new(&format!("CN={host}/O={organization}"));
    let address = address_of(instance, (&name, &host), registration.address)?;
    let itself = &instance.directory.options().server;
    if name == *itself {
        return Err(AdminError::Refused(format!("{host} is the name of this server (`server.name`)")));
    }
    if registration.output.exists() {
        let file = registration.output.display();
        return Err(AdminError::Refused(format!("{file} exists already; choose another file")));
    }
    // Where the file cannot be written, nothing is registered.
    write_private(registration.output, b"").map_err(AdminError::refused)?;
    let outcome = register_at(instance, registration, (&name, &host), &address);
    if outcome.is_err() {
        // The error of the registration counts.
        let _ = std::fs::remove_file(registration.output);
    }
    outcome
}

/// Registers a server, and writes its server file over the empty one.
fn register_at(
    instance: &Instance,
    registration: &Registration<'_>,
    (name, host): (&Name, &str),
    address: &str,
) -> AdminResult {
    let organization = &instance.config.server.organization;
    let itself = &instance.directory.options().server;
    let now = instance.clock.now();
    let certifier = Certifier::open_or_create(&instance.data, organization, now).map_err(AdminError::refused)?;
    let own_host = &instance.hostname;
    let files = certificate_files(instance);
    let mut answer = Answer::message(format!("{} is registered.", name.abbreviated()));
    if files.is_configured() {
        answer = answer.with_message(
            "The configuration names the certificate of this server (`tls.certificate`); other servers must trust its authority (`tls.peers`)."
                .to_owned(),
        );
    } else if !certifier.has_issued(&files, now).map_err(AdminError::refused)? {
        certifier
            .issue(own_host, organization, now)
            .and_then(|own| own.install(&instance.data))
            .map_err(AdminError::refused)?;
        answer = answer.with_message(format!("This server has a new certificate, for {own_host}."));
    }
    let own_address = address_of(instance, (itself, own_host), registration.own_address)?;
    let mut issued = certifier.issue(host, organization, now).map_err(AdminError::refused)?;
    issued.partner = Some(own_address.clone());
    issued.partner_name = Some(own_host.clone());
    instance
        .directory
        .servers_register(&[(itself.clone(), Some(own_address)), (name.clone(), Some(address.to_owned()))])?;
    // Other authorities issue certificates as they like.
    if let Ok(certificate) = files.describe()
        && !files.is_configured()
    {
        instance.directory.server_set_certificate(itself, certificate.issued())?;
    }
    // The server may go on with the certificate that it has, also after it was removed. It reports the new one when
    // that is installed. One that was recorded while the clock was ahead must not outlive it.
    let registered = instance.directory.server(name)?;
    let recorded = registered.as_ref().and_then(|server| server.certificate.as_ref());
    if let Some(certificate) = issued.describe()
        && recorded.is_some_and(|recorded| recorded.until > certificate.not_after)
    {
        instance.directory.server_set_certificate(name, certificate.issued())?;
    }
    admit_domain_servers(instance)?;
    write_private(registration.output, issued.to_text().as_bytes()).map_err(AdminError::refused)?;
    let file = registration.output.display();
    Ok(answer.with_message(format!(
        "Copy {file} to that server and run `doublet server join {}` there, before its first start. The file contains a private key.",
        registration.output.file_name().unwrap_or_default().display()
    )))
}

/// Returns the host name of a server that is to be registered. It may be given with the organization of this domain.
fn registered_host(text: &str, organization: &str) -> Result<String, AdminError> {
    let host = match text.split_once('/') {
        None => text.to_owned(),
        Some(_) => {
            let name = Name::new(text);
            if name != Name::new(&format!("CN={}/O={organization}", name.common())) {
                let reason = format!("{text} is not a server of the organization {organization}; give its host name");
                return Err(AdminError::Refused(reason));
            }
            name.common().to_owned()
        }
    };
    Ok(host.to_ascii_lowercase())
}

/// Returns the given address of a server, or else the one in the directory, or else its host name.
fn address_of(instance: &Instance, (name, host): (&Name, &str), given: Option<&str>) -> Result<String, AdminError> {
    let known = match given {
        Some(_) => None,
        None => instance.directory.server(name)?.and_then(|server| server.address.clone()),
    };
    with_port(given.or(known.as_deref()).unwrap_or(host))
}

/// Lets the servers of the domain replicate the directory. Databases that are created by this version let them in;
/// those of others are the choice of their managers.
fn admit_domain_servers(instance: &Instance) -> Result<(), AdminError> {
    let group = Name::new(LOCAL_DOMAIN_SERVERS);
    change_acl(instance, &instance.directory.database().path(), |acl| {
        if acl.entries.iter().all(|entry| entry.name != group) {
            *acl = std::mem::take(acl).with_domain_servers();
        }
        Ok(())
    })
}

/// Returns all registered servers.
pub fn all(instance: &Instance) -> Result<Vec<Arc<ServerDocument>>, AdminError> {
    Ok(all_entries(&|position, limit| instance.directory.servers(position, limit))?)
}

/// Returns the registered server with a name, a host name or an address.
pub fn find(instance: &Instance, text: &str) -> Result<Option<Arc<ServerDocument>>, AdminError> {
    if let Some(server) = instance.directory.server(&server_name(instance, text))? {
        return Ok(Some(server));
    }
    let address = complete_address(text);
    Ok(all(instance)?.into_iter().find(|server| server.address.as_ref() == Some(&address)))
}

fn list(instance: &Instance) -> AdminResult {
    let own = &instance.directory.options().server;
    let row = |server: &Arc<ServerDocument>| {
        record(vec![
            ("server", json!(server.name.abbreviated())),
            ("address", json!(server.address)),
            ("this_server", json!(server.name == *own)),
            (
                "certificate_until",
                timestamp_json(certificate_until(own_certificate(instance, server).as_ref(), server)),
            ),
        ])
    };
    Ok(Answer::list(all(instance)?.iter().map(row).collect()))
}

/// Returns until when the certificate of a server is valid: of this one, as its file says; of another one, as the
/// server that has issued it has recorded in the directory.
fn certificate_until(own: Option<&CertificateDescription>, server: &ServerDocument) -> Option<Timestamp> {
    let recorded = || server.certificate.as_ref().map(|certificate| certificate.until);
    own.map(|certificate| certificate.not_after).or_else(recorded)
}

/// Returns what the certificate of a server says, if the server is this one.
fn own_certificate(instance: &Instance, server: &ServerDocument) -> Option<CertificateDescription> {
    let is_own = server.name == instance.directory.options().server;
    is_own.then(|| certificate_files(instance).describe().ok()).flatten()
}

fn certificate_files(instance: &Instance) -> CertificateFiles {
    CertificateFiles::from_config(&instance.config, &instance.data, &instance.hostname)
}

fn show(instance: &Instance, name: Option<&str>) -> AdminResult {
    let own = &instance.directory.options().server;
    let full = name.map_or_else(|| own.clone(), |name| server_name(instance, name));
    let server = instance.directory.server(&full)?.ok_or_else(|| AdminError::no_such("server", &full.abbreviated()))?;
    let denied = instance.directory.deny_list_of_server(&full)?;
    let certificate = own_certificate(instance, &server);
    let until = certificate_until(certificate.as_ref(), &server);
    let is_renewed = full != *own || certificate_files(instance).is_issued();
    let renewal = until.filter(|_| is_renewed).map(|until| until.before(CERTIFICATE_RENEWAL_TIME));
    Ok(Answer::record(vec![
        ("server", json!(server.name.abbreviated())),
        ("address", json!(server.address)),
        ("this_server", json!(full == *own)),
        ("deny_list", json!(denied.map(|list| list.abbreviated()))),
        ("admits", json!(abbreviated(&server.admitted))),
        ("excludes", json!(abbreviated(&server.excluded))),
        ("certificate_issuer", json!(certificate.map(|certificate| certificate.issuer))),
        ("certificate_until", timestamp_json(until)),
        ("renewed_from", timestamp_json(renewal)),
    ]))
}

fn set(instance: &Instance, update: &ServerUpdate) -> AdminResult {
    let ServerUpdate { name, address, admitted, excluded } = update;
    if *update == (ServerUpdate { name: name.clone(), ..ServerUpdate::default() }) {
        return Err(AdminError::nothing_to_change("server set"));
    }
    let full = server_name(instance, name);
    let address = match address.as_deref() {
        Some(NONE) => Some(None),
        Some(address) => Some(Some(with_port(address)?)),
        None => None,
    };
    if instance.directory.server(&full)?.is_none() {
        return Err(AdminError::no_such("server", name));
    }
    let list = |given: &[String]| match given {
        [] => Ok(None),
        given => {
            let named = given.iter().filter(|entry| *entry != NONE);
            named.map(|entry| entry_of(instance, entry)).collect::<Result<Vec<_>, _>>().map(Some)
        }
    };
    let admitted = list(admitted)?;
    let excluded = list(excluded)?;
    let given = [&admitted, &excluded].into_iter().flatten().flatten();
    let unknown = given.filter_map(|entry| unknown_server(instance, entry).transpose());
    let unknown = unknown.collect::<Result<Vec<_>, _>>()?;
    instance.directory.change_server(&full, |server| {
        server.address = address.unwrap_or_else(|| server.address.take());
        server.admitted = admitted.unwrap_or_else(|| std::mem::take(&mut server.admitted));
        server.excluded = excluded.unwrap_or_else(|| std::mem::take(&mut server.excluded));
    })?;
    let answer = Answer::message(format!("{} was changed.", full.abbreviated()));
    Ok(unknown.iter().fold(answer, |answer, name| answer.with_message(format!("No server {name} is registered."))))
}

/// Returns the abbreviated name in a list if it is neither a group, nor a wildcard, nor a registered server.
fn unknown_server(instance: &Instance, entry: &str) -> Result<Option<String>, AdminError> {
    let name = Name::new(entry);
    let is_known = entry.starts_with('*')
        || instance.directory.group(entry)?.is_some()
        || instance.directory.server(&name)?.is_some();
    Ok((!is_known).then(|| name.abbreviated()))
}

/// Returns the canonical name of a server, or the wildcard or group, that a list is to contain. A host name that is no
/// group is that of a server of this domain, registered or not any more.
fn entry_of(instance: &Instance, text: &str) -> Result<String, AdminError> {
    let name = Name::new(text);
    if let Some(group) = instance.directory.group(text)? {
        if group.kind.gives_access() {
            return Ok(name.canonical().to_owned());
        }
        let reason = format!("{} is for mail or a deny list, and does not count in these lists", group.label());
        return Err(AdminError::Refused(reason));
    }
    if text.contains(['/', '*']) {
        return Ok(name.canonical().to_owned());
    }
    if !text.contains('.') && instance.directory.server(&server_name(instance, text))?.is_none() {
        let reason = format!("{text} is neither a group nor a registered server; give the whole name of a server");
        return Err(AdminError::Refused(reason));
    }
    Ok(server_name(instance, text).canonical().to_owned())
}

fn abbreviated(names: &[String]) -> Vec<String> {
    names.iter().map(|name| Name::new(name).abbreviated()).collect()
}

fn remove(instance: &Instance, name: &str, force: bool) -> AdminResult {
    let full = server_name(instance, name);
    if full == instance.directory.options().server {
        return Err(AdminError::Refused(format!("{name} is this server")));
    }
    if instance.directory.server(&full)?.is_none() {
        return Err(AdminError::no_such("server", name));
    }
    if !force && issuer(instance)?.as_ref() == Some(&full) {
        return Err(AdminError::Refused(format!(
            "{} has the key of the certifier of this domain: without it, no server can be registered and no certificate \
             renewed. --force removes it; `doublet server readmit` on one of the others lets it in again",
            full.abbreviated()
        )));
    }
    instance.directory.server_remove(&full)?;
    Ok(Answer::message(format!(
        "{} was removed. The deny list TerminatedServers excludes it from all servers that this directory reaches.",
        full.abbreviated()
    )))
}

/// Lets a server in again that was removed, with the certificate that it has.
fn readmit(instance: &Instance, name: &str, address: Option<&str>) -> AdminResult {
    let full = server_name(instance, name);
    let label = full.abbreviated();
    let is_registered = instance.directory.server(&full)?.is_some();
    if instance.directory.deny_list_of_server(&full)?.is_none() {
        let reason = match is_registered {
            true => "is registered; `doublet server set` changes it",
            false => "was not removed; `doublet server register` on the first server of the domain registers it",
        };
        return Err(AdminError::Refused(format!("{label} {reason}")));
    }
    let address = address_of(instance, (&full, full.common()), address)?;
    instance.directory.servers_register(&[(full.clone(), Some(address))])?;
    let answer = Answer::message(format!("{label} is registered again."));
    Ok(answer.with_message(match instance.directory.deny_list_of_server(&full)? {
        Some(list) => format!("The deny list {} still excludes it.", list.abbreviated()),
        None if is_registered => "Its document was kept.".to_owned(),
        None => "Its document is new: it has no lists of servers that may or may not call it.".to_owned(),
    }))
}

/// Returns the server that has issued the certificate of this one, if that is stated in its file.
fn issuer(instance: &Instance) -> Result<Option<Name>, AdminError> {
    let installed = ServerFile::installed(&instance.data).map_err(AdminError::refused)?;
    Ok(installed.and_then(|file| file.partner_name).map(|host| server_name(instance, &host)))
}

/// Returns the full name of a server that is given by its name or its host name.
#[must_use]
pub fn server_name(instance: &Instance, text: &str) -> Name {
    if text.contains('/') {
        return Name::new(text);
    }
    Name::new(&format!("CN={}/O={}", text.to_ascii_lowercase(), instance.config.server.organization))
}

/// Adds the default port of the native protocol to an address without one.
#[must_use]
pub fn complete_address(address: &str) -> String {
    let has_port = address
        .rsplit_once(':')
        .is_some_and(|(host, port)| port.parse::<u16>().is_ok() && (!host.contains(':') || host.ends_with(']')));
    match has_port {
        true => address.to_owned(),
        false if address.contains(':') && !address.starts_with('[') => format!("[{address}]:{PORT}"),
        false => format!("{address}:{PORT}"),
    }
}

/// Completes an address as `complete_address` does. Returns an error if it is not valid.
pub fn with_port(address: &str) -> Result<String, AdminError> {
    let complete = complete_address(address);
    let (host, port) = complete.rsplit_once(':').unwrap_or_default();
    let is_host = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => !host.is_empty() && !host.contains(['/', '=', '*', '@', ' ', ':']) && host.len() < 300,
    };
    if is_host && port != "0" {
        return Ok(complete);
    }
    Err(AdminError::Refused(format!("{address:?} is not a host with an optional port")))
}

/// Returns the host of an address with a port.
#[must_use]
pub fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use directory::IssuedCertificate;
    use notes::{Access, level};
    use sample::Sample;

    use super::*;

    #[test]
    fn addresses_get_the_default_port() {
        let check = |address: &str, expected: &str| assert_eq!(with_port(address).expect(address), expected);
        check("hub.acme.test", "hub.acme.test:1352");
        check("hub.acme.test:99", "hub.acme.test:99");
        check("127.0.0.1", "127.0.0.1:1352");
        check("[::1]", "[::1]:1352");
        check("[::1]:99", "[::1]:99");
        check("::1", "[::1]:1352");
        for address in ["", ":99", "hub:0", "hub:x", "a b", "CN=hub/O=Acme"] {
            assert!(with_port(address).is_err(), "{address}");
        }
        assert_eq!((host_of("hub:99"), host_of("[::1]:99")), ("hub", "::1"));
    }

    #[test]
    fn a_registered_server_is_listed_and_removed() {
        let sample = Sample::new();
        let folder = tempfile::tempdir().expect("a folder");
        let output = folder.path().join("spoke.pem");
        let request = ServerRequest::Register {
            host: "Spoke.acme.test".to_owned(),
            address: None,
            output: output.clone(),
            own_address: None,
        };
        execute(&sample.instance, &request).expect("it can be registered");
        let text = std::fs::read_to_string(&output).expect("it was written");
        let file = instance::certifier::ServerFile::parse(&text).expect("it is complete");
        assert_eq!(file.server_name(), Some(server_name(&sample.instance, "spoke.acme.test")));
        assert_eq!(file.partner, Some(format!("{}:1352", sample.instance.hostname)));
        let spoke = server_name(&sample.instance, "spoke.acme.test");
        let recorded = || {
            let registered = sample.instance.directory.server(&spoke).expect("sound").expect("it is registered");
            registered.certificate.clone()
        };
        // A certificate counts when the server reports that it is installed.
        assert_eq!(recorded(), None);
        let issued = file.describe().expect("it is a certificate").issued();
        let earlier = IssuedCertificate { until: issued.until.before(Duration::from_secs(60)), ..issued };
        sample.instance.directory.server_set_certificate(&spoke, earlier.clone()).expect("it is registered");
        let further_file = folder.path().join("further.pem");
        let further = ServerRequest::Register {
            host: "spoke.acme.test".to_owned(),
            address: None,
            output: further_file,
            own_address: None,
        };
        execute(&sample.instance, &further).expect("it can be registered again");
        assert_eq!(recorded(), Some(earlier));
        let again = execute(&sample.instance, &request).expect_err("the file exists").to_string();
        assert!(again.contains("exists already"), "{again}");
        let rows = execute(&sample.instance, &ServerRequest::List).expect("they are listed").data;
        let names: Vec<_> = rows.as_array().into_iter().flatten().map(|row| row["address"].clone()).collect();
        assert!(names.contains(&json!("spoke.acme.test:1352")), "{rows}");
        let identity = sample.instance.directory.server_identity(&spoke).expect("it is known");
        assert_eq!(identity.groups, [Name::new(LOCAL_DOMAIN_SERVERS)]);
        let database = sample.instance.directory.database();
        let access: Access<level::Manager> = database.authorize(&identity).expect("the servers are managers");
        drop(access);
        let remove = ServerRequest::Remove { name: "spoke.acme.test".to_owned(), force: false };
        execute(&sample.instance, &remove).expect("it is registered");
        assert!(execute(&sample.instance, &remove).is_err(), "it is gone");
        let identity = sample.instance.directory.server_identity(&spoke).expect("it is known");
        assert!(identity.groups.is_empty());
        let denied =
            || sample.instance.directory.deny_list_of_server(&spoke).expect("sound").map(|list| list.abbreviated());
        assert_eq!(denied().as_deref(), Some("TerminatedServers"));
        let anew = ServerRequest::Register {
            host: "spoke.acme.test".to_owned(),
            address: None,
            output: folder.path().join("anew.pem"),
            own_address: None,
        };
        execute(&sample.instance, &anew).expect("it can be registered again");
        assert_eq!(denied(), None);
        let readmit = ServerRequest::Readmit { name: "spoke.acme.test".to_owned(), address: None };
        let refused = execute(&sample.instance, &readmit).expect_err("it is in").to_string();
        assert!(refused.contains("is registered"), "{refused}");
        execute(&sample.instance, &remove).expect("it is registered");
        execute(&sample.instance, &readmit).expect("it was removed");
        assert_eq!(denied(), None);
        assert!(sample.instance.directory.server(&spoke).expect("sound").is_some());
        let stranger = ServerRequest::Readmit { name: "stranger.acme.test".to_owned(), address: None };
        let refused = execute(&sample.instance, &stranger).expect_err("it was never here").to_string();
        assert!(refused.contains("was not removed"), "{refused}");
        let nowhere = ServerRequest::Register {
            host: "other.acme.test".to_owned(),
            address: None,
            output: output.join("below-a-file.pem"),
            own_address: None,
        };
        execute(&sample.instance, &nowhere).expect_err("the file cannot be written");
        let other = server_name(&sample.instance, "other.acme.test");
        assert!(sample.instance.directory.server(&other).expect("sound").is_none());
        let itself = ServerRequest::Remove { name: sample.instance.hostname.clone(), force: true };
        assert!(execute(&sample.instance, &itself).is_err(), "this server cannot be removed");
    }
}
