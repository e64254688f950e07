//! `doublet view entries` and `doublet view find`: entries of a view, read page by page once its index is up to date.
//!
//! Opening a view waits up to `--wait` seconds until its index is complete; progress goes to standard error. Entries of
//! an index that is behind are shown all the same, and the command then ends with its own exit code. JSON output has
//! the values as the server sends them; people see shares as percentages.

use std::collections::HashSet;
use std::time::Duration;

use admin::answer::{record, timestamp_json};
use admin::{Answer, Progress, Unit, format_count};
use base::Clock;
use clap::Args;
use client::{Client, v1};
use instance::system::SystemClock;
use serde_json::{Value, json};

use super::database::key;
use super::item::{SearchValue, parse_position, read_keys, to_json};
use super::view::view_key;
use super::{CommandOutput, call_error};
use crate::CommandError;
use crate::terminal::ProgressDisplay;

/// Items shown for a folder without columns.
const MAIL_ITEMS: [&str; 2] = ["From", "Subject"];

/// Names of the fields of an entry that are not columns.
const OWN_FIELDS: [&str; 5] = ["position", "note", "category", "unread", "received"];

/// Maximum number of entries per call.
const PAGE: usize = 1_000;

/// Pause before a view with an incomplete index is opened again. During a build the server itself waits two seconds.
const PAUSE: Duration = Duration::from_millis(200);

/// The view to read and the number and order of its entries.
#[derive(Debug, Clone, Args)]
pub struct ViewOptions {
    /// Path of the database in the catalog.
    database: String,
    /// Name of the view.
    view: String,
    /// Maximum number of entries shown; 0 for all.
    #[arg(long, value_name = "COUNT", default_value_t = 50)]
    limit: u32,
    /// Sorts by this column, as a click on its header does, if the design of the view allows it (`click` in its file).
    #[arg(long, value_name = "COLUMN")]
    sort: Option<String>,
    /// With --sort: sorts in descending order.
    #[arg(long, requires = "sort")]
    descending: bool,
    /// Seconds to wait for an index that is being built; 0 does not wait. If the index is still incomplete, the exit
    /// code is 3.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u32,
}

/// First entry and expanded categories.
#[derive(Debug, Clone, Args)]
pub struct EntryRange {
    /// Number of the first entry, counted from 1 over the shown entries.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    from: u64,
    /// Position of the first entry, for example 3.2.7: the seventh entry within the second entry of the third.
    #[arg(long, value_name = "POSITION", value_parser = parse_position, conflicts_with = "from")]
    at: Option<v1::Tumbler>,
    /// Shows only categories.
    #[arg(long)]
    collapsed: bool,
    /// With --collapsed: expands the category at this position and those that contain it. May be given several times.
    #[arg(long, value_name = "POSITION", value_parser = parse_position, requires = "collapsed")]
    expand: Vec<v1::Tumbler>,
    /// Collapses the category at this position. May be given several times.
    #[arg(long, value_name = "POSITION", value_parser = parse_position, conflicts_with = "collapsed")]
    collapse: Vec<v1::Tumbler>,
}

impl EntryRange {
    /// Returns `true` if some categories are collapsed.
    fn has_collapsed(&self) -> bool {
        self.collapsed || !self.collapse.is_empty()
    }

    /// Returns the expansion state. An expanded category is listed together with all categories that contain it.
    fn expansion(&self) -> v1::Expansion {
        let mut exceptions = self.collapse.clone();
        for place in &self.expand {
            for depth in 1..=place.levels.len() {
                let above = v1::Tumbler { levels: place.levels.iter().take(depth).copied().collect() };
                if !exceptions.contains(&above) {
                    exceptions.push(above);
                }
            }
        }
        v1::Expansion { collapsed: self.collapsed, exceptions }
    }
}

/// Values to find.
#[derive(Debug, Clone, Args)]
pub struct SearchKeys {
    /// Values of the sorted columns, for example Oslo, number=5 or time=2026-01-31T12:00:00Z. A value without a type is
    /// a text, or, if no entry has that text, a number or a time.
    #[arg(value_name = "[TYPE=]VALUE", required = true)]
    keys: Vec<String>,
    /// Upper end of a range that starts at the first values, both ends included. Given once for each sorted column.
    #[arg(long, value_name = "[TYPE=]VALUE")]
    to: Vec<String>,
    /// Treats the last value as the beginning of a text.
    #[arg(long, conflicts_with = "to")]
    partial: bool,
}

