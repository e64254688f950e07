//! `doublet formula`: evaluates formulas without a server.
//!
//! `eval` evaluates one formula on a document whose items are given on the command line or in a file. `repl` reads
//! formulas line by line, keeps the fields they set, and reports errors with their position.

use std::io::{BufRead, IsTerminal, Write};
use std::path::PathBuf;

use base::{Clock, Timestamp};
use clap::{Args, Subcommand};
use directory::password;
use formula::host::DocumentTime;
use formula::outcome::FieldChange;
use formula::{Document, Formula, FormulaOptions, Host, Moment, Text, Value, Zone};
use instance::data_folder::read_limited;
use instance::limits::FILE_BYTES_MAX;
use instance::system::{SystemClock, SystemRandom};
use serde_json::{Value as Json, json};

use super::{CommandError, GlobalOptions, print};

/// Formula commands.
#[derive(Debug, Subcommand)]
pub enum FormulaCommand {
    /// Evaluates a formula, as in: doublet formula eval '@Sum(Price) * 1.2' --item Price=3 --item Price=4
    Eval {
        /// Formula to evaluate.
        formula: String,
        #[command(flatten)]
        document: DocumentArguments,
    },
    /// Reads formulas line by line and prints their results. Fields that they set keep their values.
    Repl {
        #[command(flatten)]
        document: DocumentArguments,
    },
}

/// Document on which formulas are evaluated.
#[derive(Debug, Args)]
pub struct DocumentArguments {
    /// An item with its value. Numbers and RFC 3339 times are recognized; several items of one name form a list.
    #[arg(long = "item", value_name = "NAME=VALUE")]
    items: Vec<String>,
    /// JSON file with an object that contains items.
    #[arg(long, value_name = "FILE")]
    document: Option<PathBuf>,
    /// Time zone in which times are read and shown, for example Europe/Berlin.
    #[arg(long, value_name = "ZONE", default_value = "UTC")]
    zone: String,
}

/// A document in memory.
struct MemoryDocument {
    items: Vec<(String, Value<'static>)>,
    made: Timestamp,
}

impl Document for MemoryDocument {
    fn item(&self, _: Option<usize>, name: &str) -> Option<Value<'_>> {
        self.items.iter().find(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_borrowed())
    }

    fn item_names(&self) -> Vec<&str> {
        self.items.iter().map(|(name, _)| name.as_str()).collect()
    }

    fn time_of(&self, moment: DocumentTime) -> Option<Timestamp> {
        (moment != DocumentTime::Accessed).then_some(self.made)
    }

    fn is_new(&self) -> bool {
        true
    }
}

struct FormulaHost(Timestamp);

impl Host for FormulaHost {
    fn now(&self) -> Timestamp {
        self.0
    }

    fn password_hash(&self, text: &str) -> Option<Result<String, String>> {
        if password::check_hash(text).is_ok() {
            return Some(Ok(text.to_owned()));
        }
        let options = password::PasswordHashOptions {
            scram_iterations: None,
            characters_min: 1,
            ..password::PasswordHashOptions::default()
        };
        let secrets = password::derive_secrets(text.as_bytes(), &options, &SystemRandom);
        Some(secrets.map(|secrets| secrets.hash).map_err(|error| error.to_string()))
    }

    fn password_verify(&self, text: &str, hash: &str) -> Option<bool> {
        // A hash that cannot be parsed does not match any password.
        Some(password::verify(hash, text.as_bytes()).unwrap_or(false))
    }
}

/// Runs the command.
pub fn run(global: &GlobalOptions, command: &FormulaCommand) -> Result<(), CommandError> {
    match command {
        FormulaCommand::Eval { formula, document } => eval(global, formula, document),
        FormulaCommand::Repl { document } => repl(document),
    }
}

