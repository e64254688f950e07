//! The protocol services of a running server: their dependencies, and the functions that serve connections.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use config::Config;
use config::setting::{AuthenticationPolicy, LocalSenderPolicy};
use http::front::{Compression, PlainText};
use instance::certificate::{CertificateDescription, server_name_in};
use instance::data_folder::read_limited;
use instance::limits::FILE_BYTES_MAX;
use mail::router::Router;
use mail::submission::SubmissionService;
use rpc::backend::ServerCertificate;
use sasl::Mechanism;
use smtp::auth::verify::{DmarcEnforcement, Verifier};
use smtp::client::{ClientProtocol, NextHop, Security, SmartHost, SmtpClient, SmtpClientOptions};
use smtp::dns::Resolver;
use smtp::listener_rules::{ListenerRules, StartTlsPolicy};
use wire::{ClientTls, ConnectionPermit, Peer, SessionTermination, Stream};

use super::web_routes::{WebRoutes, push_sender};
use super::{Negotiation, ServeError, Server, tls_handshake};
use crate::configured_networks::networks;
use crate::database_creator::TemplateDatabaseCreator;
use crate::descriptors::sender_checks;
use crate::limits::SESSION_END_TIME_MAX;
use crate::listeners::{BoundListener, ListenerProtocol, ServeConnection};
use crate::logins::Logins;
use crate::replication::PullRequests;
use crate::replication::renewal::DomainCertificates;
use crate::session_registry::SessionRegistry;
use crate::submission_hooks::submission_service;
use crate::transfer_agent::TransferAgent;
use crate::view_updater::BackgroundViewIndexer;

/// The services of all protocols.
pub(super) struct ProtocolServices {
    reception: Arc<smtp::connection::ListenerServices>,
    submission: Arc<smtp::connection::ListenerServices>,
    lmtp: Arc<smtp::connection::ListenerServices>,
    imap: Arc<imap::ListenerServices>,
    pop3: Arc<pop3::ListenerServices>,
    native: Arc<rpc::Service>,
    couchdb: Arc<http::Front>,
    web: Arc<http::Front>,
    jmap: Arc<jmap::service::Service>,
}

/// The counters of requests over HTTP and of calls.
pub(super) struct ProtocolStatistics {
    /// The counters of requests over HTTP, by the service that they are for.
    pub(super) http: Vec<(&'static str, Arc<http::statistics::Statistics>)>,
    /// The counters of calls of the native protocol.
    pub(super) native: Arc<rpc::statistics::Statistics>,
}

impl ProtocolServices {
    pub(super) fn new(server: &Server, logins: &Arc<Logins>, bound: &[BoundListener]) -> Result<Self, ServeError> {
        let instance = &server.instance;
        let config = &server.instance.config;
        let submissions = submission_service(instance, &server.mail_counters, &server.queued);
        let hostname = instance.hostname.as_str();
        let verifier = verifier(config, instance.memory_plan.connections_max)?;
        let smtp = |rules: ListenerRules, verifier: Option<&Arc<Verifier>>| {
            let tls = (rules.encryption != StartTlsPolicy::Off).then(|| Arc::clone(&server.tls));
            Arc::new(smtp::connection::ListenerServices {
                rules: Arc::new(rules),
                recipients: submissions.clone(),
                credentials: Arc::clone(logins) as Arc<dyn sasl::Credentials>,
                acceptor: submissions.clone(),
                verifier: verifier.cloned(),
                tls,
                pool: server.pool.clone(),
                login_pool: server.login_pool.clone(),
                memory: Arc::clone(&server.memory),
                shutdown: server.shutdown.clone(),
                clock: Arc::clone(&instance.clock),
                random: Arc::clone(&instance.random),
            })
        };
        let domain = instance.default_domain().map_err(instance::InstanceError::from)?;
        let domain = domain.as_str();
        let authenticator = authenticator(server, logins);
        let web = WebRoutes {
            server,
            logins,
            submissions: &submissions,
            authenticator: &authenticator,
            tables: Arc::default(),
        };
        let jmap = web.jmap_service()?;
        Ok(Self {
            reception: smtp(rules(config, ListenerRules::reception(hostname, domain)), verifier.as_ref()),
            submission: smtp(rules(config, ListenerRules::submission(hostname, domain)), None),
            lmtp: smtp(lmtp_rules(config, ListenerRules::lmtp(hostname, domain)), None),
            imap: imap_service(server, logins, https_port(bound)),
            pop3: Arc::new(pop3::ListenerServices {
                accounts: Arc::clone(logins) as Arc<dyn pop3::backend::Accounts>,
                pool: server.pool.clone(),
                login_pool: server.login_pool.clone(),
                memory: Arc::clone(&server.memory),
                tls: Some(Arc::clone(&server.tls)),
                hostname: hostname.to_owned(),
                mechanisms: mechanisms(config, &Mechanism::WITH_PASSWORD),
                idle_time_max: config.pop3.idle_timeout.0,
                shutdown: server.shutdown.clone(),
            }),
            couchdb: couchdb_front(server, &authenticator),
            web: web_front(server, web.routes(&jmap), https_port(bound)),
            jmap,
            native: native_service(server, logins, submissions),
        })
    }

