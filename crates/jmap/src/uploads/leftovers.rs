//! What could not be removed when its upload ended, because the disk was full: a removal is a write, too.
//!
//! It is kept in a list, and removed when there is space again: after the next upload that is stored, and with the
//! uploads that have expired. The list is bounded and in memory; what it loses is removed by the collector of the store
//! after the grace period.

use std::sync::Arc;

use base::sync::Mutex;
use store::Store;
use store::blob::BlobId;
use store::blob::unannounced::UnannouncedContent;

use crate::limits::UPLOADS_LEFT_MAX;

/// Contents that are to be removed.
#[derive(Default)]
pub(super) struct Leftovers {
    list: Mutex<Vec<Leftover>>,
}

/// A content that is to be removed.
pub(super) enum Leftover {
    /// A content that has not arrived completely.
    Arriving(Box<UnannouncedContent>),
    /// A content that exists, unless something uses it.
    Unused(BlobId),
}

impl Leftovers {
    /// Removes contents, now or later.
    pub(super) fn remove(&self, store: &Arc<Store>, leftovers: impl IntoIterator<Item = Leftover>) {
        let mut unused = Vec::new();
        for leftover in leftovers {
            match leftover {
                Leftover::Unused(id) => unused.push(id),
                Leftover::Arriving(mut content) => {
                    if let Err(error) = content.abandon() {
                        log_failure(&error);
                        self.remove_later(Leftover::Arriving(content));
                    }
                }
            }
        }
        if unused.is_empty() {
            return;
        }
        if let Err(error) = store.blobs().remove_unused(store, &unused) {
            log_failure(&error);
            unused.into_iter().for_each(|id| self.remove_later(Leftover::Unused(id)));
        }
    }

    /// Removes a content later. Returns at once.
    pub(super) fn remove_later(&self, leftover: Leftover) {
        let mut list = self.list.lock();
        if list.len() < UPLOADS_LEFT_MAX {
            list.push(leftover);
        }
    }

    /// Tries again to remove what is left.
    pub(super) fn retry(&self, store: &Arc<Store>) {
        let left = std::mem::take(&mut *self.list.lock());
        self.remove(store, left);
    }
}

fn log_failure(error: &store::Error) {
    tracing::warn!(target: "jmap", %error, "the content of an upload that has ended is removed later");
}
