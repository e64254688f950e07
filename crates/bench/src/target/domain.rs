//! The servers of a run: one, or several of one domain on this machine.
//!
//! Each of several servers has a folder of its own below that of the run, `server-1`, `server-2` and so on, and the
//! mail files of its users ([`ServerShare`]). The first server has the directory, and registers the others. Each of
//! these joins before its first start, which brings it a replica of the directory, and adds its users: so it is their
//! mail server. Ports are others after each start. Therefore the first server gets the addresses of all at each of
//! them, and the directory is replicated before the servers are used. They replicate nothing afterwards.

use super::by_server::{ByServer, ServerShare};
use super::server::{CreatedFolder, ServerOptions, StartedServer};
use super::{Protocol, Target, TargetError};

/// The path of the directory.
const DIRECTORY: &str = "names.nsf";

/// The started servers of a run, and what the driver needs to know of each.
pub type Started = (ByServer<StartedServer>, ByServer<Target>);

/// Returns the files and folders that are made in the folder of a run.
pub fn files(servers: u64) -> Vec<String> {
    match servers {
        1 => super::server::FILES.iter().map(|name| (*name).to_owned()).collect(),
        servers => ServerShare::all(servers).map(folder_name).collect(),
    }
}

fn folder_name(share: ServerShare) -> String {
    format!("server-{}", share.number())
}

/// Creates the folder, the domain and the users, starts the servers, and waits until they are ready.
///
/// # Errors
///
/// If the folder exists or cannot be created, if a command of the program fails, or if a server is not ready in time.
/// The folder is then deleted, unless it existed before, and so it is if this is dropped before the servers are ready.
pub async fn start(options: ServerOptions, servers: u64) -> Result<Started, TargetError> {
    if servers == 1 {
        return StartedServer::start(options).await.map(started_alone);
    }
    let failed = |source| TargetError::of_file(options.folder.display(), source);
    let folder = CreatedFolder::create(&options.folder).map_err(failed)?;
    let started = start_in_folder(&options, servers).await?;
    folder.keep();
    Ok(started)
}

async fn start_in_folder(options: &ServerOptions, servers: u64) -> Result<Started, TargetError> {
    let mut started: Vec<(StartedServer, Target)> = Vec::new();
    for share in ServerShare::all(servers) {
        let own = of_server(options, share);
        started.push(match started.first() {
            None => StartedServer::start(own).await?,
            Some((first, target)) => first.start_another(target, own).await?,
        });
    }
    if let Some((first, target)) = started.first_mut() {
        // The first registration has given it another certificate.
        target.trust = first.trust()?;
    }
    connect(started).await
}

/// Starts the servers on a folder that an earlier run has left, and waits until they are ready.
///
/// # Errors
///
/// If the folder does not have the servers or their users, if a command of the program fails, or if a server is not
/// ready in time. The folder is left as it is.
pub async fn resume(options: ServerOptions, servers: u64) -> Result<Started, TargetError> {
    if servers == 1 {
        return StartedServer::resume(options).await.map(started_alone);
    }
    let mut started = Vec::new();
    for share in ServerShare::all(servers) {
        started.push(StartedServer::resume(of_server(&options, share)).await?);
    }
    connect(started).await
}

fn started_alone((server, target): (StartedServer, Target)) -> Started {
    (ByServer::one(server), ByServer::one(target))
}

fn of_server(options: &ServerOptions, share: ServerShare) -> ServerOptions {
    ServerOptions { share, folder: options.folder.join(folder_name(share)), ..options.clone() }
}

/// Makes the addresses and the users of all servers known to each of them.
async fn connect(started: Vec<(StartedServer, Target)>) -> Result<Started, TargetError> {
    let (servers, targets): (Vec<_>, Vec<_>) = started.into_iter().unzip();
    let servers = ByServer::of_all(servers).expect("a run has a server");
    let targets = ByServer::of_all(targets).expect("each server has a target");
    let first = servers.of_first();
    let address = targets.of_first().address(Protocol::Native)?;
    for (server, target) in servers.iter().zip(targets.iter()) {
        first.run(&["server", "set", &server.host(), "--address", target.address(Protocol::Native)?]).await?;
    }
    // The first time, the first server gets the users of the others one after the other; the second time, each of the
    // others gets those of all.
    for _ in 0..2 {
        for server in &servers[1..] {
            server.run(&["replicate", address, "--server-name", &first.host(), DIRECTORY]).await?;
        }
    }
    Ok((servers, targets))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::workload::Door;

    fn options(folder: &Path, program: &str) -> ServerOptions {
        ServerOptions {
            program: PathBuf::from(program),
            folder: folder.join("run"),
            settings: Vec::new(),
            users: 4,
            people: 4,
            seed: 1,
            door: Door::Native,
            cores: None,
            share: ServerShare::ALONE,
        }
    }

    #[test]
    fn each_of_several_servers_has_a_folder() {
        let names = ["data", "server.log", "people.csv", "copy.log", "lmtp.sock", "command.out", "command.log"];
        assert_eq!(files(1), names);
        assert_eq!(files(2), ["server-1", "server-2"]);
        let folders = ServerShare::all(2).map(|share| of_server(&options(Path::new("/x"), "p"), share).folder);
        assert_eq!(folders.collect::<Vec<_>>(), [Path::new("/x/run/server-1"), Path::new("/x/run/server-2")]);
    }

    #[tokio::test]
    async fn a_start_that_fails_leaves_no_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let options = options(folder.path(), "/bin/false");
        let error = start(options.clone(), 2).await.expect_err("the program fails").to_string();
        assert!(error.starts_with("/bin/false domain add bench.test:"), "{error}");
        assert!(!options.folder.exists());
        fs::create_dir(&options.folder).expect("a folder");
        let error = start(options.clone(), 2).await.expect_err("it exists").to_string();
        assert!(error.contains("File exists") && options.folder.exists(), "{error}");
        let error = resume(options, 2).await.expect_err("it has no servers").to_string();
        assert!(error.contains("server-1/people.csv"), "{error}");
    }
}
