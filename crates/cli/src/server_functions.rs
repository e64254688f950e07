//! The functions of the server that the command line calls.

use std::pin::Pin;

use admin::request::{JoinRequest, ReplicateRequest};
use admin::{Answer, ProgressCallback};
use client::{Client, ConnectOptions};
use config::Config;
use instance::Instance;
use instance::data_folder::ListenerAddress;

/// Runs a server on an open data folder until a signal ends it. The second parameter is called with the listeners when
/// they are bound. The error is a text for the operator.
pub type RunServer = fn(Instance, &mut dyn FnMut(&[ListenerAddress])) -> Result<(), String>;

/// Makes the server of a data folder a member of the domain of another one. The error is a text for the operator.
pub type JoinDomain = fn(Config, &JoinRequest, &mut ProgressCallback<'_>) -> Result<Answer, String>;

/// The parameters of a replication of local replicas.
pub struct LocalReplication {
    /// The server.
    pub options: ConnectOptions,
    /// The login name of the person.
    pub user: String,
    /// The password.
    pub password: String,
    /// What is replicated.
    pub request: ReplicateRequest,
}

/// Replicates the local replicas in the data folder of a configuration with a server. The error is a text for the
/// person.
pub type ReplicateLocal = fn(Config, LocalReplication, &mut ProgressCallback<'_>) -> Result<Answer, String>;

/// The native protocol on local replicas, for the person whose they are.
pub trait LocalService {
    /// Connects. The error is a text for the person.
    fn connect(&mut self) -> Pin<Box<dyn Future<Output = Result<Client, String>> + '_>>;

    /// Ends the service.
    fn end(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()>>>;
}

/// Opens the local replicas in the data folder of a configuration. Must be called on a runtime. The error is a text for
/// the person.
pub type OpenLocal = fn(Config) -> Result<Box<dyn LocalService>, String>;

/// The functions of the server, which the program passes. The command line does not depend on it, so that an edit of a
/// protocol does not recompile the command line.
#[derive(Debug, Clone, Copy)]
pub struct ServerFunctions {
    /// Adapts the configuration to the limits of the system before the data folder is opened. The error is a text for
    /// the operator.
    pub prepare: fn(&mut Config) -> Result<(), String>,
    /// Runs the server.
    pub run: RunServer,
    /// Checks whether a server could start with a configuration on this machine: its memory, and the files that it
    /// names, as far as this is possible without starting a server. Returns the problems found.
    pub check_files: fn(&Config) -> Vec<String>,
    /// Joins the domain of another server.
    pub join: JoinDomain,
    /// Replicates local replicas.
    pub replicate_local: ReplicateLocal,
    /// Opens local replicas.
    pub open_local: OpenLocal,
}
