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
}
