//! The program `doublet`. It chooses the allocator and passes the server to the command line.
//!
//! The program uses mimalloc instead of the system's allocator: jobs allocate in the worker threads and free in the
//! threads that serve sockets, which fragments glibc's arenas. mimalloc compiles from one C file in seconds. jemalloc
//! performs as well, but needs a configure script and takes minutes on two processors.

use std::pin::Pin;
use std::process::ExitCode;

use cli::ServerFunctions;
use cli::server_functions::LocalService;
use client::Client;
use config::Config;
use instance::data_folder::DataFolder;
use server::replication::{LocalReplication, LocalStore, replicate_local};
use server::serve::LocalServer;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The server that the command line starts.
const SERVER: ServerFunctions = ServerFunctions {
    prepare,
    run: |instance, started| server::serve::run(instance, started).map_err(|error| error.to_string()),
    check_files: server::serve::check_files,
    join: |config, request, report| {
        server::replication::join(config, request, report).map_err(|error| error.to_string())
    },
    replicate_local: |config, parameters, report| {
        let cli::server_functions::LocalReplication { options, user, password, request } = parameters;
        let parameters = LocalReplication { options, user, password, request };
        replicate_local(config, parameters, report).map_err(|error| error.to_string())
    },
    open_local,
};

/// The service of local replicas.
struct Local(LocalServer);

impl LocalService for Local {
    fn connect(&mut self) -> Pin<Box<dyn Future<Output = Result<Client, String>> + '_>> {
        let stream = self.0.connect();
        Box::pin(async { Client::over(stream).await.map_err(|error| error.to_string()) })
    }

    fn end(self: Box<Self>) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(self.0.end())
    }
}

fn prepare(config: &mut Config) -> Result<(), String> {
    LocalStore::refuse_server(&DataFolder::new(&config.server.data)).map_err(|error| error.to_string())?;
    server::descriptors::prepare(config).map_err(|error| error.to_string())
}

fn open_local(config: Config) -> Result<Box<dyn LocalService>, String> {
    let data = DataFolder::new(&config.server.data);
    let store = LocalStore::read(&data).map_err(|error| error.to_string())?;
    let store = store.ok_or_else(|| {
        format!(
            "{} has no local replicas; `doublet --local DIR replicate HOST DATABASE --user NAME` makes them",
            data.path().display()
        )
    })?;
    let person = store.person();
    let instance = store.open(config).map_err(|error| error.to_string())?;
    let service = LocalServer::start(instance, person).map_err(|error| error.to_string())?;
    Ok(Box::new(Local(service)))
}

fn main() -> ExitCode {
    cli::run(&SERVER)
}
