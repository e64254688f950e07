//! The contents that are arriving in pieces. The collector leaves them out, whatever their age.

use std::collections::HashMap;
use std::sync::Arc;

use base::sync::Mutex;

use super::id::BlobId;

/// The contents that are arriving, with the number of their arrivals.
#[derive(Default)]
pub(super) struct Arrivals(Mutex<HashMap<BlobId, usize>>);

impl Arrivals {
    pub(super) fn contains(&self, id: &BlobId) -> bool {
        self.0.lock().contains_key(id)
    }

    pub(super) fn begin(self: &Arc<Self>, id: BlobId) -> Arrival {
        *self.0.lock().entry(id).or_default() += 1;
        Arrival { arrivals: Arc::clone(self), id }
    }
}

/// An entry of [`Arrivals`]. Dropping it ends it.
pub(super) struct Arrival {
    arrivals: Arc<Arrivals>,
    id: BlobId,
}

impl Arrival {
    pub(super) fn id(&self) -> &BlobId {
        &self.id
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let mut arrivals = self.arrivals.0.lock();
        if let Some(count) = arrivals.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                arrivals.remove(&self.id);
            }
        }
    }
}

/// A content that has arrived. The collector does not remove it before this value is dropped, so that a note can be
/// stored that uses it.
pub struct ArrivedContent {
    whole: Arrival,
    is_new: bool,
}

impl ArrivedContent {
    pub(super) fn new(whole: Arrival, is_new: bool) -> Self {
        Self { whole, is_new }
    }

    /// Returns the ID of the content.
    #[must_use]
    pub fn id(&self) -> BlobId {
        self.whole.id
    }

    /// Returns `true` if the store did not have the content before.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }
}
