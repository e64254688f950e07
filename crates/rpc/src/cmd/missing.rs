//! Calls that are described and not built yet. They say so.

use proto::v1;

use super::Desk;
use crate::error::{Error, Result};
use crate::service::Done;

macro_rules! missing {
    ($($call:ident: $Request:ident => $Reply:ident;)+) => {
        $(
            pub(crate) fn $call(_: &Desk, _: v1::$Request) -> Result<Done<v1::$Reply>> {
                Err(Error::Missing(stringify!($call)))
            }
        )+
    };
}

missing! {
    restore: RestoreNoteRequest => SavedNote;
    open_profile: OpenProfileRequest => Note;
    update_profile: UpdateProfileRequest => SavedNote;
    list_views: ListViewsRequest => ListViewsReply;
    open_collection: OpenCollectionRequest => Collection;
    update_collection: UpdateCollectionRequest => Collection;
    read_entries: ReadEntriesRequest => ReadEntriesReply;
    find_by_key: FindByKeyRequest => FindByKeyReply;
    create_folder: CreateFolderRequest => View;
    rename_folder: RenameFolderRequest => View;
    delete_folder: DeleteFolderRequest => DeleteFolderReply;
    move_notes: MoveNotesRequest => MoveNotesReply;
    poll_new_mail: PollNewMailRequest => PollNewMailReply;
    lookup_names: LookupNamesRequest => LookupNamesReply;
    search_full_text: SearchFullTextRequest => SearchFullTextReply;
}
