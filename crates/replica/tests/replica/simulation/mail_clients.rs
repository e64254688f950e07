//! The IMAP clients of the simulation, which remember what they have seen on any server.

use std::collections::BTreeMap;

use base::sim::SeededRandom;
use base::{Uid, Unid};

use super::server::{SeenFolder, Server};

/// What IMAP clients have seen, on any server and at any time.
pub(super) struct MailClients {
    pub(super) seed: u64,
    pub(super) random: SeededRandom,
    /// The note that a UID means, by folder and UIDVALIDITY. It means one for ever.
    pub(super) meanings: BTreeMap<(Unid, u32, Uid), Unid>,
    /// The folders as they were seen last on each server.
    pub(super) last: BTreeMap<(usize, Unid, u32), SeenFolder>,
}

impl MailClients {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, random: SeededRandom::new(seed ^ 0xC11E), meanings: BTreeMap::new(), last: BTreeMap::new() }
    }

    /// Lets clients look at all folders of a server.
    pub(super) fn look_at(&mut self, server: &Server) {
        for folder in server.folders() {
            let SeenFolder { unid, uid_validity, .. } = folder;
            for (uid, note) in &folder.notes {
                let meant = *self.meanings.entry((unid, uid_validity, *uid)).or_insert(*note);
                assert_eq!(meant, *note, "seed {}: the UID {uid} of the folder {unid} means two notes", self.seed);
            }
            let key = (server.number, unid, uid_validity);
            if let Some(before) = self.last.get(&key) {
                assert!(before.uid_next <= folder.uid_next, "seed {}: UIDNEXT of the folder {unid} falls", self.seed);
                let appeared = folder.notes.keys().filter(|uid| !before.notes.contains_key(uid));
                let in_between = appeared.clone().find(|uid| **uid < before.uid_next);
                assert!(in_between.is_none(), "seed {}: {in_between:?} appears in {unid} below UIDNEXT", self.seed);
            }
            self.last.insert(key, folder);
        }
    }

    /// Forgets what was seen on a server that is set back: UIDs that were seen there may appear again.
    pub(super) fn forget_server(&mut self, number: usize) {
        self.last.retain(|(server, ..), _| *server != number);
    }
}
