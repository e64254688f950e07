//! The access matrix of the native protocol: every call of the `.proto` files by a caller without a session, and by one
//! with each access level. A call without a row fails the test.
//!
//! A database to which a caller has no access does not exist for the caller: the refusals of the level No Access are
//! compared with those of a missing path.

use std::collections::BTreeSet;
use std::pin::Pin;

use futures_util::stream;
use notes::{AclEntry, AclFlags, AclLevel};
use proto::{details, v1};
use tonic::{Code, Status};

use crate::world::{Client, PLAN, TestServer, canonical, database, note, plan, refusal, refused, text};

/// The callers who may make a call on a document of another user.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PermittedCallers {
    /// All callers, even without a session.
    Strangers,
    /// All callers with a session.
    Sessions,
    /// Callers with these levels, as indexes into [`AclLevel::ALL`].
    Levels(&'static [usize]),
}

/// Calls of servers. The callers here are people.
const SERVERS: PermittedCallers = PermittedCallers::Levels(&[]);
const FROM_READER: PermittedCallers = PermittedCallers::Levels(&[2, 3, 4, 5, 6]);
const FROM_AUTHOR: PermittedCallers = PermittedCallers::Levels(&[3, 4, 5, 6]);
const FROM_EDITOR: PermittedCallers = PermittedCallers::Levels(&[4, 5, 6]);
const FROM_DESIGNER: PermittedCallers = PermittedCallers::Levels(&[5, 6]);

type Call = fn(Client, u32) -> Pin<Box<dyn Future<Output = Result<(), Status>>>>;

macro_rules! rows {
    ($($path:literal $who:expr, $service:ident.$method:ident |$note:ident| $request:expr;)+) => {
        vec![$((
            concat!("/doublet.v1.", $path),
            $who,
            (|client: Client, $note: u32| {
                Box::pin(async move { client.$service().$method($request).await.map(drop) })
                    as Pin<Box<dyn Future<Output = Result<(), Status>>>>
            }) as Call,
        ),)+]
    };
}

