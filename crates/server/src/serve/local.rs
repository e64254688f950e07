//! The native protocol for the person who works on a local store, over a connection in memory.
//!
//! The person has the rights that the access control lists of the local replicas give. There is no listener, and mail
//! is not sent. What a server does besides, such as delivery and scheduled replication, does not run.

use std::sync::Arc;

use instance::Instance;
use instance::certificate::CertificateFiles;
use notes::Identity;
use tokio::task::JoinSet;
use wire::{Shutdown, Stream};

use super::protocols::native_service;
use super::{ServeError, Server};
use crate::submission_hooks::submission_service;
use crate::view_updater;

/// Size of the buffer between the ends of a connection in memory, in bytes.
const PIPE_BYTES: usize = 256 << 10;

/// The service of a local store.
pub struct LocalServer {
    server: Arc<Server>,
    service: Arc<rpc::Service>,
    tasks: JoinSet<()>,
}

impl LocalServer {
    /// Starts the service of an open store for a person. Must be called on a runtime.
    pub fn start(instance: Instance, person: Identity) -> Result<Self, ServeError> {
        let instance = Arc::new(instance);
        let files = CertificateFiles::from_config(&instance.config, &instance.data, &instance.hostname);
        let tls = Arc::new(files.load()?);
        let server = Server::new(instance, (tls, files), Shutdown::new(), Some(Arc::new(person)))?;
        let submissions = submission_service(&server.instance, &server.mail_counters, &server.queued);
        let service = native_service(&server, &server.logins, submissions);
        let mut tasks = JoinSet::new();
        let updater = Arc::clone(&server.updater);
        tasks.spawn(view_updater::run(updater, Arc::clone(&server.instance), server.shutdown.clone()));
        Ok(Self { server, service, tasks })
    }

    /// Connects the person. Returns the end of the client.
    pub fn connect(&mut self) -> Stream {
        let (ours, theirs) = Stream::duplex(PIPE_BYTES);
        let service = Arc::clone(&self.service);
        self.tasks.spawn(async move { drop(rpc::serve_local(theirs, service).await) });
        ours
    }

    /// Ends the service and flushes the store.
    pub async fn end(self) {
        self.server.close(self.tasks).await;
    }
}