fn eval(global: &GlobalOptions, source: &str, arguments: &DocumentArguments) -> Result<(), CommandError> {
    let document = load_document(arguments)?;
    let formula = compile(source, &parse_options(arguments)?).map_err(CommandError)?;
    let world = FormulaHost(SystemClock::new().now());
    let outcome = formula.evaluate(&document, &world).map_err(|stop| CommandError(stop.to_string()))?;
    if let Value::Error(failure) = &outcome.value {
        return Err(CommandError(failure.render(source)));
    }
    if global.json {
        let changes = outcome
            .changes
            .iter()
            .map(|FieldChange { name, value }| json!({"item": name, "value": value.as_ref().map(value_to_json)}));
        let answer = json!({
            "value": value_to_json(&outcome.value),
            "selected": outcome.selected,
            "changes": changes.collect::<Vec<_>>(),
        });
        print(&format!("{answer:#}\n"));
        return Ok(());
    }
    print(&format!("{}\n", formula::print_value::render(&outcome.value, formula.options(), world.0)));
    for FieldChange { name, value } in &outcome.changes {
        let value =
            value.as_ref().map_or_else(|| "(removed)".to_owned(), |value| format_value(value, &formula, world.0));
        print(&format!("{name} := {value}\n"));
    }
    Ok(())
}

fn repl(arguments: &DocumentArguments) -> Result<(), CommandError> {
    let mut document = load_document(arguments)?;
    let options = parse_options(arguments)?;
    let input = std::io::stdin();
    let is_terminal = input.is_terminal();
    if is_terminal {
        print("Formulas are evaluated line by line; FIELD Name := … sets an item. End with Ctrl-D.\n");
    }
    let clock = SystemClock::new();
    let mut lines = input.lock().lines();
    loop {
        if is_terminal {
            print("> ");
            let _ = std::io::stdout().flush();
        }
        let Some(line) = lines.next() else { return Ok(()) };
        let line = line.map_err(CommandError::new)?;
        if line.trim().is_empty() {
            continue;
        }
        match evaluate_line(&line, &mut document, &options, clock.now()) {
            Ok(text) => print(&format!("{text}\n")),
            Err(text) => print(&format!("{text}\n")),
        }
    }
}

/// Evaluates one line and keeps the fields it sets.
fn evaluate_line(
    line: &str,
    document: &mut MemoryDocument,
    options: &FormulaOptions,
    now: Timestamp,
) -> Result<String, String> {
    let formula = compile(line, options)?;
    let world = FormulaHost(now);
    let (text, changes) = {
        let outcome = formula.evaluate(document, &world).map_err(|stop| stop.to_string())?;
        if let Value::Error(failure) = &outcome.value {
            return Err(failure.render(line));
        }
        (format_value(&outcome.value, &formula, now), outcome.changes)
    };
    for FieldChange { name, value } in changes {
        document.items.retain(|(own, _)| !own.eq_ignore_ascii_case(&name));
        document.items.extend(value.map(|value| (name, value)));
    }
    Ok(text)
}

fn compile(source: &str, options: &FormulaOptions) -> Result<Formula, String> {
    Formula::compile(source, options).map_err(|error| error.render(source))
}

fn format_value(value: &Value<'_>, formula: &Formula, now: Timestamp) -> String {
    formula::print_value::render(value, formula.options(), now)
}

fn parse_options(arguments: &DocumentArguments) -> Result<FormulaOptions, CommandError> {
    let zone = Zone::named(&arguments.zone);
    let zone = zone.ok_or_else(|| {
        CommandError(format!("unknown time zone {:?}; write a name such as Europe/Berlin", arguments.zone))
    })?;
    Ok(FormulaOptions { zone, ..FormulaOptions::default() })
}