/// Returns the rows: the path of the call, the permitted callers, and the call.
///
/// The notes have no attachment to remove and are not deleted. An Author, who may read them, gets that error instead of
/// one about access. An Author may create the shared profile, but not delete it.
#[rustfmt::skip]
fn rows() -> Vec<(&'static str, PermittedCallers, Call)> {
    use v1::{self as p};
    let mut rows = rows! {
        "Sessions/GetServer" PermittedCallers::Strangers, sessions.get_server |_n| p::GetServerRequest {};
        "Sessions/GetSession" PermittedCallers::Sessions, sessions.get_session |_n| p::GetSessionRequest {};
        "Databases/ListDatabases" PermittedCallers::Sessions, databases.list_databases |_n| p::ListDatabasesRequest::default();
        "Databases/OpenDatabase" PermittedCallers::Levels(&[1, 2, 3, 4, 5, 6]), databases.open_database |_n| p::OpenDatabaseRequest { database: plan() };
        "Databases/CreateDatabase" PermittedCallers::Levels(&[]), databases.create_database |_n| p::CreateDatabaseRequest { path: "new.nsf".into(), ..Default::default() };
        "Databases/ListTemplates" PermittedCallers::Sessions, databases.list_templates |_n| p::ListTemplatesRequest {};
        "Databases/GetAcl" FROM_READER, databases.get_acl |_n| p::GetAclRequest { database: plan() };
        "Databases/SetAcl" PermittedCallers::Levels(&[6]), databases.set_acl |_n| p::SetAclRequest { database: plan(), acl: None, expected_sequence: 0, expected_revision_id: Vec::new() };
        "Notes/OpenNote" FROM_READER, notes.open_note |n| p::OpenNoteRequest { database: plan(), note: note(n), ..Default::default() };
        "Notes/OpenNotes" FROM_READER, notes.open_notes |n| p::OpenNotesRequest { database: plan(), notes: note(n).into_iter().collect(), items: None };
        "Notes/CreateNote" PermittedCallers::Levels(&[1, 3, 4, 5, 6]), notes.create_note |_n| p::CreateNoteRequest { database: plan(), items: vec![text("A", "b")], ..Default::default() };
        "Notes/UpdateNote" FROM_EDITOR, notes.update_note |n| p::UpdateNoteRequest { database: plan(), note: note(n), items: vec![text("A", "c")], ..Default::default() };
        "Notes/DeleteNote" FROM_EDITOR, notes.delete_note |n| p::DeleteNoteRequest { database: plan(), note: note(n), ..Default::default() };
        "Notes/DetachFile" FROM_AUTHOR, notes.detach_file |n| p::DetachFileRequest { database: plan(), note: note(n), expected_sequence: 0, expected_revision_id: Vec::new(), file_name: "a".into() };
        "Notes/MarkNotes" FROM_READER, notes.mark_notes |n| p::MarkNotesRequest { database: plan(), notes: note(n).into_iter().collect(), unread: false };
        "Notes/ListUnread" FROM_READER, notes.list_unread |_n| p::ListUnreadRequest { database: plan(), ..Default::default() };
        "Notes/RestoreNote" FROM_AUTHOR, notes.restore_note |n| p::RestoreNoteRequest { database: plan(), note: note(n) };
        "Notes/OpenProfile" FROM_READER, notes.open_profile |_n| p::OpenProfileRequest { database: plan(), profile: "p".into(), ..Default::default() };
        "Notes/UpdateProfile" FROM_AUTHOR, notes.update_profile |_n| p::UpdateProfileRequest { database: plan(), profile: "p".into(), ..Default::default() };
        "Notes/DeleteProfile" FROM_EDITOR, notes.delete_profile |_n| p::DeleteProfileRequest { database: plan(), profile: "p".into(), ..Default::default() };
        "Notes/ListDeletedNotes" FROM_AUTHOR, notes.list_deleted_notes |_n| p::ListDeletedNotesRequest { database: plan(), ..Default::default() };
        "Notes/AttachFile" FROM_EDITOR, notes.attach_file |n| attachment(n);
        "Views/ListViews" FROM_READER, views.list_views |_n| p::ListViewsRequest { database: plan(), kind: 0 };
        "Views/OpenCollection" FROM_READER, views.open_collection |_n| p::OpenCollectionRequest { database: plan(), view: folder() };
        "Views/UpdateCollection" FROM_READER, views.update_collection |_n| p::UpdateCollectionRequest { database: plan(), view: folder() };
        "Views/ReadEntries" FROM_READER, views.read_entries |_n| p::ReadEntriesRequest { database: plan(), view: folder(), ..Default::default() };
        "Views/FindByKey" FROM_READER, views.find_by_key |_n| p::FindByKeyRequest { database: plan(), view: folder(), ..Default::default() };
        "Views/CreateFolder" FROM_DESIGNER, views.create_folder |n| p::CreateFolderRequest { database: plan(), name: format!("f{n}"), ..Default::default() };
        "Views/CreateFolder" FROM_DESIGNER, views.create_folder |n| p::CreateFolderRequest { database: plan(), name: format!("own{n}"), personal: true };
        "Views/RenameFolder" FROM_DESIGNER, views.rename_folder |_n| p::RenameFolderRequest { database: plan(), folder: folder(), name: "folder".into() };
        "Views/DeleteFolder" FROM_DESIGNER, views.delete_folder |_n| p::DeleteFolderRequest { database: plan(), folder: folder() };
        "Views/MoveNotes" FROM_AUTHOR, views.move_notes |n| p::MoveNotesRequest { database: plan(), notes: note(n).into_iter().collect(), into: folder(), out_of: None };
        "Views/GetViewDesign" FROM_READER, views.get_view_design |_n| p::GetViewDesignRequest { database: plan(), view: view() };
        "Views/CreateView" FROM_DESIGNER, views.create_view |n| p::CreateViewRequest { database: plan(), design: design(&format!("v{n}")) };
        "Views/CreateView" FROM_DESIGNER, views.create_view |n| p::CreateViewRequest { database: plan(), design: design(&format!("own{n}")).map(|design| p::ViewDesign { personal: true, ..design }) };
        "Views/UpdateView" FROM_DESIGNER, views.update_view |_n| p::UpdateViewRequest { database: plan(), view: view(), design: design("view"), expected_sequence: 0, expected_revision_id: Vec::new() };
        "Views/DeleteView" FROM_DESIGNER, views.delete_view |_n| p::DeleteViewRequest { database: plan(), view: view(), expected_sequence: 0, expected_revision_id: Vec::new() };
        "Changes/PollNewMail" PermittedCallers::Sessions, changes.poll_new_mail |_n| p::PollNewMailRequest::default();
        "Directory/LookupNames" PermittedCallers::Sessions, directory.lookup_names |_n| p::LookupNamesRequest { names: vec!["ann".into()] };
        "Search/SearchFullText" FROM_READER, search.search_full_text |_n| p::SearchFullTextRequest { database: plan(), query: "a".into(), ..Default::default() };
        "Replication/GetReplica" FROM_READER, replication.get_replica |_n| p::GetReplicaRequest { database: plan(), ..Default::default() };
        "Replication/ListChangedNotes" FROM_READER, replication.list_changed_notes |_n| p::ListChangedNotesRequest { database: plan(), ..Default::default() };
        "Replication/ListUnreadMarks" SERVERS, replication.list_unread_marks |_n| p::ListUnreadMarksRequest { database: plan(), ..Default::default() };
        "Replication/OfferReplicaNotes" FROM_READER, replication.offer_replica_notes |_n| p::OfferReplicaNotesRequest { database: plan(), ..Default::default() };
        "Replication/RequestPull" SERVERS, replication.request_pull |_n| p::RequestPullRequest::default();
        "Replication/GetRequestedPull" SERVERS, replication.get_requested_pull |_n| p::GetRequestedPullRequest::default();
        "Servers/RenewCertificate" SERVERS, servers.renew_certificate |_n| p::RenewCertificateRequest::default();
        "Mail/DepositMail" PermittedCallers::Sessions, mail.deposit_mail |_n| letter();
    };
    rows.push(("/doublet.v1.Notes/SearchNotes", FROM_READER, |client, _| Box::pin(async move {
        let request = p::SearchNotesRequest { database: plan(), ..Default::default() };
        client.notes().search_notes(request).await?.into_inner().message().await.map(drop)
    })));
    rows.push(("/doublet.v1.Notes/ReadItem", FROM_READER, |client, n| Box::pin(async move {
        let request = p::ReadItemRequest { database: plan(), note: note(n), name: "A".into(), ..Default::default() };
        client.notes().read_item(request).await?.into_inner().message().await.map(drop)
    })));
    rows.push(("/doublet.v1.Notes/ReadAttachment", FROM_READER, |client, n| Box::pin(async move {
        let request = p::ReadAttachmentRequest { database: plan(), note: note(n), file_name: "a".into(), offset_bytes: 0 };
        client.notes().read_attachment(request).await?.into_inner().message().await.map(drop)
    })));
    rows.push(("/doublet.v1.Replication/ReadReplicaNotes", FROM_READER, |client, _| Box::pin(async move {
        let request = p::ReadReplicaNotesRequest { database: plan(), unids: vec![vec![1; 16]], truncated: false, takes_parts: false };
        client.replication().read_replica_notes(request).await?.into_inner().message().await.map(drop)
    })));
    rows.push(("/doublet.v1.Replication/ReadContents", FROM_READER, |client, _| Box::pin(async move {
        let content = p::ContentOfNote { unid: vec![1; 16], content_id: vec![1; 32], offset_bytes: 0 };
        let request = p::ReadContentsRequest { database: plan(), contents: vec![content] };
        client.replication().read_contents(request).await?.into_inner().message().await.map(drop)
    })));
    rows.push(("/doublet.v1.Replication/ProveContents", FROM_READER, |client, _| Box::pin(async move {
        let content = p::ContentOfNote { unid: vec![1; 16], content_id: vec![1; 32], offset_bytes: 0 };
        let request = p::ProveContentsRequest { database: plan(), contents: vec![content], key: vec![1; 32] };
        client.replication().prove_contents(request).await?.into_inner().message().await.map(drop)
    })));
    rows.push(("/doublet.v1.Replication/WriteReplicaNotes", FROM_READER, |client, _| Box::pin(async move {
        let part = p::write_replica_notes_request::Part::Database(plan().expect("it is named"));
        let request = p::WriteReplicaNotesRequest { part: Some(part) };
        client.replication().write_replica_notes(stream::iter([request])).await.map(drop)
    })));
    rows.push(("/doublet.v1.Changes/WatchChanges", FROM_READER, |client, _| Box::pin(async move {
        let request = p::WatchChangesRequest { database: plan(), once: true, ..Default::default() };
        client.changes().watch_changes(request).await?.into_inner().message().await.map(drop)
    })));
    rows
}

