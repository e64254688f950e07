//! Documents and hosts for tests, and the notation of values in test tables.
//!
//! A document is written as `Name=value | Name=value`. Texts are written as they are, `#1 2 3` are numbers, `a ~ b ~ c`
//! is a list of texts, and `@2024-12-31 10:00` is a time. A value is written as in a formula: `"a" : "b"`, `1 : 2`,
//! `[12/31/2024]`, `error: ...`.

use base::{NoteId, ReplicaId, Timestamp, Unid};
use formula::host::{
    Attachment, DocumentState, DocumentTime, HostText, Lookup, LookupColumn, UserAccess, ViewPosition,
};
use formula::{Document, EvaluationOutcome, Formula, FormulaOptions, Host, Text, Value, Zone};

/// The current time: Sunday, 2024-06-02, 12:30:45 UTC, which is 14:30:45 in Berlin.
pub const NOW: i64 = 1_717_331_445;

/// A document whose items are written in one line.
pub struct LineDocument {
    items: Vec<(String, Value<'static>)>,
}

impl LineDocument {
    /// Parses the notation of a document.
    pub fn new(line: &str) -> Self {
        let parts = line.split(" | ").filter(|part| !part.trim().is_empty());
        let items = parts.map(|part| part.split_once('=').expect("an item is Name=value"));
        Self { items: items.map(|(name, value)| (name.trim().to_owned(), read(value))).collect() }
    }
}

fn read(value: &str) -> Value<'static> {
    if let Some(numbers) = value.strip_prefix('#') {
        return Value::from_numbers(numbers.split(' ').map(|number| number.parse().expect("a number")).collect());
    }
    if let Some(times) = value.strip_prefix('@') {
        let options = options();
        let parse = |time| formula::time_text::parse(time, &options, Timestamp::from_seconds(NOW)).expect("a time");
        return Value::from_times(times.split(" ~ ").map(parse).collect());
    }
    Value::from_texts(value.split(" ~ ").map(|text| Text::from(text.to_owned())).collect())
}

impl Document for LineDocument {
    fn item(&self, _: Option<usize>, name: &str) -> Option<Value<'_>> {
        self.items.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_borrowed())
    }

    fn item_names(&self) -> Vec<&str> {
        self.items.iter().map(|(name, _)| name.as_str()).collect()
    }

    fn time_of(&self, history: DocumentTime) -> Option<Timestamp> {
        let days = match history {
            DocumentTime::Created => 10,
            DocumentTime::Modified => 5,
            DocumentTime::Accessed => 1,
            DocumentTime::Added => return None,
        };
        Some(Timestamp::from_seconds(NOW - days * 86_400))
    }

    fn unid(&self) -> Option<Unid> {
        "0123456789ABCDEF0123456789ABCDEF".parse().ok()
    }

    fn note_id(&self) -> Option<NoteId> {
        Some(NoteId(0x8FA))
    }

    fn size_bytes(&self) -> Option<u64> {
        Some(1234)
    }

    fn attachments(&self) -> Vec<Attachment<'_>> {
        let modified = Timestamp::from_seconds(NOW);
        vec![
            Attachment { name: "a.txt", size_bytes: 10, modified },
            Attachment { name: "b.pdf", size_bytes: 2000, modified },
        ]
    }

    fn is_in_state(&self, state: DocumentState) -> Option<bool> {
        (state != DocumentState::Signed).then_some(state == DocumentState::BeingSaved)
    }

    fn position(&self) -> Option<ViewPosition> {
        let path = vec![2, 1, 4];
        Some(ViewPosition { path, siblings: 7, children: 1, descendants: 3, is_category: false, is_expandable: true })
    }
}

/// A host that answers some queries.
pub struct Server;

impl Host for Server {
    fn now(&self) -> Timestamp {
        Timestamp::from_seconds(NOW)
    }

    fn random(&self) -> Option<u64> {
        Some(u64::MAX / 4)
    }

    fn text(&self, kind: HostText) -> Option<&str> {
        Some(match kind {
            HostText::UserName => "CN=Ann Smith/OU=Sales/O=Acme",
            HostText::ServerName => "CN=Hub/O=Acme",
            HostText::DatabasePath => "mail/asmith.nsf",
            HostText::DatabaseTitle => "Ann Smith",
            HostText::ViewTitle => "All",
            HostText::Domain => "acme.test",
            HostText::Platform => "UNIX",
            HostText::Version => "1",
            HostText::Language => "en",
            HostText::FormName => return None,
        })
    }

    fn user_names(&self) -> Option<Vec<&str>> {
        Some(vec!["CN=Ann Smith/OU=Sales/O=Acme", "*/OU=Sales/O=Acme", "Everybody", "[Boss]"])
    }