/// Shows entries of a view.
pub(super) async fn entries(
    client: Client,
    reading: ViewOptions,
    part: EntryRange,
) -> Result<CommandOutput, CommandError> {
    let opened = ViewReader::open(&client, &reading).await?;
    let mut request =
        v1::ReadEntriesRequest { start: part.at.clone(), expansion: Some(part.expansion()), ..opened.request.clone() };
    match (part.at.is_none(), part.has_collapsed()) {
        (false, _) => {}
        (true, false) => request.start_row = part.from.max(1),
        // Collapsed entries do not count: the first step from before all entries leads to the first shown row.
        (true, true) => {
            request.skip_navigator = v1::Navigator::NextExpanded.into();
            let steps = u32::try_from(part.from.max(1));
            request.skip_count = steps.map_err(|_| CommandError("--from exceeds the number of entries".to_owned()))?;
        }
    }
    let reply = read_pages(&client, request, entry_limit(reading.limit)).await?;
    if let (Some(place), []) = (&part.at, &reply.entries[..]) {
        return Err(CommandError(format!("there is no entry at position {}", position_text(place))));
    }
    let all = format_count(opened.collection.entries, "entry", "entries");
    let mut answer = match reply.entries.len() as u64 {
        shown if shown == opened.collection.entries => Answer::message(format!("{all}.")),
        shown => Answer::message(format!("{all}, {shown} shown.")),
    };
    if reply.more {
        answer = answer.with_message("There are more: --from and --limit show them.");
    }
    Ok(opened.output(&reply, answer))
}

/// Finds entries by the values of the sorted columns.
pub(super) async fn find(
    client: Client,
    reading: ViewOptions,
    wanted: SearchKeys,
) -> Result<CommandOutput, CommandError> {
    let keys = read_keys(&wanted.keys)?;
    let to_keys = read_keys(&wanted.to)?;
    let opened = ViewReader::open(&client, &reading).await?;
    let values = |keys: &[SearchValue]| keys.iter().map(|key| key.given_value.clone()).collect();
    let literal = v1::FindByKeyRequest {
        database: opened.request.database.clone(),
        view: opened.request.view.clone(),
        collation: opened.request.collation,
        keys: values(&keys),
        partial: wanted.partial,
        to_keys: values(&to_keys),
    };
    let mut found = client.views().find_by_key(literal.clone()).await.map_err(call_error)?.into_inner();
    let mut message = None;
    if found.matches == 0 && keys.iter().chain(&to_keys).any(|key| key.alternative.is_some()) {
        let perhaps =
            |keys: Vec<SearchValue>| keys.into_iter().map(|key| key.alternative.unwrap_or(key.given_value)).collect();
        // Only a text can have a beginning.
        let partial = wanted.partial && keys.last().is_some_and(|last| last.alternative.is_none());
        let guessed = v1::FindByKeyRequest { keys: perhaps(keys), to_keys: perhaps(to_keys), partial, ..literal };
        found = client.views().find_by_key(guessed).await.map_err(call_error)?.into_inner();
        message = (found.matches > 0)
            .then_some("No entry has that text; showing entries with that number or time (number=, time=).");
    }
    let mut reply = v1::ReadEntriesReply::default();
    if found.matches > 0 {
        let matches = usize::try_from(found.matches).unwrap_or(usize::MAX);
        let request = v1::ReadEntriesRequest { start_key: found.key, ..opened.request.clone() };
        reply = read_pages(&client, request, matches.min(entry_limit(reading.limit))).await?;
    }
    let mut answer = match found.matches {
        0 => Answer::default(),
        matches => Answer::message(format!("{}, including categories.", format_count(matches, "entry", "entries"))),
    };
    if found.matches > reply.entries.len() as u64 {
        answer = answer.with_message("There are more: --limit shows them.");
    }
    Ok(opened.output(&reply, message.into_iter().fold(answer, Answer::with_message)))
}

fn entry_limit(count: u32) -> usize {
    if count == 0 { usize::MAX } else { count as usize }
}

/// An opened view.
struct ViewReader {
    collection: v1::Collection,
    columns: Vec<OutputColumn>,
    /// Request for its entries, starting at the first one.
    request: v1::ReadEntriesRequest,
    /// Description of what the index lacks, if it is not up to date.
    late: Option<String>,
}