fn load_document(arguments: &DocumentArguments) -> Result<MemoryDocument, CommandError> {
    let mut items: Vec<(String, Vec<Json>)> = Vec::new();
    let mut add = |name: &str, value: Json| match items.iter_mut().find(|(own, _)| own.eq_ignore_ascii_case(name)) {
        Some((_, values)) => values.push(value),
        None => items.push((name.to_owned(), vec![value])),
    };
    if let Some(path) = &arguments.document {
        let bytes = read_limited(path, FILE_BYTES_MAX).map_err(CommandError::new)?;
        let object: serde_json::Map<String, Json> = serde_json::from_slice(&bytes)
            .map_err(|error| CommandError(format!("{}: not a JSON object: {error}", path.display())))?;
        for (name, value) in object {
            match value {
                Json::Array(values) => values.into_iter().for_each(|value| add(&name, value)),
                value => add(&name, value),
            }
        }
    }
    for text in &arguments.items {
        let (name, value) =
            text.split_once('=').ok_or_else(|| CommandError(format!("--item {text:?}: write NAME=VALUE")))?;
        let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
        add(name, number.map_or_else(|| json!(value), |number| json!(number)));
    }
    let items = items.into_iter().map(|(name, values)| (name, value_from_json(&values))).collect();
    Ok(MemoryDocument { items, made: SystemClock::new().now() })
}

/// Converts JSON values into a list: of numbers or times if all values have that type, otherwise of texts.
fn value_from_json(values: &[Json]) -> Value<'static> {
    if let Some(numbers) = values.iter().map(Json::as_f64).collect::<Option<Vec<f64>>>() {
        return Value::from_numbers(numbers);
    }
    let moment = |value: &Json| {
        let time: jiff::Timestamp = value.as_str()?.parse().ok()?;
        Some(Moment::at(Timestamp(time.as_microsecond())))
    };
    if let Some(times) = values.iter().map(moment).collect::<Option<Vec<Moment>>>() {
        return Value::from_times(times);
    }
    let text = |value: &Json| Text::from(value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    Value::from_texts(values.iter().map(text).collect())
}

fn value_to_json(value: &Value<'_>) -> Json {
    match value {
        Value::Text(text) => json!(text.as_str()),
        Value::Texts(texts) => json!(texts.iter().map(|text| text.as_str()).collect::<Vec<_>>()),
        Value::Number(number) => json!(number),
        Value::Numbers(numbers) => json!(**numbers),
        Value::Time(_) | Value::Times(_) => {
            json!(formula::print_value::render(value, &FormulaOptions::default(), Timestamp(0)))
        }
        Value::Error(failure) => json!({"error": failure.kind.to_string()}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments_of(items: &[&str]) -> DocumentArguments {
        let items = items.iter().map(|item| (*item).to_owned()).collect();
        DocumentArguments { items, document: None, zone: "UTC".to_owned() }
    }

    #[test]
    fn lines_share_the_fields_of_the_document() {
        let arguments = arguments_of(&["Price=3", "Price=4.5", "Name=Ann", "Due=2024-12-31T10:00:00Z"]);
        let mut document = load_document(&arguments).expect("items");
        let options = parse_options(&arguments).expect("a zone");
        let mut check = |line: &str, expected: &str| {
            let text =
                evaluate_line(line, &mut document, &options, Timestamp::from_seconds(0)).unwrap_or_else(|error| error);
            assert!(text.contains(expected), "{line}: {text}");
        };
        check("@Sum(Price)", "7.5");
        check("@UpperCase(Name)", "ANN");
        check("@Year(Due)", "2024");
        check("FIELD Total := @Sum(Price) * 2; Total", "15");
        check("Total + 1", "16");
        check("FIELD Secret := @HashPassword(Name); Secret", "$argon2id$");
        check("@If(@Password(Secret) = Secret; \"stays\"; \"\")", "stays");
        check("@VerifyPassword(\"Ann\"; Secret)", "1");
        check("@VerifyPassword(\"Bob\"; Secret) + @VerifyPassword(\"Bob\"; \"Bob\")", "0");
        check("@HashPassword(@Repeat(\"x\"; 100000))", "too long");
        check("1 +", "^");
        check("@Zork(1)", "@Zork");
    }

    #[test]
    fn invalid_item_and_zone_are_refused() {
        assert!(load_document(&arguments_of(&["Price"])).is_err());
        assert!(parse_options(&DocumentArguments { zone: "Zork/Zork".to_owned(), ..arguments_of(&[]) }).is_err());
    }
}