/// Calls about sessions themselves, which other tests cover.
const ABOUT_SESSIONS: [&str; 3] =
    ["/doublet.v1.Sessions/Login", "/doublet.v1.Sessions/Authenticate", "/doublet.v1.Sessions/Logout"];

fn named(name: &str) -> Option<v1::ViewKey> {
    Some(v1::ViewKey { key: Some(v1::view_key::Key::Name(name.to_owned())) })
}

fn folder() -> Option<v1::ViewKey> {
    named("folder")
}

fn view() -> Option<v1::ViewKey> {
    named("view")
}

fn design(title: &str) -> Option<v1::ViewDesign> {
    Some(v1::ViewDesign { title: title.to_owned(), selection: "SELECT @All".to_owned(), ..Default::default() })
}

/// Path of a database that does not exist.
const MISSING: &str = "missing.nsf";

/// Returns the code, the text and the detail of a refused call.
fn answer(outcome: Result<(), Status>) -> (Code, String, Option<v1::ErrorDetail>) {
    let status = outcome.expect_err("the call is refused");
    (status.code(), status.message().to_owned(), details::detail(&status))
}

/// Returns the answer to a caller who opens a database that does not exist, with the path of the plan in its text.
async fn answer_of_missing(client: &Client) -> (Code, String, Option<v1::ErrorDetail>) {
    let request = v1::OpenDatabaseRequest { database: database(MISSING) };
    let (code, text, detail) = answer(client.databases().open_database(request).await.map(drop));
    (code, text.replace(MISSING, PLAN), detail)
}