    /// Returns the counters of requests and calls.
    pub(super) fn statistics(&self) -> ProtocolStatistics {
        let http = [("web", &self.web), ("couchdb", &self.couchdb)];
        ProtocolStatistics {
            http: http.map(|(name, front)| (name, Arc::clone(front.statistics()))).to_vec(),
            native: Arc::clone(self.native.statistics()),
        }
    }

    /// Returns the function that serves the connections of a listener.
    pub(super) fn serve(&self, protocol: ListenerProtocol, server: &Server) -> ServeConnection {
        match protocol {
            ListenerProtocol::Smtp => serve_smtp(&self.reception, &server.sessions),
            ListenerProtocol::Submission => serve_smtp(&self.submission, &server.sessions),
            ListenerProtocol::Lmtp => serve_smtp(&self.lmtp, &server.sessions),
            ListenerProtocol::Pop3 => serve_pop3(&self.pop3, &server.sessions),
            ListenerProtocol::SubmissionTls => {
                after_handshake(server, Negotiation::None, serve_smtp(&self.submission, &server.sessions))
            }
            ListenerProtocol::Pop3Tls => {
                after_handshake(server, Negotiation::None, serve_pop3(&self.pop3, &server.sessions))
            }
            ListenerProtocol::Imap => serve_imap(&self.imap, &server.sessions),
            ListenerProtocol::ImapTls => {
                after_handshake(server, Negotiation::None, serve_imap(&self.imap, &server.sessions))
            }
            ListenerProtocol::Native => serve_native(&self.native, server),
            ListenerProtocol::Couchdb => {
                after_handshake(server, Negotiation::Http, serve_http(&self.couchdb, &server.sessions))
            }
            ListenerProtocol::Http => serve_http(&self.web, &server.sessions),
            ListenerProtocol::Https => {
                after_handshake(server, Negotiation::Http, serve_http(&self.web, &server.sessions))
            }
            ListenerProtocol::Admin => Arc::new(|_, _, _| {}),
        }
    }

    /// Returns the task that sends pushes, if the operator has named hosts to which they are sent.
    pub(super) fn push_delivery(
        &self,
        server: &Server,
    ) -> Result<Option<impl Future<Output = ()> + use<>>, ServeError> {
        let jmap = Arc::clone(&self.jmap);
        Ok(push_sender(server)?.map(|sender| jmap.deliver_pushes(sender)))
    }

