//! The routes of the listeners for HTTP and HTTPS: the lite web mail and JMAP, with their services.

use std::sync::Arc;

use http::Authenticator;
use jmap::limits::Limits;
use jmap::uploads::MemoryUploads;
use mail::submission::SubmissionService;

use super::Server;
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
}

impl WebRoutes<'_> {
    /// Returns the routes.
    pub(super) fn routes(&self) -> axum::Router {
        self.lite_routes().merge(self.jmap_routes())
    }

    fn lite_routes(&self) -> axum::Router {
        let instance = &self.server.instance;
        let backend = ServerWebBackend {
            directory: Arc::clone(&instance.directory),
            logins: Arc::clone(self.logins),
            submissions: Arc::clone(self.submissions),
            full_text: Arc::clone(&instance.full_text),
        };
        let services = web::Services {
            databases: Arc::clone(&instance.databases),
            backend: Arc::new(backend),
            authenticator: self.authenticator.clone(),
            pool: self.server.pool.clone(),
            memory: Arc::clone(&self.server.memory),
            clock: Arc::clone(&instance.clock),
            random: Arc::clone(&instance.random),
        };
        let limits = &instance.config.limits;
        let options = web::ServiceOptions {
            hostname: instance.hostname.clone(),
            message_bytes_max: limits.message_size.as_usize(),
            recipients_max: usize::try_from(limits.recipients).unwrap_or(usize::MAX),
        };
        web::Service::new(services, options).routes()
    }

    fn jmap_routes(&self) -> axum::Router {
        let instance = &self.server.instance;
        let accounts = ServerJmapAccounts {
            directory: Arc::clone(&instance.directory),
            logins: Arc::clone(self.logins),
            mail: Arc::clone(&instance.mail),
            shared: SharedMailFiles::new(&instance.databases),
            full_text: Arc::clone(&instance.full_text),
        };
        let message_bytes_max = instance.config.limits.message_size.as_usize() as u64;
        let services = jmap::Services {
            accounts: Arc::new(accounts),
            principals: Arc::new(PrincipalList::new(&instance.directory)),
            uploads: Arc::new(MemoryUploads::default()),
            outbox: Arc::clone(self.submissions) as Arc<dyn jmap::outbox::Outbox>,
            clock: Arc::clone(&instance.clock),
            random: Arc::clone(&instance.random),
            limits: Limits { message_bytes_max, ..Limits::default() },
            message_id_domain: instance.hostname.clone(),
            tables: jmap::table::MessageTables::default(),
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
        jmap::service::Service::new(parts).routes()
    }
}
