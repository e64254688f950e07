//! Execution of any request on an open data folder.

use instance::Instance;

use crate::answer::ProgressCallback;
use crate::error::{AdminError, AdminResult};
use crate::request::Request;
use crate::{
    application_passwords, connections, databases, designs, domains, export, fixup, groups, import, maintenance,
    people, queue, replication, servers, sessions, status, views,
};

/// Executes a request on an open data folder.
pub fn execute(instance: &Instance, request: Request, report: &mut ProgressCallback<'_>) -> AdminResult {
    match request {
        Request::User(request) => people::execute(instance, request),
        Request::Group(request) => groups::execute(instance, request),
        Request::Domain(request) => domains::execute(instance, request),
        Request::Connection(request) => connections::execute(instance, request),
        Request::Replication(request) => replication::execute(instance, request),
        Request::Server(request) => servers::execute(instance, &request),
        Request::Session(request) => sessions::execute(instance, sessions::open(instance)?.as_ref(), &request),
        Request::AppPassword(request) => {
            application_passwords::execute(instance, sessions::open(instance)?.as_ref(), &request)
        }
        Request::Db(request) => databases::execute(instance, request, report),
        Request::Fixup(request) => fixup::execute(&instance.databases, &request, report),
        Request::Design(request) => designs::execute(instance, &request),
        Request::Updall(request) => views::updall(instance, &request, report),
        Request::Backup(request) => maintenance::backup(instance, &request, report),
        Request::Blobs(request) => maintenance::blobs(instance, &request, report),
        Request::Replicate(_) => Err(AdminError::Refused(
            "no server runs on this data folder; start it (`doublet serve`), because replication needs its certificate and its databases".to_owned(),
        )),
        Request::Queue(request) => queue::execute(instance, request),
        Request::Import(request) => import::execute(instance, &request, report),
        Request::Export(request) => export::execute(instance, &request, report),
        Request::Status { running: true } => Err(AdminError::Refused("no server runs on this data folder".to_owned())),
        Request::Status { running: false } => status::execute(instance),
        Request::Tls(_) => Err(AdminError::Refused(
            "no server runs on this data folder; a server reads the certificate when it starts".to_owned(),
        )),
    }
}