    /// Returns the agent that processes the queue.
    pub(super) fn transfer_agent(&self, server: &Server) -> Result<Arc<TransferAgent>, ServeError> {
        let instance = &server.instance;
        let keys = &server.instance.config.router;
        let router: Arc<Router> = Arc::clone(&instance.router);
        let transfer = if keys.outbound { Some(Arc::new(transfer(server)?)) } else { None };
        Ok(Arc::new(TransferAgent {
            router,
            transfer,
            smart_host: smart_host(&instance.config)?,
            replication: Arc::clone(&server.replication),
            pool: server.pool.clone(),
            queued: Arc::clone(&server.queued),
            shutdown: server.shutdown.clone(),
            jobs_max: usize::try_from(keys.connections).unwrap_or(usize::MAX),
            counters: Arc::clone(&server.mail_counters),
        }))
    }
}

fn imap_service(server: &Server, logins: &Arc<Logins>, https_port: Option<u16>) -> Arc<imap::ListenerServices> {
    let options = imap::session::SessionOptions {
        jmap_session_url: https_port.map(|port| jmap_session_url(&server.instance.hostname, port)),
        ..imap_options(&server.instance.config)
    };
    let accounts = Arc::clone(logins) as Arc<dyn imap::backend::Accounts>;
    let clock = Arc::clone(&server.instance.clock);
    let context = imap::session::SessionContext::new(accounts, clock, options, Arc::clone(&server.memory));
    let full_text = Arc::clone(&server.instance.full_text);
    Arc::new(imap::ListenerServices {
        context: Arc::new(context.with_full_text(Arc::new(move || full_text.open_existing()))),
        tls: Some(Arc::clone(&server.tls)),
        pool: server.pool.clone(),
        login_pool: server.login_pool.clone(),
        shutdown: server.shutdown.clone(),
    })
}

/// Returns the address of the Session object of JMAP for clients of IMAP.
fn jmap_session_url(hostname: &str, https_port: u16) -> String {
    match https_port {
        443 => format!("https://{hostname}/jmap/session"),
        port => format!("https://{hostname}:{port}/jmap/session"),
    }
}

/// Returns the mechanisms of a protocol that the configuration enables.
fn mechanisms(config: &Config, supported: &[Mechanism]) -> Vec<Mechanism> {
    let is_enabled = |mechanism: &Mechanism| config.directory.scram || !mechanism.is_scram();
    supported.iter().copied().filter(is_enabled).collect()
}

fn imap_options(config: &Config) -> imap::session::SessionOptions {
    let keys = &config.imap;
    imap::session::SessionOptions {
        append_bytes_max: config.limits.message_size.as_usize(),
        starttls: true,
        compression: keys.compression,
        mechanisms: mechanisms(config, &Mechanism::WITH_PASSWORD),
        silence_time_max: keys.idle_timeout.0,
        login_time_max: keys.login_timeout.0,
        errors_max: u32::try_from(keys.errors).unwrap_or(u32::MAX),
        login_failures_max: u32::try_from(keys.login_failures).unwrap_or(u32::MAX),
        ..imap::session::SessionOptions::default()
    }
}

pub(super) fn native_service(
    server: &Server,
    logins: &Arc<Logins>,
    submissions: Arc<SubmissionService>,
) -> Arc<rpc::Service> {
    let instance = &server.instance;
    let keys = &server.instance.config.native;
    let count = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let options = rpc::ServiceOptions {
        hostname: instance.hostname.clone(),
        version: concat!("doublet ", env!("CARGO_PKG_VERSION")).to_owned(),
        mechanisms: mechanisms(&instance.config, &[Mechanism::ScramSha256, Mechanism::Plain]),
        compression: keys.compression,
        call_time_max: keys.call_timeout.0,
        sessions: rpc::session::SessionLimits {
            per_account: count(keys.sessions_per_account),
            total: count(keys.sessions),
            idle: keys.idle_timeout.0,
            age: keys.session_time.0,
        },
    };
    let services = rpc::service::Services {
        databases: Arc::clone(&instance.databases),
        directory: Arc::clone(&instance.directory),
        accounts: Arc::clone(logins) as Arc<dyn rpc::backend::Accounts>,
        full_text: {
            let full_text = Arc::clone(&instance.full_text);
            Box::new(move || full_text.open_existing())
        },
        indexer: Arc::new(BackgroundViewIndexer {
            updater: Arc::clone(&server.updater),
            instance: Arc::clone(instance),
        }),
        database_creator: Arc::new(TemplateDatabaseCreator::new(instance)),
        requested_pulls: Arc::new(PullRequests::new(&server.replication)),
        certificates: Arc::new(DomainCertificates::new(instance)),
        submissions,
        pool: server.pool.clone(),
        login_pool: server.login_pool.clone(),
        memory: Arc::clone(&server.memory),
        clock: Arc::clone(&instance.clock),
        random: Arc::clone(&instance.random),
        shutdown: server.shutdown.clone(),
        local_person: server.local_person.clone(),
    };
    rpc::Service::new(services, options)
}

/// Returns the check of logins over HTTP.
fn authenticator(server: &Server, logins: &Arc<Logins>) -> http::Authenticator {
    let accounts = Arc::clone(logins) as Arc<dyn http::backend::Accounts>;
    let sessions = Arc::clone(&server.browser_sessions);
    http::Authenticator::new(accounts, server.pool.clone(), server.login_pool.clone(), sessions)
}

fn front_options(server: &Server) -> http::FrontOptions {
    let keys = &server.instance.config.http;
    http::FrontOptions {
        persistent_connections: keys.persistent_connections,
        requests_per_connection: keys.requests_per_connection,
        streams_per_connection: u32::try_from(keys.streams_per_connection).unwrap_or(u32::MAX),
        idle_time_max: keys.idle_timeout.0,
        header_time_max: keys.header_timeout.0,
        compression: if keys.compression { Compression::All } else { Compression::Off },
        plain_text: PlainText::Refused,
    }
}

/// Returns the port of the first listener for HTTPS, to which plain requests are redirected.
fn https_port(bound: &[BoundListener]) -> Option<u16> {
    let listener = bound.iter().find(|listener| listener.protocol == ListenerProtocol::Https)?;
    listener.address.parse::<SocketAddr>().ok().map(|address| address.port())
}

fn web_front(server: &Server, routes: axum::Router, https_port: Option<u16>) -> Arc<http::Front> {
    let plain_text = match https_port {
        Some(https_port) => PlainText::Redirected { https_port },
        None => PlainText::Refused,
    };
    front(server, http::FrontOptions { plain_text, ..front_options(server) }, routes)
}

fn couchdb_front(server: &Server, authenticator: &http::Authenticator) -> Arc<http::Front> {
    let instance = &server.instance;
    let options = couchdb::ServiceOptions {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uuid: couchdb::server_uuid(instance.directory.options().server.canonical()),
        origins: words(&instance.config.couchdb.origins),
    };
    let services = couchdb::Services {
        databases: Arc::clone(&instance.databases),
        authenticator: authenticator.clone(),
        pool: server.pool.clone(),
        memory: Arc::clone(&server.memory),
        random: Arc::clone(&instance.random),
        shutdown: server.shutdown.clone(),
    };
    let routes = couchdb::Service::new(services, options).routes();
    // On this machine, compression takes more time than it saves.
    let compression = if instance.config.http.compression { Compression::Remote } else { Compression::Off };
    let options = http::FrontOptions { compression, ..front_options(server) };
    front(server, options, routes)
}

fn front(server: &Server, options: http::FrontOptions, routes: axum::Router) -> Arc<http::Front> {
    let clock = Arc::clone(&server.instance.clock);
    http::Front::new(options, routes, Arc::clone(&server.memory), clock, server.shutdown.clone())
}

fn serve_http(front: &Arc<http::Front>, sessions: &Arc<SessionRegistry>) -> ServeConnection {
    let front = Arc::clone(front);
    let sessions = Arc::clone(sessions);
    Arc::new(move |stream: Stream, peer: Peer, permit: ConnectionPermit| {
        let front = Arc::clone(&front);
        spawn(&sessions, peer, permit, |peer, termination| http::serve(stream, peer, front, termination));
    })
}

/// Performs the handshake in the same task that then serves the connection. This costs nothing, because the HTTP/2
/// state of a connection is larger than that of the handshake.
fn serve_native(service: &Arc<rpc::Service>, server: &Server) -> ServeConnection {
    let service = Arc::clone(service);
    let sessions = Arc::clone(&server.sessions);
    let tls = Arc::clone(&server.tls);
    let organization = server.instance.config.server.organization.clone();
    Arc::new(move |stream: Stream, peer: Peer, permit: ConnectionPermit| {
        let service = Arc::clone(&service);
        let tls = Arc::clone(&tls);
        let organization = organization.clone();
        spawn(&sessions, peer, permit, |peer, termination| async move {
            let stream = stream.accept_tls_h2(&tls).await?;
            let server = stream.peer_certificate().and_then(|certificate| {
                let name = server_name_in(certificate, &organization)?;
                let issued = CertificateDescription::parse_der(certificate)?.issued();
                Some(ServerCertificate { name, certificate: certificate.into(), issued })
            });
            rpc::serve(stream, peer.encrypted(), server, service, termination).await
        });
    })
}

fn serve_imap(service: &Arc<imap::ListenerServices>, sessions: &Arc<SessionRegistry>) -> ServeConnection {
    let service = Arc::clone(service);
    let sessions = Arc::clone(sessions);
    Arc::new(move |stream: Stream, peer: Peer, permit: ConnectionPermit| {
        let service = Arc::clone(&service);
        spawn(&sessions, peer, permit, |peer, termination| imap::serve(stream, peer, service, termination));
    })
}

fn serve_smtp(service: &Arc<smtp::connection::ListenerServices>, sessions: &Arc<SessionRegistry>) -> ServeConnection {
    let service = Arc::clone(service);
    let sessions = Arc::clone(sessions);
    Arc::new(move |stream: Stream, peer: Peer, permit: ConnectionPermit| {
        let service = Arc::clone(&service);
        spawn(&sessions, peer, permit, |peer, termination| smtp::connection::serve(stream, peer, service, termination));
    })
}

fn serve_pop3(service: &Arc<pop3::ListenerServices>, sessions: &Arc<SessionRegistry>) -> ServeConnection {
    let service = Arc::clone(service);
    let sessions = Arc::clone(sessions);
    Arc::new(move |stream: Stream, peer: Peer, permit: ConnectionPermit| {
        let service = Arc::clone(&service);
        spawn(&sessions, peer, permit, |peer, termination| pop3::serve(stream, peer, service, termination));
    })
}

/// Serves a connection in its own task until it ends. If its account is changed so that the session may not continue,
/// the session has [`SESSION_END_TIME_MAX`] to end. The task also ends when the server closes, because every protocol
/// crate observes the shutdown.
fn spawn<E: std::fmt::Display, F: Future<Output = Result<(), E>> + Send + 'static>(
    sessions: &Arc<SessionRegistry>,
    peer: Peer,
    permit: ConnectionPermit,
    serve: impl FnOnce(Peer, SessionTermination) -> F,
) {
    let session = sessions.register();
    let serving = serve(peer.numbered(session.number()), session.termination().clone());
    tokio::spawn(async move {
        tokio::select! {
            outcome = serving => if let Err(error) = outcome {
                tracing::debug!(target: "wire", %peer, %error, "the session failed");
            },
            () = termination_timeout(session.termination()) => {}
        }
        drop(permit);
    });
}

