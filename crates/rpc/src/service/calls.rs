//! The table of calls and the functions that implement them.

use proto::v1;
use proto::v1::changes_server::Changes;
use proto::v1::databases_server::Databases;
use proto::v1::directory_server::Directory;
use proto::v1::mail_server::Mail;
use proto::v1::notes_server::Notes;
use proto::v1::replication_server::Replication;
use proto::v1::search_server::Search;
use proto::v1::servers_server::Servers;
use proto::v1::sessions_server::Sessions;
use proto::v1::views_server::Views;
use tonic::{Request, Response, Status, Streaming};

use super::{Replies, exchange, split_request, streams, table, waiting};
use crate::cmd::{
    acl, attachment, certificate, database, deleted, design, edit, folder, full_text, local_replica, names, note,
    profile, replication, session, unread, view,
};

type Outcome<R> = Result<Response<R>, Status>;

table! { Sessions {
    get_session: GetSessionRequest => Session = session::get;
    logout: LogoutRequest => LogoutReply = session::logout;
}
    type AuthenticateStream = Replies<v1::AuthenticateReply>;

    async fn login(&self, request: Request<v1::LoginRequest>) -> Outcome<v1::LoginReply> {
        exchange::login(self, request).await
    }

    async fn authenticate(
        &self,
        request: Request<Streaming<v1::AuthenticateRequest>>,
    ) -> Outcome<Self::AuthenticateStream> {
        exchange::authenticate(self, request)
    }

    async fn get_server(&self, _: Request<v1::GetServerRequest>) -> Outcome<v1::Server> {
        Ok(Response::new(exchange::describe(self)))
    }
}

table! { Databases {
    open_database: OpenDatabaseRequest => Database = database::open;
    create_database: CreateDatabaseRequest => Database = database::create;
    list_templates: ListTemplatesRequest => ListTemplatesReply = database::templates;
    get_acl: GetAclRequest => Acl = acl::get;
    set_acl: SetAclRequest => Acl = acl::set;
}
    async fn list_databases(&self, request: Request<v1::ListDatabasesRequest>) -> Outcome<v1::ListDatabasesReply> {
        self.divided_unary(request, database::list).await
    }
}

table! { Notes {
    open_note: OpenNoteRequest => Note = note::open;
    create_note: CreateNoteRequest => SavedNote = edit::create;
    delete_note: DeleteNoteRequest => DeleteNoteReply = edit::delete;
    restore_note: RestoreNoteRequest => SavedNote = deleted::restore;
    mark_notes: MarkNotesRequest => MarkNotesReply = unread::mark;
    open_profile: OpenProfileRequest => Note = profile::open;
    update_profile: UpdateProfileRequest => SavedNote = profile::update;
    delete_profile: DeleteProfileRequest => DeleteNoteReply = profile::delete;
}
    type ReadItemStream = Replies<v1::Chunk>;
    type ReadAttachmentStream = Replies<v1::Chunk>;
    type SearchNotesStream = Replies<v1::SearchNotesReply>;

    async fn open_notes(&self, request: Request<v1::OpenNotesRequest>) -> Outcome<v1::OpenNotesReply> {
        self.divided_unary(request, note::open_many).await
    }

    async fn update_note(&self, request: Request<v1::UpdateNoteRequest>) -> Outcome<v1::SavedNote> {
        self.divided_unary(request, edit::update).await
    }

    async fn detach_file(&self, request: Request<v1::DetachFileRequest>) -> Outcome<v1::SavedNote> {
        self.divided_unary(request, attachment::detach).await
    }

    async fn list_deleted_notes(
        &self,
        request: Request<v1::ListDeletedNotesRequest>,
    ) -> Outcome<v1::ListDeletedNotesReply> {
        self.divided_unary(request, deleted::list).await
    }

    async fn list_unread(&self, request: Request<v1::ListUnreadRequest>) -> Outcome<v1::ListUnreadReply> {
        self.divided_unary(request, unread::list).await
    }

    async fn read_item(&self, request: Request<v1::ReadItemRequest>) -> Outcome<Self::ReadItemStream> {
        streams::read_item(self, request)
    }

    async fn read_attachment(
        &self,
        request: Request<v1::ReadAttachmentRequest>,
    ) -> Outcome<Self::ReadAttachmentStream> {
        streams::read_attachment(self, request)
    }

    async fn search_notes(&self, request: Request<v1::SearchNotesRequest>) -> Outcome<Self::SearchNotesStream> {
        streams::search_notes(self, request)
    }

    async fn attach_file(&self, request: Request<Streaming<v1::AttachFileRequest>>) -> Outcome<v1::SavedNote> {
        streams::attach_file(self, request).await
    }
}

