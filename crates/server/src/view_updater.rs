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
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use base::sync::{Mutex, MutexGuard};
use base::{DbNumber, NoteId, Timestamp};
use instance::{Instance, authorize_server};
use notes::view::note::ViewInfo;
use notes::view::view_format::Refresh;
use notes::{Access, ChangeSubscriber, level};
use rpc::backend::{IndexBuildProgress, ViewIndexer};
use tokio::sync::{Notify, watch};
use wire::Shutdown;

/// Maximum time between two checks of the queues.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(60);

/// Counters since the start.
#[derive(Debug, Default)]
pub struct ViewUpdateCounters {
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
pub struct ViewUpdater {
    follower: Arc<ChangeSubscriber>,
    queues: Mutex<Queues>,
    wake: Notify,
    /// Counters since the start.
    pub counters: ViewUpdateCounters,
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
    awaited: HashMap<(DbNumber, NoteId), watch::Sender<IndexBuildProgress>>,
    /// Changed databases, ordered by due time and then by arrival.
    deferred: BTreeMap<(Timestamp, u64), DbNumber>,
    waiting: HashSet<DbNumber>,
    next: u64,
    /// The time of the last update of each view that is updated every given number of hours.
    hourly: HashMap<(DbNumber, NoteId), Timestamp>,
    /// The views of which some documents exceed the limits. Each was logged once.
    limited: HashSet<(DbNumber, NoteId)>,
    /// The views that themselves exceed a limit, so that they are not updated. Each was logged once.
    refused: HashSet<(DbNumber, NoteId)>,
}

impl ViewUpdater {
    /// Creates an updater that follows the changes of all databases.
    #[must_use]
    pub fn new(instance: &Instance) -> Self {
        Self {
            follower: instance.databases.subscribe(),
            queues: Mutex::default(),
            wake: Notify::new(),
            counters: ViewUpdateCounters::default(),
        }
    }

    /// Adds a database to the immediate queue.
    pub fn request(&self, database: DbNumber, instance: &Instance) {
        let mut queues = self.queues();
        if !queues.immediate.contains(&UpdateRequest::Database(database)) {
            self.enqueue(&mut queues, UpdateRequest::Database(database), instance);
        }
    }

    /// Adds a view to the immediate queue and returns a receiver of its progress. Returns `None` if the queues are
    /// full.
    pub fn request_view(
        &self,
        database: DbNumber,
        view: NoteId,
        instance: &Instance,
    ) -> Option<watch::Receiver<IndexBuildProgress>> {
        let mut queues = self.queues();
        if let Some(awaited) = queues.awaited.get(&(database, view)) {
            return Some(awaited.subscribe());
        }
        if !self.enqueue(&mut queues, UpdateRequest::View(database, view), instance) {
            return None;
        }
        let (sender, receiver) = watch::channel(IndexBuildProgress::default());
        queues.awaited.insert((database, view), sender);
        Some(receiver)
    }