/// Waits until a dismissed session should have ended.
async fn termination_timeout(termination: &SessionTermination) {
    termination.terminated().await;
    tokio::time::sleep(SESSION_END_TIME_MAX).await;
}

/// Performs the handshake in a separate task before calling `serve`, so that the state of the handshake is not part of
/// the session's task.
fn after_handshake(server: &Server, negotiation: Negotiation, serve: ServeConnection) -> ServeConnection {
    let tls = Arc::clone(&server.tls);
    let shutdown = server.shutdown.clone();
    Arc::new(move |stream: Stream, peer: Peer, permit: ConnectionPermit| {
        let tls = Arc::clone(&tls);
        let shutdown = shutdown.clone();
        let serve = Arc::clone(&serve);
        tokio::spawn(async move {
            tokio::select! {
                encrypted = tls_handshake(stream, peer, &tls, negotiation) => if let Some((stream, peer)) = encrypted {
                    serve(stream, peer, permit);
                },
                () = shutdown.closing() => {}
            }
        });
    })
}

fn rules(config: &Config, rules: ListenerRules) -> ListenerRules {
    let count = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    let keys = &config.smtp;
    let is_reception = rules.role == smtp::listener_rules::ListenerRole::Reception;
    ListenerRules {
        mechanisms: mechanisms(config, &Mechanism::WITH_PASSWORD),
        local_senders: match keys.local_senders {
            LocalSenderPolicy::Verified => smtp::listener_rules::LocalSenderPolicy::Verified,
            LocalSenderPolicy::Any => smtp::listener_rules::LocalSenderPolicy::Any,
        },
        trusted_relays: networks(&keys.trusted_relays),
        trusted_lists: words(&keys.trusted_lists),
        message_bytes_max: config.limits.message_size.as_usize(),
        recipients_max: count(config.limits.recipients),
        errors_max: u32::try_from(keys.errors).unwrap_or(u32::MAX),
        messages_max: keys.messages_per_connection,
        greet_delay: if is_reception { keys.greet_delay.0 } else { rules.greet_delay },
        idle_time_max: keys.idle_timeout.0,
        ..rules
    }
}

