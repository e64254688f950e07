//! `doublet status`: the state of the server in a dozen numbers. `/metrics` has more of them.

use serde_json::json;

use super::{Answer, Outcome};
use crate::core::Core;

pub(super) fn execute(core: &Core) -> Outcome {
    let queue = core.router.counts();
    let (commits, syncs) = core.store.committer().counts();
    let cache = core.directory.cache_statistics();
    Ok(Answer::record(vec![
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("server", json!(core.hostname)),
        ("data", json!(core.data.path().display().to_string())),
        ("people", json!(core.directory.users(0, 0)?.total)),
        ("groups", json!(core.directory.groups(0, 0)?.total)),
        ("domains", json!(core.directory.domains(0, 0)?.total)),
        ("databases", json!(core.notes.database_list()?.len())),
        ("open_databases", json!(core.notes.open_count())),
        ("queued_messages", json!(queue.messages)),
        ("transfers", json!(queue.active)),
        ("commits", json!(commits)),
        ("syncs", json!(syncs)),
        ("name_cache_hits", json!(cache.hits)),
        ("name_cache_misses", json!(cache.misses)),
        ("store_fault", json!(core.store_fault())),
    ]))
}