    fn user_roles(&self) -> Option<Vec<&str>> {
        Some(vec!["[Boss]"])
    }

    fn user_access(&self, _: &str) -> Option<UserAccess> {
        Some(UserAccess { level: 4, creates: true, deletes: false })
    }

    fn replica_id(&self) -> Option<ReplicaId> {
        Some(ReplicaId(0x0123_ABCD_4567_EF89))
    }

    fn environment(&self, name: &str) -> Option<&str> {
        name.eq_ignore_ascii_case("Colour").then_some("green")
    }

    fn lookup(&self, lookup: &Lookup<'_>) -> Option<Result<Value<'_>, String>> {
        Some(match (lookup.view, lookup.key, lookup.column) {
            ("Colours", None, LookupColumn::Number(1)) => Ok(Value::from_texts(vec!["blue".into(), "red".into()])),
            ("Colours", Some("red"), LookupColumn::Field("Code")) => Ok(Value::Number(2.0)),
            ("Colours", Some("blue"), LookupColumn::Field("Code")) => Ok(Value::Number(7.0)),
            ("Colours", ..) => Err("Entry not found in index".to_owned()),
            _ => Err("Cannot find the view".to_owned()),
        })
    }

    fn document_field(&self, unid: Unid, name: &str) -> Option<Result<Value<'_>, String>> {
        (unid.0[15] == 1).then(|| Ok(Value::from(if name == "Form" { "Testform" } else { "" })))
    }

    fn profile_field(&self, profile: &str, name: &str, _: &str) -> Option<Value<'_>> {
        (profile == "CalendarProfile" && name == "Owner").then(|| Value::from("CN=Ann Smith/OU=Sales/O=Acme"))
    }

    fn password_hash(&self, password: &str) -> Option<Result<String, String>> {
        let is_hash = password.starts_with("hash of ");
        Some(match password {
            "refused" => Err("the password is too long".to_owned()),
            _ => Ok(if is_hash { password.to_owned() } else { format!("hash of {password}") }),
        })
    }

    fn password_verify(&self, password: &str, hash: &str) -> Option<bool> {
        Some(hash.strip_prefix("hash of ") == Some(password))
    }

    fn name_lookup(&self, names: &[&str], item: &str) -> Option<Result<Value<'_>, String>> {
        Some(match (names, item) {
            (["Ann Smith"], "InternetAddress") => Ok(Value::from("ann@acme.test")),
            _ => Ok(Value::EMPTY),
        })
    }
}

/// Returns options for Berlin with the American locale, in which Domino's examples are written.
pub fn options() -> FormulaOptions {
    let zone = Zone::named("Europe/Berlin").expect("the database of zones is bundled");
    FormulaOptions { zone, ..FormulaOptions::default() }
}

/// Formats a value as in a formula.
pub fn write(value: &Value<'_>) -> String {
    let options = options();
    let elements = formula::print_value::render_elements(value, &options, Timestamp::from_seconds(NOW));
    match value {
        Value::Error(failure) => format!("error: {}", failure.kind),
        Value::Text(_) | Value::Texts(_) => {
            let quoted: Vec<String> = elements.iter().map(|text| format!("{text:?}")).collect();
            quoted.join(" : ")
        }
        Value::Time(_) | Value::Times(_) => format!("[{}]", elements.join("] : [")),
        _ => elements.join(" : "),
    }
}

/// Evaluates a formula over a document and returns the result of `look` for the outcome.
pub fn evaluate<T>(formula: &str, document: &str, look: impl FnOnce(&EvaluationOutcome<'_>) -> T) -> T {
    let compiled = Formula::compile(formula, &options()).unwrap_or_else(|error| panic!("{}", error.render(formula)));
    let document = LineDocument::new(document);
    let host = Server;
    let outcome = compiled.evaluate(&document, &host).unwrap_or_else(|stop| panic!("{formula}: {stop}"));
    look(&outcome)
}

/// Evaluates formulas over a document and compares their values with the expected ones.
pub fn check(document: &str, cases: &[(&str, &str)]) {
    let wrong: Vec<String> =
        cases.iter().filter_map(|(formula, expected)| mismatch(document, formula, expected)).collect();
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

fn mismatch(document: &str, formula: &str, expected: &str) -> Option<String> {
    let compiled = match Formula::compile(formula, &options()) {
        Ok(compiled) => compiled,
        Err(error) => return Some(error.render(formula)),
    };
    let paper = LineDocument::new(document);
    let host = Server;
    let found = compiled.evaluate(&paper, &host).map_or_else(|stop| format!("stop: {stop}"), |o| write(&o.value));
    (found != expected).then(|| format!("{formula}\n    gives    {found}\n    expected {expected}"))
}