fn lmtp_rules(config: &Config, rules: ListenerRules) -> ListenerRules {
    let recipients_max = usize::try_from(config.limits.recipients).unwrap_or(usize::MAX);
    ListenerRules { message_bytes_max: config.limits.message_size.as_usize(), recipients_max, ..rules }
}

/// Returns the parts of a text that commas separate.
pub(super) fn words(text: &str) -> Vec<String> {
    listed(text).map(str::to_owned).collect()
}

/// Returns the parts of a text that commas separate, without white space around them.
fn listed(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty())
}

/// Returns the check of senders for a server with this maximum number of connections.
fn verifier(config: &Config, connections_max: usize) -> Result<Option<Arc<Verifier>>, ServeError> {
    let policy = match config.smtp.authentication {
        AuthenticationPolicy::Off => return Ok(None),
        AuthenticationPolicy::Record => DmarcEnforcement::Record,
        AuthenticationPolicy::Enforce => DmarcEnforcement::Reject,
    };
    let checks_max = usize::try_from(sender_checks(connections_max as u64)).unwrap_or(usize::MAX);
    Ok(Some(Arc::new(Verifier::new(resolver(config)?, policy).with_checks_max(checks_max))))
}

pub(super) fn resolver(config: &Config) -> Result<Resolver, ServeError> {
    let servers = name_servers(&config.server.name_servers).ok_or_else(|| {
        ServeError::Transfer("server.name_servers: write IP addresses separated by commas".to_owned())
    })?;
    let resolver = if servers.is_empty() { Resolver::system() } else { Resolver::with_servers(&servers) };
    resolver.map_err(|error| ServeError::Transfer(error.to_string()))
}