/// A column for output.
struct OutputColumn {
    /// Unique name, different also from the entry's own fields.
    name: String,
    /// Set if categories show a share in this column.
    is_share: bool,
}

impl ViewReader {
    /// Opens a view, waits for its index, and determines the requested sort order.
    async fn open(client: &Client, reading: &ViewOptions) -> Result<Self, CommandError> {
        let collection = open_when_current(client, reading).await?;
        let columns = collection.view.as_ref().map_or(&[][..], |view| &view.columns);
        let database = Some(key(reading.database.clone()));
        let view = Some(view_key(reading.view.clone()));
        let collation = find_collation(columns, reading)?;
        let mask = v1::ReadMask { position: true, values: true, unread: true, marks: true, ..Default::default() };
        let request = v1::ReadEntriesRequest {
            database,
            view,
            collation,
            navigator: v1::Navigator::NextExpanded.into(),
            mask: Some(mask),
            items: MAIL_ITEMS.map(str::to_owned).to_vec(),
            ..Default::default()
        };
        let is_share = percent_columns(client, &request, columns.len()).await;
        let names = match columns {
            [] => MAIL_ITEMS.map(str::to_owned).to_vec(),
            columns => unique_names(columns),
        };
        let share = |index: usize| is_share.get(index).copied().unwrap_or(false);
        let columns = names.into_iter().enumerate().map(|(index, name)| OutputColumn { name, is_share: share(index) });
        Ok(Self { columns: columns.collect(), request, late: stale_reason(&collection), collection })
    }

    /// Creates the output from the entries read.
    fn output(self, reply: &v1::ReadEntriesReply, answer: Answer) -> CommandOutput {
        let rows = |for_people| reply.entries.iter().map(|entry| entry_row(entry, &self.columns, for_people)).collect();
        let has_shares = self.columns.iter().any(|column| column.is_share);
        let people = has_shares.then(|| rows(true));
        CommandOutput { answer: Answer { data: rows(false), ..answer }, people, late: self.late }
    }
}

