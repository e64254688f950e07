//! The Update task: keeps the indexes of views up to date in the background (`docs/views.md`, "Following the
//! documents").
//!
//! There are two queues, as in Domino. Databases that have changed wait for `views.suppression_time` in the deferred
//! queue, so that one update covers all changes in that time. Requests that a caller waits for go into the immediate
//! queue: databases, and single views whose index is to be built. The task pauses between two databases unless the
//! immediate queue has a request. If the queues are full, a request is dropped; this is safe, because opening a view
//! updates it anyway.
//!
//! The design of a view determines when it is updated: *automatic* views always, others only after their first use,
//! every given number of hours, or never. Databases with the option *no view updates* are skipped.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::{DbNumber, NoteId, Timestamp};
use notes::view::build::BuildOptions;
use notes::view::note::ViewInfo;
use notes::view::view_format::Refresh;
use notes::{Access, ChangeSubscriber, Database, Identity, level};
use rpc::backend::{BuildProgress, Indexer};
use tokio::sync::{Notify, watch};
use wire::Shutdown;

use crate::core::Core;

/// Maximum time between two checks of the queues.
const LOOK_PAUSE: Duration = Duration::from_secs(60);

/// Counters since the start.
#[derive(Debug, Default)]
pub struct Counts {
    /// Databases whose views were checked.
    pub databases: AtomicU64,
    /// Views that were updated.
    pub views: AtomicU64,
    /// Views whose update failed.
    pub failures: AtomicU64,
    /// Requests that were dropped because the queues were full.
    pub dropped: AtomicU64,
}

/// The queues of databases and views to update.
pub struct Updater {
    follower: Arc<ChangeSubscriber>,
    queues: Mutex<Queues>,
    wake: Notify,
    /// Counters since the start.
    pub counts: Counts,
}

/// A request in the immediate queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UpdateRequest {
    /// The views of a database that are due according to their designs.
    Database(DbNumber),
    /// One view, regardless of its design.
    View(DbNumber, NoteId),
}

#[derive(Default)]
struct Queues {
    immediate: VecDeque<UpdateRequest>,
    /// The progress of requested views. Waiting callers observe the end when the sender is dropped.
    awaited: HashMap<(DbNumber, NoteId), watch::Sender<BuildProgress>>,
    /// Changed databases, ordered by due time and then by arrival.
    deferred: BTreeMap<(Timestamp, u64), DbNumber>,
    waiting: HashSet<DbNumber>,
    next: u64,
    /// The time of the last update of each view that is updated every given number of hours.
    hourly: HashMap<(DbNumber, NoteId), Timestamp>,
}

impl Updater {
    /// Creates an updater that follows the changes of all databases.
    #[must_use]
    pub fn new(core: &Core) -> Self {
        Self {
            follower: core.notes.subscribe(),
            queues: Mutex::default(),
            wake: Notify::new(),
            counts: Counts::default(),
        }
    }

    /// Adds a database to the immediate queue.
    pub fn request(&self, database: DbNumber, core: &Core) {
        let mut queues = self.queues();
        if !queues.immediate.contains(&UpdateRequest::Database(database)) {
            self.push(&mut queues, UpdateRequest::Database(database), core);
        }
    }

    /// Adds a view to the immediate queue and returns a receiver of its progress. Returns `None` if the queues are
    /// full.
    pub fn request_view(
        &self,
        database: DbNumber,
        view: NoteId,
        core: &Core,
    ) -> Option<watch::Receiver<BuildProgress>> {
        let mut queues = self.queues();
        if let Some(awaited) = queues.awaited.get(&(database, view)) {
            return Some(awaited.subscribe());
        }
        if !self.push(&mut queues, UpdateRequest::View(database, view), core) {
            return None;
        }
        let (sender, receiver) = watch::channel(BuildProgress::default());
        queues.awaited.insert((database, view), sender);
        Some(receiver)
    }

    /// Adds a request to the immediate queue. Returns `false` if the queues are full.
    fn push(&self, queues: &mut Queues, wanted: UpdateRequest, core: &Core) -> bool {
        if queues.len() >= queue_max(core) {
            self.counts.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        queues.immediate.push_back(wanted);
        self.wake.notify_one();
        true
    }

    fn is_somebody_waiting(&self) -> bool {
        !self.queues().immediate.is_empty()
    }

    /// Returns the number of waiting requests.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queues().len()
    }