/// Parses a list of addresses; the default port is 53. Returns `None` if an address is not valid.
fn name_servers(text: &str) -> Option<Vec<SocketAddr>> {
    let address = |text: &str| text.parse().or_else(|_| text.parse().map(|address: IpAddr| (address, 53).into())).ok();
    listed(text).map(address).collect()
}

fn transfer(server: &Server) -> Result<SmtpClient, ServeError> {
    let keys = &server.instance.config.router;
    let mut options = SmtpClientOptions::new(&server.instance.hostname);
    options.port = u16::try_from(keys.port).unwrap_or(25);
    options.special_networks = networks(&keys.special_networks);
    let connections = usize::try_from(keys.connections).unwrap_or(usize::MAX);
    options.idle_connections_max = options.idle_connections_max.min(connections);
    SmtpClient::new(
        options,
        resolver(&server.instance.config)?,
        Arc::clone(&server.instance.clock),
        Arc::clone(&server.instance.random),
    )
    .map_err(|error| ServeError::Transfer(error.to_string()))
}

pub(super) fn smart_host(config: &Config) -> Result<Option<NextHop>, ServeError> {
    let keys = &config.router;
    let Some((name, port)) = keys.smart_host.0.clone() else {
        return Ok(None);
    };
    let is_local = name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    let security = match (keys.smart_host_verify && !is_local, port) {
        (false, 465) => Security::Implicit(unverified_tls()?),
        (false, _) => Security::Opportunistic,
        (true, 465) => Security::Implicit(verified_tls(config)?),
        (true, _) => Security::Verified(verified_tls(config)?),
    };
    let login = match (&keys.smart_host_user, &keys.smart_host_password_file.0) {
        (user, Some(file)) if !user.is_empty() => {
            let password = read_limited(file, FILE_BYTES_MAX)?;
            Some((user.clone(), String::from_utf8_lossy(&password).trim_end_matches(['\r', '\n']).to_owned()))
        }
        _ => None,
    };
    Ok(Some(NextHop::Host(Arc::new(SmartHost { name, port, security, login, protocol: ClientProtocol::Smtp }))))
}