/// Returns `true` if a call acts in the database that its request names.
fn acts_in_database(path: &str, who: PermittedCallers) -> bool {
    let names_none = [
        "Databases/CreateDatabase",
        "Replication/RequestPull",
        "Replication/GetRequestedPull",
        "Servers/RenewCertificate",
    ];
    matches!(who, PermittedCallers::Levels(_)) && !names_none.iter().any(|call| path.ends_with(call))
}

async fn make_folder(manager: &Client) {
    let request = v1::CreateFolderRequest { database: plan(), name: "folder".to_owned(), personal: false };
    manager.views().create_folder(request).await.expect("a manager may");
}

async fn make_view(manager: &Client) {
    let request = v1::CreateViewRequest { database: plan(), design: design("view") };
    manager.views().create_view(request).await.expect("a manager may");
}

fn attachment(number: u32) -> impl stream::Stream<Item = v1::AttachFileRequest> {
    let header = v1::attach_file_request::Header {
        database: plan(),
        note: note(number),
        file_name: "a".to_owned(),
        ..Default::default()
    };
    stream::iter([v1::AttachFileRequest { part: Some(v1::attach_file_request::Part::Header(header)) }])
}

fn letter() -> impl stream::Stream<Item = v1::DepositMailRequest> {
    use v1::deposit_mail_request::{Envelope, Part};
    let recipients = vec!["ann@acme.test".to_owned()];
    let envelope = Part::Envelope(Envelope { recipients, ..Envelope::default() });
    let content = Part::Content(b"From: bob@acme.test\r\nSubject: x\r\n\r\nx\r\n".to_vec());
    stream::iter([envelope, content].map(|part| v1::DepositMailRequest { part: Some(part) }))
}

