//! The routes of the listeners for HTTP and HTTPS: the lite web mail and JMAP, with their services.

use std::sync::Arc;

use config::Config;
use http::Authenticator;
use jmap::limits::Limits;
use jmap::push_subscriptions::PushSubscriptions;
use jmap::push_target::PushPolicy;
use jmap::service::push_sender::{PushResolver, PushSender, ResolvedAddresses};
use mail::message_table::MessageTables;
use mail::submission::SubmissionService;
use smtp::dns::Resolver;

use super::protocols::{resolver, verified_tls, words};
use super::{ServeError, Server};
use crate::configured_networks::networks;
use crate::credential_backend::ServerCredentials;
use crate::jmap_backend::ServerJmapAccounts;
use crate::logins::Logins;
use crate::principal_list::PrincipalList;
use crate::shared_mail_files::SharedMailFiles;
use crate::web_backend::ServerWebBackend;

/// What both share.
pub(super) struct WebRoutes<'s> {
    pub(super) server: &'s Server,
    pub(super) logins: &'s Arc<Logins>,
    pub(super) submissions: &'s Arc<SubmissionService>,
    pub(super) authenticator: &'s Authenticator,
    /// The messages of mail files in memory.
    pub(super) tables: Arc<MessageTables>,
}

impl WebRoutes<'_> {
    /// Returns the routes.
    pub(super) fn routes(&self, jmap: &Arc<jmap::service::Service>) -> axum::Router {
        self.lite_routes().merge(jmap.routes())
    }

    fn lite_routes(&self) -> axum::Router {
        let instance = &self.server.instance;
        let backend = ServerWebBackend {
            directory: Arc::clone(&instance.directory),
            logins: Arc::clone(self.logins),
            submissions: Arc::clone(self.submissions),
            full_text: Arc::clone(&instance.full_text),
        };
        let credentials = ServerCredentials {
            directory: Arc::clone(&instance.directory),
            uses: Arc::clone(&self.server.browser_sessions),
            instance: Arc::clone(instance),
        };
        let services = web::Services {
            databases: Arc::clone(&instance.databases),
            backend: Arc::new(backend),
            credentials: Arc::new(credentials),
            tables: Arc::clone(&self.tables),
            authenticator: self.authenticator.clone(),
            pool: self.server.pool.clone(),
            memory: Arc::clone(&self.server.memory),
            clock: Arc::clone(&instance.clock),
            random: Arc::clone(&instance.random),
        };
        web::Service::new(services, lite_options(&instance.config, &instance.hostname)).routes()
    }

    /// Returns the service of JMAP.
    pub(super) fn jmap_service(&self) -> Result<Arc<jmap::service::Service>, ServeError> {
        let instance = &self.server.instance;
        let keys = &instance.config.jmap;
        let policy = PushPolicy::new(&words(&keys.push_hosts), networks(&keys.push_networks));
        let policy = policy.map_err(|error| ServeError::Transfer(format!("jmap.push_hosts: {error}")))?;
        let sources = (Arc::clone(&instance.clock), Arc::clone(&instance.random));
        let push = PushSubscriptions::open(&self.server.browser_sessions, policy, sources);
        let push = push.map_err(|error| ServeError::Transfer(format!("the push subscriptions: {error}")))?;
        let accounts = ServerJmapAccounts {
            directory: Arc::clone(&instance.directory),
            logins: Arc::clone(self.logins),
            mail: Arc::clone(&instance.mail),
            shared: SharedMailFiles::new(&instance.databases),
            full_text: Arc::clone(&instance.full_text),
        };
        let services = jmap::Services {
            accounts: Arc::new(accounts),
            principals: Arc::new(PrincipalList::new(&instance.directory)),
            uploads: Arc::clone(&self.server.uploads),
            outbox: Arc::clone(self.submissions) as Arc<dyn jmap::outbox::Outbox>,
            running_requests: jmap::outbox::RunningRequests::default(),
            clock: Arc::clone(&instance.clock),
            random: Arc::clone(&instance.random),
            limits: jmap_limits(&instance.config),
            message_id_domain: instance.hostname.clone(),
            push,
            tables: Arc::clone(&self.tables),
        };
        let parts = jmap::service::ServiceParts {
            services: Arc::new(services),
            authenticator: self.authenticator.clone(),
            pool: self.server.pool.clone(),
            store: Arc::clone(instance.databases.store()),
            memory: Arc::clone(&self.server.memory),
            shutdown: self.server.shutdown.clone(),
            origins: super::protocols::words(&instance.config.http.origins),
        };
        Ok(jmap::service::Service::new(parts))
    }
}

/// Returns the options of the lite web mail.
fn lite_options(config: &Config, hostname: &str) -> web::ServiceOptions {
    let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    web::ServiceOptions {
        hostname: hostname.to_owned(),
        message_bytes_max: config.limits.message_size.as_usize(),
        recipients_max: count(config.limits.recipients),
        requests_per_account_max: count(config.http.requests_per_account),
        uploads_per_account_max: count(config.http.uploads_per_account),
    }
}

/// Returns the limits that JMAP states to its clients.
fn jmap_limits(config: &Config) -> Limits {
    Limits {
        message_bytes_max: config.limits.message_size.as_usize() as u64,
        concurrent_requests_max: config.jmap.requests_per_account,
        concurrent_uploads_max: config.jmap.uploads_per_account,
        ..Limits::default()
    }
}

/// Returns what sends pushes, or `None` if the operator has named no hosts.
pub(super) fn push_sender(server: &Server) -> Result<Option<PushSender>, ServeError> {
    let config = &server.instance.config;
    if words(&config.jmap.push_hosts).is_empty() {
        return Ok(None);
    }
    let domain = server.instance.default_domain().map_err(instance::InstanceError::from)?;
    let resolver = Arc::new(DnsResolver { resolver: resolver(config)? });
    let contact = format!("mailto:postmaster@{}", domain.as_str());
    Ok(Some(PushSender { resolver, tls: verified_tls(config)?, contact }))
}

/// The look-up of push services, with the name servers that the router uses.
struct DnsResolver {
    resolver: Resolver,
}

impl PushResolver for DnsResolver {
    fn addresses<'r>(&'r self, host: &'r str) -> ResolvedAddresses<'r> {
        Box::pin(async move { self.resolver.addresses(host).await.map_err(|error| format!("look-up: {error}")) })
    }
}

#[cfg(test)]
mod tests {
    use config::{ConfigSources, load};

    use super::*;

    fn check(overrides: &[&str], lite: (usize, usize), jmap: (u64, u64)) {
        let overrides = overrides.iter().map(|text| (*text).to_owned()).collect();
        let config = load(&ConfigSources { overrides, ..ConfigSources::default() }).expect("a valid configuration");
        let options = lite_options(&config, "mail.acme.test");
        assert_eq!((options.requests_per_account_max, options.uploads_per_account_max), lite);
        let limits = jmap_limits(&config);
        assert_eq!((limits.concurrent_requests_max, limits.concurrent_uploads_max), jmap);
    }

    #[test]
    fn requests_and_uploads_of_an_account_are_limited_by_keys() {
        let limits = Limits::default();
        check(&[], (20, 3), (limits.concurrent_requests_max, limits.concurrent_uploads_max));
        check(&["http.requests_per_account=7", "http.uploads_per_account=5"], (7, 5), (8, 4));
        check(&["jmap.requests_per_account=7", "jmap.uploads_per_account=5"], (20, 3), (7, 5));
    }
}
