//! Upgrades of databases of older structures, which cannot replicate.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use base::DbNumber;
use base::sync::Mutex;
use instance::Instance;
use notes::{Access, Database, Identity, OdsVersion, Upgrade, level};
use tokio::runtime::Handle;

/// Upgrades a database of an older structure. Does nothing if it can replicate.
pub(super) fn upgrade(instance: &Instance, database: &Arc<Database>) -> notes::Result<()> {
    if database.record().ods >= OdsVersion::WITH_REVISIONS {
        return Ok(());
    }
    let itself = Arc::new(Identity::local_server(instance.directory.options().server.clone()));
    let access: Access<level::Manager> = database.authorize(&itself)?;
    let mut upgrade = Upgrade::begin(&instance.databases, &access);
    while !upgrade.step()?.complete {}
    tracing::info!(target: "replica", database = database.path(), "upgraded the structure of a database");
    Ok(())
}

/// Upgrades of databases that other servers want to replicate, one after the other.
pub(super) struct Upgrades {
    instance: Arc<Instance>,
    state: Mutex<UpgradesState>,
}

#[derive(Default)]
struct UpgradesState {
    waiting: VecDeque<Arc<Database>>,
    is_running: bool,
    /// Why upgrades have failed.
    failures: HashMap<DbNumber, String>,
}

/// The task that upgrades databases. If it panics, the next request begins another one.
struct RunningUpgrades(Arc<Upgrades>);

impl Upgrades {
    pub(super) fn new(instance: &Arc<Instance>) -> Self {
        Self { instance: Arc::clone(instance), state: Mutex::default() }
    }

    /// Begins to upgrade a database, unless it waits for that. Fails with the reason if it could not be upgraded.
    pub(super) fn request(this: &Arc<Self>, runtime: &Handle, database: &Arc<Database>) -> Result<(), String> {
        let mut state = this.state.lock();
        if let Some(failure) = state.failures.get(&database.number()) {
            return Err(failure.clone());
        }
        if state.waiting.iter().all(|waiting| waiting.number() != database.number()) {
            state.waiting.push_back(Arc::clone(database));
        }
        if !std::mem::replace(&mut state.is_running, true) {
            let running = RunningUpgrades(Arc::clone(this));
            runtime.spawn_blocking(move || running.run());
        }
        Ok(())
    }

    /// Returns the next database, or ends the task.
    fn next(&self) -> Option<Arc<Database>> {
        let mut state = self.state.lock();
        let next = state.waiting.pop_front();
        state.is_running = next.is_some();
        next
    }
}

impl RunningUpgrades {
    fn run(self) {
        while let Some(database) = self.0.next() {
            if let Err(error) = upgrade(&self.0.instance, &database) {
                tracing::warn!(target: "replica", database = database.path(), %error, "cannot upgrade a database");
                self.0.state.lock().failures.insert(database.number(), error.to_string());
            }
        }
    }
}

impl Drop for RunningUpgrades {
    fn drop(&mut self) {
        // Otherwise `next` has ended it, and another task may run.
        if std::thread::panicking() {
            self.0.state.lock().is_running = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use notes::{DatabaseKind, DatabaseRecord, NewDatabase};
    use sample::Sample;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn a_database_of_an_older_structure_is_upgraded_once() {
        const PATH: &str = "old.nsf";
        let instance = Arc::new(Sample::new().instance);
        let databases = &instance.databases;
        let new = NewDatabase::new(PATH, "Old", DatabaseKind::Standard, admin::databases::server_only_acl(&instance));
        let record = databases.database_create(&new).expect("it is new").record().as_ref().clone();
        databases.close_idle();
        let mut batch = store::Batch::new();
        let old = DatabaseRecord { ods: OdsVersion::OLDEST, ..record };
        batch.put(store::Table::Catalog, format!("p{PATH}").as_bytes(), &old.encode());
        instance.store.commit(&batch).expect("it is written");
        let database = databases.database_open(PATH).expect("it exists");
        assert_eq!(database.record().ods, OdsVersion::OLDEST);
        let upgrades = Arc::new(Upgrades::new(&instance));
        for _ in 0..2 {
            Upgrades::request(&upgrades, &Handle::current(), &database).expect("it has not failed");
        }
        while upgrades.state.lock().is_running {
            tokio::task::yield_now().await;
        }
        assert_eq!(database.record().ods, OdsVersion::CURRENT);
    }
}