    /// Adds a request to the immediate queue. Returns `false` if the queues are full.
    fn enqueue(&self, queues: &mut Queues, wanted: UpdateRequest, instance: &Instance) -> bool {
        if queues.len() >= queue_max(instance) {
            self.counters.dropped.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        queues.immediate.push_back(wanted);
        self.wake.notify_one();
        true
    }

    fn has_immediate_requests(&self) -> bool {
        !self.queues().immediate.is_empty()
    }

    /// Returns the number of waiting requests.
    #[must_use]
    pub fn waiting_count(&self) -> usize {
        self.queues().len()
    }

    /// Moves changed databases into the deferred queue.
    fn collect_changes(&self, instance: &Instance) {
        let due = instance.clock.now().after(instance.config.views.suppression_time.0);
        let mut queues = self.queues();
        for database in self.follower.take() {
            if queues.waiting.contains(&database) {
                continue;
            }
            if queues.len() >= queue_max(instance) {
                self.counters.dropped.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            let number = queues.next;
            queues.next += 1;
            queues.waiting.insert(database);
            queues.deferred.insert((due, number), database);
        }
    }

    /// Removes and returns the next request. If none is due, returns the time to wait.
    fn next_request(&self, now: Timestamp) -> Result<UpdateRequest, Duration> {
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
            Some((key, _)) => Err(key.0.since(now).min(CHECK_INTERVAL_MAX)),
            None => Err(CHECK_INTERVAL_MAX),
        }
    }

    /// Performs a request.
    fn perform(&self, wanted: UpdateRequest, instance: &Instance, stop: &dyn Fn() -> bool) -> notes::Result<()> {
        match wanted {
            UpdateRequest::Database(database) => self.update_database(database, instance, stop),
            UpdateRequest::View(database, view) => {
                // Whatever the outcome, waiting callers are notified of the end.
                let _end = ProgressGuard { updater: self, key: (database, view) };
                self.update_view(database, view, instance, stop)
            }
        }
    }

    /// Updates the views of a database that are due according to their designs.
    fn update_database(&self, number: DbNumber, instance: &Instance, stop: &dyn Fn() -> bool) -> notes::Result<()> {
        let Some(database) = instance.databases.database_open_number(number)? else { return Ok(()) };
        if database.record().options.no_view_updates {
            return Ok(());
        }
        self.counters.databases.fetch_add(1, Ordering::Relaxed);
        let access = authorize_server(&database)?;
        let reading = access.read()?;
        let now = instance.clock.now();
        let views = reading.views()?;
        let is_there = |note| views.iter().any(|info| info.note == note);
        let mut queues = self.queues();
        queues.hourly.retain(|(database, note), _| *database != number || is_there(*note));
        queues.limited.retain(|(database, note)| *database != number || is_there(*note));
        queues.refused.retain(|(database, note)| *database != number || is_there(*note));
        drop(queues);
        let mut later = None;
        for info in &views {
            let is_due = match info.view.design.refresh {
                Refresh::Automatic => true,
                Refresh::AfterFirstUse => reading.view(info.note).is_ok(),
                Refresh::Manual => false,
                Refresh::Hours(hours) => match self.next_due((number, info.note), hours).filter(|due| *due > now) {
                    Some(due) => {
                        later = Some(later.map_or(due, |first: Timestamp| first.min(due)));
                        false
                    }
                    None => true,
                },
            };
            if is_due && !stop() {
                self.update_index(&access, info, instance, stop);
            }
        }
        if let Some(due) = later {
            self.schedule_check(number, due, instance);
        }
        Ok(())
    }

    /// Schedules another check of a database at the time when one of its views is due, because there may be no change
    /// until then.
    fn schedule_check(&self, database: DbNumber, due: Timestamp, instance: &Instance) {
        let mut queues = self.queues();
        let is_known = queues.deferred.iter().any(|((at, _), known)| *known == database && *at <= due);
        if !is_known && queues.len() < queue_max(instance) {
            let number = queues.next;
            queues.next += 1;
            queues.deferred.insert((due, number), database);
        }
    }

    /// Updates one view, regardless of its design.
    fn update_view(
        &self,
        number: DbNumber,
        view: NoteId,
        instance: &Instance,
        stop: &dyn Fn() -> bool,
    ) -> notes::Result<()> {
        let Some(database) = instance.databases.database_open_number(number)? else { return Ok(()) };
        let access = authorize_server(&database)?;
        let views = access.read()?.views()?;
        if let Some(info) = views.iter().find(|info| info.note == view) {
            self.update_index(&access, info, instance, stop);
        }
        Ok(())
    }

    fn update_index(
        &self,
        access: &Access<level::Designer>,
        info: &ViewInfo,
        instance: &Instance,
        stop: &dyn Fn() -> bool,
    ) {
        let key = (access.database().number(), info.note);
        let mut report = |done, documents| {
            if let Some(awaited) = self.queues().awaited.get(&key) {
                awaited.send_replace(IndexBuildProgress { done, documents });
            }
            if stop() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        match access.view_update(info.note, &instance.build_options(), &mut report) {
            Ok(true) => {
                if let Err(error) = self.report_limited_documents(access, info) {
                    let path = access.database().path();
                    let view = &info.view.title;
                    tracing::warn!(target: "update", database = path, view, %error, "cannot read the state of a view");
                }
                self.counters.views.fetch_add(1, Ordering::Relaxed);
                let mut queues = self.queues();
                if matches!(info.view.design.refresh, Refresh::Hours(_)) {
                    queues.hourly.insert(key, instance.clock.now());
                }
                queues.awaited.remove(&key);
                queues.refused.remove(&key);
            }
            Ok(false) => {}
            Err(error) => self.report_failure(access, info, &error),
        }
    }

    /// Logs that a view cannot be updated. A view that exceeds a limit is logged once: its owner must change it, and
    /// receives the error when opening it.
    fn report_failure(&self, access: &Access<level::Designer>, info: &ViewInfo, error: &notes::Error) {
        self.counters.failures.fetch_add(1, Ordering::Relaxed);
        let path = access.database().path();
        let view = &info.view.title;
        if !matches!(error, notes::Error::Limit { .. }) {
            tracing::error!(target: "update", database = path, view, %error, "cannot update a view");
            return;
        }
        if self.queues().refused.insert((access.database().number(), info.note)) {
            tracing::warn!(target: "update", database = path, view, %error, "a view above a limit is not updated");
        }
    }

    /// Logs a warning if documents of a view have begun to exceed its limits.
    fn report_limited_documents(&self, access: &Access<level::Designer>, info: &ViewInfo) -> notes::Result<()> {
        let reading = access.read()?;
        // The view may have been deleted or changed meanwhile.
        let Ok(view) = reading.view(info.note) else { return Ok(()) };
        let documents = reading.view_rows(&view, 0)?.limited_documents()?;
        let key = (access.database().number(), info.note);
        let mut queues = self.queues();
        if documents == 0 {
            queues.limited.remove(&key);
            return Ok(());
        }
        let is_new = queues.limited.insert(key);
        drop(queues);
        if is_new {
            let path = access.database().path();
            let view = &info.view.title;
            tracing::warn!(target: "update", database = path, view, documents, "documents of a view exceed its limits");
        }
        Ok(())
    }

    /// Returns the time at which a view that is updated every `hours` hours is due. Returns `None` if it has not been
    /// updated since the start.
    fn next_due(&self, key: (DbNumber, NoteId), hours: u16) -> Option<Timestamp> {
        let last = self.queues().hourly.get(&key).copied()?;
        Some(last.after(Duration::from_secs(u64::from(hours) * 3_600)))
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock()
    }
}

/// Ends the wait of the callers that requested a view, when dropped.
struct ProgressGuard<'u> {
    updater: &'u ViewUpdater,
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
pub struct BackgroundViewIndexer {
    /// The task.
    pub updater: Arc<ViewUpdater>,
    /// The services that the task works with.
    pub instance: Arc<Instance>,
}

impl ViewIndexer for BackgroundViewIndexer {
    fn request_build(&self, database: DbNumber, view: NoteId) -> Option<watch::Receiver<IndexBuildProgress>> {
        self.updater.request_view(database, view, &self.instance)
    }

    fn is_recent(&self, database: DbNumber, view: NoteId, hours: u16) -> bool {
        self.updater.next_due((database, view), hours).is_some_and(|due| due > self.instance.clock.now())
    }

    fn record_refresh(&self, database: DbNumber, view: NoteId) {
        self.updater.queues().hourly.insert((database, view), self.instance.clock.now());
    }
}

fn queue_max(instance: &Instance) -> usize {
    usize::try_from(instance.config.views.queue).unwrap_or(usize::MAX)
}

/// Runs the task until the server drains.
pub async fn run(updater: Arc<ViewUpdater>, instance: Arc<Instance>, shutdown: Shutdown) {
    loop {
        let changed = updater.follower.listen();
        updater.collect_changes(&instance);
        let rest = match updater.next_request(instance.clock.now()) {
            Ok(wanted) => {
                perform(&updater, wanted, &instance, &shutdown).await;
                instance.config.views.idle_time.0
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
        let immediate_request = async {
            while !updater.has_immediate_requests() {
                updater.wake.notified().await;
            }
        };
        tokio::select! {
            () = shutdown.draining() => return,
            () = immediate_request => {}
            () = tokio::time::sleep(rest) => {}
        }
    }
}

async fn perform(updater: &Arc<ViewUpdater>, wanted: UpdateRequest, instance: &Arc<Instance>, shutdown: &Shutdown) {
    let updater = Arc::clone(updater);
    let instance = Arc::clone(instance);
    let stop = shutdown.clone();
    let done = tokio::task::spawn_blocking(move || updater.perform(wanted, &instance, &|| stop.is_draining())).await;
    match done {
        // The database was deleted in the meantime.
        Ok(Ok(()) | Err(notes::Error::NotFound { .. })) => {}
        Ok(Err(error)) => tracing::error!(target: "update", %error, "cannot update the views of a database"),
        Err(error) => tracing::error!(target: "update", %error, "a view update failed because of a bug"),
    }
}

#[cfg(test)]
mod tests {
    use base::sim::{EventRecorder, FieldForm};
    use notes::limits::PERSONAL_COLLATIONS_MAX;
    use notes::view::note::{ViewKind, ViewNote};
    use notes::view::view_format::{ClickSorts, Column, ViewDesign};
    use notes::{Database, DatabaseOptions, NewNote, NoteClass};
    use sample::{Sample, database_with_view};

    use super::*;

    /// Returns the number of rows of the view without updating it, or `None` if it has no index.
    fn rows(database: &Arc<Database>) -> Option<u64> {
        let access = authorize_server(database).expect("the server has access");
        let reading = access.read().expect("a snapshot");
        let note = reading.view_find("All").expect("there").note;
        let view = reading.view(note).ok()?;
        Some(reading.view_rows(&view, 0).expect("rows").count().expect("sound"))
    }

    /// Performs all requests that are due.
    fn perform_due_requests(updater: &ViewUpdater, instance: &Instance) {
        updater.collect_changes(instance);
        while let Ok(wanted) = updater.next_request(instance.clock.now()) {
            updater.perform(wanted, instance, &|| false).expect("sound");
        }
    }

    #[test]
    fn refresh_option_determines_updates() {
        let check = |refresh, options, expected| {
            let sample = Sample::with(&["views.suppression_time=0s"]);
            let updater = ViewUpdater::new(&sample.instance);
            let database = database_with_view(&sample.instance, refresh, options);
            perform_due_requests(&updater, &sample.instance);
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
    fn hourly_view_is_updated_when_its_interval_ends() {
        let clock = Arc::new(base::sim::SimClock::new());
        let mut sample = Sample::with(&["views.suppression_time=0s"]);
        sample.instance.clock = clock.clone();
        let instance = &sample.instance;
        let updater = Arc::new(ViewUpdater::new(instance));
        let database = database_with_view(instance, Refresh::Hours(2), DatabaseOptions::default());
        perform_due_requests(&updater, instance);
        let access = authorize_server(&database).expect("the server has access").downgrade::<level::Depositor>();
        let accesses = [&access];
        let mut transaction = instance.databases.transaction(&accesses).expect("a transaction");
        transaction.writer(0).note_create(NewNote::document(Vec::new())).expect("a document");
        transaction.commit().expect("committed");
        clock.advance(Duration::from_secs(3_600));
        perform_due_requests(&updater, instance);
        assert_eq!((rows(&database), updater.waiting_count()), (Some(1), 1), "the update waits until it is due");
        clock.advance(Duration::from_secs(3_600));
        perform_due_requests(&updater, instance);
        assert_eq!((rows(&database), updater.waiting_count()), (Some(2), 0));
        let requests = BackgroundViewIndexer { updater: Arc::clone(&updater), instance: Arc::new(sample.instance) };
        let view =
            authorize_server(&database).and_then(|access| Ok(access.read()?.view_find("All")?.note)).expect("there");
        assert!(requests.is_recent(database.number(), view, 2) && !requests.is_recent(database.number(), view, 0));
        clock.advance(Duration::from_secs(7_200));
        assert!(!requests.is_recent(database.number(), view, 2));
        requests.record_refresh(database.number(), view);
        assert!(requests.is_recent(database.number(), view, 2));
    }

    #[test]
    fn view_with_expensive_formulas_is_logged_once() {
        let sample = Sample::with(&["views.suppression_time=0s"]);
        let instance = &sample.instance;
        let updater = ViewUpdater::new(instance);
        let database = database_with_view(instance, Refresh::Automatic, DatabaseOptions::default());
        let access = authorize_server(&database).expect("the server has access").downgrade::<level::Depositor>();
        let accesses = [&access];
        let write = |change: &dyn Fn(&mut notes::Writer<'_, '_>)| {
            let mut transaction = instance.databases.transaction(&accesses).expect("a transaction");
            change(&mut transaction.writer(0));
            transaction.commit().expect("committed");
        };
        let selection = "SELECT @While(Form = \"Memo\"; 1)".to_owned();
        let slow = ViewNote { title: "Slow".into(), selection, ..ViewNote::default() };
        write(&|writer| {
            writer.view_create(&slow).expect("a view");
        });
        let recorder = EventRecorder::new("update", |_| FieldForm::Full);
        let recording = recorder.start();
        perform_due_requests(&updater, instance);
        let lines = recorder.take();
        let is_expected = |line: &String| line.contains("view=\"Slow\" documents=1");
        assert!(lines.len() == 1 && lines.iter().all(is_expected), "{lines:?}");
        write(&|writer| {
            writer.note_create(NewNote::document(Vec::new())).expect("a document");
        });
        perform_due_requests(&updater, instance);
        assert_eq!(recorder.take(), [""; 0], "it was logged before");
        drop(recording);
    }

    #[test]
    fn view_above_a_limit_is_logged_once() {
        let sample = Sample::with(&["views.suppression_time=0s"]);
        let instance = &sample.instance;
        let updater = ViewUpdater::new(instance);
        let database = database_with_view(instance, Refresh::Automatic, DatabaseOptions::default());
        let access = authorize_server(&database).expect("the server has access").downgrade::<level::Depositor>();
        let accesses = [&access];
        let create = |new: NewNote| {
            let mut transaction = instance.databases.transaction(&accesses).expect("a transaction");
            transaction.writer(0).note_create(new).expect("a note");
            transaction.commit().expect("committed");
        };
        // An older program accepted this design.
        let clicks = ClickSorts { ascending: true, descending: true };
        let columns = vec![Column { clicks, ..Column::default() }; PERSONAL_COLLATIONS_MAX];
        let wide = ViewNote {
            title: "Wide".into(),
            kind: ViewKind { private: true, ..ViewKind::default() },
            selection: "SELECT @All".into(),
            design: ViewDesign { columns, ..ViewDesign::default() },
            readers: vec!["Ann/Acme".into()],
            ..ViewNote::default()
        };
        create(NewNote::of_class(NoteClass::VIEW, wide.items()));
        let recorder = EventRecorder::new("update", |_| FieldForm::Full);
        let recording = recorder.start();
        perform_due_requests(&updater, instance);
        let lines = recorder.take();
        let is_expected = |line: &String| line.contains("view=\"Wide\"") && line.contains("sort orders");
        assert!(lines.len() == 1 && lines.iter().all(is_expected), "{lines:?}");
        create(NewNote::document(Vec::new()));
        perform_due_requests(&updater, instance);
        assert_eq!(recorder.take(), [""; 0], "it was logged before");
        assert_eq!((rows(&database), updater.counters.failures.load(Ordering::Relaxed)), (Some(2), 2));
        drop(recording);
    }

    #[test]
    fn changes_are_coalesced_and_the_queue_is_bounded() {
        let sample = Sample::with(&["views.suppression_time=1h", "views.queue=16"]);
        let updater = ViewUpdater::new(&sample.instance);
        let database = database_with_view(&sample.instance, Refresh::Automatic, DatabaseOptions::default());
        perform_due_requests(&updater, &sample.instance);
        updater.collect_changes(&sample.instance);
        assert_eq!((updater.waiting_count(), rows(&database)), (1, None), "the database waits, and only once");
        updater.request(database.number(), &sample.instance);
        updater.request(database.number(), &sample.instance);
        assert_eq!(updater.waiting_count(), 2);
        perform_due_requests(&updater, &sample.instance);
        assert_eq!((updater.waiting_count(), rows(&database)), (1, Some(1)));
        for number in 100..200 {
            updater.request(DbNumber(number), &sample.instance);
        }
        assert_eq!(updater.waiting_count(), 16, "a full queue drops new requests");
        assert_eq!(updater.counters.dropped.load(Ordering::Relaxed), 85);
    }

    #[test]
    fn awaited_view_is_updated_regardless_of_its_design() {
        let sample = Sample::with(&["views.queue=16"]);
        let instance = &sample.instance;
        let updater = ViewUpdater::new(instance);
        let options = DatabaseOptions { no_view_updates: true, ..DatabaseOptions::default() };
        let database = database_with_view(instance, Refresh::Manual, options);
        let note =
            authorize_server(&database).and_then(|access| Ok(access.read()?.view_find("All")?.note)).expect("there");
        let view = |updater: &ViewUpdater| {
            updater.request_view(database.number(), note, instance).expect("the queue has space")
        };
        let first = view(&updater);
        let second = view(&updater);
        assert!(
            updater.waiting_count() == 1 && updater.has_immediate_requests(),
            "both requests wait for the same update"
        );
        assert!(first.has_changed().is_ok() && rows(&database).is_none());
        perform_due_requests(&updater, instance);
        assert!(first.has_changed().is_err() && second.has_changed().is_err(), "both waits have ended");
        assert_eq!((rows(&database), updater.has_immediate_requests()), (Some(1), false));
        // The wait also ends if there is nothing to do, or if the view or the database does not exist.
        let third = [
            view(&updater),
            updater.request_view(database.number(), NoteId(99), instance).expect("the queue has space"),
        ];
        let nowhere = updater.request_view(DbNumber(99), note, instance).expect("the queue has space");
        perform_due_requests(&updater, instance);
        assert!(third.iter().chain([&nowhere]).all(|awaited| awaited.has_changed().is_err()));
        let waiting = updater.waiting_count();
        let accepted = (100..200).filter_map(|note| updater.request_view(database.number(), NoteId(note), instance));
        assert_eq!(
            (accepted.count() + waiting, updater.waiting_count()),
            (16, 16),
            "a full queue accepts no more requests"
        );
    }

    #[tokio::test]
    async fn update_task_ends_on_shutdown() {
        let sample = Sample::new();
        let shutdown = Shutdown::new();
        shutdown.drain();
        let instance = Arc::new(sample.instance);
        run(Arc::new(ViewUpdater::new(&instance)), instance, shutdown).await;
    }
}