#[tokio::test]
async fn every_call_checks_the_access_of_its_caller() {
    let rows = rows();
    let described: BTreeSet<&str> =
        proto::METHODS.iter().copied().filter(|path| !ABOUT_SESSIONS.contains(path)).collect();
    assert_eq!(rows.iter().map(|(path, ..)| *path).collect::<BTreeSet<_>>(), described, "each call has one row");
    let server = TestServer::new();
    let stranger = server.connect().await;
    let manager = server.log_in("ann").await;
    make_folder(&manager).await;
    make_view(&manager).await;
    for (path, who, call) in &rows {
        let outcome = call(stranger.clone(), 1).await;
        let is_refused = outcome.is_err_and(|status| status.code() == Code::Unauthenticated);
        assert_eq!(is_refused, *who != PermittedCallers::Strangers, "{path} without a session");
    }
    for (number, level) in AclLevel::ALL.into_iter().enumerate() {
        server.set_level("bob", level);
        let client = server.log_in("bob").await;
        for (path, who, call) in &rows {
            let created = manager.create(vec![text("A", "a")]).await.expect("a manager may");
            let outcome = call(client.clone(), created.note_id).await;
            if level == AclLevel::NoAccess && acts_in_database(path, *who) {
                assert_eq!(answer(outcome), answer_of_missing(&client).await, "{path} by {level}");
                continue;
            }
            let code = outcome.err().map(|status| status.code());
            let may = !matches!(who, PermittedCallers::Levels(levels) if !levels.contains(&number));
            assert_eq!(code != Some(Code::PermissionDenied), may, "{path} by {level}: {code:?}");
            match *path {
                "/doublet.v1.Views/DeleteFolder" if code.is_none() => make_folder(&manager).await,
                "/doublet.v1.Views/DeleteView" if code.is_none() => make_view(&manager).await,
                _ => {}
            }
        }
    }
}

#[tokio::test]
async fn refusal_names_the_level_to_callers_with_some_access_only() {
    let server = TestServer::new();
    let open = || v1::OpenDatabaseRequest { database: plan() };
    let bob = server.log_in("bob").await;
    server.set_level("bob", AclLevel::NoAccess);
    let (code, text, detail) = answer(bob.databases().open_database(open()).await.map(drop));
    assert_eq!((code, detail.map(|detail| detail.reason)), (Code::NotFound, Some("not-found".to_owned())));
    assert_eq!(text, "database plan.nsf does not exist, or you have no access to it");
    let flags = AclFlags::PUBLIC_READER;
    server.set_entry(AclEntry { flags, ..AclEntry::new(canonical("bob").as_str(), AclLevel::NoAccess) });
    let outcome = bob.databases().open_database(open()).await;
    assert_eq!(refusal(outcome), refused(Code::PermissionDenied, "access"), "he knows the public documents");
    server.set_level("bob", AclLevel::Depositor);
    bob.databases().open_database(open()).await.expect("a depositor may");
    let list = v1::ListViewsRequest { database: plan(), kind: 0 };
    assert_eq!(refusal(bob.views().list_views(list).await), refused(Code::PermissionDenied, "access"));
}
