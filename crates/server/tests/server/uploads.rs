//! Uploads of JMAP in a data folder: they survive a restart, and their database is protected.

use std::ops::ControlFlow;
use std::sync::Arc;

use admin::request::DbRequest;
use admin::{AdminError, Request};
use instance::Instance;
use jmap::uploads::{UPLOADS_PATH, UploadOwner};
use notes::DatabaseKind;
use sample::Sample;
use server::jmap_backend::open_uploads;

fn ann() -> UploadOwner {
    UploadOwner { login: "ann".to_owned(), account: "A1".to_owned() }
}

/// Uploads a content in pieces, and returns its identifier when it is durable.
fn upload(instance: &Instance, content: &[u8]) -> String {
    let uploads = open_uploads(instance).expect("they open");
    let mut arriving = uploads.begin();
    content.chunks(100_000).for_each(|piece| arriving.add(piece).expect("a sound store"));
    let stored = arriving.store(ann(), "image/png").expect("a sound store");
    instance.store.durable(stored.ticket).wait().expect("the disk works");
    stored.id
}

#[test]
fn uploads_survive_a_restart_of_the_data_folder() {
    let Sample { instance, folder } = Sample::new();
    let content: Vec<u8> = (0..1_000_000_u32).flat_map(u32::to_le_bytes).collect();
    let small = upload(&instance, b"small");
    let large = upload(&instance, &content);
    let config = Arc::clone(&instance.config);
    drop(instance);
    let instance = Instance::open(config).expect("the data folder is sound");
    let uploads = open_uploads(&instance).expect("they open");
    let read = |id: &str| {
        let found = uploads.find(&ann(), id).expect("it exists");
        uploads.read(&found, 0..found.size).expect("a sound store")
    };
    assert_eq!(read(&small).as_deref(), Some(&b"small"[..]));
    assert!(read(&large) == Some(content));
    drop(folder);
}

#[test]
fn the_database_of_the_uploads_belongs_to_the_server_alone() {
    let sample = Sample::new();
    upload(&sample.instance, b"text");
    let database = sample.instance.databases.database_open(UPLOADS_PATH).expect("it exists");
    assert_eq!(database.record().kind, DatabaseKind::Uploads);
    assert!(database.record().kind.is_local(), "it does not replicate");
    let rename = DbRequest::Rename { path: UPLOADS_PATH.to_owned(), to: "mine.nsf".to_owned() };
    let mut report = |_| ControlFlow::Continue(());
    let refused = admin::execute(&sample.instance, Request::Db(rename), &mut report);
    assert!(matches!(refused, Err(AdminError::Refused(_))), "{refused:?}");
    let delete = DbRequest::Delete { path: UPLOADS_PATH.to_owned(), force: true };
    assert!(admin::databases::stop_reason(&sample.instance, &delete).is_some(), "a running server uses it");
}