fn unverified_tls() -> Result<ClientTls, ServeError> {
    ClientTls::opportunistic().map_err(|error| ServeError::Transfer(error.to_string()))
}

pub(super) fn verified_tls(config: &Config) -> Result<ClientTls, ServeError> {
    let roots = read_limited(&config.router.roots, FILE_BYTES_MAX)?;
    ClientTls::with_roots_pem(&roots)
        .map_err(|error| ServeError::Transfer(format!("router.roots {}: {error}", config.router.roots.display())))
}

#[cfg(test)]
mod matrix;

#[cfg(test)]
mod tests {
    use super::*;
    use sample::Sample;

    #[test]
    fn name_servers_are_parsed() {
        let check = |text: &str, expected: Option<&[&str]>| {
            let expected = expected.map(|list| list.iter().map(|text| text.parse().expect("an address")).collect());
            assert_eq!(name_servers(text), expected, "{text}");
        };
        check("", Some(&[]));
        check("192.0.2.1, 127.0.0.1:5353", Some(&["192.0.2.1:53", "127.0.0.1:5353"]));
        check("2001:db8::1,[::1]:5353", Some(&["[2001:db8::1]:53", "[::1]:5353"]));
        check("dns.example", None);
        check("192.0.2.1 192.0.2.2", None);
    }

    #[test]
    fn configured_limits_apply_to_imap_sessions() {
        let options = imap_options(&Sample::new().instance.config);
        let defaults = imap::session::SessionOptions::default();
        assert_eq!(
            (options.errors_max, options.login_failures_max),
            (defaults.errors_max, defaults.login_failures_max)
        );
        let options = imap_options(&Sample::with(&["imap.errors=5", "imap.login_failures=7"]).instance.config);
        assert_eq!((options.errors_max, options.login_failures_max), (5, 7));
    }

    #[test]
    fn configured_exceptions_apply_to_reception() {
        let with = |settings: &[&str]| {
            rules(&Sample::with(settings).instance.config, ListenerRules::reception("mx.acme.test", "acme.test"))
        };
        let reception = with(&[]);
        assert_eq!(reception.local_senders, smtp::listener_rules::LocalSenderPolicy::Verified);
        assert!(reception.trusted_lists.is_empty());
        let reception = with(&[
            "smtp.local_senders=any",
            "smtp.trusted_relays=192.0.2.0/24, 2001:db8::1",
            "smtp.trusted_lists=bounces@list.test, lists.test",
        ]);
        assert_eq!(reception.local_senders, smtp::listener_rules::LocalSenderPolicy::Any);
        assert_eq!(reception.trusted_lists, ["bounces@list.test", "lists.test"]);
        for (address, is_relay) in [("192.0.2.9", true), ("2001:db8::1", true), ("2001:db8::2", false)] {
            assert_eq!(reception.trusted_relays.contains(address.parse().expect("an address")), is_relay, "{address}");
        }
    }
}