    /// Moves changed databases into the deferred queue.
    fn collect(&self, core: &Core) {
        let due = core.clock.now().after(core.config.views.suppression_time.0);
        let mut queues = self.queues();
        for database in self.follower.take() {
            if queues.waiting.contains(&database) {
                continue;
            }
            if queues.len() >= queue_max(core) {
                self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let number = queues.next;
            queues.next += 1;
            queues.waiting.insert(database);
            queues.deferred.insert((due, number), database);
        }
    }

    /// Removes and returns the next request. If none is due, returns the time to wait.
    fn next(&self, now: Timestamp) -> Result<UpdateRequest, Duration> {
        let mut queues = self.queues();
        if let Some(wanted) = queues.immediate.pop_front() {
            return Ok(wanted);
        }
        match queues.deferred.first_key_value() {
            Some((key, database)) if key.0 <= now => {
                let key = *key;
                let database = *database;
                queues.deferred.remove(&key);
                queues.waiting.remove(&database);
                Ok(UpdateRequest::Database(database))
            }
            Some((key, _)) => Err(key.0.since(now).min(LOOK_PAUSE)),
            None => Err(LOOK_PAUSE),
        }
    }

    /// Performs a request.
    fn work(&self, wanted: UpdateRequest, core: &Core, stop: &dyn Fn() -> bool) -> notes::Result<()> {
        match wanted {
            UpdateRequest::Database(database) => self.update(database, core, stop),
            UpdateRequest::View(database, view) => {
                // Whatever the outcome, waiting callers are notified of the end.
                let _end = ProgressGuard { updater: self, key: (database, view) };
                self.update_view(database, view, core, stop)
            }
        }
    }

    /// Updates the views of a database that are due according to their designs.
    fn update(&self, number: DbNumber, core: &Core, stop: &dyn Fn() -> bool) -> notes::Result<()> {
        let Some(database) = core.notes.database_open_number(number)? else { return Ok(()) };
        if database.record().options.no_view_updates {
            return Ok(());
        }
        self.counts.databases.fetch_add(1, Ordering::Relaxed);
        let access = authorize(&database)?;
        let reading = access.read()?;
        let now = core.clock.now();
        let views = reading.views()?;
        let is_there = |note| views.iter().any(|info| info.note == note);
        self.queues().hourly.retain(|(database, note), _| *database != number || is_there(*note));
        let mut later = None;
        for info in &views {
            let is_due = match info.view.design.refresh {
                Refresh::Automatic => true,
                Refresh::AfterFirstUse => reading.view(info.note).is_ok(),
                Refresh::Manual => false,
                Refresh::Hours(hours) => match self.due_again((number, info.note), hours).filter(|due| *due > now) {
                    Some(due) => {
                        later = Some(later.map_or(due, |first: Timestamp| first.min(due)));
                        false
                    }
                    None => true,
                },
            };
            if is_due && !stop() {
                self.update_index(&access, info, core, stop);
            }
        }
        if let Some(due) = later {
            self.schedule_check(number, due, core);
        }
        Ok(())
    }

    /// Schedules another check of a database at the time when one of its views is due, because there may be no change
    /// until then.
    fn schedule_check(&self, database: DbNumber, due: Timestamp, core: &Core) {
        let mut queues = self.queues();
        let is_known = queues.deferred.iter().any(|((at, _), known)| *known == database && *at <= due);
        if !is_known && queues.len() < queue_max(core) {
            let number = queues.next;
            queues.next += 1;
            queues.deferred.insert((due, number), database);
        }
    }

    /// Updates one view, regardless of its design.
    fn update_view(&self, number: DbNumber, view: NoteId, core: &Core, stop: &dyn Fn() -> bool) -> notes::Result<()> {
        let Some(database) = core.notes.database_open_number(number)? else { return Ok(()) };
        let access = authorize(&database)?;
        let views = access.read()?.views()?;
        if let Some(info) = views.iter().find(|info| info.note == view) {
            self.update_index(&access, info, core, stop);
        }
        Ok(())
    }

    fn update_index(&self, access: &Access<level::Designer>, info: &ViewInfo, core: &Core, stop: &dyn Fn() -> bool) {
        let key = (access.database().number(), info.note);
        let mut report = |done, documents| {
            if let Some(awaited) = self.queues().awaited.get(&key) {
                awaited.send_replace(BuildProgress { done, documents });
            }
            if stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match access.view_update(info.note, &build_options(core), &mut report) {
            Ok(true) => {
                self.counts.views.fetch_add(1, Ordering::Relaxed);
                let mut queues = self.queues();
                if matches!(info.view.design.refresh, Refresh::Hours(_)) {
                    queues.hourly.insert(key, core.clock.now());
                }
                queues.awaited.remove(&key);
            }
            Ok(false) => {}
            Err(error) => {
                self.counts.failures.fetch_add(1, Ordering::Relaxed);
                let path = access.database().path();
                let view = &info.view.title;
                tracing::error!(target: "update", database = path, view, %error, "cannot update a view");
            }
        }
    }

    /// Returns the time at which a view that is updated every `hours` hours is due. Returns `None` if it has not been
    /// updated since the start.
    fn due_again(&self, key: (DbNumber, NoteId), hours: u16) -> Option<Timestamp> {
        let last = self.queues().hourly.get(&key).copied()?;
        Some(last.after(Duration::from_secs(u64::from(hours) * 3_600)))
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends the wait of the callers that requested a view, when dropped.
struct ProgressGuard<'u> {
    updater: &'u Updater,
    key: (DbNumber, NoteId),
}

impl Drop for ProgressGuard<'_> {
    fn drop(&mut self) {
        self.updater.queues().awaited.remove(&self.key);
    }
}

impl Queues {
    fn len(&self) -> usize {
        self.immediate.len() + self.deferred.len()
    }
}

/// Passes views whose index is to be built to the Update task.
pub struct UpdateRequests {
    /// The task.
    pub updater: Arc<Updater>,
    /// The services that the task works with.
    pub core: Arc<Core>,
}

impl Indexer for UpdateRequests {
    fn build(&self, database: DbNumber, view: NoteId) -> Option<watch::Receiver<BuildProgress>> {
        self.updater.request_view(database, view, &self.core)
    }

    fn is_recent(&self, database: DbNumber, view: NoteId, hours: u16) -> bool {
        self.updater.due_again((database, view), hours).is_some_and(|due| due > self.core.clock.now())
    }

    fn record_refresh(&self, database: DbNumber, view: NoteId) {
        self.updater.queues().hourly.insert((database, view), self.core.clock.now());
    }
}

/// Returns the resources that the build of an index may use.
#[must_use]
pub fn build_options(core: &Core) -> BuildOptions {
    let keys = &core.config.views;
    let folder = keys.rebuild_folder.0.as_ref().map_or_else(|| core.data.sorting(), |folder| core.data.resolve(folder));
    BuildOptions { folder, memory: keys.rebuild_memory.as_usize() }
}

/// Opens a database with the identity of the server, which may access all views.
pub fn authorize(database: &Arc<Database>) -> notes::Result<Access<level::Designer>> {
    database.authorize(&Arc::new(Identity::local_server("")))
}

fn queue_max(core: &Core) -> usize {
    usize::try_from(core.config.views.queue).unwrap_or(usize::MAX)
}

/// Runs the task until the server drains.
pub async fn run(updater: Arc<Updater>, core: Arc<Core>, shutdown: Shutdown) {
    loop {
        let changed = updater.follower.listen();
        updater.collect(&core);
        let rest = match updater.next(core.clock.now()) {
            Ok(wanted) => {
                work(&updater, wanted, &core, &shutdown).await;
                core.config.views.idle_time.0
            }
            Err(wait) => {
                tokio::select! {
                    () = shutdown.draining() => return,
                    () = updater.wake.notified() => {}
                    () = changed => {}
                    () = tokio::time::sleep(wait) => {}
                }
                continue;
            }
        };
        let somebody_waits = async {
            while !updater.is_somebody_waiting() {
                updater.wake.notified().await;
            }
        };
        tokio::select! {
            () = shutdown.draining() => return,
            () = somebody_waits => {}
            () = tokio::time::sleep(rest) => {}
        }
    }
}

async fn work(updater: &Arc<Updater>, wanted: UpdateRequest, core: &Arc<Core>, shutdown: &Shutdown) {
    let updater = Arc::clone(updater);
    let core = Arc::clone(core);
    let stop = shutdown.clone();
    let done = tokio::task::spawn_blocking(move || updater.work(wanted, &core, &|| stop.is_draining())).await;
    match done {
        // The database was deleted in the meantime.
        Ok(Ok(()) | Err(notes::Error::NotFound { .. })) => {}
        Ok(Err(error)) => tracing::error!(target: "update", %error, "cannot update the views of a database"),
        Err(error) => tracing::error!(target: "update", %error, "a view update failed because of a bug"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use notes::view::note::ViewNote;
    use notes::view::view_format::ViewDesign;
    use notes::{Acl, AclLevel, DatabaseKind, DatabaseOptions, Item, NewDatabase, NewNote};

    use super::*;
    use crate::sample::Sample;

    pub(crate) const PATH: &str = "docs.nsf";

    /// Creates a database with one document and one view with the given refresh option.
    pub(crate) fn make(core: &Core, refresh: Refresh, options: DatabaseOptions) -> Arc<Database> {
        let acl = Acl::open_to_all(AclLevel::Manager);
        let new = NewDatabase { options, ..NewDatabase::new(PATH, "Documents", DatabaseKind::Standard, acl) };
        let database = core.notes.database_create(&new).expect("made");
        let design = ViewDesign { refresh, ..ViewDesign::default() };
        let view = ViewNote { title: "All".into(), selection: "SELECT @All".into(), design, ..ViewNote::default() };
        let access = authorize(&database).expect("itself").downgrade::<level::Depositor>();
        let accesses = [&access];
        let mut transaction = core.notes.transaction(&accesses).expect("a transaction");
        transaction.writer(0).view_create(&view).expect("a view");
        transaction.writer(0).note_create(NewNote::document(vec![Item::text("Form", "Memo")])).expect("a document");
        transaction.commit().expect("committed");
        database
    }

    /// Returns the number of rows of the view without updating it, or `None` if it has no index.
    fn rows(database: &Arc<Database>) -> Option<u64> {
        let access = authorize(database).expect("itself");
        let reading = access.read().expect("a snapshot");
        let note = reading.view_find("All").expect("there").note;
        let view = reading.view(note).ok()?;
        Some(reading.view_rows(&view, 0).expect("rows").count().expect("sound"))
    }

    /// Performs all requests that are due.
    fn work_off(updater: &Updater, core: &Core) {
        updater.collect(core);
        while let Ok(wanted) = updater.next(core.clock.now()) {
            updater.work(wanted, core, &|| false).expect("sound");
        }
    }

    #[test]
    fn views_are_updated_as_their_designs_want_it() {
        let check = |refresh, options, expected| {
            let sample = Sample::with(&["views.suppression_time=0s"]);
            let updater = Updater::new(&sample.core);
            let database = make(&sample.core, refresh, options);
            work_off(&updater, &sample.core);
            assert_eq!(rows(&database), expected, "{refresh:?}");
        };
        let options = DatabaseOptions::default();
        check(Refresh::Automatic, options, Some(1));
        check(Refresh::Hours(2), options, Some(1));
        check(Refresh::Manual, options, None);
        check(Refresh::AfterFirstUse, options, None);
        check(Refresh::Automatic, DatabaseOptions { no_view_updates: true, ..options }, None);
    }

    #[test]
    fn a_view_of_some_hours_is_due_when_they_have_gone_though_nothing_changes_any_more() {
        let clock = Arc::new(base::sim::SimClock::new());
        let mut sample = Sample::with(&["views.suppression_time=0s"]);
        sample.core.clock = clock.clone();
        let core = &sample.core;
        let updater = Arc::new(Updater::new(core));
        let database = make(core, Refresh::Hours(2), DatabaseOptions::default());
        work_off(&updater, core);
        let access = authorize(&database).expect("itself").downgrade::<level::Depositor>();
        let accesses = [&access];
        let mut transaction = core.notes.transaction(&accesses).expect("a transaction");
        transaction.writer(0).note_create(NewNote::document(Vec::new())).expect("a document");
        transaction.commit().expect("committed");
        clock.advance(Duration::from_secs(3_600));
        work_off(&updater, core);
        assert_eq!((rows(&database), updater.waiting()), (Some(1), 1), "the update waits until it is due");
        clock.advance(Duration::from_secs(3_600));
        work_off(&updater, core);
        assert_eq!((rows(&database), updater.waiting()), (Some(2), 0));
        let requests = UpdateRequests { updater: Arc::clone(&updater), core: Arc::new(sample.core) };
        let view = authorize(&database).and_then(|access| Ok(access.read()?.view_find("All")?.note)).expect("there");
        assert!(requests.is_recent(database.number(), view, 2) && !requests.is_recent(database.number(), view, 0));
        clock.advance(Duration::from_secs(7_200));
        assert!(!requests.is_recent(database.number(), view, 2));
        requests.record_refresh(database.number(), view);
        assert!(requests.is_recent(database.number(), view, 2));
    }

    #[test]
    fn changes_wait_and_fall_together_and_what_is_waited_for_does_not() {
        let sample = Sample::with(&["views.suppression_time=1h", "views.queue=16"]);
        let updater = Updater::new(&sample.core);
        let database = make(&sample.core, Refresh::Automatic, DatabaseOptions::default());
        work_off(&updater, &sample.core);
        updater.collect(&sample.core);
        assert_eq!((updater.waiting(), rows(&database)), (1, None), "the database waits, and only once");
        updater.request(database.number(), &sample.core);
        updater.request(database.number(), &sample.core);
        assert_eq!(updater.waiting(), 2);
        work_off(&updater, &sample.core);
        assert_eq!((updater.waiting(), rows(&database)), (1, Some(1)));
        for number in 100..200 {
            updater.request(DbNumber(number), &sample.core);
        }
        assert_eq!(updater.waiting(), 16, "a full queue drops new requests");
        assert_eq!(updater.counts.dropped.load(Ordering::Relaxed), 85);
    }

    #[test]
    fn a_view_that_somebody_waits_for_is_updated_whatever_its_design_wants() {
        let sample = Sample::with(&["views.queue=16"]);
        let core = &sample.core;
        let updater = Updater::new(core);
        let options = DatabaseOptions { no_view_updates: true, ..DatabaseOptions::default() };
        let database = make(core, Refresh::Manual, options);
        let note = authorize(&database).and_then(|access| Ok(access.read()?.view_find("All")?.note)).expect("there");
        let view = |updater: &Updater| updater.request_view(database.number(), note, core).expect("room");
        let first = view(&updater);
        let second = view(&updater);
        assert!(updater.waiting() == 1 && updater.is_somebody_waiting(), "both requests wait for the same update");
        assert!(first.has_changed().is_ok() && rows(&database).is_none());
        work_off(&updater, core);
        assert!(first.has_changed().is_err() && second.has_changed().is_err(), "both waits have ended");
        assert_eq!((rows(&database), updater.is_somebody_waiting()), (Some(1), false));
        // The wait also ends if there is nothing to do, or if the view or the database does not exist.
        let third = [view(&updater), updater.request_view(database.number(), NoteId(99), core).expect("room")];
        let nowhere = updater.request_view(DbNumber(99), note, core).expect("room");
        work_off(&updater, core);
        assert!(third.iter().chain([&nowhere]).all(|awaited| awaited.has_changed().is_err()));
        let waiting = updater.waiting();
        let asked = (100..200).filter_map(|note| updater.request_view(database.number(), NoteId(note), core));
        assert_eq!((asked.count() + waiting, updater.waiting()), (16, 16), "a full queue accepts no more requests");
    }

    #[tokio::test]
    async fn the_task_ends_with_the_server() {
        let sample = Sample::new();
        let shutdown = Shutdown::new();
        shutdown.drain();
        let core = Arc::new(sample.core);
        run(Arc::new(Updater::new(&core)), core, shutdown).await;
    }
}
