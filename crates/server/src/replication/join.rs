//! Joining the domain of another server: its certificate, and a replica of its directory.
//!
//! A server begins with a directory of its own, so it joins before its first start. The store is opened without the
//! directory, a replica of that of the other server is created, and its notes are received. An attempt that was
//! interrupted is continued by the next one.

use std::sync::Arc;

use admin::request::JoinRequest;
use admin::servers::with_port;
use admin::{AdminError, Answer, ProgressCallback};
use base::{Clock as _, Name};
use config::Config;
use directory::IssuedCertificate;
use instance::certificate::ServerCredentials;
use instance::certifier::ServerFile;
use instance::data_folder::read_limited;
use instance::system::SystemClock;
use instance::{StoreServices, server_name};
use notes::acl::LOCAL_DOMAIN_SERVERS;
use notes::{Database, DatabaseKind, Identity};
use replica::PullStatistics;
use wire::limits::PEM_BYTES_MAX;

use super::database_pull::{PullOptions, TargetDatabase, new_replica, pull_changes};
use super::source::{Partner, RemoteServer};

/// Path of the directory.
const DIRECTORY: &str = "names.nsf";

/// Joins the domain of another server.
pub fn join(config: Config, request: &JoinRequest, report: &mut ProgressCallback<'_>) -> Result<Answer, AdminError> {
    let organization = config.server.organization.clone();
    let itself = Name::new(&format!("CN={}/O={organization}", server_name(&config)));
    let file = read_server_file(request, &itself)?;
    file.verify(&itself, SystemClock::new().now()).map_err(AdminError::refused)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .map_err(AdminError::refused)?;
    let server = connect(&runtime, &file, request, &organization)?;
    let mut source = server.open(DIRECTORY)?;
    if source.kind != DatabaseKind::Directory {
        return Err(AdminError::refused(format!("{DIRECTORY} of {} is not a directory", server.label())));
    }
    let services = StoreServices::open(Arc::new(config)).map_err(AdminError::refused)?;
    let database = match existing_directory(&services)? {
        Some(database) if database.record().replica_id == source.replica_id => database,
        Some(_) => {
            return Err(AdminError::refused(
                "this server has a directory of its own; join with an empty data folder, before the first start",
            ));
        }
        None => services.databases.database_create(&new_replica(&source, &itself, &server.identity.name))?,
    };
    let identity = Arc::new(Identity::local_server(itself));
    let options = PullOptions::default();
    let target = TargetDatabase { databases: &services.databases, database: &database, itself: identity, options };
    let mut statistics = PullStatistics::default();
    pull_changes(&target, &server, &mut source, report, &mut statistics)?;
    if statistics.refused > 0 {
        let text = format!("the access control list of {DIRECTORY} on {} does not let it write", server.label());
        return Err(AdminError::refused(format!("{text}; give LocalDomainServers the level Manager there")));
    }
    file.install(&services.data).map_err(AdminError::refused)?;
    let received = statistics.received;
    Ok(Answer::message(format!("This server has joined the domain of {}: {received} notes received.", server.label()))
        .with_message("Start it with `doublet serve`. `doublet replicate` exchanges changes.".to_owned()))
}

/// Connects to the other server with the certificate of the file.
fn connect(
    runtime: &tokio::runtime::Runtime,
    file: &ServerFile,
    request: &JoinRequest,
    organization: &str,
) -> Result<RemoteServer, AdminError> {
    let address = request.from.as_ref().or(file.partner.as_ref());
    let address = address
        .ok_or_else(|| AdminError::refused("the file does not name the other server; give its address (--from)"))?;
    let address = with_port(address)?;
    let credentials = ServerCredentials {
        roots: file.certifier.clone().into_bytes(),
        chain: file.chain().into_bytes(),
        key: file.key.clone().into_bytes(),
    };
    // The directory with the groups is yet to be received. A server that registers others is a member of this one.
    let groups = vec![Name::new(LOCAL_DOMAIN_SERVERS)];
    let admit = |name: &Name, _: &IssuedCertificate| {
        Ok(Arc::new(Identity { name: name.clone(), groups: groups.clone(), server: true, ..Identity::default() }))
    };
    let partner = Partner { address: &address, server_name: file.partner_name.as_deref(), compression: false };
    RemoteServer::connect(runtime.handle(), &partner, &credentials, organization, &admit)
}

/// Reads the server file and checks that it is for this server.
fn read_server_file(request: &JoinRequest, itself: &Name) -> Result<ServerFile, AdminError> {
    let bytes = read_limited(&request.file, PEM_BYTES_MAX as u64).map_err(AdminError::refused)?;
    let text = String::from_utf8(bytes).ok();
    let file = text.as_deref().and_then(ServerFile::parse).ok_or_else(|| {
        let file = request.file.display();
        AdminError::refused(format!("{file} is not a file that `doublet server register` has written"))
    })?;
    match file.server_name() {
        Some(named) if named == *itself => Ok(file),
        named => Err(AdminError::refused(format!(
            "the file is for the server {}, but the name of this server is {} (`server.name`, `server.organization`)",
            named.map(|named| named.abbreviated()).unwrap_or_default(),
            itself.abbreviated()
        ))),
    }
}

fn existing_directory(services: &StoreServices) -> Result<Option<Arc<Database>>, AdminError> {
    match services.databases.database_open(DIRECTORY) {
        Ok(database) => Ok(Some(database)),
        Err(notes::Error::NotFound { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
