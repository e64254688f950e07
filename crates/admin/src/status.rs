//! `doublet status`: the state of the server in a dozen numbers, and the division of its memory. `/metrics` has more of
//! them.

use instance::Instance;
use instance::memory_plan::MemoryPlan;
use serde_json::{Value, json};

use super::{AdminResult, Answer};

pub(super) fn execute(instance: &Instance) -> AdminResult {
    let queue = instance.router.counts();
    let (commits, syncs) = instance.store.committer().counts();
    let cache = instance.directory.cache_statistics();
    Ok(Answer::record(vec![
        ("version", json!(env!("CARGO_PKG_VERSION"))),
        ("server", json!(instance.hostname)),
        ("data", json!(instance.data.path().display().to_string())),
        ("people", json!(instance.directory.users(0, 0)?.total)),
        ("groups", json!(instance.directory.groups(0, 0)?.total)),
        ("domains", json!(instance.directory.domains(0, 0)?.total)),
        ("databases", json!(instance.databases.database_list()?.len())),
        ("open_databases", json!(instance.databases.open_count())),
        ("queued_messages", json!(queue.messages)),
        ("transfers", json!(queue.active)),
        ("commits", json!(commits)),
        ("syncs", json!(syncs)),
        ("name_cache_hits", json!(cache.hits)),
        ("name_cache_misses", json!(cache.misses)),
        ("memory", memory(&instance.memory_plan)),
        ("store_fault", json!(instance.store_fault())),
    ]))
}

/// Returns a record of the ceiling of the memory and of the sizes of its parts.
fn memory(plan: &MemoryPlan) -> Value {
    let sizes = std::iter::once(("ceiling", plan.ceiling.0)).chain(plan.parts());
    Value::Object(sizes.map(|(part, bytes)| (format!("{part}_bytes"), json!(bytes))).collect())
}