table! { Views {
    create_folder: CreateFolderRequest => View = folder::create;
    rename_folder: RenameFolderRequest => View = folder::rename;
    delete_folder: DeleteFolderRequest => DeleteFolderReply = folder::delete;
    move_notes: MoveNotesRequest => MoveNotesReply = folder::move_notes;
    get_view_design: GetViewDesignRequest => GetViewDesignReply = design::get;
    create_view: CreateViewRequest => SavedNote = design::create;
    update_view: UpdateViewRequest => SavedNote = design::update;
    delete_view: DeleteViewRequest => DeleteViewReply = design::delete;
}
    async fn list_views(&self, request: Request<v1::ListViewsRequest>) -> Outcome<v1::ListViewsReply> {
        self.divided_unary(request, view::list).await
    }

    async fn read_entries(&self, request: Request<v1::ReadEntriesRequest>) -> Outcome<v1::ReadEntriesReply> {
        self.divided_unary(request, view::read).await
    }

    async fn find_by_key(&self, request: Request<v1::FindByKeyRequest>) -> Outcome<v1::FindByKeyReply> {
        self.divided_unary(request, view::find_by_key).await
    }

    async fn open_collection(&self, request: Request<v1::OpenCollectionRequest>) -> Outcome<v1::Collection> {
        let (caller, message) = split_request(request)?;
        let opening = view::CollectionRequest { database: message.database, view: message.view, force: false };
        Ok(Response::new(waiting::open_collection(self, &caller, opening).await?))
    }

    async fn update_collection(&self, request: Request<v1::UpdateCollectionRequest>) -> Outcome<v1::Collection> {
        let (caller, message) = split_request(request)?;
        let opening = view::CollectionRequest { database: message.database, view: message.view, force: true };
        Ok(Response::new(waiting::open_collection(self, &caller, opening).await?))
    }
}

table! { Changes {}
    type WatchChangesStream = Replies<v1::ChangeBatch>;

    async fn watch_changes(&self, request: Request<v1::WatchChangesRequest>) -> Outcome<Self::WatchChangesStream> {
        waiting::watch_changes(self, request)
    }

    async fn poll_new_mail(&self, request: Request<v1::PollNewMailRequest>) -> Outcome<v1::PollNewMailReply> {
        waiting::poll_new_mail(self, request).await
    }
}

table! { Replication {
    offer_replica_notes: OfferReplicaNotesRequest => OfferReplicaNotesReply = local_replica::offer;
    get_replica: GetReplicaRequest => Replica = replication::describe;
    request_pull: RequestPullRequest => RequestedPull = replication::request_pull;
    get_requested_pull: GetRequestedPullRequest => RequestedPull = replication::requested_pull;
}
    type ReadReplicaNotesStream = Replies<v1::ReplicaNotes>;
    type ReadContentsStream = Replies<v1::ContentPiece>;
    type ProveContentsStream = Replies<v1::ContentProof>;

    async fn list_changed_notes(
        &self,
        request: Request<v1::ListChangedNotesRequest>,
    ) -> Outcome<v1::ChangedNotes> {
        self.divided_unary(request, replication::list).await
    }

    async fn list_unread_marks(
        &self,
        request: Request<v1::ListUnreadMarksRequest>,
    ) -> Outcome<v1::ListUnreadMarksReply> {
        self.divided_unary(request, replication::list_unread_marks).await
    }

    async fn read_replica_notes(
        &self,
        request: Request<v1::ReadReplicaNotesRequest>,
    ) -> Outcome<Self::ReadReplicaNotesStream> {
        streams::read_replica_notes(self, request)
    }

    async fn read_contents(
        &self,
        request: Request<v1::ReadContentsRequest>,
    ) -> Outcome<Self::ReadContentsStream> {
        streams::read_contents(self, request)
    }

    async fn prove_contents(
        &self,
        request: Request<v1::ProveContentsRequest>,
    ) -> Outcome<Self::ProveContentsStream> {
        streams::prove_contents(self, request)
    }

    async fn write_replica_notes(
        &self,
        request: Request<Streaming<v1::WriteReplicaNotesRequest>>,
    ) -> Outcome<v1::WriteReplicaNotesReply> {
        streams::write_replica_notes(self, request).await
    }
}

table! { Servers {
    renew_certificate: RenewCertificateRequest => RenewCertificateReply = certificate::renew;
} }

table! { Directory {}
    async fn lookup_names(&self, request: Request<v1::LookupNamesRequest>) -> Outcome<v1::LookupNamesReply> {
        self.divided_unary(request, names::lookup).await
    }
}

table! { Search {}
    async fn search_full_text(
        &self,
        request: Request<v1::SearchFullTextRequest>,
    ) -> Outcome<v1::SearchFullTextReply> {
        self.divided_unary(request, full_text::search).await
    }
}

table! { Mail {}
    async fn deposit_mail(
        &self,
        request: Request<Streaming<v1::DepositMailRequest>>,
    ) -> Outcome<v1::DepositMailReply> {
        streams::deposit_mail(self, request).await
    }
}