/// Opens a view repeatedly until its index is complete or the time is over. Reports the progress of a build.
async fn open_when_current(client: &Client, reading: &ViewOptions) -> Result<v1::Collection, CommandError> {
    let clock = SystemClock::new();
    let began = clock.monotonic();
    let wait = Duration::from_secs(reading.wait.into());
    let mut display = ProgressDisplay::new();
    loop {
        let database = Some(key(reading.database.clone()));
        let view = Some(view_key(reading.view.clone()));
        let request = v1::OpenCollectionRequest { database, view };
        let opened = client.views().open_collection(request).await.map_err(call_error)?.into_inner();
        if !opened.incomplete || clock.monotonic().saturating_sub(began) >= wait {
            return Ok(opened);
        }
        if let Some(build) = opened.build {
            let step = format!("building the index of {}", reading.view);
            let total = (build.documents > 0).then_some(build.documents);
            let _ = display.show(&Progress { step, done: build.done, total, unit: Unit::Notes });
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns a description of what the index lacks, or `None` if it is up to date.
fn stale_reason(opened: &v1::Collection) -> Option<String> {
    let further = "--wait SECONDS waits longer";
    match opened.build {
        Some(build) if build.documents > 0 => {
            Some(format!("the index is being built, {} of {} documents so far; {further}", build.done, build.documents))
        }
        Some(_) => Some(format!("the index is about to be built; {further}")),
        None => opened.incomplete.then(|| format!("the index does not contain the latest changes yet; {further}")),
    }
}

/// Returns the number of the requested collation. Fails if the view cannot be sorted in this way.
fn find_collation(columns: &[v1::Column], reading: &ViewOptions) -> Result<u32, CommandError> {
    let Some(wanted) = &reading.sort else { return Ok(0) };
    let is_meant =
        |column: &&v1::Column| [&column.title, &column.item].iter().any(|name| name.eq_ignore_ascii_case(wanted));
    let meant: Vec<&v1::Column> = columns.iter().filter(is_meant).collect();
    for column in &meant {
        let click = if reading.descending { column.descending_collation } else { column.ascending_collation };
        // The order of the view itself has no collation number of its own.
        if click > 0 || (column.sort == 1 && column.descending == reading.descending) {
            return Ok(click);
        }
    }
    let other = if reading.descending {
        "in ascending order; omit --descending"
    } else {
        "in descending order; add --descending"
    };
    if meant.iter().any(|column| column.ascending_collation > 0 || column.descending_collation > 0) {
        return Err(CommandError(format!("the view can be sorted by {wanted} only {other}")));
    }
    let sorted = columns.iter().filter(|column| column.ascending_collation > 0 || column.descending_collation > 0);
    let names: Vec<String> = sorted.map(|column| column.title.clone()).collect();
    let others = match names.is_empty() {
        true => "it has only one sort order".to_owned(),
        false => format!("it can be sorted by {}", names.join(", ")),
    };
    Err(CommandError(format!("the view cannot be sorted by {wanted}; {others}")))
}

/// Returns for each column whether categories show a share in it. The result is empty for a folder without columns,
/// which has no design, and for a server that does not provide designs.
async fn percent_columns(client: &Client, request: &v1::ReadEntriesRequest, columns: usize) -> Vec<bool> {
    if columns == 0 {
        return Vec::new();
    }
    let request = v1::GetViewDesignRequest { database: request.database.clone(), view: request.view.clone() };
    let design = client.views().get_view_design(request).await.ok().and_then(|reply| reply.into_inner().design);
    let is_share =
        |column: &v1::ColumnDesign| matches!(column.total(), v1::Total::PercentOfParent | v1::Total::PercentOfAll);
    design.unwrap_or_default().columns.iter().map(is_share).collect()
}

/// Reads up to `limit` entries, in as many calls as needed.
async fn read_pages(
    client: &Client,
    mut request: v1::ReadEntriesRequest,
    limit: usize,
) -> Result<v1::ReadEntriesReply, CommandError> {
    let mut all = v1::ReadEntriesReply::default();
    loop {
        let left = limit.saturating_sub(all.entries.len()).min(PAGE);
        request.count = u32::try_from(left).unwrap_or(0);
        let page = client.views().read_entries(request.clone()).await.map_err(call_error)?.into_inner();
        all.entries.extend(page.entries);
        all.more = page.more;
        if !page.more || all.entries.len() >= limit || page.next == request.start_key {
            return Ok(all);
        }
        request.start_key = page.next;
        request.skip_count = 0;
    }
}

/// Returns a unique name for each column: its title, or else its item name, with a number appended if the name is
/// taken.
fn unique_names(columns: &[v1::Column]) -> Vec<String> {
    let mut taken: HashSet<String> = OWN_FIELDS.map(str::to_owned).into();
    let name = |(index, column): (usize, &v1::Column)| {
        let plain = match [&column.title, &column.item].into_iter().find(|name| !name.is_empty()) {
            Some(name) => name.clone(),
            None => format!("column {}", index + 1),
        };
        let numbered = (2..).map(|number| format!("{plain} {number}"));
        let free = std::iter::once(plain.clone()).chain(numbered).find(|name| !taken.contains(name));
        let free = free.unwrap_or_default();
        taken.insert(free.clone());
        free
    };
    columns.iter().enumerate().map(name).collect()
}

fn position_text(place: &v1::Tumbler) -> String {
    place.levels.iter().map(u32::to_string).collect::<Vec<_>>().join(".")
}

fn entry_row(entry: &v1::Entry, columns: &[OutputColumn], for_people: bool) -> Value {
    let mut fields = vec![
        ("position", json!(entry.position.as_ref().map(position_text).unwrap_or_default())),
        ("note", if entry.category { Value::Null } else { json!(entry.note_id) }),
        ("category", json!(entry.name)),
        // Only documents have unread marks.
        ("unread", if entry.category { Value::Null } else { json!(entry.unread) }),
    ];
    if let Some(marks) = &entry.marks {
        fields.push(("received", timestamp_json(Some(base::Timestamp(marks.received_us)))));
    }
    fields.extend(columns.iter().zip(&entry.values).map(|(column, value)| {
        let value = if for_people && column.is_share { percent_text(entry, value) } else { to_json(Some(value)) };
        (column.name.as_str(), value)
    }));
    record(fields)
}

/// Returns the text of a share column for people: the percentage of a category. A document's value in such a column is
/// an amount and not a share.
fn percent_text(entry: &v1::Entry, value: &v1::Value) -> Value {
    match value.kind {
        Some(v1::value::Kind::Number(percent)) if entry.category => json!(format!("{percent:.2}%")),
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(title: &str, item: &str) -> v1::Column {
        v1::Column { title: title.to_owned(), item: item.to_owned(), ..v1::Column::default() }
    }

    #[test]
    fn only_documents_have_unread_marks() {
        let entry = |category| v1::Entry { category, note_id: 7, ..v1::Entry::default() };
        let note_and_unread = |category| {
            let row = entry_row(&entry(category), &[], false);
            (row["note"].clone(), row["unread"].clone())
        };
        assert_eq!(note_and_unread(true), (Value::Null, Value::Null));
        assert_eq!(note_and_unread(false), (json!(7), json!(false)));
    }

    #[test]
    fn columns_get_unique_names() {
        let columns = [
            column("Amount", "Amount"),
            column("Amount", "$1"),
            column("", "Amount"),
            column("", ""),
            column("note", "Note"),
            column("Amount 2", "x"),
        ];
        assert_eq!(unique_names(&columns), ["Amount", "Amount 2", "Amount 3", "column 4", "note 2", "Amount 2 2"]);
    }

    #[test]
    fn shares_are_percentages_in_readable_output() {
        let columns = [OutputColumn { name: "Share".to_owned(), is_share: true }];
        let values = vec![v1::Value { kind: Some(v1::value::Kind::Number(100.0 / 3.0)) }];
        let entry = |category| v1::Entry { category, values: values.clone(), ..v1::Entry::default() };
        let share = |category, for_people| entry_row(&entry(category), &columns, for_people)["Share"].clone();
        assert_eq!((share(true, true), share(false, true)), (json!("33.33%"), Value::Null));
        assert_eq!((share(true, false), share(false, false)), (json!(100.0 / 3.0), json!(100.0 / 3.0)));
    }

    #[test]
    fn sort_orders_are_found_by_column() {
        let columns = [
            v1::Column { sort: 1, ..column("Room", "Room") },
            v1::Column { ascending_collation: 1, ..column("Task", "Subject") },
            v1::Column { descending_collation: 2, ..column("Cost", "Cost") },
            column("Plain", "Plain"),
        ];
        let check = |columns: &[v1::Column], wanted: &str, descending, expected: &str| {
            let reading = ViewOptions {
                database: String::new(),
                view: String::new(),
                limit: 0,
                sort: Some(wanted.to_owned()),
                descending,
                wait: 0,
            };
            let found = find_collation(columns, &reading);
            let found = found.map_or_else(|failure| failure.to_string(), |collation| collation.to_string());
            assert!(found.contains(expected), "{found}");
        };
        check(&columns, "room", false, "0");
        check(&columns, "subject", false, "1");
        check(&columns, "Cost", true, "2");
        check(&columns, "Cost", false, "only in descending order; add --descending");
        check(&columns, "Task", true, "only in ascending order; omit --descending");
        check(&columns, "Plain", false, "it can be sorted by Task, Cost");
        check(&columns, "Zork", false, "the view cannot be sorted by Zork");
        check(&columns[3..], "Plain", false, "it has only one sort order");
    }

    #[test]
    fn opening_an_entry_opens_its_parents() {
        let positions =
            |texts: &[&str]| texts.iter().map(|text| parse_position(text).expect("a position")).collect::<Vec<_>>();
        let part = |collapsed, expand: &[&str], collapse: &[&str]| {
            let expand = positions(expand);
            let collapse = positions(collapse);
            let part = EntryRange { from: 1, at: None, collapsed, expand, collapse };
            let expansion = part.expansion();
            (expansion.collapsed, expansion.exceptions.iter().map(position_text).collect::<Vec<_>>())
        };
        let of = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(part(true, &["2.1", "2.3", "4"], &[]), (true, of(&["2", "2.1", "2.3", "4"])));
        assert_eq!(part(false, &[], &["2.1"]), (false, of(&["2.1"])));
    }

    #[test]
    fn stale_index_is_explained() {
        let check = |incomplete, build, expected: Option<&str>| {
            let reason = stale_reason(&v1::Collection { incomplete, build, ..v1::Collection::default() });
            assert!(
                expected.map_or(reason.is_none(), |text| reason.clone().is_some_and(|reason| reason.contains(text))),
                "{reason:?}"
            );
        };
        check(false, None, None);
        check(true, None, Some("the latest changes yet; --wait SECONDS"));
        check(true, Some(v1::BuildProgress { done: 0, documents: 0 }), Some("about to be built"));
        check(true, Some(v1::BuildProgress { done: 3, documents: 5 }), Some("3 of 5 documents so far"));
    }
}
