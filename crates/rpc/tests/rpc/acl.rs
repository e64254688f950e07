//! The access control list: reading it, changing it, and the changes that are refused.

use notes::AclLevel;
use proto::{details, v1};
use tonic::Code;

use crate::world::{TestServer, canonical, plan, refusal, refused};

fn get() -> v1::GetAclRequest {
    v1::GetAclRequest { database: plan() }
}

fn set(acl: v1::Acl, expected_sequence: u32) -> v1::SetAclRequest {
    v1::SetAclRequest { database: plan(), acl: Some(acl), expected_sequence, expected_revision_id: Vec::new() }
}

#[tokio::test]
async fn refused_change_names_the_needed_level() {
    let server = TestServer::new();
    server.set_level("bob", AclLevel::Designer);
    let bob = server.log_in("bob").await;
    let mut databases = bob.databases();
    let acl = databases.get_acl(get()).await.expect("a reader may").into_inner();
    let status = databases.set_acl(set(acl.clone(), acl.sequence)).await.expect_err("a designer may not");
    let needed = v1::AccessLevel::Manager.into();
    let has = v1::AccessLevel::Designer.into();
    let detail = details::detail(&status).and_then(|detail| detail.detail);
    let denied = v1::error_detail::AccessDenied { needed, has };
    assert_eq!(detail, Some(v1::error_detail::Detail::AccessDenied(denied)));
    assert_eq!(status.code(), Code::PermissionDenied);
}

#[tokio::test]
async fn access_lists_are_changed_as_a_whole_by_managers() {
    let server = TestServer::new();
    let ann = server.log_in("ann").await;
    let mut databases = ann.databases();
    let before = databases.get_acl(get()).await.expect("a manager may").into_inner();
    let mut acl = before.clone();
    acl.roles.push("[Crew]".to_owned());
    for entry in acl.entries.iter_mut().filter(|entry| entry.name == canonical("bob")) {
        entry.level = v1::AccessLevel::Reader.into();
        entry.roles.push("[Crew]".to_owned());
    }
    let saved = databases.set_acl(set(acl.clone(), before.sequence)).await.expect("a manager may").into_inner();
    assert_ne!(saved.revision_id, before.revision_id);
    let revision_id = saved.revision_id.clone();
    assert_eq!(saved, v1::Acl { sequence: before.sequence + 1, revision_id, ..acl.clone() });
    assert_eq!(databases.get_acl(get()).await.expect("a manager may").into_inner(), saved);
    let stale = databases.set_acl(set(acl.clone(), before.sequence)).await;
    assert_eq!(refusal(stale), refused(Code::Aborted, "conflict"));
    acl.entries.retain(|entry| entry.level() != v1::AccessLevel::Manager);
    let nobody = databases.set_acl(set(acl.clone(), 0)).await;
    assert_eq!(refusal(nobody), refused(Code::InvalidArgument, "invalid"), "a manager must remain");
    acl.entries.clone_from(&before.entries);
    acl.entries.push(before.entries[0].clone());
    assert_eq!(refusal(databases.set_acl(set(acl, 0)).await).0, Code::InvalidArgument, "no name twice");
}
